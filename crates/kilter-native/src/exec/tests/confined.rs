//! Guards in runs that change nothing.

use std::sync::Mutex;

use kilter_provider::{Level, Log};

use super::*;

/// Keeps the warnings of a check.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Log for Warnings {
    fn log(&self, level: Level, _: &str, name: &str, message: &str) {
        assert_eq!((level, name), (Level::Warning, "work"));
        self.0.lock().unwrap().push(message.to_owned());
    }
}

/// Checks a resource in a noop run: the reason why its command would run, and the warnings.
fn noop(bench: &Bench, should: &Attributes) -> (Option<String>, Vec<String>) {
    let (name, warnings) = ("work".into(), Warnings::default());
    let cx = Context::bare().with_log(&warnings);
    let state = bench.provider.get_one(&cx, Wanted::new(&name, Some(should)).with_noop(true)).unwrap();
    let why = state.drift.first().map(|drift| drift.message.as_deref().unwrap().to_owned());
    (why, warnings.0.into_inner().unwrap())
}

fn guarded(attribute: &str, guard: String) -> Attributes {
    should(&[("command", "true".into()), ("shell", true.into()), (attribute, guard.into())])
}

#[test]
fn guard_in_a_noop_run_cannot_write_and_is_named() {
    let bench = Bench::new();
    let file = bench.path("trace");
    let wanted = guarded("unless", format!("echo x > {file}"));
    let (why, warnings) = noop(&bench, &wanted);
    assert!(!Path::new(&file).exists(), "a plan changes nothing");
    let guard = format!("`echo x > {file}` (unless)");
    assert_eq!(why, Some(format!("{guard} fails, perhaps because noop confines it")));
    let refusal = format!("tried to write {file} and was refused: a noop run changes nothing");
    let remedy = "so the answer may be wrong; a guard that has to write needs `confine: false`";
    assert_eq!(warnings, [format!("the guard {guard} {refusal}, {remedy}")]);
    assert_eq!(bench.check(&wanted), [], "in a run that changes the resource, the guard can write");
    assert_eq!(bench.lines("trace"), 1);
}

#[test]
fn guard_that_keeps_quiet_about_its_attempt_is_named_too() {
    let bench = Bench::new();
    let directory = bench.path("made");
    let (why, warnings) = noop(&bench, &guarded("onlyif", format!("mkdir {directory} 2>/dev/null; true")));
    assert!(why.unwrap().ends_with("(onlyif) succeeds"));
    assert!(warnings[0].contains(&format!("tried to make {directory} and was refused")), "{warnings:?}");
    assert!(!Path::new(&directory).exists());
}

#[test]
fn confine_false_lets_a_guard_write_in_a_noop_run() {
    let bench = Bench::new();
    let wanted = guarded("unless", format!("echo x > {}", bench.path("lock")));
    assert_eq!(noop(&bench, &with(wanted, "confine", false)), (None, vec![]));
    assert_eq!(bench.lines("lock"), 1);
}

#[test]
fn guard_in_a_noop_run_reads_keeps_temporary_files_and_talks_to_sockets() {
    let bench = Bench::new();
    let socket = bench.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for guard in [
        "cat /etc/passwd > /dev/null 2>&1".to_owned(),
        "f=$(mktemp) && echo x > $f && sort $f | grep -q x".to_owned(),
        "cat <<E | grep -q x\nx\nE".to_owned(),
        format!("perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(\"{socket}\") or exit 1'"),
    ] {
        let (why, warnings) = noop(&bench, &guarded("unless", guard.clone()));
        assert_eq!((why, warnings), (None, vec![]), "{guard}");
    }
}

#[test]
fn sensitive_guard_that_tried_to_write_does_not_show_where() {
    let bench = Bench::new();
    let guard = Value::sensitive(format!("echo x > {}", bench.path("hunter2")).into());
    let wanted = should(&[("command", "true".into()), ("shell", true.into()), ("unless", guard)]);
    let (why, warnings) = noop(&bench, &wanted);
    assert_eq!(why.unwrap(), "`[redacted]` (unless) fails, perhaps because noop confines it");
    assert!(warnings[0].contains("tried to change the machine and was refused"), "{warnings:?}");
    assert!(!warnings[0].contains("hunter2"));
}

#[test]
fn guard_that_the_kernel_refuses_to_answer_is_named() {
    let (why, warnings) =
        noop(&Bench::new(), &guarded("unless", "echo 'x: Operation not permitted' >&2; exit 4".into()));
    assert!(why.unwrap().ends_with("fails, perhaps because noop confines it"));
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains("seems to have been refused something (x: Operation not permitted)"), "{warning}");
}
