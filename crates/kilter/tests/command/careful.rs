//! Side effects that the command must not have.

use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::Command;

use crate::support::{Ended, Place, is_root};

/// A manifest of resources in the place, run with a command.
fn run(place: &Place, command: &str, resources: &str) -> Ended {
    let resources = resources.replace("DIR", &place.path().display().to_string());
    place.file("m.yaml", format!("resources:\n{resources}"));
    place.run(&[command, "m.yaml"])
}

#[test]
fn plan_output_replaces_only_regular_files() {
    let place = Place::new();
    place.file("m.yaml", format!("resources:\n  file[{}/new]: {{ content: x }}\n", place.path().display()));
    let write = |path: &str| place.run(&["plan", "m.yaml", "-o", path]);

    place.file("kept", "old");
    symlink("kept", place.path().join("link")).unwrap();
    assert_eq!(write("link").code, 2);
    assert!(std::fs::symlink_metadata(place.path().join("link")).unwrap().is_symlink());
    assert!(std::fs::read_to_string(place.path().join("kept")).unwrap().contains("kilter_plan"));

    let refused = write("m.yaml");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("one of its input files"), "{refused:?}");
    assert!(std::fs::read_to_string(place.path().join("m.yaml")).unwrap().starts_with("resources:"));
}

#[test]
fn plan_is_written_to_a_device_that_stays() {
    assert!(is_root(), "run this test as root: it makes a device");
    let place = Place::new();
    place.file("m.yaml", "resources:\n  exec[a]: { command: 'true' }\n");
    let device = place.path().join("null");
    assert!(Command::new("mknod").arg(&device).args(["c", "1", "3"]).status().unwrap().success());
    assert_eq!(place.run(&["plan", "m.yaml", "-o", "null"]).code, 2);
    assert!(std::fs::symlink_metadata(&device).unwrap().file_type().is_char_device());
}

#[test]
fn directories_are_removed_bottom_up() {
    let place = Place::new();
    std::fs::create_dir_all(place.path().join("a/b/c")).unwrap();
    let resources = "  file[DIR/a/b/c]: { ensure: absent }\n  file[DIR/a]: { ensure: absent }\n  file[DIR/a/b]: { \
                     ensure: absent }\n";
    let applied = run(&place, "apply", resources);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert!(!place.path().join("a").exists());
}

#[test]
fn file_below_file_is_a_manifest_problem() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("dd")).unwrap();
    let gone = "  file[DIR/dd]: { ensure: absent, force: true }\n  file[DIR/dd/new]: { content: x }\n";
    let ended = run(&place, "apply", gone);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("file[DIR/dd/new]: file[DIR/dd] above it is declared as absent"), "{ended:?}");
    assert!(place.path().join("dd").exists(), "nothing was touched");
    let ended = run(&place, "apply", "  file[DIR/f]: { content: x }\n  file[DIR/f/a/b]: { content: y }\n");
    assert!(ended.stderr.contains("file[DIR/f] above it is declared as a file"), "{ended:?}");
    assert!(!place.path().join("f").exists(), "nothing was touched");

    let fine = "  file[DIR/dd]: { ensure: absent, force: true }\n  file[DIR/dd/new]: { ensure: absent }\n";
    assert_eq!(run(&place, "apply", fine).code, 0);
}

#[test]
fn new_file_with_secret_is_private() {
    let place = Place::new();
    let resources = "  file[DIR/secret]: { content: { sensitive: hunter2 } }\n  file[DIR/plain]: { content: x }\n";
    assert_eq!(run(&place, "apply", resources).code, 0);
    let mode = |name: &str| std::fs::metadata(place.path().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("secret"), mode("plain")), (0o600, 0o644));
}

#[test]
fn commands_inherit_no_descriptors() {
    let place = Place::new();
    place.file("private", "hunter2\n");
    place.file("m.yaml", "resources:\n  exec[read]: { command: 'cat <&9', shell: true, logoutput: true }\n");
    let mut shell = Command::new("/bin/sh");
    let kilter = env!("CARGO_BIN_EXE_kilter");
    shell.args(["-c", &format!("exec 9<private; exec {kilter} apply m.yaml")]).current_dir(place.path());
    let output = shell.env("KILTER_STATE_DIR", place.path().join("state")).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "there is no descriptor 9: {output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("hunter2"), "{output:?}");
}

#[test]
fn ignored_hangup_stays_ignored() {
    let place = Place::new();
    place.file(
        "m.yaml",
        "resources:\n  exec[wait]: { command: [sh, -c, 'kill -HUP $PPID; sleep 0.3; touch done'], cwd: DIR }\n"
            .replace("DIR", &place.path().display().to_string()),
    );
    let mut shell = Command::new("/bin/sh");
    let kilter = env!("CARGO_BIN_EXE_kilter");
    shell.args(["-c", &format!("trap '' HUP; exec {kilter} apply m.yaml")]).current_dir(place.path());
    let output = shell.env("KILTER_STATE_DIR", place.path().join("state")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(place.path().join("done").exists());
}

#[test]
fn link_target_keeps_its_bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let link = place.path().join("link");
    let target = OsStr::from_bytes(b"targ\xffet");
    symlink(target, &link).unwrap();
    let export = place.run(&["get", "file", link.to_str().unwrap(), "--format", "yaml"]).stdout;
    let export = export.replace("DIR", place.path().to_str().unwrap());
    assert_eq!(place.run_with(&["plan", "-"], export.as_bytes()).code, 0, "{export}");
    std::fs::remove_file(&link).unwrap();
    symlink("targ\u{fffd}et", &link).unwrap();
    assert_eq!(place.run_with(&["apply", "-"], export.as_bytes()).code, 0);
    assert_eq!(std::fs::read_link(&link).unwrap(), target);
}
