use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use kilter_model::Difference;
use kilter_provider::{Interrupt, check};

use super::*;

mod confined;
mod guards;
mod surroundings;

struct ExecFixture {
    provider: ExecProvider,
    scratch: tempfile::TempDir,
}

impl ExecFixture {
    fn new() -> ExecFixture {
        ExecFixture { provider: ExecProvider::new(System::real()), scratch: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).to_str().unwrap().to_owned()
    }

    fn lines(&self, name: &str) -> usize {
        std::fs::read_to_string(self.path(name)).map_or(0, |text| text.lines().count())
    }

    /// Waits until a command has written the first line of its log. Only a hang reaches the minute.
    fn until_begun(&self) {
        let begun = Instant::now();
        while self.lines("log") == 0 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
    }

    fn checked(&self, should: &Attributes) -> Result<Vec<Difference>, ProviderError> {
        let name = "work".into();
        let wanted = [Wanted::new(&name, Some(should))];
        check(&self.provider, &Context::empty(), &wanted).remove(0).map(|found| found.differences)
    }

    fn check(&self, should: &Attributes) -> Vec<Difference> {
        self.checked(should).unwrap()
    }

    fn set(&self, should: &Attributes) -> Outcome {
        self.set_refreshing(should, false)
    }

    fn set_refreshing(&self, should: &Attributes, refresh: bool) -> Outcome {
        let is = State::present("work", Attributes::new());
        let change =
            Change { name: &"work".into(), is: &is, should: Some(should), differences: &[], refresh, received: &[] };
        self.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0)
    }

    fn refresh(&self, should: &Attributes) -> Outcome {
        self.provider.refresh(&Context::empty(), Wanted::new(&"work".into(), Some(should)))
    }
}

fn should(attributes: &[(&str, Value)]) -> Attributes {
    let mut should: Attributes = attributes.iter().map(|(name, value)| (*name, value.clone())).collect();
    let schema = schema::schema();
    for (name, value) in should.iter() {
        let data_type = &schema.find(name.as_str()).unwrap().data_type;
        assert_eq!(data_type.check(value).map_err(|mismatch| format!("{name} {mismatch}")), Ok(()));
    }
    should.set("returns", should.get("returns").cloned().unwrap_or(Value::Integer(0)));
    should
}

fn sh(script: impl Into<String>) -> Attributes {
    should(&[("command", Value::from(script.into())), ("shell", true.into())])
}

fn with(mut should: Attributes, name: &str, value: impl Into<Value>) -> Attributes {
    should.set(name, value);
    should
}

/// Returns a command as a mapping.
fn mapping(entries: &[(&str, Value)]) -> Value {
    Value::hash(entries.iter().map(|(key, value)| (*key, value.clone())))
}

fn failure(outcome: &Outcome) -> &str {
    outcome.failure.as_deref().unwrap()
}

#[test]
fn creates_is_checked_without_a_process() {
    let bench = ExecFixture::new();
    let file = bench.path("made");
    let wanted = should(&[("command", format!("touch {file}").into()), ("creates", file.clone().into())]);
    assert_eq!(bench.provider.placement(&wanted), Placement::Inline);
    assert_eq!(bench.provider.set_placement(&wanted), Placement::Worker);
    let differences = bench.check(&wanted);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].message.as_deref(), Some(format!("`{file}` (creates) does not exist").as_str()));
    assert!(bench.set(&wanted).is_done());
    assert_eq!(bench.check(&wanted), []);
    assert_eq!(bench.check(&wanted), []);
}

#[test]
fn ineffective_command_fails_with_reason() {
    let bench = ExecFixture::new();
    let wanted = should(&[("command", "true".into()), ("creates", "/no/such/file".into())]);
    assert!(bench.set(&wanted).is_done());
    let differences = bench.check(&wanted);
    let message = differences[0].message.as_deref().unwrap();
    assert!(message.contains("succeeded, but its guard still requires it: `/no/such/file` (creates)"), "{message}");
    let later = bench.check(&wanted);
    assert!(!later[0].message.as_deref().unwrap().contains("succeeded"), "{later:?}");
}

#[test]
fn command_without_guard_always_runs() {
    let bench = ExecFixture::new();
    let wanted = sh(format!("echo x >> {}", bench.path("log")));
    for _ in 0..2 {
        assert_eq!(bench.check(&wanted).len(), 1);
        assert!(bench.set(&wanted).is_done());
        assert_eq!(bench.check(&wanted), []);
    }
    assert_eq!(bench.lines("log"), 2);
}

#[test]
fn plan_gives_reason_for_command() {
    let bench = ExecFixture::new();
    let told = |wanted: &Attributes| {
        let differences = bench.check(wanted);
        assert_eq!(differences.len(), 1);
        format!("{}: {}", differences[0].attribute, differences[0].message.as_deref().unwrap())
    };
    let wanted = sh("true");
    assert_eq!(told(&wanted), "command: runs every time: it has no `creates`, `unless` or `onlyif`");
    assert_eq!(told(&with(wanted, "creates", "/no/such/file")), "command: `/no/such/file` (creates) does not exist");
}

#[test]
fn failed_command_counts_as_not_run() {
    let bench = ExecFixture::new();
    let wanted = sh("exit 1");
    assert!(!bench.set(&wanted).is_done());
    assert_eq!(bench.check(&wanted).len(), 1);
}

#[test]
fn command_runs_only_if_all_guards_require_it() {
    let bench = ExecFixture::new();
    let (yes, no) = (Value::from("true"), Value::from("false"));
    for (unless, onlyif, is_due) in [
        (no.clone(), yes.clone(), true),
        (yes.clone(), yes.clone(), false),
        (no.clone(), no.clone(), false),
        (Value::array([no.clone(), yes.clone()]), yes.clone(), false),
        (Value::array([no.clone(), Value::strings(["false", "with words"])]), Value::array([yes.clone(), yes]), true),
    ] {
        let wanted = should(&[("command", "true".into()), ("unless", unless), ("onlyif", onlyif)]);
        assert_eq!(bench.provider.placement(&wanted), Placement::Worker);
        assert_eq!(!bench.check(&wanted).is_empty(), is_due, "{wanted:?}");
    }
}

#[test]
fn guard_that_cannot_start_is_an_error() {
    let bench = ExecFixture::new();
    let refused = |guard: &str, timeout: Value| {
        let wanted = should(&[("command", "true".into()), ("unless", guard.into()), ("timeout", timeout)]);
        bench.checked(&wanted).unwrap_err().to_string()
    };
    let missing = refused("no-such-program -x", Value::Integer(0));
    assert!(missing.contains("`no-such-program -x` (unless)") && missing.contains("not in the path"), "{missing}");
    assert!(refused("sleep 20", Value::Float(0.1)).contains("longer than 0.1 s"));
    assert!(refused("sh -c 'kill -9 0'", Value::Integer(9)).contains("signal 9"));
}

#[test]
fn refreshonly_runs_only_at_a_refresh() {
    let bench = ExecFixture::new();
    let wanted = with(sh(format!("echo x >> {}", bench.path("log"))), "refreshonly", true);
    assert_eq!(bench.check(&wanted), []);
    assert!(bench.refresh(&wanted).refreshed);
    assert_eq!(bench.lines("log"), 1);
    let guarded = with(wanted, "onlyif", "false");
    assert!(bench.refresh(&guarded).is_done());
    assert_eq!(bench.lines("log"), 1);
}

#[test]
fn refresh_runs_the_refresh_command_if_declared() {
    let bench = ExecFixture::new();
    let (run, reload) = (format!("echo x >> {}", bench.path("run")), format!("echo x >> {}", bench.path("reload")));
    let wanted = with(sh(run), "refresh", reload);
    assert!(bench.refresh(&wanted).refreshed);
    assert_eq!((bench.lines("run"), bench.lines("reload")), (0, 1));
    assert!(bench.set_refreshing(&wanted, true).refreshed);
    assert_eq!((bench.lines("run"), bench.lines("reload")), (1, 2));
}

#[test]
fn run_of_command_serves_pending_refresh() {
    let bench = ExecFixture::new();
    let wanted = sh(format!("echo x >> {}", bench.path("log")));
    assert!(bench.set_refreshing(&wanted, true).refreshed);
    assert!(!bench.set(&wanted).refreshed);
    assert_eq!(bench.lines("log"), 2);
    assert!(!bench.set_refreshing(&sh("exit 1"), true).refreshed);
}

#[test]
fn outputs_have_no_line_breaks_at_the_end() {
    let outcome =
        ExecFixture::new().set(&with(sh("printf 'a\\nb\\n\\n'; echo e >&2; exit 3"), "returns", Value::Integer(3)));
    let outputs = outcome.outputs;
    assert_eq!((outputs.text("stdout"), outputs.text("stderr")), (Some("a\nb"), Some("e")));
    assert_eq!(outputs.text("output"), Some("a\nb\n\ne"));
    assert_eq!(outputs.get("exit_code"), Some(&Value::Integer(3)));
}

#[test]
fn refresh_command_does_not_set_outputs() {
    let bench = ExecFixture::new();
    let wanted = sh("echo token");
    assert_eq!(bench.refresh(&wanted).outputs.text("stdout"), Some("token"));
    for refresh in ["echo reloaded", "echo reloaded; exit 1"] {
        let refreshed = bench.refresh(&with(wanted.clone(), "refresh", refresh));
        assert_eq!((refreshed.is_done(), refreshed.refreshed), (refresh.len() < 15, refresh.len() < 15));
        assert_eq!(refreshed.outputs, Attributes::new());
    }
    let both = bench.set_refreshing(&with(wanted, "refresh", "echo reloaded"), true);
    assert_eq!(both.outputs.text("stdout"), Some("token"));
}

#[test]
fn failure_has_exit_code_and_end_of_stderr() {
    let bench = ExecFixture::new();
    let outcome = bench.set(&sh("for i in $(seq 50); do echo line $i >&2; done; exit 3"));
    let text = failure(&outcome);
    assert!(text.contains("returned 3 instead of 0"), "{text}");
    assert!(text.ends_with("line 50") && text.contains("line 41\n") && !text.contains("line 40\n"), "{text}");
    let silent = bench.set(&with(sh("echo why >&2; exit 3"), "logoutput", false));
    assert!(!failure(&silent).contains("\nwhy"));
    assert!(failure(&bench.set(&sh("echo only-out; exit 1"))).ends_with("only-out"));
    assert!(failure(&bench.set(&sh("kill -9 $$"))).contains("signal 9"));
}

#[test]
fn logoutput_reports_output() {
    let outcome = ExecFixture::new().set(&with(sh("echo a; echo b >&2"), "logoutput", true));
    assert_eq!(outcome.notes, ["a", "b"]);
}

#[test]
fn exec_redacts_secrets_everywhere() {
    let bench = ExecFixture::new();
    let secret = Value::sensitive("hunter2".into());
    let in_script = with(sh("x"), "command", Value::sensitive("echo hunter2; echo my hunter2 >&2; exit 1".into()));
    let in_words = should(&[
        ("command", Value::array(["sh".into(), "-c".into(), "echo $0 $X >&2; exit 1".into(), secret.clone()])),
        ("environment", Value::hash([("X", secret)])),
        ("logoutput", true.into()),
    ]);
    for wanted in [in_script, in_words] {
        assert_eq!(bench.provider.validate("work", &wanted, &[]), []);
        let outcome = bench.set(&wanted);
        assert!(!outcome.is_done());
        let mut all = format!("{outcome:?}");
        bench.provider.auto_edges("work", &wanted, &mut |edge| all.push_str(&format!("{edge:?}")));
        all.push_str(&format!("{:?}", bench.check(&wanted)));
        assert!(!all.contains("hunter2"), "{all}");
        assert!(outcome.outputs.get("stderr").unwrap().holds_sensitive());
    }
}

#[test]
fn command_has_declared_environment() {
    let bench = ExecFixture::new();
    let cwd = std::fs::canonicalize(bench.scratch.path()).unwrap();
    let wanted = should(&[
        ("command", "echo $A $B $PATH $(umask) $(pwd -P) $LANG ${HOME-none}".into()),
        ("shell", "/bin/sh".into()),
        ("environment", Value::strings(["A=1", "B=2=3"])),
        ("path", Value::strings(["/usr/bin", "/bin"])),
        ("umask", "0027".into()),
        ("cwd", cwd.to_str().unwrap().into()),
    ]);
    let outcome = bench.set(&wanted);
    let expected = format!("1 2=3 /usr/bin:/bin 0027 {} C.UTF-8 none", cwd.display());
    assert_eq!(outcome.outputs.text("stdout"), Some(expected.as_str()));
}

#[test]
fn it_runs_as_the_user_and_group_declared() {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: only root can become another user");
    let bench = ExecFixture::new();
    let id = |attributes: &[(&str, Value)]| {
        let wanted = attributes.iter().fold(sh("echo $(id -u) $(id -g) $(id -G)"), |w, (n, v)| with(w, n, v.clone()));
        let outcome = bench.set(&wanted);
        outcome.outputs.text("stdout").map_or_else(|| failure(&outcome).to_owned(), str::to_owned)
    };
    assert_eq!(id(&[("user", "nobody".into())]), "65534 65534 65534");
    assert_eq!(id(&[("user", "nobody".into()), ("group", "daemon".into())]), "65534 1 1");
    assert_eq!(id(&[("user", Value::Integer(65534))]), "65534 65534 65534");
    assert_eq!(id(&[("user", Value::Integer(4321)), ("group", Value::Integer(8765))]), "4321 8765 8765");
    assert!(id(&[("user", "no-such-user".into())]).contains("no user `no-such-user`"));
    assert!(id(&[("group", "no-such-group".into())]).contains("no group `no-such-group`"));
}

#[test]
fn user_number_of_minus_one_is_refused() {
    let bench = ExecFixture::new();
    for (attribute, account) in [
        ("user", Value::from("4294967295")),
        ("user", Value::Integer(4_294_967_295)),
        // A name service would read these as 0.
        ("user", "4294967296".into()),
        ("user", " 0".into()),
        ("user", "+4294967296".into()),
        ("group", "4294967295".into()),
        ("group", Value::Integer(-1)),
    ] {
        let wanted = with(with(sh("id -u"), "group", Value::Integer(65534)), attribute, account.clone());
        let problems = bench.provider.validate("work", &wanted, &[]);
        assert_eq!(problems.len(), 1, "{account:?} {problems:?}");
        assert!(problems[0].to_string().contains("is not an account number"), "{}", problems[0]);
        assert!(!bench.set(&wanted).is_done(), "{account:?}");
        let guarded = with(wanted, "onlyif", "true");
        let why = bench.checked(&guarded).unwrap_err().to_string();
        assert!(why.contains("is not an account number"), "{why}");
    }
}

#[test]
fn cwd_is_entered_as_the_declared_user() {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: only root can become another user");
    let bench = ExecFixture::new();
    std::fs::set_permissions(bench.scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let wanted = with(with(sh("pwd"), "user", "nobody"), "cwd", bench.scratch.path().to_str().unwrap());
    let outcome = bench.set(&wanted);
    let why = failure(&outcome);
    assert!(why.contains("cannot enter the working directory") && why.contains("Permission denied"), "{why}");
}

#[test]
fn guard_with_missing_cwd_requires_the_command() {
    let bench = ExecFixture::new();
    let cwd = bench.path("later");
    let wanted = with(with(sh("true"), "unless", "true"), "cwd", cwd.clone());
    let differences = bench.check(&wanted);
    let why = format!("its working directory {cwd} does not exist yet");
    assert_eq!(differences[0].message.as_deref(), Some(why.as_str()));
    let creates = with(with(sh("true"), "creates", "/etc/passwd"), "cwd", cwd.clone());
    assert_eq!(bench.check(&creates), []);
    let outcome = bench.set(&wanted);
    assert!(failure(&outcome).contains("cannot enter the working directory"), "{outcome:?}");
    std::fs::create_dir(cwd).unwrap();
    assert_eq!(bench.check(&wanted), []);
}

#[test]
fn timeout_ends_process_group_without_retry() {
    let bench = ExecFixture::new();
    let wanted =
        with(sh(format!("echo x >> {}; sleep 43.21 & sleep 43.21", bench.path("log"))), "timeout", Value::Float(2.0));
    let start = Instant::now();
    let outcome = bench.set(&with(wanted, "tries", Value::Integer(3)));
    assert!(failure(&outcome).contains("longer than 2 s"), "{outcome:?}");
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    assert_eq!(bench.lines("log"), 1);
    let is_running = |entry: std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.windows(5).any(|part| part == b"43.21"))
    };
    assert!(!Path::new("/proc").read_dir().unwrap().filter_map(Result::ok).any(is_running));
}

#[test]
fn command_is_retried_until_success() {
    let bench = ExecFixture::new();
    let log = bench.path("log");
    let wanted = with(sh(format!("echo x >> {log}; test $(wc -l < {log}) -eq 3")), "tries", Value::Integer(5));
    assert!(bench.set(&wanted).is_done());
    assert_eq!(bench.lines("log"), 3);
    let outcome = bench.set(&with(sh("exit 1"), "tries", Value::Integer(2)));
    assert!(failure(&outcome).contains("(tried 2 times)"), "{outcome:?}");
}

#[test]
fn an_interrupt_ends_the_command() {
    let bench = ExecFixture::new();
    let flag = AtomicBool::new(false);
    let cx = Context::empty().with_interrupt(Interrupt::new(&flag, None));
    let (is, wanted) = (State::default(), sh(format!("echo x >> {}; sleep 600", bench.path("log"))));
    let name = "work".into();
    let change = Change::new(&name, &is, Some(&wanted), &[]);
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| bench.provider.set(&cx, &[change], Mode::Apply).remove(0));
        bench.until_begun();
        flag.store(true, std::sync::atomic::Ordering::Release);
        running.join().unwrap()
    });
    assert!(failure(&outcome).contains("interrupted"), "{outcome:?}");
}

#[test]
fn an_interrupt_ends_a_pause_of_any_length() {
    let bench = ExecFixture::new();
    let flag = AtomicBool::new(false);
    let cx = Context::empty().with_interrupt(Interrupt::new(&flag, None));
    let mut wanted = sh(format!("echo x >> {}; exit 1", bench.path("log")));
    wanted.set("tries", Value::Integer(2));
    wanted.set("try_sleep", Value::Integer(i64::MAX));
    let is = State::default();
    let name = "work".into();
    let change = Change::new(&name, &is, Some(&wanted), &[]);
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| bench.provider.set(&cx, &[change], Mode::Apply).remove(0));
        bench.until_begun();
        flag.store(true, std::sync::atomic::Ordering::Release);
        running.join().unwrap()
    });
    assert!(!outcome.is_done(), "{outcome:?}");
    assert_eq!(bench.lines("log"), 1);
}

#[test]
fn sensitive_path_is_redacted() {
    let bench = ExecFixture::new();
    let secret = bench.path("secret");
    let wanted = should(&[("command", "true".into()), ("creates", Value::sensitive(secret.clone().into()))]);
    let told = format!("{:?}", bench.check(&wanted));
    assert!(told.contains("does not exist") && !told.contains(&secret), "{told}");
    let relative = [("command", "true".into()), ("creates", Value::sensitive("some/secret".into()))];
    let problems = bench.provider.validate("work", &should(&relative), &[]);
    assert_eq!(problems[0].to_string(), "creates: `[redacted]` is not an absolute path");
}

#[test]
fn preview_runs_only_guards() {
    let bench = ExecFixture::new();
    let wanted = sh(format!("echo x >> {}", bench.path("log")));
    let is = State::default();
    let name = "work".into();
    let change = Change::new(&name, &is, Some(&wanted), &[]);
    assert!(bench.provider.set(&Context::empty(), &[change], Mode::Preview)[0].is_done());
    assert_eq!(bench.lines("log"), 0);
    assert_eq!(bench.check(&wanted).len(), 1);
}

#[test]
fn title_is_default_command() {
    let bench = ExecFixture::new();
    let validate = |name: &str, wanted: &Attributes, deferred: &[&str]| bench.provider.validate(name, wanted, deferred);
    assert_eq!(validate("echo hello", &should(&[]), &[]), []);
    assert_eq!(validate("make | it so", &should(&[]), &[]).len(), 1);
    assert_eq!(validate("make | it so", &should(&[]), &["command"]), []);
    assert_eq!(validate("make | it so", &should(&[("command", "true".into())]), &[]), []);
    assert_eq!(validate("make | it so", &should(&[("shell", true.into())]), &[]), []);
}

#[test]
fn invalid_exec_is_refused_with_hint() {
    let bench = ExecFixture::new();
    for (attributes, attribute, words) in [
        (vec![("command", Value::from("a | b"))], "command", "add `shell: true`"),
        (vec![("command", "echo 'a".into())], "command", "closing '"),
        (vec![("command", "./configure".into())], "command", "give `cwd`"),
        (vec![("unless", Value::strings(["test", "-e", "/x"]))], "unless", "[[test, -e, /x]]"),
        (vec![("onlyif", "test $X".into())], "onlyif", "add `shell: true`"),
        (vec![("refresh", "a && b".into())], "refresh", "add `shell: true`"),
        (vec![("creates", "relative".into())], "creates", "not an absolute path"),
        (vec![("cwd", "relative".into())], "cwd", "not an absolute path"),
        (vec![("path", "/bin:relative".into())], "path", "not an absolute path"),
        (vec![("environment", "no-value".into())], "environment", "NAME=value"),
        (vec![("done", mapping(&[("command", "a | b".into())]))], "done", "add `shell: true`"),
        (vec![("unless", mapping(&[("command", "a".into()), ("cwd", "b".into())]))], "unless", "not an absolute path"),
    ] {
        let problems = bench.provider.validate("true", &should(&attributes), &[]);
        assert_eq!(problems.len(), 1, "{attributes:?} {problems:?}");
        assert_eq!(problems[0].attribute.as_ref().map(|name| name.as_str()), Some(attribute));
        assert!(problems[0].to_string().contains(words), "{}", problems[0]);
    }
}

#[test]
fn exec_requires_its_files_and_accounts() {
    let mut edges = Vec::new();
    let wanted = should(&[
        ("command", Value::array(["/opt/app/bin/run".into(), Value::Integer(5)])),
        ("unless", Value::array(["/opt/check -x".into(), "test -e /x".into()])),
        (
            "done",
            mapping(&[("command", "/opt/mark | cat".into()), ("cwd", "/srv/done".into()), ("shell", "/opt/sh".into())]),
        ),
        ("cwd", "/srv/app".into()),
        ("path", "/opt/bin/:/bin:here".into()),
        ("user", "app".into()),
        ("group", Value::Integer(33)),
    ]);
    ExecFixture::new().provider.auto_edges("work", &wanted, &mut |edge| {
        edges.push(format!("{} {} {:?} {:?}", edge.type_name, edge.name, edge.by, edge.direction));
    });
    let expected = [
        "file /srv/app PathOrAncestor Before",
        "file /srv/done PathOrAncestor Before",
        "user app Name Before",
        "group 33 Name Before",
        "file /opt/app/bin/run Name Before",
        "file /opt/mark Name Before",
        "file /opt/check Name Before",
        "file /opt/bin/test Owner Before",
        "file /bin/test Owner Before",
        "file /opt/sh Name Before",
    ];
    assert_eq!(edges, expected);
}

#[test]
fn independent_commands_run_concurrently() {
    assert_eq!(ExecFixture::new().provider.batch_size(), Batch::One);
}

#[test]
fn done_command_decides_about_success() {
    let bench = ExecFixture::new();
    let log = bench.path("log");
    let wanted = with(sh(format!("echo first >> {log}")), "done", format!("echo then >> {log}"));
    assert!(bench.set(&wanted).is_done());
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "first\nthen\n");
    let failing = bench.set(&with(wanted.clone(), "done", "exit 3"));
    assert!(failure(&failing).contains("returned 3"), "{failing:?}");
    let wanted = with(sh("exit 1"), "done", format!("echo then >> {log}"));
    assert!(!bench.set(&wanted).is_done());
    assert_eq!(bench.lines("log"), 3);
}

#[test]
fn verify_false_skips_second_guard_check() {
    let bench = ExecFixture::new();
    let wanted = with(with(sh("true"), "onlyif", "true"), "verify", false);
    assert_eq!(bench.check(&wanted).len(), 1);
    assert!(bench.set(&wanted).is_done());
    assert_eq!(bench.check(&wanted), []);
    // The next check runs the guards again.
    assert_eq!(bench.check(&wanted).len(), 1);
}

/// A command with `mtimes`, and its state directory.
struct Heeding {
    bench: ExecFixture,
    state: std::path::PathBuf,
    wanted: Attributes,
}

impl Heeding {
    /// Creates a command with the existing file `input` in `mtimes`.
    fn new(script: &str) -> Heeding {
        let bench = ExecFixture::new();
        let (input, state) = (bench.path("input"), bench.scratch.path().join("state"));
        std::fs::write(&input, "0").unwrap();
        let wanted = with(with(sh(script.replace("INPUT", &input)), "onlyif", "false"), "mtimes", input);
        Heeding { bench, state, wanted }
    }

    fn input(&self) -> String {
        self.bench.path("input")
    }

    fn edit(&self, text: &str) {
        std::fs::write(self.input(), text).unwrap();
    }

    fn at(&self, time: SystemTime) {
        std::fs::File::options().write(true).open(self.input()).unwrap().set_modified(time).unwrap();
    }

    fn look(&self) -> Result<Option<EcoString>, EcoString> {
        let cx = Context::empty().with_var_dir(Some(&self.state));
        let state = self.bench.provider.get_one(&cx, Wanted::new(&"work".into(), Some(&self.wanted)));
        let state = state.map_err(|error| error.message)?;
        Ok(state.drift.first().and_then(|difference| difference.message.clone()))
    }

    /// Returns the reason to run the command, if there is one.
    fn due(&self) -> Option<EcoString> {
        self.look().unwrap()
    }

    /// Runs the command and checks it afterwards, as the engine does. Returns the reason for another run, and the
    /// notes.
    fn run(&self) -> (Option<EcoString>, Vec<EcoString>) {
        let cx = Context::empty().with_var_dir(Some(&self.state));
        let (name, is) = ("work".into(), State::present("work", Attributes::new()));
        let change = Change::new(&name, &is, Some(&self.wanted), &[]);
        let outcome = self.bench.provider.set(&cx, &[change], Mode::Apply).remove(0);
        assert_eq!(outcome.failure, None);
        (self.due(), outcome.notes)
    }

    fn kept(&self) -> std::path::PathBuf {
        self.state.join("kept/exec/work")
    }
}

#[test]
fn modified_mtimes_file_requires_command_despite_guards() {
    let heeding = Heeding::new("true");
    std::fs::remove_file(heeding.input()).unwrap();
    assert!(heeding.look().unwrap_err().contains("cannot read the modification time"));
    heeding.edit("0");
    let ago = |seconds| SystemTime::now() - Duration::from_secs(seconds);
    heeding.at(ago(60));
    assert!(heeding.due().unwrap().contains("has not run since"));
    assert_eq!(heeding.run(), (None, Vec::new()));
    assert_eq!(heeding.due(), None);
    let is_modified = || heeding.due().is_some_and(|why| why.ends_with("(mtimes) was modified since it ran"));
    // The time may be older, because a replacement can have an older time.
    heeding.at(ago(90));
    assert!(is_modified());
    assert_eq!(heeding.run(), (None, Vec::new()));
    heeding.at(SystemTime::now() + Duration::from_secs(3600));
    assert!(is_modified());
    assert_eq!(heeding.run(), (None, Vec::new()), "a time to come is one like any other");
    let looks = Context::empty().with_noop(true);
    std::fs::remove_file(heeding.input()).unwrap();
    let state = heeding.bench.provider.get_one(&looks, Wanted::new(&"work".into(), Some(&heeding.wanted))).unwrap();
    assert!(state.drift[0].message.as_deref().unwrap().contains("does not exist yet"));
}

#[test]
fn each_modification_requires_one_run() {
    let heeding = Heeding::new("true");
    for at in 0..10 {
        heeding.edit(&at.to_string());
        assert!(heeding.due().is_some(), "edit {at}, of the same length");
        assert_eq!(heeding.run(), (None, Vec::new()), "edit {at}");
        assert_eq!(heeding.due(), None, "edit {at}");
    }
}

#[test]
fn replaced_file_with_equal_mtime_and_size_is_a_modification() {
    let heeding = Heeding::new("true");
    let time = SystemTime::now() - Duration::from_secs(60);
    heeding.at(time);
    assert_eq!(heeding.run(), (None, Vec::new()));
    let other = heeding.bench.path("other");
    std::fs::write(&other, "1").unwrap();
    std::fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
    std::fs::rename(&other, heeding.input()).unwrap();
    assert!(heeding.due().is_some());
}

#[test]
fn modification_during_command_requires_another_run() {
    let heeding = Heeding::new("grep -q 0 INPUT && echo 1 > INPUT || true");
    let (due, notes) = heeding.run();
    assert_eq!(due, None, "it has done its work");
    assert_eq!(notes.len(), 1);
    assert!(notes[0].ends_with("(mtimes) was modified while the command ran, and requires it again"), "{notes:?}");
    assert!(heeding.due().unwrap().contains("was modified since it ran"));
    assert_eq!(heeding.run(), (None, Vec::new()));
    assert_eq!(heeding.due(), None);
}

#[test]
fn mtimes_record_of_earlier_version_requires_one_run() {
    let heeding = Heeding::new("true");
    assert_eq!(heeding.run().0, None);
    std::fs::write(heeding.kept(), "4000000000000000000\n").unwrap();
    assert!(heeding.due().is_some());
    assert_eq!(heeding.run().0, None);
    assert_eq!(heeding.due(), None);
}

#[test]
fn watch_is_known_before_the_run() {
    let provider = ExecProvider::new(System::real());
    let wanted = with(sh("true"), "watch", "sleep 1");
    let said = |deferred: &[&str]| provider.validate("work", &wanted, deferred).len();
    assert_eq!((said(&[]), said(&["user"]), said(&["environment", "stop_signal"]), said(&["command"])), (0, 1, 2, 0));
    assert_eq!(provider.validate("work", &sh("true"), &["watch"]).len(), 1);
    assert_eq!(provider.validate("work", &sh("true"), &["user"]).len(), 0);
    for attribute in ["watchfiles", "mtimes", "watch"] {
        let problems = provider.validate("work", &sh("true"), &[attribute]);
        let [problem] = &problems[..] else { panic!("{attribute}: {problems:?}") };
        assert!(problem.hint.is_some() && problem.message.ends_with("must be known before the run"), "{problem:?}");
        assert_eq!(problem.message.contains("`watch`"), attribute == "watch", "{problem:?}");
    }
}

#[test]
fn done_command_runs_after_refresh() {
    let bench = ExecFixture::new();
    let log = bench.path("log");
    let wanted =
        with(with(sh(format!("echo ran >> {log}")), "done", format!("echo done >> {log}")), "refreshonly", true);
    assert!(bench.refresh(&wanted).refreshed);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ran\ndone\n");
    assert!(!bench.refresh(&with(wanted.clone(), "done", "exit 1")).refreshed);
    // A command for refreshes replaces the main command.
    assert!(bench.refresh(&with(wanted, "refresh", format!("echo refreshed >> {log}"))).refreshed);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ran\ndone\nran\nrefreshed\n");
}

#[test]
fn exec_without_state_is_event_handler() {
    let provider = ExecProvider::new(System::real());
    let guarded = with(sh("true"), "onlyif", "true");
    let made = with(guarded.clone(), "creates", "/made");
    for (wanted, does_jobs) in [
        (sh("true"), true),
        (guarded.clone(), false),
        (made.clone(), false),
        (with(guarded.clone(), "watchfiles", "/in"), false),
        (with(with(guarded.clone(), "watchfiles", "/in"), "verify", false), true),
        (with(made, "mtimes", "/in"), true),
        (with(guarded, "watch", "sleep 1"), false),
    ] {
        assert_eq!(provider.purpose(&wanted) != Purpose::State, does_jobs, "{wanted:?}");
    }
}

#[test]
fn exec_without_verify_is_not_polled() {
    let provider = ExecProvider::new(System::real());
    let asked = with(sh("true"), "onlyif", "true");
    assert_eq!(provider.watches("work", &asked), [WatchSource::Poll(POLL)]);
    assert_eq!(provider.watches("work", &with(asked.clone(), "verify", false)), []);
    assert_eq!(provider.watches("work", &with(asked, "watch", "sleep 1")), [WatchSource::ProviderPerResource]);
    let root = WatchSource::Path { path: "/".into(), scope: Scope::Entries };
    assert_eq!(provider.watches("work", &with(sh("true"), "watchfiles", "/")), [root]);
}
