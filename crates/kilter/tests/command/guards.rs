//! Guards of commands in runs that change nothing.

use crate::support::{Ended, Place};

const GUARDED: &str = "unless: 'echo x > DIR/trace', shell: true, command: 'true', returns: 0";

fn run(place: &Place, resources: &str, args: &[&str]) -> Ended {
    let resources = resources.replace("DIR", &place.path().display().to_string());
    place.file("m.yaml", format!("resources:\n{resources}"));
    place.run(&[args, &["m.yaml"]].concat())
}

fn wrote(place: &Place) -> bool {
    std::fs::remove_file(place.path().join("trace")).is_ok()
}

#[test]
fn guard_cannot_write_in_a_run_that_changes_nothing_and_is_named() {
    let place = Place::new();
    for (args, meta) in [
        (&["plan"][..], ""),
        (&["apply", "--noop"], ""),
        (&["run", "--noop", "--max-runtime", "1"], ""),
        (&["apply"], ", meta: { noop: true }"),
        (&["apply"], ", meta: { policy: observe }"),
        (&["apply"], ", meta: { policy: warn }"),
    ] {
        let ended = run(&place, &format!("  exec[work]: {{ {GUARDED}{meta} }}\n"), args);
        assert!(!wrote(&place), "{args:?}{meta}: {ended:?}");
        let warning = "exec[work]: the guard `echo x > DIR/trace` (unless) tried to write DIR/trace and was refused: \
                       a noop run changes nothing, so the answer may be wrong; a guard that has to write needs \
                       `confine: false`";
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(warning), "{args:?}{meta}: {ended:?}");
    }
}

#[test]
fn guard_writes_where_its_resource_is_changed_and_where_the_manifest_lets_it() {
    let place = Place::new();
    let ended = run(&place, &format!("  exec[work]: {{ {GUARDED} }}\n"), &["apply"]);
    assert!(ended.code == 0 && wrote(&place) && !ended.stderr.contains("refused"), "{ended:?}");
    for args in [&["plan"][..], &["apply", "--noop"]] {
        let ended = run(&place, &format!("  exec[work]: {{ {GUARDED}, confine: false }}\n"), args);
        assert!(ended.code == 0 && wrote(&place) && !ended.stderr.contains("refused"), "{ended:?}");
    }
}

#[test]
fn watch_cannot_write_in_a_run_that_changes_nothing() {
    let place = Place::new();
    let watch = |meta: &str| {
        format!(
            "  exec[work]: {{ command: 'true', onlyif: 'false', watch: [sh, -c, 'echo x > DIR/trace; sleep 60']{meta} }}\n"
        )
    };
    let noop = ["run", "--noop", "--max-runtime", "1"];
    for (args, meta, writes) in [
        (&noop[..], "", false),
        (&noop[..], ", confine: false", true),
        (&["run", "--max-runtime", "1"], ", meta: { noop: true }", false),
        (&["run", "--max-runtime", "1"], "", true),
    ] {
        let ended = run(&place, &watch(meta), args);
        assert_eq!(wrote(&place), writes, "{args:?}{meta}: {ended:?}");
    }
}
