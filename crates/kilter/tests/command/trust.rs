//! Files that root executes and reads: only files that no other user can change.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};

use crate::support::{Place, is_root};

/// A user other than root.
const STRANGER: u32 = 4711;

/// A place for root, with a directory that everybody can write to.
fn place() -> Place {
    assert!(is_root(), "run this test as root: it tests the rule for root, with files of another user");
    let place = Place::new();
    mode(&place, "", 0o755);
    std::fs::create_dir(place.path().join("shared")).unwrap();
    mode(&place, "shared", 0o777);
    place
}

fn mode(place: &Place, name: &str, mode: u32) {
    let path = if name.is_empty() { place.path().to_owned() } else { place.path().join(name) };
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn give(place: &Place, name: &str) {
    lchown(place.path().join(name), Some(STRANGER), Some(STRANGER)).unwrap();
}

/// A manifest that is a program, and leaves a mark when it runs.
fn program(place: &Place, name: &str) {
    let mark = place.path().join("mark");
    place.file(name, format!("#!/bin/sh\n>{}\necho 'resources: {{}}'\n", mark.display()));
    mode(place, name, 0o755);
}

fn has_run(place: &Place) -> bool {
    let mark = place.path().join("mark");
    let has_run = mark.exists();
    let _ = std::fs::remove_file(mark);
    has_run
}

#[test]
fn an_executable_manifest_of_another_user_is_not_run_unless_its_path_is_trusted() {
    let place = place();
    program(&place, "m");
    assert_eq!(place.run(&["apply", "m"]).code, 0);
    assert!(has_run(&place));
    give(&place, "m");
    for command in ["apply", "plan", "run", "graph"] {
        let ended = place.run(&[command, "m"]);
        let expected = "error: the manifest m: not used by root: it belongs to user 4711 (mode 0755); change that \
                        (chown -h root m) or accept it (--trust m)\n";
        assert_eq!((ended.code, ended.stderr.as_str()), (1, expected), "{command}");
        assert!(!has_run(&place), "{command}");
    }
    assert_eq!(place.run(&["apply", "m", "--trust", "m"]).code, 0);
    assert!(has_run(&place));
    assert_eq!(place.run(&["--trust", ".", "apply", "m"]).code, 0);
    let missing = place.run(&["--trust", "nothing", "apply", "m"]);
    assert!(missing.code == 1 && missing.stderr.contains("cannot trust nothing"), "{missing:?}");
}

#[test]
fn a_plan_and_a_key_of_another_user_are_refused_by_their_names() {
    let place = place();
    place.file("m.yaml", "resources:\n  exec[x]: { command: 'true' }\n");
    let make = "umask 077; openssl genpkey -algorithm ed25519 -out key";
    let made = std::process::Command::new("sh").args(["-c", make]).current_dir(place.path()).status().unwrap();
    assert!(made.success(), "openssl is needed");
    assert_eq!(place.run(&["plan", "m.yaml", "-o", "p", "--sign", "key"]).code, 2);
    give(&place, "p");
    for args in [&["apply", "p"][..], &["apply", "p", "--verify", "key.pub"]] {
        let ended = place.run(args);
        let expected = "error: the plan p: not used by root: it belongs to user 4711 (mode 0600); change that \
                        (chown -h root p) or accept it (--trust p)\n";
        assert_eq!((ended.code, ended.stderr.as_str()), (1, expected), "{args:?}");
    }
    assert_eq!(place.run(&["--trust", "p", "apply", "p"]).code, 0);
    // A key that another user could exchange.
    std::fs::rename(place.path().join("key"), place.path().join("shared/key")).unwrap();
    give(&place, "shared/key");
    let ended = place.run(&["plan", "m.yaml", "-o", "q", "--sign", "shared/key"]);
    assert!(ended.code == 1 && ended.stderr.contains("the key shared/key: not used by root"), "{ended:?}");
}

#[test]
fn files_of_sudo_user_are_trusted_outside_shared_directories() {
    let place = place();
    let apply = |manifest: &str| {
        let mut command = place.command(&["apply", manifest]);
        place.ended(command.env("SUDO_UID", STRANGER.to_string()).output().unwrap())
    };
    program(&place, "m");
    give(&place, "m");
    let ended = apply("m");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    program(&place, "shared/m");
    give(&place, "shared/m");
    let ended = apply("shared/m");
    assert!(ended.code == 1 && ended.stderr.contains("DIR/shared can be written by everybody"), "{}", ended.stderr);
}

#[test]
fn include_through_foreign_link_shows_no_content() {
    let place = place();
    let secret = place.file("secret", "root:$y$j9T$never:19000:0:99999:7:::\n");
    mode(&place, "secret", 0o600);
    place.file("m.yaml", "include: [shared/part.yaml]\nresources: {}\n");
    symlink(&secret, place.path().join("shared/part.yaml")).unwrap();
    give(&place, "shared/part.yaml");
    for (bits, expected) in [
        (0o777, "DIR/shared can be written by everybody (mode 0777)"),
        (0o1777, "it belongs to user 4711 (mode 0777)"),
        (0o755, "it belongs to user 4711 (mode 0777)"),
    ] {
        mode(&place, "shared", bits);
        let ended = place.run(&["plan", "m.yaml"]);
        assert_eq!(ended.code, 1);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
        assert!(!ended.stderr.contains("y$j9T"), "{}", ended.stderr);
    }
}

#[test]
fn a_secret_is_not_read_through_another_users_link() {
    let place = place();
    let secret = place.file("secret", "hidden");
    let file = place.path().join("made").display().to_string();
    place.file(
        "m.yaml",
        format!("resources: {{ 'file[{file}]': {{ content: {{ sensitive: {{ file: shared/password }} }} }} }}"),
    );
    mode(&place, "shared", 0o1777);
    symlink(&secret, place.path().join("shared/password")).unwrap();
    give(&place, "shared/password");
    let ended = place.run(&["apply", "m.yaml"]);
    assert!(ended.code == 1 && ended.stderr.contains("belongs to user 4711"), "{}", ended.stderr);
    assert!(!place.path().join("made").exists());
}

#[test]
fn program_of_another_user_does_not_run_for_a_secret() {
    let place = place();
    program(&place, "shared/secret");
    mode(&place, "shared", 0o755);
    let path = place.path().display().to_string();
    let manifest = "resources: { 'file[DIR/new]': { content: { sensitive: { command: [DIR/shared/secret] } } } }\n";
    place.file("m.yaml", manifest.replace("DIR", &path));
    assert_eq!(place.run(&["plan", "m.yaml"]).code, 2);
    assert!(has_run(&place));
    give(&place, "shared/secret");
    for command in ["check", "plan", "apply"] {
        let ended = place.run(&[command, "m.yaml"]);
        let expected = "error: cannot fetch the secret: `DIR/shared/secret` was not started: not used by root: it belongs \
                        to user 4711";
        assert!(ended.code == 1 && ended.stderr.starts_with(expected), "{command}: {ended:?}");
        assert!(!has_run(&place), "{command}");
    }
    assert_eq!(place.run(&["--trust", "shared", "plan", "m.yaml"]).code, 2);
    assert!(has_run(&place));
}

#[test]
fn script_behind_link_in_writable_directory_is_not_run() {
    let place = place();
    for directory in ["providers", "real"] {
        std::fs::create_dir(place.path().join(directory)).unwrap();
    }
    // It is run to be asked what it is.
    let says = "provider:\n  type: told_by_script\n  invoke: simple\n  suitable: true\n  actions: [list, find, \
                describe]\n  \
                attributes:\n    name:\n      desc: x\n";
    place.file("real/x.prov", format!("#!/bin/sh\ncat <<'END'\n{says}END\n"));
    mode(&place, "real/x.prov", 0o755);
    symlink("../real", place.path().join("shared/way")).unwrap();
    symlink("../shared/way/x.prov", place.path().join("providers/x.prov")).unwrap();
    for directory in ["providers", "shared/way"] {
        let ended = place.run(&["-I", directory, "types"]);
        let expected =
            "not used by root: DIR/shared can be written by everybody (mode 0777); change that (chmod go-w DIR/shared)";
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
        assert!(!ended.stdout.contains("told_by_script"), "{}", ended.stdout);
    }
    mode(&place, "shared", 0o755);
    let ended = place.run(&["-I", "providers", "types"]);
    assert!(ended.stdout.contains("told_by_script"), "{ended:?}");
}

#[test]
fn a_directory_of_mold_reached_through_another_users_link_is_refused() {
    let place = place();
    std::fs::create_dir(place.path().join("mold")).unwrap();
    mode(&place, "shared", 0o1777);
    symlink("../mold", place.path().join("shared/mold")).unwrap();
    assert_eq!(place.run(&["--mold", "shared/mold", "facts", "kernel"]).code, 0);
    give(&place, "shared/mold");
    let ended = place.run(&["--mold", "shared/mold", "facts", "kernel"]);
    assert!(ended.code == 1 && ended.stderr.contains("belongs to user 4711"), "{}", ended.stderr);
}
