//! A small world to compile manifests in.

use ecow::EcoString;
use kilter_manifest::{
    Collect, Compiled, Diagnostic, Facts, Inputs, Loader, Schemas, SecretSource, Secrets, Source, Sources, compile,
};
use kilter_model::expr::Lookup;
use kilter_model::{Behaviour, TypeSchema, Value};
use std::cell::RefCell;

pub(crate) struct World {
    pub(crate) types: Vec<TypeSchema>,
    pub(crate) overrides: Vec<(EcoString, Value)>,
    pub(crate) asked: RefCell<Vec<String>>,
    /// Further files, by path.
    pub(crate) files: Vec<(&'static str, &'static str)>,
}

impl World {
    pub(crate) fn new() -> World {
        use Behaviour::{Namevar, Parameter, Property, ReadOnly};
        let file = TypeSchema::new("file", "Files, directories and links.")
            .attribute("path", "Pattern[/\\A\\//]", Namevar, "The path.")
            .attribute("ensure", "Enum[present, absent, file, directory, link]", Property, "What is there.")
            .default("present")
            .attribute("content", "Variant[String, Binary]", Property, "What is in it.")
            .attribute("mode", "String", Property, "The permissions.")
            .attribute("owner", "Variant[String, Integer]", Property, "The owner.")
            .attribute("backup", "Boolean", Parameter, "Whether the old content is kept.")
            .attribute("size", "Integer", ReadOnly, "How large it is.")
            .attribute("tags", "Array[String]", Parameter, "Words.")
            .attribute("limits", "Hash[String, Integer[0, 10]]", Parameter, "Numbers by name.");
        let exec = TypeSchema::new("exec", "Commands.")
            .attribute("name", "String", Namevar, "The command, unless `command` is given.")
            .attribute("command", "Variant[String, Array[String, 1]]", Parameter, "The command.")
            .required()
            .attribute("creates", "String", Parameter, "A path.")
            .attribute("tries", "Integer[1]", Parameter, "How often.")
            .default(1_i64)
            .attribute("environment", "Hash[String, String]", Parameter, "Variables.")
            .attribute("shell", "Boolean", Behaviour::Parameter, "Through a shell.")
            .attribute("refreshonly", "Boolean", Behaviour::Parameter, "Only when refreshed.")
            .output("stdout", "Variant[String, Binary]", "What it wrote.")
            .output("exit_code", "Integer", "How it ended.");
        let user = TypeSchema::new("user", "Users.")
            .attribute("name", "String", Namevar, "The name.")
            .attribute("uid", "Integer", Property, "The number.")
            .attribute("password", "Sensitive[String]", Property, "The hash.");
        let service = TypeSchema::new("service", "Services.")
            .attribute("name", "String", Namevar, "The name.")
            .attribute("ensure", "Enum[running, stopped]", Property, "Whether it runs.")
            .attribute("enable", "Variant[Boolean, Enum[mask]]", Property, "Whether it starts at boot.")
            .attribute("since", "Optional[Timestamp]", Property, "Since when it runs.")
            .attribute("pause", "Timespan", Parameter, "How long it waits.")
            .attribute("versions", "Array[SemVer]", Parameter, "What it may be.");
        let chain = TypeSchema::new("chain", "Chains.").attribute("name", "String", Namevar, "The name.").attribute(
            "rules",
            "Hash[String, Hash]",
            Parameter,
            "Its rules.",
        );
        let rule = TypeSchema::new("rule", "Rules.")
            .attribute("name", "String", Namevar, "The name.")
            .attribute("chain", "String", Parameter, "What it is a part of.")
            .required()
            .attribute("accept", "String", Parameter, "What it accepts.")
            .part_of("chain", "chain", "rules");
        World {
            types: vec![file, exec, user, service, chain, rule],
            overrides: Vec::new(),
            asked: RefCell::default(),
            files: Vec::new(),
        }
    }

    pub(crate) fn compile_all(&self, sources: &mut Sources) -> Result<Compiled, Vec<Diagnostic>> {
        let inputs = Inputs { schemas: self, facts: self, secrets: self, loader: self, overrides: &self.overrides };
        compile(sources, &inputs)
    }

    pub(crate) fn compile(&self, text: &str) -> (Result<Compiled, Vec<Diagnostic>>, Sources) {
        let mut sources = Sources::new();
        sources.add(Source::new("site.yaml", text));
        (self.compile_all(&mut sources), sources)
    }

    /// The catalog of a manifest that is right.
    pub(crate) fn catalog(&self, text: &str) -> kilter_model::Catalog {
        let (result, sources) = self.compile(text);
        match result {
            Ok(compiled) => compiled.catalog,
            Err(problems) => panic!("{}", kilter_manifest::render(&problems, &sources, false)),
        }
    }
}

impl Schemas for World {
    fn schema(&self, type_name: &str) -> Option<&TypeSchema> {
        self.types.iter().find(|schema| schema.name == *type_name)
    }

    fn names(&self) -> Vec<&str> {
        self.types.iter().map(|schema| schema.name.as_str()).collect()
    }
}

impl Facts for World {
    fn fact(&self, name: &str) -> Lookup {
        self.asked.borrow_mut().push(name.to_owned());
        match name {
            "os" => Lookup::Found(Value::hash([
                ("family", Value::from("debian")),
                ("release", Value::hash([("major", Value::from("12"))])),
            ])),
            "networking" => Lookup::Found(Value::hash([("hostname", Value::from("web1"))])),
            _ => Lookup::Missing,
        }
    }

    fn names(&self) -> Vec<EcoString> {
        vec!["os".into(), "networking".into()]
    }
}

impl Loader for World {
    fn load(&self, _: &str, path: &str) -> Result<Source, String> {
        match path {
            "common.yaml" => {
                Ok(Source::new(path, "vars: { port: 80, colour: blue }\nresources:\n  user[www]:\n    uid: 33\n"))
            }
            "wrong.yaml" => Ok(Source::new(path, "resources:\n  file[/included]: { mdoe: '0644' }\n")),
            "loop.yaml" => Ok(Source::new(path, "include: loop2.yaml\n")),
            "loop2.yaml" => Ok(Source::new(path, "include: [loop.yaml]\n")),
            _ => match self.files.iter().find(|(known, _)| *known == path) {
                Some((_, text)) => Ok(Source::new(path, *text)),
                None => Err("No such file or directory".to_owned()),
            },
        }
    }

    fn load_if_exists(&self, from: &str, path: &str) -> Result<Option<Source>, String> {
        Ok(self.load(from, path).ok())
    }

    /// The files of the documents exist: `files/app.conf` and others.
    fn content(&self, _: &str, path: &str) -> Result<Value, String> {
        if path.starts_with("files/") { Ok("content\n".into()) } else { Err("No such file or directory".to_owned()) }
    }

    /// Exports of machines: two files and no user.
    fn collect(&self, _: &str, wanted: &Collect) -> Result<Source, String> {
        let lines = match wanted.type_name.as_str() {
            "file" => ["/srv/of 1", "/srv/${vars.x}"].into_iter().filter(|title| wanted.is_meant("web1", title)),
            "user" => return Ok(Source::new(wanted.to_string(), "")),
            _ => return Err("the directory is away".to_owned()),
        };
        let line = |title: &str| {
            let mut attributes = serde_json::json!({ "content": "${facts.os}" });
            attributes.as_object_mut().expect("it is one").extend(wanted.set.clone());
            serde_json::json!({ "resource": format!("file[{title}]"), "attributes": attributes }).to_string()
        };
        Ok(Source::new(wanted.to_string(), format!("[{}]", lines.map(line).collect::<Vec<_>>().join(",\n"))))
    }
}

impl Secrets for World {
    fn resolve(&self, source: &SecretSource) -> Result<Value, String> {
        match source {
            SecretSource::File(path) if path == "/etc/secret" => Ok("from file\n".into()),
            SecretSource::Env(name) if name == "TOKEN" => Ok("from env\n".into()),
            SecretSource::Command(argv) if argv[0] == "pass" => Ok(format!("from {}\r\n", argv[1]).into()),
            SecretSource::Encrypted(secret) if secret.path == "db.age" => {
                Ok(format!("from {:?} {:?}\n", secret.program, secret.option).into())
            }
            other => Err(format!("nothing at {other:?}")),
        }
    }
}
