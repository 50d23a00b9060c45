//! The configuration file: options that the command line does not give.

use crate::support::*;

/// Runs a command with this configuration file.
fn with(place: &Place, config: &str, args: &[&str]) -> Ended {
    let path = place.file("kilter.yaml", config);
    place.end(place.command(args).env_remove("KILTER_STATE_DIR").env("KILTER_CONFIG", path))
}

#[test]
fn apply_without_arguments_uses_the_manifest_of_the_file() {
    let place = Place::new();
    let target = place.path().join("target");
    place.file("site.yaml", format!("resources:\n  file[{}]: {{content: x}}\n", target.display()));
    let config = "manifest: site.yaml\nstate-dir: other-state\napply: {format: json}\n";
    let ended = with(&place, config, &["apply"]);
    assert_eq!((ended.code, &*ended.stderr), (0, ""), "{ended:?}");
    assert!(ended.stdout.starts_with('{') && target.exists(), "{ended:?}");
    assert!(place.path().join("other-state").is_dir());
    // The command line goes first.
    let ended = with(&place, config, &["apply", "--format", "human", "missing.yaml"]);
    assert!(ended.code == 1 && ended.stderr.contains("missing.yaml"), "{ended:?}");
}

#[test]
fn wrong_file_is_reported_with_its_place() {
    let place = Place::new();
    for (config, says) in [
        ("state_dri: /x\n", ":1:1: kilter has no option `state-dri`\n  hint: did you mean `state-dir`?"),
        ("plan: {jobs: many}\n", ":1:14: invalid value `many` for `jobs`: a whole number is expected\n"),
        ("plan:\n  jobs: 0\n", ":2:9: invalid value `0` for `jobs`: 0 is not in 1..=1024\n"),
        ("strict: loud\n", ":1:9: invalid value `loud` for `strict`: one of off, warning, error is expected\n"),
        ("plan: {released: [keep, delete]}\n", ":1:25: invalid value `delete` for `released`: `delete` is not keep"),
        ("quiet: true\n", "can only be given on the command line"),
        ("apply: [\n", ":1:8: not valid YAML"),
    ] {
        let ended = with(&place, config, &["plan", "x.yaml"]);
        assert!(ended.code == 1 && ended.stderr.contains(says), "{config}: {ended:?}");
        assert!(ended.stderr.contains("kilter.yaml"), "{config}: {ended:?}");
    }
    // Help must not depend on a file.
    assert_eq!(with(&place, "state_dri: /x\n", &["plan", "--help"]).code, 0);
    let ended = place.end(place.command(&["facts", "os"]).env("KILTER_CONFIG", "/nonexistent/kilter.yaml"));
    assert!(ended.code == 1 && ended.stderr.contains("/nonexistent/kilter.yaml"), "{ended:?}");
    assert_eq!(place.end(place.command(&["facts", "os"]).env("KILTER_CONFIG", "")).code, 0);
}

#[test]
fn file_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let path = place.file("kilter.yaml", "state-dir: /x\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let ended = place.end(place.command(&["facts", "os"]).env("KILTER_CONFIG", &path));
    assert!(ended.code == 1 && ended.stderr.contains("kilter.yaml"), "{ended:?}");
}
