//! Comparison of `kilter get --format puppet` with Puppet on the same machine.
//!
//! It needs the program `puppet` (Debian: the package `puppet`). The differences that are allowed are
//! those of the page [`kilter get` beside `puppet resource`](../../../../docs/reference/puppet-output.md).

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::support::Place;

/// Attributes and their values as written, by resource.
type Resources = BTreeMap<String, BTreeMap<String, String>>;

/// Reads resources as either program writes them: a line for each, and one for each attribute.
fn read(text: &str) -> Resources {
    let mut resources = Resources::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" { '") {
            name = rest.strip_suffix("':").expect("a title ends so").to_owned();
            resources.insert(name.clone(), BTreeMap::new());
        } else if let Some((attribute, value)) = line.split_once("=>") {
            let value = value.trim().strip_suffix(',').unwrap_or(value.trim());
            let value = value.strip_prefix("Sensitive(").and_then(|v| v.strip_suffix(')')).unwrap_or(value).to_owned();
            resources.get_mut(&name).expect("a resource is open").insert(attribute.trim().to_owned(), value);
        }
    }
    resources
}

fn puppets(type_name: &str) -> Resources {
    let home = tempfile::tempdir().unwrap();
    let dirs = ["--confdir", "--vardir"].map(|flag| [flag.to_owned(), home.path().display().to_string()]);
    let output = Command::new("puppet")
        .args(["resource", type_name])
        .args(dirs.as_flattened())
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("`puppet` runs: apt-get install puppet");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read(&String::from_utf8(output.stdout).unwrap())
}

#[test]
fn builtin_types_are_printed_with_puppets_attributes_or_refused() {
    let place = Place::new();
    let types: serde_json::Value = serde_json::from_str(&place.run(&["types", "--format", "json"]).stdout).unwrap();
    let names: Vec<&str> = types.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        let ended = place.run(&["get", name, "--format", "puppet"]);
        let is_refused = ended.code == 1 && ended.stdout.is_empty();
        let has_no_type = ended.stdout.contains("does not come with Puppet");
        assert!(is_refused || !has_no_type, "{name}: {ended:?}");
    }
}

fn kilters(type_name: &str) -> Resources {
    let ended = Place::new().run(&["get", type_name, "--format", "puppet", "--show-sensitive"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    read(&ended.stdout)
}

/// Compares all resources of a type. The lists have attributes that only one of both prints, with their only value if
/// there is one.
fn compare(type_name: &str, only_puppet: &[&str], only_kilter: &[(&str, Option<&str>)]) {
    let (puppets, kilters) = (puppets(type_name), kilters(type_name));
    let names = |resources: &Resources| resources.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&puppets), names(&kilters));
    assert!(puppets.len() > 10, "the machine has some: {}", puppets.len());
    for (name, theirs) in &puppets {
        let ours = &kilters[name];
        for (attribute, value) in theirs.iter().filter(|(attribute, _)| !only_puppet.contains(&attribute.as_str())) {
            assert_eq!(ours.get(attribute), Some(value), "{type_name}[{name}] {attribute}");
        }
        for (attribute, value) in ours.iter().filter(|(attribute, _)| !theirs.contains_key(*attribute)) {
            let allowed =
                only_kilter.iter().any(|(name, only)| name == attribute && only.is_none_or(|only| only == value));
            assert!(allowed, "{type_name}[{name}] {attribute} => {value}");
        }
    }
}

#[test]
fn users_match_puppet() {
    compare("user", &["provider"], &[("expiry", Some("'absent'")), ("groups", Some("[]")), ("comment", Some("''"))]);
}

#[test]
fn groups_match_puppet() {
    compare("group", &["provider"], &[("members", None)]);
}
