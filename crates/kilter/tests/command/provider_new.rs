//! `kilter provider new`: what it writes, and what it does not touch.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{Ended, Place};

const CONVENTIONS: [(&str, &str); 3] =
    [("simple", "colour.prov"), ("json", "colour.prov"), ("mold", "resources/colour")];

fn place() -> Place {
    let place = Place::new();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    place
}

fn new(place: &Place, args: &[&str]) -> Ended {
    place.run(&[&["provider", "new"], args].concat())
}

/// The files below the directory, without those of the harness.
fn files(place: &Place) -> Vec<String> {
    let output =
        Command::new("find").args([".", "-type", "f", "-not", "-path", "./home/*"]).current_dir(place.path()).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let mut files: Vec<String> = text.lines().map(|line| line.trim_start_matches("./").to_owned()).collect();
    files.sort();
    files
}

#[test]
fn provider_new_lists_files_and_next_steps() {
    let place = place();
    let ended = new(&place, &["simple", "colour"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let expected = "colour.prov        the provider\ncolour.yaml        its metadata\ncolour.check.yaml  \
                    its check file\n\n\
                    Next:\n  kilter provider check colour.prov                     # test it\n";
    assert!(ended.stdout.starts_with(expected), "{}", ended.stdout);
    assert_eq!(files(&place), ["colour.check.yaml", "colour.prov", "colour.yaml"]);
    let mode = std::fs::metadata(place.path().join("colour.prov")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn provider_new_overwrites_nothing() {
    let place = place();
    place.file("colour.yaml", "mine");
    let ended = new(&place, &["json", "colour"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.starts_with("error: nothing is written: colour.yaml exists already\n"), "{}", ended.stderr);
    assert_eq!(files(&place), ["colour.yaml"]);
    assert_eq!(std::fs::read_to_string(place.path().join("colour.yaml")).unwrap(), "mine");
    // A directory in the way of the last of the files: those before it are taken away again.
    std::os::unix::fs::symlink("nowhere", place.path().join("tint.check.yaml")).unwrap();
    assert_eq!(new(&place, &["json", "tint"]).code, 1);
    place.file("taken", "");
    let ended = new(&place, &["mold", "tint", "--directory", "taken"]);
    assert!(ended.code == 1 && ended.stderr.contains("nothing is written"), "{}", ended.stderr);
    assert_eq!(files(&place), ["colour.yaml", "taken"]);
}

#[test]
fn provider_new_refuses_invalid_names() {
    let place = place();
    for (args, why) in [
        (&["simple", "../x"][..], "cannot be the name of a provider"),
        (&["simple", "Colour"], "cannot be the name of a type"),
        (&["simple", "a-b"], "give one with --type"),
        (&["simple", "x", "--type", "a b"], "cannot be the name of a type"),
        (&["mold", "x", "--type", "y"], "the name of its file"),
        (&["ruby", "x"], "invalid value"),
    ] {
        let ended = new(&place, args);
        assert!(ended.code == 1 && ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
    }
    assert_eq!(files(&place), Vec::<String>::new());
    assert_eq!(new(&place, &["simple", "a-b", "--type", "colour"]).code, 0);
    assert!(place.run(&["-I", ".", "types", "colour"]).stdout.starts_with("colour  provider a-b\n"));
}

#[test]
fn generated_provider_is_lint_free() {
    for (convention, script) in CONVENTIONS {
        let place = place();
        assert_eq!(new(&place, &[convention, "colour"]).code, 0);
        let text = std::fs::read_to_string(place.path().join(script)).unwrap();
        let linter = if text.starts_with("#!/bin/bash") { "shellcheck" } else { "pyflakes3" };
        let output = Command::new(linter).arg(place.path().join(script)).output();
        let output = output.unwrap_or_else(|error| panic!("{error}: apt-get install {linter}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        for file in files(&place) {
            let text = std::fs::read_to_string(place.path().join(&file)).unwrap();
            assert!(!text.contains('@') && text.lines().all(|line| line.chars().count() <= 120), "{file}");
        }
    }
}

#[test]
fn generated_provider_works() {
    for (convention, script) in CONVENTIONS {
        let place = place();
        assert_eq!(new(&place, &[convention, "colour"]).code, 0);
        // The home of whoever runs the test is not to be touched.
        let (path, home) = (place.path().join(script), place.path().join("home").display().to_string());
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("$HOME", &home).replace("os.environ[\"HOME\"]", &format!("{home:?}")))
            .unwrap();
        let (given, there) = if convention == "mold" { ("--mold", "exists=true") } else { ("-I", "ensure=present") };
        let run = |args: &[&str]| {
            let ended = place.run(&[&[given, "."], args].concat());
            assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{convention} {args:?}: {}", ended.stdout);
            ended.stdout
        };
        run(&["set", "colour", "sky", there, "value=it's $(blue)"]);
        assert!(run(&["get", "colour", "sky"]).contains("it's $(blue)"), "{convention}");
        let key = there.split_once('=').unwrap();
        let manifest = format!("resources:\n  colour[sky]: {{ {}: {}, value: grey }}\n", key.0, key.1);
        let manifest = place.file("m.yaml", manifest);
        assert!(run(&["apply", &manifest]).contains("1 changed"), "{convention}");
        assert!(run(&["apply", &manifest]).contains("1 unchanged"), "{convention}");
        assert_eq!(place.run(&[given, ".", "plan", &manifest]).code, 0);
    }
}
