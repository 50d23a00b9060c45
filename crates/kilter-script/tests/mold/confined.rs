//! Warnings about scripts that may not change the machine.

use std::sync::Arc;

use kilter_model::{Change, State, Value};
use kilter_provider::{Context, Mode};
use kilter_script::mold::Mold;
use kilter_script::{ScriptEnvironment, Scripts};

use crate::harness::{MoldDir, MoldTestLog, attributes};
use crate::unconfined::ConfinedAs;

/// A fact script and actors that try to write, and say something.
fn writers() -> MoldDir {
    let place = MoldDir::new();
    let body = |document: &str| {
        format!("#!/bin/bash\necho here >&2\necho 'warn: old' >&2\necho >\"$0.new\"\necho '{document}'\n")
    };
    place.script("facts/it", body("{}"));
    place.script("actors/prescribe", body("[]"));
    place.script("actors/choreograph", body("[]"));
    place
}

/// Returns the log of all of them.
fn logged_of(place: &MoldDir, surroundings: ScriptEnvironment) -> Vec<String> {
    let (mold, log) = (Mold::open(place.path(), Arc::new(surroundings)).unwrap(), MoldTestLog::default());
    let cx = Context::empty().with_log(&log);
    assert_eq!(mold.facts(&cx).0.len(), 1);
    mold.prescribe(&cx, &Value::Undef).unwrap();
    mold.choreograph(&cx, &Value::Undef, &[], &[]).unwrap();
    log.0.into_inner().unwrap()
}

#[test]
fn facts_and_actors_are_logged_and_write_attempts_named() {
    let place = writers();
    let lines = logged_of(&place, place.surroundings());
    for whose in ["facts[it]", "actors[prescribe]", "actors[choreograph]"] {
        let lines: Vec<&String> = lines.iter().filter(|line| line.contains(whose)).collect();
        assert_eq!(*lines[0], format!("info {whose} here"), "{lines:?}");
        assert_eq!(*lines[1], format!("warning {whose} old"), "{lines:?}");
        assert!(lines.last().unwrap().contains(".new while it was only read, and was refused"), "{lines:?}");
    }
}

#[test]
fn unconfined_facts_and_actors_warn_once() {
    let place = writers();
    for kernel in ConfinedAs::all() {
        let lines = logged_of(&place, ScriptEnvironment { exchanges: Arc::new(kernel), ..place.surroundings() });
        let warned: Vec<&String> = lines.iter().filter(|line| line.contains("could change the machine")).collect();
        assert!(warned.len() == 1 && warned[0].starts_with("warning facts[it] the script "), "{lines:?}");
    }
}

#[test]
fn write_attempt_in_preview_has_no_metadata_hint() {
    let place = MoldDir::new();
    let body = "[ \"$1\" = inspect ] && exec echo '{\"exists\": false}'\necho >changed";
    place.script("job.prov", format!("#!/bin/bash\ncd \"$(dirname \"$0\")\"\n{body}\n"));
    place.file("job.yaml", "provider: {type: job, invoke: mold, suitable: true, noop_safe: true}\n");
    let found = Scripts::find(&[place.path().to_owned()], None, &Arc::new(place.surroundings()));
    let (log, name, should) = (MoldTestLog::default(), "x".into(), attributes(&[("exists", true.into())]));
    let is = State::absent("x");
    let change = Change::new(&name, &is, Some(&should), &[]);
    let outcome = found.providers[0].set(&Context::empty().with_log(&log), &[change], Mode::Preview).remove(0);
    let lines = log.0.into_inner().unwrap().join(" ");
    assert!(
        lines.contains("/changed in a preview (conform), and was refused") && !lines.contains("confine: false"),
        "{lines}"
    );
    let why = outcome.failure.unwrap();
    assert!(
        why.contains("it tried to write ") && why.contains("which may be why") && !why.contains("confine: false"),
        "{why}"
    );
}
