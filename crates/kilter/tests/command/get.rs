//! `kilter get`, and that what it prints can be read back in.

use std::os::unix::fs::symlink;

use crate::support::{Place, snapshot};

#[test]
fn get_of_missing_resource_is_absent() {
    let place = Place::new();
    let get = |format: &str| place.run(&["get", "file", "/nowhere/at/all", "--format", format]);
    for (format, name) in [
        ("human", "get-absent.txt"),
        ("json", "get-absent.json"),
        ("yaml", "get-absent.yaml"),
        ("puppet", "get-absent.pp"),
    ] {
        let ended = get(format);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        snapshot(name, &ended.stdout);
    }
}

#[test]
fn resources_come_in_the_order_asked_and_once() {
    let place = Place::new();
    let ended = place.run(&["get", "host[b.example]", "a.example", "b.example", "--format", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let names: Vec<&str> = shown.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b.example", "a.example"]);
}

#[test]
fn get_prints_only_requested_attributes() {
    let place = Place::new();
    let ended = place.run(&["get", "user", "root", "daemon", "-a", "home,uid", "--format", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let attributes = shown.as_array().unwrap().iter().map(|one| one["attributes"].as_object().unwrap());
    let names: Vec<Vec<&String>> = attributes.map(|attributes| attributes.keys().collect()).collect();
    assert_eq!(names, [["uid", "home"], ["uid", "home"]]);

    let wrong = place.run(&["get", "user", "root", "--attribute", "hom", "--attribute", "uidd"]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (1, ""));
    assert!(wrong.stderr.contains("did you mean `home`?") && wrong.stderr.contains("did you mean `uid`?"), "{wrong:?}");
}

#[test]
fn users_are_a_table_for_people() {
    let ended = Place::new().run(&["get", "user"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let mut lines = ended.stdout.lines();
    let heading = lines.next().unwrap();
    assert!(heading.starts_with("NAME ") && heading.contains("SHELL"), "{heading}");
    assert!(lines.any(|line| line.starts_with("root ") && line.contains("/root")), "{}", ended.stdout);
    assert!(!ended.stdout.contains("PASSWORD "), "{}", ended.stdout);
}

#[test]
fn an_export_of_this_machine_applies_without_a_change() {
    let place = Place::new();
    for type_name in ["user", "group", "host"] {
        let export = place.run(&["get", type_name, "--format", "yaml"]);
        assert_eq!((export.code, export.stderr.as_str()), (0, ""), "{type_name}");
        let plan = place.run_with(&["plan", "-"], export.stdout.as_bytes());
        assert_eq!(plan.code, 0, "{type_name}: {plan:?}");
        assert!(plan.stdout.contains(" unchanged"), "{}", plan.stdout);
    }
}

#[test]
fn an_export_in_json_applies_without_a_change() {
    let place = Place::new();
    for (type_name, more) in [("user", None), ("user", Some("--show-sensitive")), ("group", None), ("host", None)] {
        let args: Vec<&str> = ["get", type_name, "--format", "json"].into_iter().chain(more).collect();
        let export = place.run(&args);
        let plan = place.run_with(&["plan", "-"], export.stdout.as_bytes());
        assert_eq!(plan.code, 0, "{type_name}: {plan:?}");
        assert!(plan.stdout.contains(" unchanged"), "{}", plan.stdout);
    }
}

#[test]
fn nothing_in_an_export_is_an_expression() {
    let place = Place::new();
    let file = place.path().join("${vars.x}");
    std::fs::write(&file, "${1 + 1} $${}\n").unwrap();
    let export = place.run(&["get", "file", file.to_str().unwrap(), "--format", "json"]);
    // What is told of the directory is masked.
    let export = export.stdout.replace("DIR", place.path().to_str().unwrap());
    let plan = place.run_with(&["plan", "-"], export.as_bytes());
    assert_eq!((plan.code, plan.stderr.as_str()), (0, ""), "{plan:?}");

    let refused = place.run_with(&["plan", "-"], br#"[{"resource": "user[a]"}]"#);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("a manifest is a mapping"), "{refused:?}");
    let wrong = place.run_with(&["plan", "-"], br#"[{"resource": "user[a]", "attributes": {"uidd": 1}}]"#);
    assert!(wrong.stderr.contains(":1:41") && wrong.stderr.contains("did you mean `uid`?"), "{wrong:?}");
}

#[test]
fn an_export_with_secrets_applies_without_a_change() {
    let place = Place::new();
    let export = place.run(&["get", "user", "--format", "yaml", "--show-sensitive"]);
    let plan = place.run_with(&["plan", "-"], export.stdout.as_bytes());
    assert_eq!(plan.code, 0, "{plan:?}");
}

#[test]
fn files_with_nasty_names_can_be_read_back() {
    let place = Place::new();
    let nasty = [
        "plain",
        "a b",
        "it's",
        "q\"q",
        "x[1]",
        "$home",
        "${vars.x}",
        "#1",
        "a: b",
        "é",
        "new\nline",
        "tab\t",
        "-",
        "yes",
        "0644",
    ];
    let mut args = vec!["get".to_owned(), "file".to_owned(), "--format".to_owned(), "yaml".to_owned(), "--".to_owned()];
    for name in nasty {
        args.push(place.file(name, name));
    }
    let link = place.path().join("link");
    symlink("no where\n", &link).unwrap();
    args.push(link.display().to_string());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let export = place.run(&args);
    assert_eq!(export.code, 0, "{export:?}");
    let manifest = export.stdout.replace("DIR", &place.path().display().to_string());
    let plan = place.run_with(&["plan", "-"], manifest.as_bytes());
    assert_eq!(plan.code, 0, "{manifest}\n{plan:?}");
    assert!(plan.stdout.starts_with("16 resources: 16 unchanged"), "{}", plan.stdout);
}

#[test]
fn unreadable_resource_is_reported() {
    let place = Place::new();
    let ended = place.run(&["get", "file"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (4, ""));
    assert!(ended.stderr.starts_with("error: cannot read file resources: "), "{}", ended.stderr);
    let ended = place.run(&["get", "usr"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert_eq!(ended.stderr, "error: there is no type `usr`\n  hint: did you mean `user`?\n");
}

#[test]
fn readable_resources_are_shown_with_unreadable_ones() {
    let place = Place::new();
    let (first, last) = (place.file("a", "x"), place.file("c", "x"));
    // No file system has such names.
    let long = format!("/{}", "n".repeat(300));
    let get = |format: &str| place.run(&["get", "file", &first, &long, &last, "--format", format, "-a", "ensure"]);
    for format in ["human", "yaml", "puppet"] {
        let ended = get(format);
        assert_eq!(ended.code, 4, "{ended:?}");
        assert!(ended.stdout.contains("DIR/a") && ended.stdout.contains("DIR/c"), "{ended:?}");
        assert!(!ended.stdout.contains("nnn"), "{ended:?}");
        assert!(ended.stderr.starts_with(&format!("error: cannot read file[{long}]: ")), "{ended:?}");
    }
    let shown: serde_json::Value = serde_json::from_str(&get("json").stdout).unwrap();
    let names: Vec<&str> = shown.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["DIR/a", "DIR/c"]);
    let ended = place.run(&["get", "file", &long, "--format", "json"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (4, "[]\n"), "{ended:?}");
    for format in ["human", "yaml", "puppet"] {
        let ended = place.run(&["get", "file", &long, "--format", format]);
        assert_eq!((ended.code, ended.stdout.as_str()), (4, ""), "{ended:?}");
    }
}

#[test]
fn binary_file_export_round_trips() {
    let place = Place::new();
    let path = place.file("bytes", b"\x00\xff\n");
    let got = place.run(&["get", "file", &path, "--format", "yaml"]);
    assert_eq!(got.code, 0, "{got:?}");
    place.file("m.yaml", got.stdout.replace("DIR", &place.path().display().to_string()));
    let plan = place.run(&["plan", "m.yaml"]);
    assert_eq!(plan.code, 0, "{plan:?}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(place.run(&["apply", "m.yaml"]).code, 0);
    assert_eq!(std::fs::read(&path).unwrap(), b"\x00\xff\n");
}
