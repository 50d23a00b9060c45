//! `kilter facts`.

use crate::support::Place;

#[test]
fn one_fact_is_its_value() {
    let place = Place::new();
    assert_eq!(place.run(&["facts", "kilter.version"]).stdout, format!("{}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(place.run(&["facts", "kilter.working_dir"]).stdout, "DIR\n");
    assert_eq!(place.run(&["facts", "kernel", "--format", "json"]).stdout, "\"Linux\"\n");
    assert_eq!(place.run(&["facts", "kernel", "--format", "yaml"]).stdout, "Linux\n");
}

#[test]
fn unknown_fact_has_suggestion() {
    let ended = Place::new().run(&["facts", "kernle"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert_eq!(ended.stderr, "error: there is no fact `kernle`; did you mean `kernel`?\n");
}

#[test]
fn external_facts_are_read_and_their_problems_are_warnings() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("facts.d")).unwrap();
    let json = r#"{"site": {"name": "a: b", "racks": [1, {"x": true}], "empty": []}}"#;
    place.file("facts.d/site.json", json);
    place.file("facts.d/wrong.json", "{");
    let run = |args: &[&str]| place.run(&[&["facts", "site", "--facts-dir", "facts.d"], args].concat());
    let human = run(&[]);
    assert_eq!(human.stdout, "name: a: b\nracks:\n  0: 1\n  1:\n    x: true\nempty: \n");
    assert!(human.stderr.starts_with("warning: DIR/facts.d/wrong.json: not JSON"), "{}", human.stderr);
    assert_eq!(run(&["--quiet"]).stderr, "");
    assert_eq!(run(&["--format", "yaml"]).stdout, "name: \"a: b\"\nracks:\n  - 1\n  - x: true\nempty: []\n");
    let shown: serde_json::Value = serde_json::from_str(&run(&["--format", "json"]).stdout).unwrap();
    assert_eq!(shown["racks"][1]["x"], true);
}

#[test]
fn a_user_has_facts_of_their_own() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("home/.config/kilter/facts.d")).unwrap();
    place.file("home/.config/kilter/facts.d/mine.txt", "colour=green\n");
    let ended = place.run_unprivileged(&["facts", "colour"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "green\n"), "{ended:?}");
}

#[test]
fn all_facts_are_shown() {
    let place = Place::new();
    let ended = place.run(&["facts", "--format", "json"]);
    let facts: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    for name in ["os", "kernel", "architecture", "networking", "memory", "processors", "identity"] {
        assert!(!facts[name].is_null(), "{name}");
    }
    let human = place.run(&["facts"]).stdout;
    assert!(human.contains("kernel: Linux\n"), "{human}");
}
