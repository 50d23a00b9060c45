//! Layered data: hierarchies of files, merge rules, and includes that facts choose.

mod support;

use kilter_model::{Catalog, Resource, Value};
use support::World;

fn find<'c>(catalog: &'c Catalog, reference: &str) -> &'c Resource {
    catalog.resources.iter().find(|r| r.reference.to_string() == reference).unwrap_or_else(|| panic!("{reference}"))
}

/// Returns the problems of a manifest in a world.
fn told_in(world: &World, text: &str) -> String {
    let (compiled, sources) = world.compile(text);
    kilter_manifest::render(&compiled.map(|_| ()).expect_err("the manifest is wrong"), &sources, false)
}

const HOST: &str =
    "servers: [h1, s]\nsingle: hx\nusers: { alice: { uid: 5, groups: [h, s] }, hosty: { uid: 1 } }\nnothing: ~\n";
const OS: &str =
    "servers: [d1, [s, d2]]\nusers: { bob: { uid: 2 }, alice: { shell: sh, groups: [d, s] } }\nnothing: 5\n";
const COMMON: &str = "servers: c1\nsingle: cx\nusers: { carol: { uid: 3 }, alice: { uid: 9, groups: [c], deep: { x: 1 \
                      } } }\nname: common on ${facts.networking.hostname}\nport: 1\n";

fn world() -> World {
    World { files: vec![("hosts/web1.yaml", HOST), ("os/debian.yaml", OS), ("all.yaml", COMMON)], ..World::new() }
}

/// Value of a variable, as canonical JSON.
fn value(world: &World, merge: &str, name: &str) -> String {
    let manifest = format!(
        "vars: {{ port: 80 }}\ndata:\n  hierarchy:\n    - hosts/${{facts.networking.hostname}}.yaml\n    - \
         role/none.yaml\n    - {{ path: \"os/${{facts.os.family}}.yaml\" }}\n    - {{ path: all.yaml, required: true \
         }}\n  merge: {{ {merge} }}\nresources:\n  chain[c]: {{ rules: {{ v: {{ v: \"${{vars.{name}}}\" }} }} }}\n"
    );
    let catalog = world.catalog(&manifest);
    let rules = find(&catalog, "chain[c]").attributes.get("rules").expect("it is declared");
    let value = rules.as_hash().and_then(|rules| rules["v"].as_hash()?.get("v").cloned()).expect("it has one");
    kilter_model::to_canonical_json_clear(&value).to_string()
}

#[test]
fn highest_layer_with_a_key_counts() {
    assert_eq!(value(&world(), "", "single"), r#""hx""#);
    assert_eq!(value(&world(), "single: first", "servers"), r#"["h1","s"]"#);
    assert_eq!(value(&world(), "", "name"), r#""common on web1""#);
    assert_eq!(value(&world(), "", "nothing"), "null", "a null is a value");
}

#[test]
fn data_override_manifests_and_the_command_line_overrides_both() {
    assert_eq!(value(&world(), "", "port"), "1");
    let world = World { overrides: vec![("port".into(), Value::from("7"))], ..world() };
    assert_eq!(value(&world, "port: unique", "port"), r#""7""#);
}

#[test]
fn merge_rules_are_those_of_hiera() {
    assert_eq!(value(&world(), "servers: unique", "servers"), r#"["h1","s","d1","d2","c1"]"#);
    assert_eq!(value(&world(), "single: unique", "single"), r#"["hx","cx"]"#);
    assert_eq!(
        value(&world(), "users: hash", "users"),
        r#"{"carol":{"uid":3},"alice":{"uid":5,"groups":["h","s"]},"bob":{"uid":2},"hosty":{"uid":1}}"#
    );
    assert_eq!(
        value(&world(), "users: deep", "users"),
        r#"{"carol":{"uid":3},"alice":{"uid":5,"groups":["c","d","s","h"],"deep":{"x":1},"shell":"sh"},"bob":{"uid":2},"hosty":{"uid":1}}"#
    );
}

/// The expected values are those that `puppet lookup --merge` of Puppet 7 prints for the same files.
#[test]
fn unusual_values_merge_as_in_hiera() {
    let mixed = World {
        files: vec![
            ("hosts/web1.yaml", "mixed: [{ a: 1 }, x]\nlists: [h1, s]\nsingle: hx\nn: ~\n"),
            ("os/debian.yaml", "mixed: [{ b: 1 }, x]\nlists: [d1, [s, d2]]\nn: 5\n"),
            ("all.yaml", "mixed: [x, { a: 1 }]\nlists: c1\nsingle: cx\n"),
        ],
        ..World::new()
    };
    for (rule, name, expected) in [
        ("unique", "mixed", r#"[{"a":1},"x",{"b":1}]"#),
        ("deep", "mixed", r#"["x",{"a":1},{"b":1}]"#),
        ("deep", "single", r#""hx""#),
        ("deep", "lists", r#"["d1",["s","d2"],"h1","s"]"#),
        ("unique", "n", "[null,5]"),
    ] {
        assert_eq!(value(&mixed, &format!("{name}: {rule}"), name), expected, "{name} {rule}");
    }
}

#[test]
fn values_are_evaluated_on_demand_and_stay_secret() {
    let files = vec![
        ("hosts/web1.yaml", "users: { a: { pw: { sensitive: { env: TOKEN } } } }\nown: \"${vars.shared.join()}!\"\n"),
        ("all.yaml", "users: { b: { pw: { sensitive: two } } }\nshared: [x, \"${vars.port}\"]\nport: \"3\"\n"),
    ];
    let world = World { files, ..World::new() };
    let catalog = world.catalog(
        "data: { hierarchy: [hosts/web1.yaml, all.yaml], merge: { users: deep } }\nresources:\n  \
         user[${each.key}]:\n    for_each: ${vars.users}\n    password: ${each.value.pw}\n  file[/a]: { tags: \
         \"${vars.shared + ['y']}\", content: 'x' }\n",
    );
    let password = find(&catalog, "user[a]").attributes.get("password");
    assert_eq!(password, Some(&Value::sensitive(Value::from("from env\n"))));
    assert!(find(&catalog, "user[b]").attributes.get("password").is_some_and(Value::holds_sensitive));
}

#[test]
fn several_hierarchies_override_each_other_like_files() {
    let files = vec![
        ("module.yaml", "data: { hierarchy: [module/data.yaml] }\n"),
        ("module/data.yaml", "a: module\nb: module\n"),
        ("site.data.yaml", "a: site\n"),
    ];
    let world = World { files, ..World::new() };
    let catalog = world.catalog(
        "include: module.yaml\ndata: { hierarchy: [site.data.yaml] }\nresources:\n  file[/a]: { content: \"${vars.a} \
         ${vars.b}\" }\n",
    );
    assert_eq!(find(&catalog, "file[/a]").attributes.get("content"), Some(&Value::from("site module")));
}

#[test]
fn facts_choose_included_manifests() {
    let files = vec![("os/debian.yaml", "vars: { a: deb }\n"), ("role/web.yaml", "vars: { b: web }\n")];
    let world = World { files, overrides: vec![("role".into(), Value::from("web"))], ..World::new() };
    let catalog = world.catalog(
        "include: [\"os/${facts.os.family}.yaml\", \"role/${vars.role}.yaml\"]\nresources:\n  file[/a]: { content: \
         \"${vars.a} ${vars.b}\" }\n",
    );
    assert_eq!(find(&catalog, "file[/a]").attributes.get("content"), Some(&Value::from("deb web")));
}

#[test]
fn problems_of_layers_name_their_place() {
    let files = vec![
        ("list.yaml", "- a\n"),
        ("syntax.yaml", "a: [1\nb: 2\n"),
        ("options.yaml", "lookup_options: { a: { merge: unique } }\n"),
        ("high.yaml", "h: { a: 1 }\nu: [1]\n"),
        ("low.yaml", "h: 5\nu: { a: 1 }\nwrong: \"${vars.none}\"\n"),
    ];
    let world = World { files, ..World::new() };
    for (data, place, words) in [
        ("hierarchy: [list.yaml]", "list.yaml:1:1", &["a data file is a mapping"][..]),
        ("hierarchy: [syntax.yaml, list.yaml]", "syntax.yaml:", &["list.yaml:1:1"]),
        ("hierarchy: [options.yaml]", "options.yaml:1:1", &["merge rules belong to the manifest"]),
        ("hierarchy: [{ path: none.yaml, required: true }]", "site.yaml:1:", &["cannot read the data `none.yaml`"]),
        ("hierarchy: [high.yaml, low.yaml], merge: { h: hash }", "low.yaml:1:4", &["`hash` expects mappings"]),
        ("hierarchy: [high.yaml, low.yaml], merge: { u: unique }", "low.yaml:2:4", &["`unique` expects lists"]),
        ("hierarchy: [low.yaml]", "low.yaml:3:11", &["none"]),
        ("hierarchy: [\"${facts.ox}.yaml\"]", "site.yaml:1:", &["ox", "os"]),
        ("hierarchy: [\"${vars.role}.yaml\"]", "site.yaml:1:", &["variables of the command line, and `role` is none"]),
        ("hierarchy: common.yaml", "site.yaml:1:", &["`hierarchy` is a list of paths"]),
        ("hierarchy: [{ file: x }]", "site.yaml:1:", &["unknown key `file`", "path"]),
        ("hierarchy: [], merge: { a: deeep }", "site.yaml:1:", &["`deeep` is no merge rule", "did you mean `deep`?"]),
        ("hierachy: []", "site.yaml:1:", &["unknown key `hierachy`", "did you mean `hierarchy`?", "no `hierarchy`"]),
    ] {
        let manifest = format!("data: {{ {data} }}\nresources:\n  user[u]: {{ uid: 1 }}\n");
        let shown = told_in(&world, &manifest);
        assert!(shown.contains(&format!("--> {place}")), "{data}: {place}\n{shown}");
        assert!(words.iter().all(|word| shown.contains(word)), "{data}: {words:?}\n{shown}");
    }
}

#[test]
fn merge_rule_with_a_misspelt_key_is_a_warning() {
    let (compiled, _) =
        world().compile("data: { hierarchy: [all.yaml], merge: { server: unique, other_key: deep } }\n");
    let warnings = compiled.expect("it is valid").warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].hints, ["did you mean `servers`?"]);
}
