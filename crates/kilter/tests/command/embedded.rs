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
    let listed = place.run(&["types"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    for type_name in ["package", "cron", "ssh_authorized_key"] {
        assert!(listed.stdout.lines().any(|line| line.starts_with(&format!("{type_name} "))), "{}", listed.stdout);
    }
    let read = place.run(&["get", "ssh_authorized_key", "nobody@nowhere", "--format", "json"]);
    assert!(read.code == 0 && read.stdout.contains(r#""absent""#), "{read:?}");
}

#[test]
fn embedded_script_runs_for_an_unprivileged_user_without_state() {
    let place = Place::new();
    // The state directory cannot exist below a file.
    place.file("nothing", "");
    let get = ["--state-dir", "nothing/state", "get", "ssh_authorized_key", "nobody@nowhere"];
    let read = place.run_unprivileged(&get);
    assert!(read.code == 0 && read.stdout.contains("absent"), "{read:?}");
}

#[test]
fn script_of_a_directory_replaces_the_embedded_one() {
    let place = Place::new();
    script(&place, "cron", "cron", true);
    let described = place.run(&["-I", ".", "types", "cron"]);
    assert_eq!((described.code, described.stderr.as_str()), (0, ""));
    assert!(described.stdout.contains("A script of the user."), "{}", described.stdout);
    assert!(place.run(&["types", "cron"]).stdout.contains("crontab"));
}

#[test]
fn default_script_of_a_directory_precedes_the_embedded_default() {
    let place = Place::new();
    script(&place, "ssh_authorized_key", "other", true);
    assert!(place.run(&["-I", ".", "types", "ssh_authorized_key"]).stdout.contains("A script of the user."));
    script(&place, "ssh_authorized_key", "other", false);
    let described = place.run(&["-I", ".", "types", "ssh_authorized_key"]).stdout;
    assert!(!described.contains("A script of the user.") && described.contains("other"), "{described}");
}
