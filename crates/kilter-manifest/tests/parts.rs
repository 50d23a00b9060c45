//! Resources that are entries of others.

mod shown;
mod support;

use kilter_manifest::render;
use kilter_model::{Behaviour, TypeSchema, Value};
use shown::{find, references, told};
use support::World;

#[test]
fn part_becomes_entry_and_relation_of_its_owner() {
    let catalog = World::new().catalog(
        r#"
resources:
  rule[a]: { chain: input, accept: ssh, require: "service[x]" }
  service[x]: {}
  chain[in]: { name: input, rules: { own: { accept: http } }, before: "rule[b]" }
  rule[b]: { chain: input, notify: "service[y]" }
  service[y]: { require: "rule[a]" }
"#,
    );
    assert_eq!(references(&catalog), ["service[x]", "chain[in]", "service[y]"]);
    let rules = find(&catalog, "chain[in]").get("rules").and_then(Value::as_hash).unwrap();
    let shown: Vec<String> = rules.iter().map(|(title, rule)| format!("{title} {rule:?}")).collect();
    assert_eq!(shown, [r#"own {"accept": "http"}"#, r#"a {"accept": "ssh"}"#, "b {}"]);
    let relations: Vec<_> = catalog.relations.iter().map(|one| (one.first, one.second, one.kind.word())).collect();
    assert_eq!(relations, [(0, 1, "require"), (1, 2, "notify"), (1, 2, "require")]);
}

#[test]
fn composite_resource_may_declare_parts() {
    let catalog = World::new().catalog(
        r#"
types:
  gate:
    resources:
      "rule[${self.name}-1]": { chain: input, accept: ssh }
      "service[${self.name}]": {}
      "rule[${self.name}-2]": { chain: input, accept: http }
      "rule[${self.name}-3]": { chain: own, accept: dns, when: self.name == "w" }
  wall:
    resources:
      "gate[${self.name}]": {}
      "chain[own]": {}
resources:
  gate[a]: {}
  chain[input]: {}
  wall[w]: {}
  service[x]: {}
"#,
    );
    assert_eq!(references(&catalog), ["service[a]", "chain[input]", "service[w]", "chain[own]", "service[x]"]);
    let composites = catalog.composites.iter();
    let shown: Vec<_> =
        composites.map(|one| (one.reference.to_string(), one.parts.clone(), &one.entries_in[..])).collect();
    let (gate, wall, inner) = ("gate[a]".to_owned(), "wall[w]".to_owned(), "gate[w]".to_owned());
    assert_eq!(shown, [(gate, 0..1, &[1][..]), (wall, 2..4, &[1]), (inner, 2..3, &[1, 3])]);
}

#[test]
fn owner_waits_for_outputs_in_its_parts() {
    let catalog = World::new().catalog(
        r#"
resources:
  exec[x]: { command: date }
  chain[input]: {}
  rule[a]: { chain: input, accept: "${exec[x].stdout}" }
  rule[b]: { chain: input, accept: http }
"#,
    );
    let chain = find(&catalog, "chain[input]");
    let [deferred] = chain.deferred() else { panic!("its rules are known later") };
    let titles: Vec<&str> = deferred.template.entries().unwrap().iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!((deferred.attribute.as_str(), titles), ("rules", vec!["a", "b"]));
    assert_eq!(deferred.template.references()[0].to_string(), "exec[x]");
    assert!(chain.get("rules").is_none());
}

#[test]
fn part_of_omitted_owner_is_omitted() {
    let catalog = World::new().catalog(
        r#"
resources:
  chain[input]: { when: "false" }
  chain[output]: {}
  rule[a]: { chain: input }
  rule[b]: { chain: output, meta: { hidden: true, export: [web2] } }
  rule[c]: { chain: output, meta: { export: [web2] }, before: "rule[a]" }
"#,
    );
    let expected = ["chain[output]", "rule[b]", "exported[rule[b] for web2]", "exported[rule[c] for web2]"];
    assert_eq!(references(&catalog), expected);
    let relations: Vec<_> = catalog.relations.iter().map(|one| (one.first, one.second)).collect();
    assert_eq!(relations, [(1, 2), (0, 3)]);
    assert_eq!(find(&catalog, "chain[output]").get("rules").and_then(Value::as_hash).unwrap().len(), 1);
}

#[test]
fn part_belongs_to_owner_that_is_not_hidden() {
    for hidden in ["input", "other"] {
        let of = |title: &str| if title == hidden { "meta: { hidden: true }" } else { "" };
        let catalog = World::new().catalog(&format!(
            "resources:\n  chain[input]: {{ {} }}\n  chain[other]: {{ name: input, {} }}\n  rule[a]: {{ chain: input \
             }}\n",
            of("input"),
            of("other"),
        ));
        let with_rules = catalog.resources.iter().filter(|one| one.get("rules").is_some());
        let with_rules: Vec<bool> = with_rules.map(|one| one.is_hidden()).collect();
        assert_eq!(with_rules, [false], "{hidden}");
    }
}

#[test]
fn part_is_exported_once() {
    let catalog = World::new().catalog(
        r#"
resources:
  chain[input]: { meta: { export: [web2] } }
  rule[a]: { chain: input }
  rule[b]: { chain: input, meta: { export: [web2] } }
"#,
    );
    assert_eq!(references(&catalog), ["chain[input]", "exported[chain[input] for web2]", "exported[rule[b] for web2]"]);
    let rules = |reference: &str| find(&catalog, reference).get("rules").and_then(Value::as_hash).unwrap().len();
    assert_eq!(rules("chain[input]"), 2);
    let exported =
        find(&catalog, "exported[chain[input] for web2]").get("attributes").and_then(Value::as_hash).unwrap();
    let titles: Vec<&str> = exported["rules"].as_hash().unwrap().keys().map(|title| title.as_str()).collect();
    assert_eq!(titles, ["a"]);
}

#[test]
fn definition_with_unknown_owner_is_reported_at_use() {
    let said = |type_name: &str, by: &str, into: &str| {
        let mut world = World::new();
        let odd = TypeSchema::new("odd", "Odd.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("of", "String", Behaviour::Parameter, "What it is a part of.")
            .part_of(type_name, by, into);
        world.types.push(odd);
        let (compiled, sources) = world
            .compile("resources: { 'odd[a]': { of: x }, 'service[x]': {}, 'rule[x]': { chain: c }, 'chain[c]': {} }\n");
        render(&compiled.map(|_| ()).expect_err("the definition is wrong"), &sources, false)
    };
    assert!(said("none", "of", "rules").contains("`odd[a]` is a part of a none, but there is no such type"));
    assert!(said("service", "of", "rules").contains("an entry of `rules` of a service, which has no such attribute"));
    assert!(said("rule", "of", "accept").contains("of a rule, which is itself a part of another resource"));
    assert!(said("odd", "of", "of").contains("of a odd, which is itself a part of another resource"));
}

#[test]
fn invalid_parts_are_reported() {
    let said = told(
        r#"
resources:
  exec[x]: { command: date }
  rule[a]: { chain: input }
  rule[b]: { chain: "${exec[x].stdout}" }
  rule[c]: {}
  chain[out]: { rules: { d: {} } }
  rule[d]: { chain: out }
  chain[all]: { rules: "${default(exec[x].stdout, {'a': {}})}" }
  rule[e]: { chain: all }
"#,
    );
    for part in [
        "`rule[a]` is a part of `chain[input]`, which is not declared",
        "declare chain[input] with its attributes: `kilter types chain` shows an example",
        "`chain` names the containing resource and must be known before the run",
        "`rule[c]`: mandatory attributes were not provided: `chain`",
        "`chain[out]` has two parts `d`",
        "`rules` of `chain[all]` is no mapping that is known",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.matches("error").count(), 5, "{said}");
}
