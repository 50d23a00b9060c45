//! Search paths of scripts, and the choice of a provider.

use super::{SETTING, ralsh, ralsh_with, script, script_in, settings};
use crate::support::Place;

/// A provider of the type `setting` with another description.
fn other(desc: &str) -> String {
    SETTING.replace("Settings of a program.", desc)
}

#[test]
fn directories_of_options_come_before_those_of_the_environment() {
    let place = Place::new();
    for name in ["one", "two", "three", "four"] {
        script_in(&place, &format!("{name}/providers"), "setting.prov", &other(name));
    }
    let path = |name: &str| place.path().join(name).display().to_string();
    let list = format!("/nonexistent::{}:{}", path("two"), path("three"));
    let described = |args: &[&str], list: &str| {
        let variables = [("RALSH_DATA_DIR", list), ("KILTER_PROVIDERS", &path("four"))];
        let ended = ralsh_with(&place, &[args, &["-l", "none", "-e", "setting"]].concat(), &variables);
        ended.stdout.lines().nth(2).unwrap_or_default().to_owned()
    };
    assert_eq!(described(&["-I", "one"], &list), "one");
    assert_eq!(described(&["-I", "nonexistent", "-I", "three", "-I", "one"], &list), "three");
    assert_eq!(described(&[], &list), "two");
    assert_eq!(described(&[], ""), "four");
}

#[test]
fn the_working_directory_is_searched_only_when_it_is_named() {
    let place = settings();
    for list in ["", ":"] {
        let ended = ralsh_with(&place, &["setting"], &[("RALSH_DATA_DIR", list)]);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{list}");
    }
    assert_eq!(ralsh(&place, &["-I", "", "setting"]).code, 2);
    assert_eq!(ralsh_with(&place, &["setting"], &[("RALSH_DATA_DIR", ".")]).code, 0);
    script_in(&place, ".", "stray.prov", &other("stray").replace("type: setting", "type: stray"));
    assert_eq!(ralsh(&place, &["-I.", "stray"]).code, 2, "it is not in `providers`");
}

#[test]
fn commands_are_found_in_the_libexec_directory_too() {
    let place = Place::new();
    script(&place, "setting.prov", &SETTING.replace("suitable: true", "suitable: {commands: [own-command]}"));
    script_in(&place, "libexec", "own-command", "#!/bin/sh\n");
    assert_eq!(ralsh(&place, &["-I.", "setting"]).code, 2);
    let libexec = place.path().join("libexec").display().to_string();
    assert_eq!(ralsh_with(&place, &["-I.", "setting"], &[("RALSH_LIBEXEC_DIR", &libexec)]).code, 0);
}

#[test]
fn an_ambiguous_type_names_its_providers() {
    let place = settings();
    script(&place, "other.prov", SETTING);
    let ended = ralsh(&place, &["-I.", "setting", "a"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert_eq!(
        ended.stderr,
        "ambiguous type: 'setting' has the providers setting::other, setting::setting\nname one of them, such as \
         setting::other\n"
    );
    let named = ralsh(&place, &["-I.", "setting::other", "a"]);
    assert_eq!(named.stdout, "setting::other { 'a':\n  ensure => 'absent',\n}\n");
    assert_eq!(ralsh(&place, &["-I.", "setting::other", "a", "ensure=present"]).code, 0);
    // A default is meant where none is named.
    script(&place, "other.prov", &SETTING.replace("suitable: true", "suitable: true\n  default: true"));
    assert_eq!(ralsh(&place, &["-I.", "setting", "b"]).stdout, "setting::other { 'b':\n  ensure => 'absent',\n}\n");
}

#[test]
fn unsuitable_provider_is_reported_with_its_reason() {
    let place = Place::new();
    script(&place, "setting.prov", &SETTING.replace("suitable: true", "suitable: {commands: [nosuchcommand]}"));
    let listed = ralsh(&place, &["-I."]);
    assert!(!listed.stdout.contains("setting") && listed.stderr.is_empty());
    for name in ["setting", "setting::setting"] {
        let ended = ralsh(&place, &["-I.", name]);
        let expected = format!(
            "unknown provider: '{name}'\nsetting::setting is not suitable here: there is no command nosuchcommand\n"
        );
        assert_eq!((ended.code, ended.stderr), (2, expected));
    }
    let told = ralsh(&place, &["-I.", "-l", "info"]).stderr;
    assert!(
        told.contains("TIME INFO  kilter - DIR/providers/setting.prov: provider setting is not suitable"),
        "{told}"
    );
}
