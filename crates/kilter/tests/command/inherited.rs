//! Properties that kilter does not inherit from its parent (umask, ignored signals), and limits that it reports.

use std::process::Command;

use crate::support::{Ended, Place, is_root};

/// Runs a shell command in which `$KILTER` is the program with its state directory.
fn shell(place: &Place, script: &str) -> Ended {
    let kilter = format!("{} --state-dir {}", env!("CARGO_BIN_EXE_kilter"), place.path().join("state").display());
    let mut command = Command::new("bash");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("KILTER", kilter);
    place.ended(command.current_dir(place.path()).args(["-c", script]).output().unwrap())
}

#[test]
fn commands_have_umask_0022() {
    let place = Place::new();
    let out = place.path().join("umask").display().to_string();
    place.file("m.yaml", format!("resources: {{ 'exec[umask >{out}]': {{ shell: true }} }}"));
    for umask in ["000", "077"] {
        let ended = shell(&place, &format!("umask {umask}; exec $KILTER apply m.yaml"));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(std::fs::read_to_string(&out).unwrap().trim(), "0022", "started with {umask}");
    }
}

#[test]
fn a_write_beyond_the_limit_of_file_sizes_fails_that_resource_only() {
    let place = Place::new();
    let path = |name: &str| place.path().join(name).display().to_string();
    let (one, big, two) = (path("one"), path("big"), path("two"));
    let content = "x".repeat(3000);
    let of = |path: &str, content: &str| format!("  'file[{path}]': {{ content: '{content}' }}\n");
    place.file("m.yaml", format!("resources:\n{}{}{}", of(&one, "1"), of(&big, &content), of(&two, "2")));
    let ended = shell(&place, "ulimit -f 1; exec $KILTER apply --without-history m.yaml");
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(ended.stdout.contains("cannot write the content of DIR/big: File too large"), "{}", ended.stdout);
    let is_there = |path: &str| std::path::Path::new(path).exists();
    assert_eq!((is_there(&one), is_there(&big), is_there(&two)), (true, false, true));
}

#[test]
fn oversized_manifest_or_plan_is_refused_without_reading_it() {
    let place = Place::new();
    std::fs::File::create(place.path().join("huge")).unwrap().set_len(8 << 40).unwrap();
    for command in ["plan", "apply"] {
        // There is no room for what would be read.
        let ended = shell(&place, &format!("ulimit -v 800000; exec $KILTER {command} huge"));
        assert_eq!((ended.code, ended.stderr.as_str()), (1, "error: huge is larger than 1024 MiB\n"), "{command}");
    }
}

#[test]
fn ignored_sigchld_does_not_break_waiting() {
    let place = Place::new();
    place.file("m.yaml", "resources: { 'exec[true]': {} }");
    let ended = shell(&place, "trap '' CHLD; exec $KILTER apply m.yaml");
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn without_threads_files_are_written_and_commands_fail_with_a_report() {
    assert!(is_root(), "run this test as root: it limits the processes of a user of its own");
    let place = Place::new();
    let home = place.path().join("home");
    std::os::unix::fs::chown(&home, Some(61235), Some(61235)).unwrap();
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let home = home.display();
    let files: String = (0..30).map(|n| format!("  'file[{home}/f{n}]': {{ content: x }}\n")).collect();
    place.file("m.yaml", format!("resources:\n{files}  'exec[true]': {{}}\n  'exec[/bin/echo]': {{}}\n"));
    // The program may be where that user cannot go.
    place.copy_of_kilter("kilter");
    let script = format!(
        "exec setpriv --reuid 61235 --regid 61235 --clear-groups bash -c 'ulimit -u 1; HOME={home} exec ./kilter \
         apply m.yaml'"
    );
    let ended = shell(&place, &script);
    assert!(!ended.stderr.contains("defect"), "{}", ended.stderr);
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    assert!(ended.stdout.contains("32 resources: 30 changed, 2 failed"), "{}", ended.stdout);
}

#[test]
fn control_characters_are_escaped_in_text_and_json() {
    let place = Place::new();
    let path = place.file("a", "x\u{9b}2J\u{202e}\u{61c}");
    for format in ["json", "human", "puppet", "yaml"] {
        let ended = place.run(&["get", "file", &path, "-a", "content", "--format", format]);
        assert_eq!(ended.code, 0);
        assert!(!ended.stdout.contains(['\u{9b}', '\u{202e}', '\u{61c}']), "{format}: {:?}", ended.stdout);
        if format == "json" {
            assert!(ended.stdout.contains(r"x\u009b2J\u202e\u061c"), "{}", ended.stdout);
        }
    }
    let new = place.path().join("b\u{202e}").display().to_string();
    place.file("m.yaml", format!("resources: {{ \"file[{new}]\": {{ content: x }} }}\n"));
    assert_eq!(place.run(&["apply", "m.yaml"]).code, 0);
    let exported = place.run(&["history", "export"]).stdout;
    assert!(exported.contains(r"b\u202e") && !exported.contains('\u{202e}'), "{exported:?}");
}
