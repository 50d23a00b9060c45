//! Guards in noop runs.

use std::sync::Mutex;

use kilter_provider::{Level, Log};

use super::*;

/// Collects the warnings of a check.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Log for Warnings {
    fn log(&self, level: Level, _: &str, name: &str, message: &str) {
        assert_eq!((level, name), (Level::Warning, "work"));
        self.0.lock().unwrap().push(message.to_owned());
    }
}

/// Result of a check in a noop run.
#[derive(Debug, Default, PartialEq)]
struct Checked {
    /// The reason why the command would run.
    due: Option<String>,
    /// The guard whose answer is unknown, and the reason.
    unknown: Option<String>,
    warnings: Vec<String>,
}

/// Checks a resource in a noop run.
fn noop(bench: &ExecFixture, should: &Attributes) -> Checked {
    let (name, warnings) = ("work".into(), Warnings::default());
    let cx = Context::empty().with_log(&warnings);
    let state = bench.provider.get_one(&cx, Wanted::new(&name, Some(should)).with_noop(true)).unwrap();
    let due = state.drift.first().map(|drift| drift.message.as_deref().unwrap().to_owned());
    let unknown = state.unknown.first();
    let unknown = unknown.map(|one| format!("{}: known {}", one.attribute, one.because.reason()));
    Checked { due, unknown, warnings: warnings.0.into_inner().unwrap() }
}

/// Returns the expected answer of a guard whose operation was refused.
fn refused(attribute: &str, refusal: &str) -> Checked {
    let remedy = "a guard that has to write needs `confine: false`";
    Checked {
        due: None,
        unknown: Some(format!("{attribute}: known if the guard may change the machine: {refusal}; {remedy}")),
        warnings: vec![format!("{refusal}, because its resource is only checked; {remedy}")],
    }
}

fn guarded(attribute: &str, guard: String) -> Attributes {
    should(&[("command", "true".into()), ("shell", true.into()), (attribute, guard.into())])
}

#[test]
fn guard_in_a_noop_run_cannot_write_and_is_named() {
    let bench = ExecFixture::new();
    let file = bench.path("trace");
    let wanted = guarded("unless", format!("echo x > {file}"));
    let checked = noop(&bench, &wanted);
    assert!(!Path::new(&file).exists(), "a plan changes nothing");
    let refusal = format!("the guard `echo x > {file}` (unless) tried to write {file} and was refused");
    assert_eq!(checked, refused("unless", &refusal));
    assert_eq!(bench.check(&wanted), [], "in a run that changes the resource, the guard can write");
    assert_eq!(bench.lines("trace"), 1);
}

#[test]
fn guard_that_ignores_refusal_is_named() {
    let bench = ExecFixture::new();
    let directory = bench.path("made");
    let guard = format!("mkdir {directory} 2>/dev/null; true");
    for attribute in ["onlyif", "unless"] {
        let refusal = format!("the guard `{guard}` ({attribute}) tried to make {directory} and was refused");
        assert_eq!(noop(&bench, &guarded(attribute, guard.clone())), refused(attribute, &refusal));
    }
    assert!(!Path::new(&directory).exists());
}

#[test]
fn refused_and_killed_guard_is_unknown() {
    let bench = ExecFixture::new();
    let guard = format!("echo x > {} || kill -9 $$", bench.path("lock"));
    let unknown = noop(&bench, &guarded("unless", guard)).unknown.unwrap();
    assert!(unknown.contains("tried to write"), "{unknown}");
}

#[test]
fn guard_without_refusal_decides() {
    let bench = ExecFixture::new();
    let lock = format!("echo x > {}", bench.path("lock"));
    let both = |other: &str| {
        let guards = Value::strings([lock.as_str(), other]);
        noop(&bench, &should(&[("command", "true".into()), ("shell", true.into()), ("unless", guards)]))
    };
    let settled = both("true");
    assert_eq!((settled.due, settled.unknown, settled.warnings.len()), (None, None, 1));
    assert!(both("false").unknown.is_some());
}

#[test]
fn confine_false_lets_a_guard_write_in_a_noop_run() {
    let bench = ExecFixture::new();
    let wanted = guarded("unless", format!("echo x > {}", bench.path("lock")));
    assert_eq!(noop(&bench, &with(wanted, "confine", false)), Checked::default());
    assert_eq!(bench.lines("lock"), 1);
}

#[test]
fn guard_in_a_noop_run_reads_keeps_temporary_files_and_talks_to_sockets() {
    let bench = ExecFixture::new();
    let socket = bench.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for guard in [
        "cat /etc/passwd > /dev/null 2>&1".to_owned(),
        "f=$(mktemp) && echo x > $f && sort $f | grep -q x".to_owned(),
        "cat <<E | grep -q x\nx\nE".to_owned(),
        format!("perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(\"{socket}\") or exit 1'"),
    ] {
        assert_eq!(noop(&bench, &guarded("unless", guard.clone())), Checked::default(), "{guard}");
    }
}

#[test]
fn sensitive_guard_hides_path_of_write_attempt() {
    let bench = ExecFixture::new();
    let guard = Value::sensitive(format!("echo x > {}", bench.path("hunter2")).into());
    let wanted = should(&[("command", "true".into()), ("shell", true.into()), ("unless", guard)]);
    let refusal = "the guard `[redacted]` (unless) tried to change the machine and was refused";
    assert_eq!(noop(&bench, &wanted), refused("unless", refusal));
}

#[test]
fn guard_refused_by_kernel_is_named() {
    let fails = "echo 'x: Operation not permitted' >&2; exit 4";
    // The exit code of a negation says the opposite of the truth.
    for guard in [fails.to_owned(), format!("! ({fails})")] {
        let refusal =
            format!("the guard `{guard}` (unless) was probably refused an operation (x: Operation not permitted)");
        assert_eq!(noop(&ExecFixture::new(), &guarded("unless", guard)), refused("unless", &refusal));
    }
}
