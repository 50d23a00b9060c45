use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_process::{Cancel, Output, SpawnError, Status};
use kilter_provider::{Found, canonicalize_one, check, get_checked};

use super::*;
use crate::accounts::Runner;
use crate::service::fake::{FakeSystemd, FakeUnit};

/// A systemd-analyze that does not know `never`.
#[derive(Default)]
struct Analyze(Mutex<Vec<String>>);

impl Runner for Analyze {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        let words: Vec<String> = invocation.args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let is_bad = words.iter().any(|word| word == "never");
        self.0.lock().unwrap().push(words.join(" "));
        Ok(Output::of(Status::Code(is_bad.into())))
    }
}

struct TimerBench {
    root: tempfile::TempDir,
    systemd: FakeSystemd,
    analyze: Arc<Analyze>,
    provider: SystemdTimerProvider,
}

impl TimerBench {
    fn new() -> TimerBench {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("etc/systemd/system")).unwrap();
        std::fs::write(root.path().join("etc/passwd"), "backup:x:34:34::/:/bin/sh\n").unwrap();
        std::fs::create_dir(root.path().join("bin")).unwrap();
        for program in ["backup", "true", "false"] {
            let path = root.path().join("bin").join(program);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let systemd = FakeSystemd::new([("other.timer", FakeUnit::disabled())]);
        systemd.load_from(&root.path().join("etc/systemd/system"));
        let analyze = Arc::new(Analyze::default());
        let system = System::new(root.path(), analyze.clone());
        let provider = SystemdTimerProvider::on(system, systemd.provider());
        TimerBench { root, systemd, analyze, provider }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join("etc/systemd/system").join(name)
    }

    fn found(&self, should: &Attributes) -> Result<Found, ProviderError> {
        check(&self.provider, &Context::empty(), &[Wanted::new(&"job".into(), Some(should))]).remove(0)
    }

    fn differs(&self, should: &Attributes) -> Vec<String> {
        let text = |one: &Difference| one.message.as_ref().unwrap_or(&one.attribute.as_str().into()).to_string();
        self.found(should).unwrap().differences.iter().map(text).collect()
    }

    fn set(&self, should: &Attributes, mode: Mode) -> Outcome {
        let name = "job".into();
        let is = State::absent("job");
        let cx = Context::empty().with_preview_context(&kilter_provider::NoPendingChanges);
        self.provider.set(&cx, &[Change::new(&name, &is, Some(should), &[])], mode).remove(0)
    }

    #[track_caller]
    fn converges(&self, should: &Attributes) {
        assert_ne!(self.differs(should), [""; 0]);
        assert_eq!(self.set(should, Mode::Apply), Outcome::done());
        assert_eq!(self.differs(should), [""; 0]);
    }
}

/// Returns a declaration in canonical form.
fn should(attributes: &[(&str, Value)]) -> Attributes {
    let mut should = Attributes::from_iter([("ensure", Value::from("present"))]);
    attributes.iter().for_each(|(name, value)| should.set(*name, value.clone()));
    let provider = SystemdTimerProvider::new();
    canonicalize_one(&provider, &Context::empty(), &mut "job".into(), &mut should).unwrap();
    should
}

fn job() -> Attributes {
    should(&[("command", "/bin/backup 'a b'".into()), ("on_calendar", "daily".into()), ("persistent", true.into())])
}

#[test]
fn timer_is_written_enabled_and_started() {
    let bench = TimerBench::new();
    bench.converges(&job());
    assert_eq!(bench.systemd.calls(), ["reload", "enable job.timer", "reload", "start job.timer"]);
    let service = std::fs::read_to_string(bench.file("job.service")).unwrap();
    assert!(service.ends_with("\n[Service]\nType=oneshot\nExecStart=/bin/backup \"a b\"\n"), "{service}");
    let mut changed = job();
    changed.set("user", "backup");
    bench.converges(&changed);
    assert_eq!(bench.systemd.calls()[0], "reload");
    assert_eq!(bench.differs(&job()), [""; 0], "an undeclared attribute keeps its value");
    bench.converges(&should(&[("ensure", "absent".into())]));
    assert_eq!(bench.systemd.calls(), ["stop job.timer", "disable job.timer", "reload", "reload"]);
    assert!(!bench.file("job.timer").exists() && !bench.file("job.service").exists());
}

#[test]
fn damage_is_found_and_repaired() {
    let bench = TimerBench::new();
    bench.converges(&job());
    bench.systemd.change("job.timer", |unit| unit.active = "inactive".into());
    assert_eq!(bench.differs(&job()), ["not running"]);
    bench.converges(&job());
    bench.systemd.change("job.timer", |unit| unit.file = "disabled".into());
    assert_eq!(bench.differs(&job()), ["not enabled"]);
    bench.converges(&job());
    bench.systemd.change("job.service", |unit| unit.needs_reload = true);
    assert_eq!(bench.differs(&job()), ["systemd has not read its unit files again"]);
    bench.converges(&job());
    let timer = std::fs::read_to_string(bench.file("job.timer")).unwrap();
    std::fs::write(bench.file("job.timer"), timer.replace("daily", "weekly") + "AccuracySec=1\n").unwrap();
    assert_eq!(bench.differs(&job()), ["on_calendar", "the unit files have other lines"]);
    bench.converges(&job());
    std::fs::remove_file(bench.file("job.service")).unwrap();
    assert_eq!(get_checked(&bench.provider, &Context::empty(), Query::All).unwrap().len(), 1);
    bench.converges(&job());
}

#[test]
fn masked_timer_is_unmasked() {
    let bench = TimerBench::new();
    bench.converges(&job());
    bench.systemd.change("job.timer", |unit| unit.file = "masked".into());
    bench.converges(&job());
}

#[test]
fn units_of_others_stay() {
    let bench = TimerBench::new();
    std::fs::write(bench.file("job.service"), "[Service]\nExecStart=/bin/true\n").unwrap();
    let refused = bench.found(&job()).unwrap_err().to_string();
    assert!(refused.contains("there is a unit job.service that kilter has not written"), "{refused}");
    for declared in [job(), should(&[("ensure", "absent".into())])] {
        assert!(bench.set(&declared, Mode::Apply).failure.is_some());
    }
    assert!(!bench.file("job.timer").exists() && bench.file("job.service").exists());
}

#[test]
fn new_timer_never_replaces_a_unit_of_a_package() {
    let bench = TimerBench::new();
    let directory = bench.root.path().join("lib/systemd/system");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("job.service"), "[Service]\n").unwrap();
    for mode in [Mode::Preview, Mode::Apply] {
        let failed = bench.set(&job(), mode).failure.unwrap();
        assert!(
            failed.contains("there is already a unit") && failed.contains("lib/systemd/system/job.service"),
            "{failed}"
        );
    }
    assert_eq!(std::fs::read_dir(bench.file("")).unwrap().count(), 0);
}

#[test]
fn refused_change_has_no_effect() {
    let bench = TimerBench::new();
    for (more, why) in [
        (&[("command", Value::from("a | b"))][..], "needs a shell"),
        (&[("command", Value::strings(["-x"]))], "not the name of a program"),
        (&[("command", Value::strings(["a\nb"]))], "control character"),
        (&[("user", "a b".into())], "user"),
        (&[("user", "nosuch".into())], "there is no user nosuch"),
        (&[("command", Value::strings(["bin/backup"]))], "`bin/backup` is a relative path"),
        (&[("description", "a\\".into())], "ends with a backslash"),
        (&[("description", Value::sensitive("x".into()))], "all users can read"),
    ] {
        let mut declared = job();
        more.iter().for_each(|(name, value)| declared.set(*name, value.clone()));
        for mode in [Mode::Preview, Mode::Apply] {
            let failed = bench.set(&declared, mode).failure.unwrap();
            assert!(failed.contains(why), "{why}: {failed}");
        }
    }
    let failed = bench.set(&should(&[("command", "true".into())]), Mode::Preview).failure.unwrap();
    assert!(failed.contains("a timer needs `command`, and"), "{failed}");
    assert_eq!(std::fs::read_dir(bench.file("")).unwrap().count(), 0);
}

#[test]
fn missing_program_is_a_note_because_a_package_may_bring_it_later() {
    let bench = TimerBench::new();
    for program in ["/bin/nosuch", "nosuch"] {
        let mut declared = job();
        declared.set("command", Value::strings([program]));
        for mode in [Mode::Preview, Mode::Apply] {
            let outcome = bench.set(&declared, mode);
            let note = format!("there is no program {program}: the command fails until it is installed");
            assert_eq!((outcome.failure, outcome.notes), (None, vec![note.into()]));
        }
    }
    assert_eq!(bench.set(&job(), Mode::Apply).notes, [""; 0]);
}

#[test]
fn times_are_checked_where_systemd_analyze_is_installed() {
    if kilter_process::which(ANALYZE.as_ref(), kilter_process::DEFAULT_PATH.as_ref()).is_none() {
        return;
    }
    let bench = TimerBench::new();
    for attribute in ["on_calendar", "on_boot_sec", "randomized_delay_sec"] {
        let mut declared = job();
        declared.set(attribute, if attribute == "on_calendar" { Value::strings(["never"]) } else { "never".into() });
        let failed = bench.set(&declared, Mode::Preview).failure.unwrap();
        assert!(failed.contains(&format!("{attribute}: systemd-analyze failed")), "{failed}");
    }
    bench.analyze.0.lock().unwrap().clear();
    let calls = || std::mem::take(&mut *bench.analyze.0.lock().unwrap());
    bench.converges(&job());
    assert_eq!(calls(), ["calendar -- daily"]);
    let mut changed = job();
    changed.set("user", "backup");
    bench.converges(&changed);
    assert_eq!(calls(), [""; 0]);
}

#[test]
fn list_has_the_timers_of_kilter() {
    let bench = TimerBench::new();
    bench.converges(&job());
    std::fs::write(bench.file("other.timer"), "[Timer]\nOnCalendar=daily\n").unwrap();
    let states = get_checked(&bench.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["job"]);
    assert_eq!(bench.provider.validate("job", &states[0].attributes, &[]), []);
    assert_eq!(bench.differs(&states[0].attributes), [""; 0]);
}

#[test]
fn bad_names_are_refused() {
    let bench = TimerBench::new();
    for name in ["", "a/b", "x.timer", ".x", "-x", "a b", "x@y"] {
        assert_eq!(bench.provider.validate(name, &job(), &[]).len(), 1, "{name}");
    }
}

fn subject() -> Subject {
    let bench = Arc::new(TimerBench::new());
    bench.systemd.change("other.timer", |unit| unit.result = "failed".into());
    let (of_provider, seen) = (Arc::clone(&bench), Arc::clone(&bench));
    let sample = Sample::new("job")
        .present([
            ("command", Value::strings(["/bin/true", "a b"])),
            ("on_calendar", Value::strings(["daily", "Mon 06:00"])),
            ("description", "a job".into()),
        ])
        .changed([
            ("command", Value::strings(["/bin/false"])),
            ("on_calendar", Value::strings(["weekly"])),
            ("on_boot_sec", "5m".into()),
            ("user", "backup".into()),
            ("persistent", true.into()),
        ]);
    let next = Sample::new("next")
        .present([("command", Value::strings(["true"])), ("on_boot_sec", "5m".into()), ("persistent", true.into())])
        .changed([
            ("command", Value::strings(["false"])),
            ("on_boot_sec", "".into()),
            ("on_unit_active_sec", "1h".into()),
        ]);
    let failing = Sample::new("other")
        .present([("command", Value::strings(["true"])), ("on_calendar", Value::strings(["daily"]))]);
    let provider = move || {
        let system = System::new(of_provider.root.path(), of_provider.analyze.clone());
        SystemdTimerProvider::on(system, of_provider.systemd.provider())
    };
    let fingerprint = move || {
        let files = std::fs::read_dir(seen.file("")).unwrap().flatten();
        let mut texts: Vec<_> =
            files.map(|file| (file.file_name(), std::fs::read_to_string(file.path()).unwrap())).collect();
        texts.sort_unstable();
        format!("{texts:?}{}", seen.systemd.fingerprint())
    };
    Subject::new(provider, fingerprint)
        .specimen(sample)
        .specimen(next)
        .unknown(["nothing"])
        .failing(failing)
        .without(Unsupported::Slow, "a timer starts at once")
        .keeping(bench)
}

#[test]
fn systemd_timer_conforms() {
    let report = Suite::new(subject).run();
    println!("{report}");
    report.assert();
}
