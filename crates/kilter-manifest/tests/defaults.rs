//! Defaults of attributes, per type and file.

#[expect(dead_code, reason = "it serves several test files")]
mod shown;
mod support;

use kilter_manifest::{AttributeSpans, Diagnostic, Source, Sources, render_warnings};
use kilter_model::{Catalog, Value};
use shown::{find, told};
use support::World;

fn attribute<'c>(catalog: &'c Catalog, reference: &str, name: &str) -> Option<&'c Value> {
    find(catalog, reference).attributes.get(name)
}

fn warnings(texts: &[(&str, &str)]) -> (Catalog, Vec<Diagnostic>, Sources) {
    let mut sources = Sources::new();
    for (name, text) in texts {
        sources.add(Source::new(*name, *text));
    }
    let compiled = World::new().compile_all(&mut sources).expect("the manifests are valid");
    (compiled.catalog, compiled.warnings, sources)
}

#[test]
fn default_applies_unless_the_resource_mentions_the_attribute() {
    let catalog = World::new().catalog(
        "vars: { who: app }\ndefaults:\n  file: { mode: \"0640\", owner: \"${vars.who}\", meta: { retry: 2 } }\n  \
         exec: { tries: 3 }\nresources:\n  file[/a]: {}\n  file[/b]: { mode: \"0600\", owner: null }\n  exec[e]: { \
         command: x }\n  exec[f]: { command: x, tries: ~ }\n  user[u]: {}\n  file: [/c, { titles: [/d], owner: root \
         }]\n",
    );
    let mode = |name: &str| attribute(&catalog, name, "mode").and_then(Value::as_str).map(str::to_owned);
    let owner = |name: &str| attribute(&catalog, name, "owner").and_then(Value::as_str).map(str::to_owned);
    assert_eq!((mode("file[/a]").as_deref(), owner("file[/a]").as_deref()), (Some("0640"), Some("app")));
    assert_eq!((mode("file[/b]").as_deref(), owner("file[/b]")), (Some("0600"), None), "null removes the default");
    assert_eq!((mode("file[/c]").as_deref(), owner("file[/d]").as_deref()), (Some("0640"), Some("root")));
    assert_eq!(attribute(&catalog, "exec[e]", "tries"), Some(&Value::Integer(3)));
    let own = attribute(&catalog, "exec[f]", "tries");
    assert_eq!(own, Some(&Value::Integer(1)), "null leaves the default of the type itself");
    assert_eq!(find(&catalog, "file[/a]").meta().map(|meta| meta.retry), Some(2));
}

#[test]
fn default_applies_to_its_own_file_only() {
    let (catalog, warnings, _) = warnings(&[
        (
            "one.yaml",
            "defaults: { file: { mode: \"0600\" } }\nresources: { \"file[/one]\": {} }\n---\nresources: { \
             \"file[/two]\": {} }\n",
        ),
        ("other.yaml", "resources: { \"file[/other]\": {} }\n"),
    ]);
    assert!(attribute(&catalog, "file[/one]", "mode").is_some());
    assert!(attribute(&catalog, "file[/two]", "mode").is_some(), "all documents of a file");
    assert!(attribute(&catalog, "file[/other]", "mode").is_none());
    assert!(warnings.is_empty());
}

#[test]
fn default_without_resource_in_its_file_causes_a_warning() {
    let (_, found, sources) = warnings(&[
        ("base.yaml", "defaults:\n  file: { mode: \"0600\" }\n"),
        ("site.yaml", "resources: { \"file[/a]\": {} }\n"),
    ]);
    let shown = render_warnings(&found, &sources, false);
    assert_eq!(found.len(), 1, "{shown}");
    assert!(shown.contains("without effect: this file declares no file") && shown.contains("base.yaml:2:3"), "{shown}");
    let types = "types: { t: { resources: { \"user[u]\": {} } } }\ndefaults: { file: { mode: \"0600\" } }\n";
    assert!(warnings(&[("types.yaml", types)]).1.is_empty(), "a file of types may declare resources elsewhere");
}

#[test]
fn default_satisfies_a_required_attribute_and_applies_to_parts() {
    let catalog = World::new().catalog(
        "types:\n  site:\n    attributes:\n      port: { type: Integer, desc: p }\n    resources:\n      \
         \"file[/${self.name}]\": { content: \"p ${self.port}\" }\n      \"exec[${self.name}]\": {}\ndefaults:\n  \
         site: { port: 81 }\n  file: { mode: \"0640\" }\n  exec: { command: \"true\" }\nresources:\n  site[a]: {}\n  \
         site[b]: { port: 82 }\n",
    );
    assert_eq!(attribute(&catalog, "file[/a]", "content"), Some(&Value::from("p 81")));
    assert_eq!(attribute(&catalog, "file[/b]", "content"), Some(&Value::from("p 82")));
    assert_eq!(attribute(&catalog, "file[/b]", "mode"), Some(&Value::from("0640")));
    assert_eq!(attribute(&catalog, "exec[b]", "command"), Some(&Value::from("true")));
}

#[test]
fn wrong_defaults_are_reported_at_their_place() {
    let mut wrong = Vec::new();
    for (defaults, message, hint, place) in [
        ("file: { mdoe: x }", "`file` has no attribute `mdoe`", "did you mean `mode`?", "2:11"),
        ("file: { mode: [a] }", "`mode` expects a String value, got", "", "2:17"),
        ("file: { path: /x }", "there are no defaults for `path`", "names a single resource", "2:11"),
        ("file: { size: 1 }", "there are no defaults for `size`", "read_only", "2:11"),
        (
            "file: { require: \"user[u]\" }",
            "there are no defaults for `require`",
            "write the relation at the resources, or `before: file[*]` at the other resource",
            "2:11",
        ),
        ("file: { notify: \"user[u]\" }", "there are no defaults for `notify`", "or `subscribe: file[*]` at", "2:11"),
        ("file: { when: \"true\" }", "there are no defaults for `when`", "only for `meta` and the attributes", "2:11"),
        ("file: { retry: 1 }", "`file` has no attribute `retry`", "it belongs below `meta`", "2:11"),
        ("\"*\": { mode: x }", "there are no defaults for `mode` of all types", "below the name of a type", "2:10"),
        ("file: { owner: \"${exec[e].stdout}\" }", "sends its outputs to attributes only", "", "2:21"),
        ("file: { owner: \"${self.name}\" }", "`self` is the resource", "", "2:21"),
        ("file: { owner: \"${each.key}\" }", "belongs to no resource with `for_each`", "", "2:21"),
        ("file: { owner: \"${vars.no}\" }", "there is no variable `no`", "", "2:21"),
        ("user: { uid: x }", "`uid` expects an Integer value, got String", "", "2:16"),
        ("exec: 3", "defaults of a type are a mapping", "such as file: { mode:", "2:9"),
    ] {
        let text = format!(
            "defaults:\n  {defaults}\nresources:\n  file[/a]: {{}}\n  file[/b]: {{}}\n  exec[e]: {{ command: x }}\n"
        );
        let problem = told(&text);
        let is_one = problem.lines().filter(|line| line.starts_with("error")).count() == 1;
        if !is_one
            || !problem.contains(message)
            || !problem.contains(hint)
            || !problem.contains(&format!("site.yaml:{place}\n"))
        {
            wrong.push(format!("{defaults} expected `{message}` at {place}\n{problem}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn default_of_a_resource_that_is_left_out_is_not_evaluated() {
    let catalog = World::new().catalog(
        "defaults:\n  user: { password: { sensitive: { file: /none } } }\nresources:\n  user[a]: { when: false }\n  \
         user[b]: { password: { sensitive: x } }\n",
    );
    assert_eq!(catalog.resources.len(), 1);
    let problem = told("defaults:\n  user: { password: { sensitive: { file: /none } } }\nresources:\n  user: [a, b]\n");
    assert_eq!(problem.matches("cannot fetch the secret").count(), 1, "{problem}");
}

#[test]
fn secret_default_stays_secret() {
    let catalog = World::new()
        .catalog("defaults:\n  user: { password: { sensitive: { env: TOKEN } } }\nresources:\n  user[a]: {}\n");
    assert!(attribute(&catalog, "user[a]", "password").is_some_and(Value::holds_sensitive));
    let problem = told("defaults:\n  user: { password: [hunter2] }\nresources:\n  user[a]: {}\n");
    assert!(!problem.contains("hunter2"), "{problem}");
}

#[test]
fn attribute_of_a_default_has_its_place() {
    let mut sources = Sources::new();
    let text = "defaults: { file: { mode: \"0644\" } }\nresources:\n  file[/a]: {}\n";
    sources.add(Source::new("site.yaml", text));
    let catalog = World::new().compile_all(&mut sources).expect("the manifest is valid").catalog;
    let place = AttributeSpans::new().of(&sources, &catalog.resources[0], Some("mode"));
    assert_eq!(&text[place.start as usize..place.end as usize], "\"0644\"");
}

#[test]
fn resources_of_puppet_in_the_file_get_its_defaults() {
    let catalog =
        World::new().catalog("defaults: { file: { mode: \"0600\" } }\nresources:\n  file:\n    /a: { ensure: file }\n");
    assert_eq!(attribute(&catalog, "file[/a]", "mode"), Some(&Value::from("0600")));
}
