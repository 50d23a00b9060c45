//! Scripts that are part of the program.

use std::os::unix::fs::PermissionsExt;

use crate::support::Place;

/// A script of a type with one attribute. It prints its own name.
fn script(place: &Place, type_name: &str, name: &str, is_default: bool) {
    let directory = place.path().join("providers");
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{name}.prov"));
    std::fs::write(&path, "#!/bin/sh\nprintf '# simple\\nname: a\\nensure: present\\n'\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let metadata = format!(
        "provider:\n  type: {type_name}\n  desc: A script of the user.\n  invoke: simple\n  actions: [list, find]\n  \
         suitable: true\n  default: {is_default}\n  attributes:\n    name: {{desc: x}}\n    ensure: {{type: \
         'enum[present, absent]', desc: x}}\n"
    );
    std::fs::write(directory.join(format!("{name}.yaml")), metadata).unwrap();
}

#[test]
fn embedded_types_are_there_without_files() {
    let place = Place::new();
    let listed = place.run(&["types", "package::pip"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    assert!(listed.stdout.contains("pip"), "{}", listed.stdout);
    let read = place.run(&["get", "package::pip", "kilter-nothing", "--format", "json"]);
    assert!(read.code == 0 && read.stdout.contains(r#""absent""#), "{read:?}");
}

#[test]
fn embedded_script_runs_for_an_unprivileged_user_without_state() {
    let place = Place::new();
    // The state directory cannot exist below a file.
    place.file("nothing", "");
    let read = place.run_unprivileged(&["--state-dir", "nothing/state", "get", "package::pip", "kilter-nothing"]);
    assert!(read.code == 0 && read.stdout.contains("absent"), "{read:?}");
}

#[test]
fn script_of_a_directory_replaces_the_embedded_one() {
    let place = Place::new();
    script(&place, "package", "pip", false);
    let described = place.run(&["-I", ".", "types", "package::pip"]);
    assert_eq!((described.code, described.stderr.as_str()), (0, ""));
    assert!(described.stdout.contains("A script of the user."), "{}", described.stdout);
    assert!(!place.run(&["types", "package::pip"]).stdout.contains("A script of the user."));
}

#[test]
fn default_script_of_a_directory_precedes_the_built_in_provider() {
    let place = Place::new();
    script(&place, "package", "other", true);
    assert!(place.run(&["-I", ".", "types", "package"]).stdout.contains("A script of the user."));
    script(&place, "package", "other", false);
    let described = place.run(&["-I", ".", "types", "package"]).stdout;
    assert!(!described.contains("A script of the user.") && described.contains("other"), "{described}");
}
