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
fn guard_write_is_refused_and_named_in_noop() {
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
        let warning = "exec[work]: the guard `echo x > DIR/trace` (unless) tried to write DIR/trace and was refused, \
                       because its resource is only checked; a guard that has to write needs `confine: false`";
        assert!(format!("{}{}", ended.stdout, ended.stderr).contains(warning), "{args:?}{meta}: {ended:?}");
    }
}

#[test]
fn refused_guard_makes_resource_and_dependents_unknown() {
    let place = Place::new();
    let resources =
        "  exec[work]: { unless: 'echo x > DIR/lock && test ! -e DIR/due', shell: true, command: 'echo x > DIR/out; \
         rm DIR/due' }
  exec[after]: { command: 'mv DIR/out DIR/done', onlyif: 'test -e DIR/out', require: 'exec[work]' }
  file[DIR/copy]: { source: DIR/in, require: 'exec[work]' }
  exec[told]: { command: 'true', refreshonly: true, subscribe: 'exec[work]' }
";
    place.file("in", "x");
    for guard_says in ["settled", "due"] {
        if guard_says == "due" {
            place.file("due", "");
        }
        let plan = run(&place, resources, &["plan", "--format", "json"]);
        assert_eq!(plan.code, 2, "{plan:?}");
        let json: serde_json::Value = serde_json::from_str(&plan.stdout).unwrap();
        let unknown = json["resources"].as_array().unwrap().iter().filter(|one| one["status"] == "unknown");
        let because = |one: &serde_json::Value| {
            format!("{} {}", one["resource"].as_str().unwrap(), one["because_of"].as_str().unwrap_or_default())
        };
        let told = ["exec[work] ", "exec[after] exec[work]", "file[DIR/copy] exec[work]", "exec[told] exec[work]"];
        let found: Vec<String> = unknown.map(because).collect();
        assert_eq!(found, told, "{guard_says}");
        let shown = run(&place, resources, &["plan", "-o", &place.path().join("p").display().to_string()]);
        let line = "? exec[work] not known yet
    unless: known if the guard may change the machine: the guard `echo x > DIR/lock && test ! -e DIR/due` (unless) \
    tried to \
                    write DIR/lock and was refused; a guard that has to write needs `confine: false`
";
        assert!(shown.stdout.contains(line), "{shown:?}");
        let apply = place.run(&["apply", &place.path().join("p").display().to_string()]);
        assert_eq!(apply.code, 0, "{apply:?}");
        assert!(apply.stdout.contains("it was unknown in the plan"), "{guard_says}: {apply:?}");
        assert_eq!(place.path().join("done").exists(), guard_says == "due");
        let _ = std::fs::remove_file(place.path().join("copy"));
    }
}

#[test]
fn guard_may_write_in_apply_and_with_confine_false() {
    let place = Place::new();
    let ended = run(&place, &format!("  exec[work]: {{ {GUARDED} }}\n"), &["apply"]);
    assert!(ended.code == 0 && wrote(&place) && !ended.stderr.contains("refused"), "{ended:?}");
    for args in [&["plan"][..], &["apply", "--noop"]] {
        let ended = run(&place, &format!("  exec[work]: {{ {GUARDED}, confine: false }}\n"), args);
        assert!(ended.code == 0 && wrote(&place) && !ended.stderr.contains("refused"), "{ended:?}");
    }
}

#[test]
fn watch_write_is_refused_in_noop() {
    let place = Place::new();
    let watch = |meta: &str| {
        format!(
            "  exec[work]: {{ command: 'true', onlyif: 'false', watch: [sh, -c, 'echo x > DIR/trace; sleep 60']{meta} \
             }}\n"
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
