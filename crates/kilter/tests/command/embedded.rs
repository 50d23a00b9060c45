//! Scripts that are part of the program.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Place, is_root};

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
    for type_name in ["package", "service", "cron", "ssh_authorized_key", "sysctl"] {
        assert!(listed.stdout.lines().any(|line| line.starts_with(&format!("{type_name} "))), "{}", listed.stdout);
    }
    let read = place.run(&["get", "sysctl", "kernel.ostype", "--format", "json"]);
    assert!(read.code == 0 && read.stdout.contains(r#""live": "Linux""#), "{read:?}");
}

#[test]
fn embedded_script_runs_for_an_unprivileged_user_without_state() {
    let place = Place::new();
    // The state directory cannot exist below a file.
    place.file("nothing", "");
    for (args, answer) in [
        (["get", "sysctl", "kernel.ostype"], "does not exist"),
        (["get", "ssh_authorized_key", "nobody@nowhere"], "absent"),
    ] {
        let read = place.run_unprivileged(&[&["--state-dir", "nothing/state"], &args[..]].concat());
        assert!(read.code == 0 && read.stdout.contains(answer), "{read:?}");
    }
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
    script(&place, "sysctl", "other", true);
    assert!(place.run(&["-I", ".", "types", "sysctl"]).stdout.contains("A script of the user."));
    script(&place, "sysctl", "other", false);
    let described = place.run(&["-I", ".", "types", "sysctl"]).stdout;
    assert!(!described.contains("A script of the user.") && described.contains("other"), "{described}");
}

#[test]
fn embedded_script_changes_the_machine() {
    assert!(is_root(), "run this test as root: the script writes below /etc, in a mount namespace");
    let place = Place::new();
    let script = format!(
        "mount -t tmpfs none /etc/sysctl.d && {} set sysctl kernel.domainname kept=example && \
         cat /etc/sysctl.d/zz-kilter.conf",
        env!("CARGO_BIN_EXE_kilter")
    );
    let unshare = ["--mount", "--propagation", "private", "bash", "-euc", &script];
    let output = std::process::Command::new("unshare").args(unshare).env("HOME", place.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("kernel.domainname = example\n"), "{output:?}");
}
