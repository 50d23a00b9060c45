//! Scripts that misbehave: each is a clear error.

use std::time::Duration;

use kilter_provider::ReadOne;

use crate::harness::{MoldDir, MoldTestLog, act, conform, inspect};

/// Returns the error if a script with this body inspects `job[x]`.
fn refused(body: impl AsRef<[u8]>) -> String {
    refused_in(&MoldDir::new(), body)
}

fn refused_in(place: &MoldDir, body: impl AsRef<[u8]>) -> String {
    place.script("resources/job", [b"#!/bin/bash\n", body.as_ref()].concat());
    let error = inspect(&place.provider("job"), "x").unwrap_err();
    let start = "inspect of job[x] by the provider `mold` (mold, DIR/resources/job): ";
    let error = place.plain(error);
    error.strip_prefix(start).unwrap_or_else(|| panic!("{error}")).to_owned()
}

#[test]
fn a_script_that_hangs_is_ended() {
    let mut place = MoldDir::new();
    place.limits.read = Duration::from_millis(300);
    let error = refused_in(&place, "echo waiting >&2; sleep 1000\n");
    let expected =
        "it did not reply in time and was ended (its limit is 0.3 s; signal 15; last on its standard error: waiting)";
    assert_eq!(error, expected);
}

#[test]
fn a_script_that_floods_is_ended() {
    let mut place = MoldDir::new();
    place.limits.output = 100_000;
    assert!(refused_in(&place, "yes\n").starts_with("it was ended because it exceeded the output limit"));
}

#[test]
fn failed_script_is_reported_with_status_and_stderr() {
    let error = refused("echo '{\"exists\": true}'; echo 'no such device' >&2; exit 7\n");
    assert_eq!(error, "it failed with exit code 7 (last on its standard error: no such device)");
    assert_eq!(refused("kill -9 $$\n"), "it failed with signal 9");
}

#[test]
fn invalid_document_is_reported() {
    assert_eq!(refused("exit 0\n"), "it printed nothing, where an observation document is expected");
    let half = refused("echo '{\"exists\": '; echo oops >&2\n");
    assert!(half.starts_with("its output is not JSON: EOF while parsing a value"), "{half}");
    assert!(half.ends_with("(last on its standard error: oops)"), "{half}");
    assert_eq!(refused("printf '{\"a\": \"\\xff\"}'\n"), "line 1 of its output is not UTF-8 (byte 0xff)");
    assert_eq!(refused("printf '{\"a\": \"\\0\"}'\n"), "line 1 of its output holds a NUL byte");
    assert!(refused("echo '{} {}'\n").starts_with("its output is not JSON: trailing characters"));
    let deep = refused("printf '%0.s[' {1..5000}\n");
    assert!(deep.starts_with("its output is not JSON: recursion limit exceeded"), "{deep}");
}

#[test]
fn document_about_other_resource_is_refused() {
    let of = |document: &str| {
        let error = refused(format!("echo '{document}'\n"));
        error.strip_prefix("its document is not as it should be: ").unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    assert_eq!(of("{\"name\": \"y\"}"), "`name` is `\"y\"`, but the request was for `x`");
    assert_eq!(of("{\"name\": 5}"), "`name` is `5`, but the request was for `x`");
    assert_eq!(of("{\"kind\": \"file\"}"), "`kind` is `\"file\"`, but the request was for `job`");
    assert_eq!(of("{\"exists\": \"yes\"}"), "`exists` is true or false, not `\"yes\"`");
    assert_eq!(of("[]"), "an object is expected, not `[]`");
}

#[test]
fn failure_report_is_no_document_error() {
    let told = refused_in(&MoldDir::new(), "echo '{\"error\": \"the disk is on fire\"}'\n");
    assert_eq!(told, "it says: the disk is on fire");
}

#[test]
fn script_ignoring_input_or_leaving_processes_succeeds() {
    let place = MoldDir::new();
    place.script("resources/job", "#!/bin/sh\nexec <&-\necho '{\"exists\": true}'\nsleep 30 &\n");
    let begun = std::time::Instant::now();
    assert!(inspect(&place.provider("job"), "x").unwrap().exists);
    let long = kilter_model::Value::from("y".repeat(1 << 20));
    assert!(conform(&place.provider("job"), "x", &[("long", long)]).is_done());
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn incomplete_conform_reply_fails() {
    let place = MoldDir::new();
    place.script(
        "resources/job",
        "#!/bin/sh\ncase $1 in conform) echo '{\"changed\"';; *) printf 'one\\n\\ntwo\\n';; esac\n",
    );
    let failed = conform(&place.provider("job"), "x", &[]).failure.unwrap();
    assert!(failed.contains("conform of job[x]") && failed.contains("not JSON"), "{failed}");
    assert_eq!(act(&place.provider("job"), "x", "go").notes, ["one", "two"]);
    place.script("resources/job", "#!/bin/sh\necho '{\"name\": \"y\"}'\n");
    assert!(act(&place.provider("job"), "x", "go").failure.unwrap().contains("the request was for `x`"));
    place.script("resources/job", "#!/bin/sh\necho '{\"changed\": {\"a\": {\"was\": 1, \"is\": 2}}}'\n");
    let expected = "conform of job[x] by the provider `mold`, mold, DIR/resources/job";
    assert_eq!(place.plain(conform(&place.provider("job"), "x", &[]).by), expected);
    let changed = conform(&place.provider("job"), "x", &[]).changed;
    assert_eq!(format!("{}: {} -> {}", changed[0].attribute, changed[0].is, changed[0].should), "a: 1 -> 2");
    place.script("resources/job", "#!/bin/sh\necho '{\"error\": \"no space\"}'\n");
    assert!(conform(&place.provider("job"), "x", &[]).failure.unwrap().contains("it says: no space"));
}

#[test]
fn start_failure_is_reported() {
    let place = MoldDir::new();
    place.script("resources/job", "#!/nonexistent/interpreter\n");
    assert!(inspect(&place.provider("job"), "x").unwrap_err().contains("cannot start"));
    place.script("resources/no.type", "#!/bin/sh\n");
    let notes = place.mold().notes().iter().map(|note| place.plain(note)).collect::<Vec<_>>();
    assert!(notes.len() == 1 && notes[0].starts_with("DIR/resources/no.type: not used: "), "{notes:?}");
}

#[test]
fn an_inspect_that_tries_to_write_is_named_once() {
    let place = MoldDir::new();
    place.script("resources/job", "#!/bin/bash\ncd \"$(dirname \"$0\")\"\necho >changed\necho '{\"exists\": true}'\n");
    let (provider, log) = (place.provider("job"), MoldTestLog::default());
    for name in ["x", "y"] {
        let name = ecow::EcoString::from(name);
        let wanted = kilter_provider::Wanted::new(&name, None);
        assert!(provider.get_one(&kilter_provider::Context::empty().with_log(&log), wanted).unwrap().exists);
    }
    let named = |line: &&String| line.contains("/changed while it was only read (inspect), and was refused");
    let lines = log.0.lock().unwrap();
    assert_eq!(lines.iter().filter(named).count(), 1, "{lines:?}");
}
