//! `kilter types`.

use crate::support::{Place, snapshot};

#[test]
fn all_types_are_listed() {
    let ended = Place::new().run(&["types"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    // The embedded scripts come last, with the programs that the machine lacks.
    let native = &ended.stdout[..ended.stdout.find("package ").unwrap()];
    snapshot("types.txt", native);
}

#[test]
fn a_type_is_described_for_people_programs_and_pages() {
    let place = Place::new();
    snapshot("types-notify.txt", &place.run(&["types", "notify"]).stdout);
    snapshot("types-notify.json", &place.run(&["types", "notify", "--format", "json"]).stdout);
    snapshot("types-notify.md", &place.run(&["types", "notify", "--format", "markdown"]).stdout);
}

#[test]
fn every_attribute_of_every_type_is_documented() {
    let place = Place::new();
    let types: serde_json::Value = serde_json::from_str(&place.run(&["types", "--format", "json"]).stdout).unwrap();
    for described in types.as_array().unwrap() {
        assert!(described["desc"].as_str().is_some_and(|desc| desc.contains("```yaml")), "{}", described["name"]);
        for attribute in described["attributes"].as_array().unwrap() {
            let desc = attribute["desc"].as_str().unwrap();
            assert!(desc.len() > 10, "{} of {}", attribute["name"], described["name"]);
        }
    }
}

#[test]
fn unknown_type_has_suggestion() {
    let ended = Place::new().run(&["types", "usre"]);
    assert_eq!(ended.code, 1);
    assert_eq!(ended.stderr, "error: there is no type `usre`\n  hint: did you mean `user`?\n");
    let ended = Place::new().run(&["types", "kubernetes"]);
    assert!(
        ended.stderr.contains("there are alternatives, apt_repository, archive, augeas, block, ca_certificate"),
        "{}",
        ended.stderr
    );
}
