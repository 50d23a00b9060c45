//! Exports and collections.

mod shown;
mod support;

use shown::{find, references, told};
use support::World;

#[test]
fn export_adds_one_resource_per_machine() {
    let catalog = World::new().catalog(
        r#"
resources:
  file[/a]: { content: "of ${facts.networking.hostname}", meta: { export: [web2, "*", web2], noop: true, retry: 3 } }
  file[/b]: { content: "${exec[x].stdout}", mode: "0600", meta: { hidden: true, export: ["*"] } }
  exec[x]: { command: date }
"#,
    );
    let [two, all, sent] = ["exported[file[/a] for web2]", "exported[file[/a] for *]", "exported[file[/b] for *]"]
        .map(|r| find(&catalog, r));
    assert_eq!(catalog.resources.len(), 6);
    assert_eq!(format!("{:?}", two.get("attributes").unwrap()), r#"{"content": "of web1", "ensure": "present"}"#);
    assert_eq!(two.attributes, all.attributes);
    let meta = two.meta().unwrap();
    assert!(meta.reverse && meta.noop && meta.retry == 3 && !meta.hidden);
    assert!(!sent.meta().unwrap().hidden && sent.get("attributes").is_none());
    let [deferred] = sent.deferred() else { panic!("one is sent") };
    assert_eq!(deferred.template.references()[0].to_string(), "exec[x]");
    let relations: Vec<(u32, u32)> =
        catalog.relations.iter().map(|relation| (relation.first, relation.second)).collect();
    assert_eq!(relations, [(0, 3), (0, 4), (1, 5)]);
}

#[test]
fn invalid_exports_are_reported() {
    let said = told(
        r#"
resources:
  user[root]: { password: secret, meta: { export: ["*"] } }
  file[/a]: { meta: { export: ["web 1"] } }
  file[/b]: { content: { sensitive: x }, meta: { export: [web1] } }
  file[/c]: { meta: { export: web1 } }
"#,
    );
    for part in [
        "`user[root]` is exported, but contains a secret",
        "`file[/b]` is exported, but contains a secret",
        "`web 1` is not a machine name",
        "`export` expects",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.matches("error").count(), 4, "{said}");
}

#[test]
fn collected_resource_behaves_like_declared() {
    let catalog = World::new().catalog(
        r#"
vars: { x: 1 }
collect:
- { type: file, from: [web*, db1], title: /srv/*, set: { notify: "service[x]", mode: 0640, meta: { noop: true } } }
- type: user
resources:
  service[x]: { subscribe: "file[/srv/of ${vars.x}]" }
"#,
    );
    assert_eq!(references(&catalog), ["file[/srv/of 1]", "file[/srv/${vars.x}]", "service[x]"]);
    let one = find(&catalog, "file[/srv/${vars.x}]");
    // Nothing in it is an expression, and nobody else says how it is treated.
    assert_eq!((one.attributes.text("content"), one.attributes.text("mode")), (Some("${facts.os}"), Some("0640")));
    assert!(one.meta().unwrap().noop);
    assert_eq!(catalog.relations.len(), 3);
}

#[test]
fn collection_problems_have_places() {
    let said = told(
        r#"
collect:
- { form: web1, type: file }
- { from: web1 }
- { type: fil }
- { type: file, from: [] }
- { type: file, title: { a: b } }
- { type: file, set: { mode: "${vars.x}" } }
- { type: file, set: [mode] }
- { type: rule, from: web1 }
- { type: file, of: /x }
- { type: file, set: { mdoe: "0600" } }
- { type: [file] }
- file
"#,
    );
    for part in [
        "this lets others choose the chain that they add to",
        "declare it: set: { chain: … }, or patterns: of: …",
        "a file is not a part of another resource",
        "`file` has no attribute `mdoe`",
        "did you mean `mode`",
        "`collect` has no key `form`",
        "did you mean `from`",
        "`collect` needs a type",
        "unknown type `fil`",
        "`from` is a pattern or a list of them",
        "`title` is a pattern or a list of them",
        "`set` accepts only plain values",
        "`set` is a mapping",
        "an entry of `collect` is a mapping",
        "site.yaml:14:3",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(told("collect: { type: file }\n").contains("`collect` is a list"));
    assert!(told("collect:\n- { type: exec }\n").contains("cannot collect exec: the directory is away"));
    let twice = told("collect:\n- { type: file }\nresources: { 'file[/srv/of 1]': {} }\n");
    assert!(twice.contains("collect file:") && twice.contains("site.yaml:3:"), "{twice}");
}
