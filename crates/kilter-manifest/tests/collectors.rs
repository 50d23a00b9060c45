//! Relations with all resources of a type: `package[*]`.

#[expect(dead_code, reason = "it serves several test files")]
mod shown;
mod support;

use kilter_manifest::{Compiled, Source, Sources, render_warnings};
use kilter_model::Catalog;
use shown::told;
use support::World;

fn relations(catalog: &Catalog) -> Vec<String> {
    let name = |at: u32| catalog.resources[at as usize].reference.to_string();
    let mut all: Vec<String> =
        catalog.relations.iter().map(|r| format!("{} {} {}", name(r.first), r.kind.word(), name(r.second))).collect();
    all.sort();
    all
}

fn compiled(text: &str) -> (Compiled, Sources) {
    let (compiled, sources) = World::new().compile(text);
    (compiled.expect("the manifest is valid"), sources)
}

#[test]
fn collector_relates_all_other_resources_of_the_type() {
    let catalog = World::new().catalog(
        "resources:\n  user: [a, b]\n  file[/x]: { require: \"user[*]\", before: [\"exec[*]\"], notify: \"service[s]\" \
         }\n  exec[e]: { command: x }\n  service[s]: { subscribe: \"file[*]\" }\n  file[/y]: { when: false }\n  \
         user[c]: { require: \"user[*]\" }\n",
    );
    assert_eq!(
        relations(&catalog),
        [
            "file[/x] before exec[e]",
            "file[/x] notify service[s]",
            "file[/x] subscribe service[s]",
            "user[a] require file[/x]",
            "user[a] require user[c]",
            "user[b] require file[/x]",
            "user[b] require user[c]",
            "user[c] require file[/x]",
        ]
    );
}

#[test]
fn collector_includes_parts_of_composite_resources_and_other_files() {
    let mut sources = Sources::new();
    sources.add(Source::new(
        "site.yaml",
        "include: common.yaml\ntypes:\n  site:\n    resources:\n      \"user[${self.name}]\": {}\n      \
         \"file[/${self.name}]\": {}\nresources:\n  site[s]: { require: \"user[*]\" }\n  exec[e]: { command: x, \
         require: [\"user[*]\", \"site[*]\"] }\n",
    ));
    let catalog = World::new().compile_all(&mut sources).expect("the manifest is valid").catalog;
    assert_eq!(
        relations(&catalog),
        [
            "file[/s] require exec[e]",
            "user[s] require exec[e]",
            "user[s] require exec[e]",
            "user[www] require exec[e]",
            "user[www] require file[/s]",
            "user[www] require user[s]",
        ]
    );
}

#[test]
fn part_of_a_composite_resource_may_collect_its_type() {
    let catalog = World::new().catalog(
        "types:\n  site:\n    resources:\n      \"user[${self.name}]\": { require: \"site[*]\" }\nresources:\n  \
         site[a]: {}\n  user[x]: { before: \"site[*]\" }\n",
    );
    assert_eq!(relations(&catalog), ["user[x] before user[a]"], "not with the composite resource that contains it");
}

#[test]
fn collector_without_match_causes_a_warning() {
    for text in
        ["resources:\n  user[a]: { require: \"file[*]\" }\n", "resources:\n  user[a]: { require: \"user[*]\" }\n"]
    {
        let (compiled, sources) = compiled(text);
        let shown = render_warnings(&compiled.warnings, &sources, false);
        assert!(shown.contains("matches no resource") && shown.contains("site.yaml:2:23"), "{shown}");
        assert!(compiled.catalog.relations.is_empty());
    }
    let (compiled, _) = compiled("resources:\n  user[a]: { require: \"file[*]\" }\n  file[/x]: { when: false }\n");
    assert!(compiled.warnings.is_empty(), "the manifest declares one, which is left out");
}

#[test]
fn collector_of_unknown_type_is_an_error() {
    let problem = told("resources:\n  user[a]: { require: \"fiel[*]\" }\n");
    assert!(problem.contains("unknown type `fiel`") && problem.contains("did you mean `file`?"), "{problem}");
}

#[test]
fn too_many_collected_relations_are_an_error() {
    let names = |letter: char| (0..1100).map(|n| format!("{letter}{n}")).collect::<Vec<_>>().join(", ");
    let text = format!(
        "resources:\n  user: [{}]\n  exec: {{ titles: [{}], command: x, require: \"user[*]\" }}\n",
        names('a'),
        names('e')
    );
    let problem = told(&text);
    assert!(problem.contains("collectors have more than 1000000 relations"), "{problem}");
}
