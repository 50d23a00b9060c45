use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_provider::{Interrupt, check};

use super::fake::{FakeSystemd, FakeUnit, ToldEvents, changed, of_manager};
use super::*;

fn attributes<const N: usize>(all: [(&str, &str); N]) -> Attributes {
    Attributes::from_iter(all)
}

/// Reads units, and returns `ensure`, `enable` and `unit_file`.
fn read(provider: &ServiceProvider, name: &str) -> [String; 3] {
    let name = EcoString::from(name);
    let state = provider.get(&Context::empty(), Query::Named(&[Wanted::new(&name, None)])).unwrap().remove(0);
    ["ensure", "enable", "unit_file"].map(|attribute| state.attributes.text(attribute).unwrap_or("-").to_owned())
}

/// Brings a unit to a state, as a run does. Returns the reason of the failure.
fn set<const N: usize>(provider: &ServiceProvider, name: &str, should: [(&str, &str); N]) -> Result<(), EcoString> {
    set_with(provider, &Context::empty(), name, should)
}

fn set_with<const N: usize>(
    provider: &ServiceProvider,
    cx: &Context<'_>,
    name: &str,
    should: [(&str, &str); N],
) -> Result<(), EcoString> {
    let (name, should) = (EcoString::from(name), attributes(should));
    let found = check(provider, cx, &[Wanted::new(&name, Some(&should))]).remove(0).unwrap();
    let change = Change::new(&name, &found.state, Some(&should), &found.differences);
    match provider.set(cx, &[change], Mode::Apply).remove(0).failure {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

fn refresh(provider: &ServiceProvider, name: &str, how: &str) -> Result<(), EcoString> {
    let (name, should) = (EcoString::from(name), attributes([("refresh", how)]));
    provider.refresh(&Context::empty(), Wanted::new(&name, Some(&should))).failure.map_or(Ok(()), Err)
}

#[test]
fn units_are_read_in_the_terms_of_the_type() {
    let of = |file: &str, active: &str| FakeUnit { file: file.into(), active: active.into(), ..FakeUnit::disabled() };
    let systemd = FakeSystemd::new([
        ("a.service", of("enabled", "active")),
        ("b.timer", of("indirect", "inactive")),
        ("c.service", of("masked-runtime", "failed")),
        ("d@x.service", of("enabled-runtime", "activating")),
        ("e.service", of("enabled-runtime", "reloading")),
        ("f.service", of("", "active")),
        ("g.service", of("linked", "deactivating")),
    ]);
    let wants = systemd.root.path().join("generator.late/multi-user.target.wants");
    std::fs::create_dir_all(&wants).unwrap();
    std::os::unix::fs::symlink("/x", wants.join("e.service")).unwrap();
    let provider = systemd.provider();
    for (name, expected) in [
        ("a", ["running", "true", "enabled"]),
        ("a.service", ["running", "true", "enabled"]),
        ("b.timer", ["stopped", "static", "indirect"]),
        ("c", ["stopped", "mask", "masked-runtime"]),
        ("d@x", ["running", "false", "enabled-runtime"]),
        ("e", ["running", "true", "enabled-runtime"]),
        ("f", ["running", "static", "-"]),
        ("g", ["stopped", "false", "linked"]),
    ] {
        assert_eq!(read(&provider, name), expected, "{name}");
    }
    assert_eq!(systemd.opened(), 1, "all calls use one connection");
}

#[test]
fn missing_unit_is_unknown_and_impossible_name_concerns_only_itself() {
    let systemd = FakeSystemd::new([("a.service", FakeUnit::disabled())]);
    let provider = systemd.provider();
    let names = ["b", "x y", "a", "a@"].map(EcoString::from);
    let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, None)).collect();
    let states = provider.get(&Context::empty(), Query::Named(&wanted)).unwrap();
    assert!(states[0].is_unknown && !states[0].exists);
    assert!(states[1].unreadable.as_deref().unwrap().contains("is not the name of a unit"));
    assert!(states[2].exists);
    assert!(states[3].unreadable.as_deref().unwrap().contains("is a template"));
}

#[test]
fn missing_unit_is_stopped_and_not_enabled() {
    let systemd = FakeSystemd::new([]);
    let provider = systemd.provider();
    let name = EcoString::from("gone");
    let differing = |should: &Attributes| -> Vec<String> {
        let found = check(&provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap();
        found.differences.iter().map(|one| one.attribute.to_string()).collect()
    };
    let preview = |should: &Attributes| {
        let found = check(&provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap();
        let change = Change::new(&name, &found.state, Some(should), &found.differences);
        provider.set(&Context::empty(), &[change], Mode::Preview).remove(0)
    };
    for should in [[("ensure", "stopped"), ("enable", "false")], [("enable", "false"), ("refresh", "reload")]] {
        assert_eq!(differing(&attributes(should)), [] as [String; 0], "{should:?}");
    }
    for (should, expected) in [
        ([("ensure", "running"), ("enable", "false")], vec!["ensure"]),
        ([("ensure", "running"), ("enable", "true")], vec!["ensure", "enable"]),
        ([("ensure", "stopped"), ("enable", "true")], vec!["enable"]),
        ([("ensure", "stopped"), ("enable", "static")], vec!["enable"]),
    ] {
        assert_eq!(differing(&attributes(should)), expected);
        assert_eq!(preview(&attributes(should)).failure.as_deref(), Some("there is no unit gone"), "{should:?}");
        assert_eq!(set(&provider, "gone", should).unwrap_err(), "there is no unit gone", "{should:?}");
        assert_eq!(systemd.calls(), ["reload"], "{should:?}");
    }
    // systemd masks also a unit without a file.
    let masked = [("ensure", "stopped"), ("enable", "mask")];
    assert_eq!(preview(&attributes(masked)), Outcome::done());
    set(&provider, "gone", masked).unwrap();
    assert_eq!(systemd.calls(), ["reload", "mask gone.service", "reload"]);
    assert_eq!(read(&provider, "gone")[1], "mask");
}

#[test]
fn unit_that_another_resource_may_create_fails_no_preview() {
    struct PendingPreview;
    impl kilter_provider::PreviewContext for PendingPreview {
        fn may_change_before(&self, _: &str) -> bool {
            true
        }

        fn declared(&self, _: &str, _: &str) -> Option<&Attributes> {
            None
        }
    }
    let systemd = FakeSystemd::new([]);
    let (name, should) = (EcoString::from("gone"), attributes([("ensure", "running")]));
    let is = State::absent(name.clone());
    let cx = Context::empty().with_preview_context(&PendingPreview);
    let outcome = systemd.provider().set(&cx, &[Change::new(&name, &is, Some(&should), &[])], Mode::Preview).remove(0);
    assert_eq!(outcome.failure, None);
    assert_eq!(
        outcome.notes,
        ["there is no unit gone: the change fails unless another resource creates the unit first"]
    );
}

#[test]
fn unit_whose_file_is_new_is_read_before_it_counts_as_missing() {
    let systemd = FakeSystemd::new([]);
    std::fs::write(systemd.root.path().join("system/new.service"), "[Service]\n").unwrap();
    set(&systemd.provider(), "new", [("ensure", "running")]).unwrap();
    assert_eq!(systemd.calls(), ["reload", "start new.service"]);
}

#[test]
fn list_has_loaded_units_and_unit_files_once() {
    let systemd = FakeSystemd::new([
        ("loaded.service", FakeUnit::disabled()),
        ("other.socket", FakeUnit::disabled()),
        ("odd.timer.service", FakeUnit::disabled()),
    ]);
    let directory = systemd.root.path().join("system");
    for name in ["loaded.service", "template@.service", "unloaded.service", "other.socket", "bad name.service"] {
        std::fs::write(directory.join(name), "[Service]\n").unwrap();
    }
    std::os::unix::fs::symlink("loaded.service", directory.join("alias.service")).unwrap();
    let states = systemd.provider().get(&Context::empty(), Query::All).unwrap();
    let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["loaded", "odd.timer.service", "unloaded"]);
    let files: Vec<&str> = states.iter().map(|state| state.attributes.text("unit_file").unwrap_or("-")).collect();
    assert_eq!(files, ["disabled", "disabled", "static"], "systemd is asked for the others");
}

#[test]
fn enable_changes_links_and_reloads() {
    let systemd = FakeSystemd::new([
        ("a.service", FakeUnit::disabled()),
        ("s.service", FakeUnit { file: "static".into(), has_install: false, ..FakeUnit::disabled() }),
    ]);
    let provider = systemd.provider();
    let done = |name: &str, should: &str, calls: &[&str]| {
        set(&provider, name, [("enable", should)]).unwrap();
        assert_eq!(systemd.calls(), calls, "{name} {should}");
    };
    done("a", "true", &["enable a.service", "reload"]);
    done("a", "false", &["disable a.service", "reload"]);
    done("a", "mask", &["mask a.service", "reload"]);
    done("a", "true", &["unmask a.service", "reload", "enable a.service", "reload"]);
    done("s", "true", &[]);
    done("s", "mask", &["mask s.service", "reload"]);
    done("s", "static", &["unmask s.service", "reload"]);
    let refused = set(&provider, "a", [("enable", "static")]).unwrap_err();
    assert_eq!(refused, "a.service is enabled: it cannot be made static");
}

#[test]
fn mask_is_removed_before_a_start_and_kept_for_a_stop() {
    let systemd = FakeSystemd::new([("a.service", FakeUnit { file: "masked".into(), ..FakeUnit::disabled() })]);
    let provider = systemd.provider();
    set(&provider, "a", [("ensure", "stopped"), ("enable", "false")]).unwrap();
    assert_eq!(systemd.unit("a.service").file, "masked");
    let refused = set(&provider, "a", [("ensure", "running")]).unwrap_err();
    assert!(refused.starts_with("systemd could not start a.service: Unit a.service is masked."), "{refused}");
    systemd.calls();
    set(&provider, "a", [("ensure", "running"), ("enable", "false")]).unwrap();
    assert_eq!(systemd.calls(), ["unmask a.service", "reload", "start a.service"]);
}

#[test]
fn changed_unit_file_is_loaded_before_a_start() {
    let systemd = FakeSystemd::new([("a.service", FakeUnit { needs_reload: true, ..FakeUnit::disabled() })]);
    let provider = systemd.provider();
    set(&provider, "a", [("ensure", "running")]).unwrap();
    assert_eq!(systemd.calls(), ["reload", "start a.service"]);
    set(&provider, "a", [("ensure", "stopped")]).unwrap();
    assert_eq!(systemd.calls(), ["stop a.service"]);
}

#[test]
fn failed_start_has_the_result_and_the_journal() {
    let systemd = FakeSystemd::new([("a.service", FakeUnit { result: "failed".into(), ..FakeUnit::disabled() })]);
    *systemd.runner.answer.lock().unwrap() = (0, format!("{}\ncannot bind\n", "x".repeat(200)));
    let why = set(&systemd.provider(), "a", [("ensure", "running")]).unwrap_err();
    let expected = format!(
        "systemd could not start a.service: exit-code (status 3)\nthe last lines of its journal:\n  {}\n  cannot bind",
        "x".repeat(100)
    );
    assert_eq!(why, expected);
    systemd.change("a.service", |unit| unit.result = "dependency".into());
    let why = set(&systemd.provider(), "a", [("ensure", "running")]).unwrap_err();
    assert!(why.contains("a unit that it depends on failed"), "{why}");
}

#[test]
fn failed_start_names_the_control_command_that_failed() {
    let failing = FakeUnit { result: "failed".into(), failed_pre: Some("/usr/bin/test"), ..FakeUnit::disabled() };
    let systemd = FakeSystemd::new([("a.service", failing)]);
    let why = set(&systemd.provider(), "a", [("ensure", "running")]).unwrap_err();
    let expected = "systemd could not start a.service: exit-code (ExecStartPre /usr/bin/test, status 4)";
    assert!(why.starts_with(expected), "{why}");
}

#[test]
fn unit_that_ends_after_its_start_fails() {
    let simple = FakeUnit { service_type: "simple".into(), ..FakeUnit::disabled() };
    let systemd = FakeSystemd::new([("a.service", simple)]);
    let provider = systemd.provider();
    set(&provider, "a", [("ensure", "running")]).unwrap();
    set(&provider, "a", [("ensure", "stopped")]).unwrap();
    // The job succeeds, and the unit is inactive afterwards.
    systemd.change("a.service", |unit| unit.result = "skipped".into());
    let why = set(&provider, "a", [("ensure", "running")]).unwrap_err();
    assert!(why.starts_with("a.service has ended after its start: exit-code (status 3)"), "{why}");
    systemd.change("a.service", |unit| unit.is_killed = true);
    let why = set(&provider, "a", [("ensure", "running")]).unwrap_err();
    assert!(why.starts_with("a.service has ended after its start: exit-code (signal 3)"), "{why}");
}

#[test]
fn refresh_restarts_reloads_or_does_nothing() {
    let systemd = FakeSystemd::new([("a.service", FakeUnit { active: "active".into(), ..FakeUnit::disabled() })]);
    let provider = systemd.provider();
    let done = |how: &str, calls: &[&str]| {
        refresh(&provider, "a", how).unwrap();
        assert_eq!(systemd.calls(), calls);
    };
    done("restart", &["tryrestart a.service"]);
    done("reload", &["tryrestart a.service"]);
    systemd.change("a.service", |unit| unit.can_reload = true);
    done("reload", &["reloadortryrestart a.service"]);
    systemd.change("a.service", |unit| unit.active = "inactive".into());
    done("restart", &[]);
    systemd.change("a.service", |unit| unit.active = "failed".into());
    done("reload", &["start a.service"]);
}

#[test]
fn refresh_counts_only_for_a_unit_that_ran_and_shall_run() {
    let systemd = FakeSystemd::new([]);
    let provider = systemd.provider();
    let state = |ensure: &str| State::present("a", attributes([("ensure", ensure)]));
    for (is, should, acts) in [
        ("running", Some("running"), true),
        ("running", None, true),
        ("running", Some("stopped"), false),
        ("stopped", Some("running"), false),
        ("stopped", None, false),
    ] {
        let should = should.map(|ensure| attributes([("ensure", ensure)])).unwrap_or_default();
        assert_eq!(provider.acts_on_refresh(&state(is), &should), acts, "{is} {should:?}");
    }
}

#[test]
fn interrupt_ends_the_wait_for_a_job() {
    let systemd = FakeSystemd::new([("a.service", FakeUnit { result: "never".into(), ..FakeUnit::disabled() })]);
    let provider = systemd.provider();
    let flag = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !systemd.calls().iter().any(|call| call == "start a.service") {
                std::thread::yield_now();
            }
            flag.store(true, Ordering::Release);
        });
        let cx = Context::empty().with_interrupt(Interrupt::new(&flag, None));
        let why = set_with(&provider, &cx, "a", [("ensure", "running")]).unwrap_err();
        assert_eq!(why, "interrupted while it waited for systemd");
    });
    assert_eq!(read(&provider, "a")[0], "running", "systemd continues to start the unit");
}

#[test]
fn closed_connection_is_opened_again() {
    let systemd = FakeSystemd::new([("a.service", FakeUnit::disabled())]);
    let provider = systemd.provider();
    read(&provider, "a");
    systemd.close_all();
    assert_eq!(read(&provider, "a"), ["stopped", "false", "disabled"]);
    assert_eq!(systemd.opened(), 2);
}

#[test]
fn machine_without_systemd_is_unsuitable_and_says_why() {
    let systemd = FakeSystemd::new([]);
    let mut provider = systemd.provider();
    assert_eq!(provider.suitable(), Suitability::Suitable);
    provider.machine.booted = "/nowhere/systemd".into();
    let why = "systemd does not run: there is no directory /nowhere/systemd";
    assert_eq!(provider.suitable(), Suitability::Unsuitable(why.into()));
    provider.machine.sockets = Sockets { private: "/nowhere/a".into(), bus: "/nowhere/b".into() };
    let error = provider.get(&Context::empty(), Query::All).unwrap_err();
    assert!(error.message.starts_with("cannot connect to systemd at /nowhere/b: "), "{error}");
}

#[test]
fn watch_reports_units_by_all_their_names_until_it_is_interrupted() {
    let systemd = FakeSystemd::new([("a.service", FakeUnit::disabled()), ("b.timer", FakeUnit::disabled())]);
    systemd.alias("alias.service", "a.service");
    let provider = systemd.provider();
    assert_eq!(read(&provider, "alias"), ["stopped", "false", "disabled"]);
    let flag = AtomicBool::new(false);
    let (sender, told) = channel();
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let told = ToldEvents(sender);
            provider.watch(&Context::empty().with_interrupt(Interrupt::new(&flag, None)), None, &told)
        });
        let next = || told.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(next(), "watching");
        systemd.signal(&of_manager("Reloading", true));
        systemd.signal(&changed("a.service"));
        assert_eq!([next(), next(), next()], ["a.service", "a", "alias"]);
        systemd.signal(&changed("b.timer"));
        assert_eq!(next(), "b.timer");
        systemd.signal(&of_manager("Reloading", false));
        assert_eq!(next(), "all");
        // While events are watched, no connection stays open between two calls.
        let before = systemd.opened();
        read(&provider, "a");
        read(&provider, "a");
        assert_eq!(systemd.opened(), before + 2);
        flag.store(true, Ordering::Release);
        assert_eq!(watch.join().unwrap(), Ok(()));
    });
    // A watch ends with an error when systemd closes its connection.
    std::thread::scope(|scope| {
        let (sender, told) = channel();
        let watch = scope.spawn(|| provider.watch(&Context::empty(), None, &ToldEvents(sender)));
        assert_eq!(told.recv_timeout(Duration::from_secs(30)).unwrap(), "watching");
        systemd.close_all();
        let error = watch.join().unwrap().unwrap_err();
        assert!(error.message.contains("lost the connection to systemd"), "{error}");
    });
}

fn subject() -> Subject {
    let failing = FakeUnit { result: "failed".into(), ..FakeUnit::disabled() };
    let slow = FakeUnit { result: "never".into(), ..FakeUnit::disabled() };
    let systemd = Arc::new(FakeSystemd::new([
        ("one.service", FakeUnit::disabled()),
        ("two.service", FakeUnit::disabled()),
        ("bad.service", failing),
        ("slow.service", slow),
    ]));
    let (of_provider, seen, begun) = (Arc::clone(&systemd), Arc::clone(&systemd), Arc::clone(&systemd));
    let one = Sample::new("one")
        .present([("ensure", "running"), ("enable", "true")])
        .changed([("ensure", "stopped"), ("enable", "mask")]);
    let two = Sample::new("two").present([("ensure", "stopped"), ("enable", "true")]).changed([("enable", "false")]);
    Subject::new(move || of_provider.provider(), move || seen.fingerprint())
        .specimen(one)
        .specimen(two)
        .unknown(["nothing", "nothing.socket"])
        .failing(Sample::new("bad").present([("ensure", "running")]))
        .slow(Sample::new("slow").present([("ensure", "running")]), move || {
            begun.unit("slow.service").active == "activating"
        })
        .without(Unsupported::Removal, "units cannot be removed")
        .keeping(systemd)
}

#[test]
fn service_conforms() {
    let report = Suite::new(subject).run();
    println!("{report}");
    report.assert();
}
