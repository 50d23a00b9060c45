//! Compiles a generated manifest and prints what it takes per resource.
//!
//! `cargo run --profile bench -p kilter-manifest --example compile_bench -- [COUNT] [ROUNDS]`

use std::time::Instant;

use kilter_manifest::{Facts, Inputs, Loader, Schemas, SecretSource, Secrets, Source, Sources, compile};
use kilter_model::expr::Lookup;
use kilter_model::{Behaviour, TypeSchema, Value};

struct BenchTypes(TypeSchema);

impl Schemas for BenchTypes {
    fn schema(&self, type_name: &str) -> Option<&TypeSchema> {
        (self.0.name == *type_name).then_some(&self.0)
    }

    fn names(&self) -> Vec<&str> {
        vec!["file"]
    }
}

impl Facts for BenchTypes {
    fn fact(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn names(&self) -> Vec<ecow::EcoString> {
        Vec::new()
    }
}

impl Loader for BenchTypes {
    fn load(&self, _: &str, path: &str) -> Result<Source, String> {
        Err(path.to_owned())
    }
}

impl Secrets for BenchTypes {
    fn resolve(&self, _: &SecretSource) -> Result<Value, String> {
        Err(String::new())
    }
}

/// A schema about as large as that of real files.
fn world() -> BenchTypes {
    use Behaviour::{Namevar, Parameter, Property};
    let mut schema = TypeSchema::new("file", "")
        .attribute("path", "String", Namevar, "")
        .attribute("ensure", "Enum[present, absent, file, directory, link]", Property, "")
        .attribute("content", "Variant[String, Binary]", Property, "")
        .attribute("source", "String", Parameter, "")
        .attribute("target", "String", Property, "")
        .attribute("owner", "Variant[String, Integer[0]]", Property, "")
        .attribute("group", "Variant[String, Integer[0]]", Property, "")
        .attribute("mode", "Pattern[/\\A[0-7]{3,4}\\z/, /\\A[ugoa]*[-+=]/]", Property, "");
    for name in ["recurse", "purge", "force", "backup", "show_diff", "links", "checksum", "validate_cmd", "ignore"] {
        schema = schema.attribute(name, "String", Parameter, "");
    }
    BenchTypes(schema)
}

fn yaml(count: usize) -> String {
    let mut text = String::from("vars:\n  port: 8080\nresources:\n");
    for n in 0..count {
        text.push_str(&format!(
            "  file[/tmp/bench/dir{:03}/file{n:05}.conf]:\n    ensure: file\n    content: \"setting = value \
             {n}\"\n    mode: \"0644\"\n    owner: root\n",
            n % 100
        ));
    }
    text
}

fn json(count: usize) -> String {
    let mut text = String::from("{\"vars\":{\"port\":8080},\"resources\":{");
    for n in 0..count {
        let comma = if n == 0 { "" } else { "," };
        text.push_str(&format!(
            "{comma}\"file[/tmp/bench/dir{:03}/file{n:05}.conf]\":{{\"ensure\":\"file\",\"content\":\"setting = value \
             {n}\",\"mode\":\"0644\",\"owner\":\"root\"}}",
            n % 100
        ));
    }
    text.push_str("}}");
    text
}

/// The memory that the process has in use, in KiB.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (count, rounds): (usize, usize) = (number(5000), number(20));
    let world = world();
    let inputs = Inputs { schemas: &world, facts: &world, secrets: &world, loader: &world, overrides: &[] };
    for (name, text) in [("bench.yaml", yaml(count)), ("bench.json", json(count))] {
        let before = resident();
        let mut best = f64::MAX;
        let mut kept = None;
        for round in 0..rounds {
            let mut sources = Sources::new();
            sources.add(Source::new(name, &text));
            let start = Instant::now();
            let compiled = compile(&mut sources, &inputs);
            best = best.min(start.elapsed().as_secs_f64());
            match compiled {
                Ok(compiled) if round == 0 => {
                    assert_eq!(compiled.catalog.resources.len(), count);
                    drop(sources);
                    let grown = resident() - before;
                    println!("{name}: {} bytes a resource after the first round", grown * 1024 / count.max(1) as i64);
                    kept = Some(compiled);
                }
                Ok(_) => {}
                Err(problems) => {
                    eprint!("{}", kilter_manifest::render(&problems, &sources, false));
                    std::process::exit(1);
                }
            }
        }
        let per = best * 1e6 / count.max(1) as f64;
        println!("{name}: {per:.2} µs a resource, {:.0} bytes of text each", text.len() as f64 / count.max(1) as f64);
        drop(kept);
    }
}
