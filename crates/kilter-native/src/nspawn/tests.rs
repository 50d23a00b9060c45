use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_provider::Interrupt;

use super::*;
use crate::accounts::RealRunner;
use crate::service::fake::{FakeSystemd, FakeUnit, ToldEvents};

const ONE: &str = "systemd-nspawn@one.service";

struct MachineBench {
    root: tempfile::TempDir,
    systemd: FakeSystemd,
}

impl MachineBench {
    /// Makes a host with machines that have a file system.
    fn new(units: impl IntoIterator<Item = (&'static str, FakeUnit)>, images: &[&str]) -> MachineBench {
        let root = tempfile::tempdir().unwrap();
        for image in images {
            std::fs::create_dir_all(root.path().join("var/lib/machines").join(image)).unwrap();
        }
        std::fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        std::fs::write(root.path().join("usr/bin/systemd-nspawn"), "").unwrap();
        let target = (TARGET, FakeUnit::disabled());
        MachineBench { root, systemd: FakeSystemd::new(units.into_iter().chain([target])) }
    }

    fn provider(&self) -> NspawnProvider {
        NspawnProvider::on(System::new(self.root.path(), Arc::new(RealRunner)), self.systemd.provider())
    }

    fn set(&self, should: &[(&str, &str)]) -> Outcome {
        let (name, is) = ("one".into(), State::default());
        let should = should.iter().copied().collect();
        self.provider().set(&Context::empty(), &[Change::new(&name, &is, Some(&should), &[])], Mode::Apply).remove(0)
    }

    /// Returns `ensure` and `enable` of a machine.
    fn read(&self, name: &str) -> Option<[String; 2]> {
        let name = name.into();
        let state =
            self.provider().get(&Context::empty(), Query::Named(&[Wanted::new(&name, None)])).unwrap().remove(0);
        assert_eq!(state.unreadable, None);
        let text = |attribute| state.attributes.text(attribute).unwrap().to_owned();
        (!state.is_unknown).then(|| ["ensure", "enable"].map(text))
    }
}

#[test]
fn machine_is_a_unit_that_starts_with_the_target() {
    let bench = MachineBench::new([(ONE, FakeUnit::disabled())], &["one"]);
    assert_eq!(bench.read("one").unwrap(), ["stopped", "false"]);
    assert_eq!(bench.set(&[("ensure", "running"), ("enable", "true")]), Outcome::done());
    let calls = ["enable machines.target", "reload", &format!("enable {ONE}"), "reload", &format!("start {ONE}")];
    assert_eq!(bench.systemd.calls(), calls);
    assert_eq!(bench.read("one").unwrap(), ["running", "true"]);
    // An enabled machine does not start at boot without the target.
    bench.systemd.change(TARGET, |unit| unit.file = "disabled".into());
    assert_eq!(bench.read("one").unwrap(), ["running", "false"]);
    assert_eq!(bench.set(&[("enable", "true")]), Outcome::done());
    assert_eq!(bench.read("one").unwrap(), ["running", "true"]);
    assert_eq!(bench.set(&[("ensure", "stopped"), ("enable", "mask")]), Outcome::done());
    assert_eq!(bench.read("one").unwrap(), ["stopped", "mask"]);
}

#[test]
fn machine_without_files_is_unknown_and_is_not_listed() {
    let running = FakeUnit { active: "active".into(), ..FakeUnit::disabled() };
    let units =
        [(ONE, FakeUnit::disabled()), ("systemd-nspawn@two.service", running), ("other.service", FakeUnit::disabled())];
    let bench = MachineBench::new(units, &["three.raw", ".hidden"]);
    assert_eq!(bench.read("one"), None);
    assert_eq!(bench.read("two").unwrap(), ["running", "false"]);
    let listed = bench.provider().get(&Context::empty(), Query::All).unwrap();
    let listed: Vec<_> = listed.iter().filter(|state| !state.is_unknown).map(|state| state.name.as_str()).collect();
    assert_eq!(listed, ["two"], "systemd does not know the third one");
}

#[test]
fn refresh_restarts_the_machine_that_ran() {
    let running = FakeUnit { active: "active".into(), ..FakeUnit::disabled() };
    let bench = MachineBench::new([(ONE, running)], &["one"]);
    let provider = bench.provider();
    assert!(provider.refresh(&Context::empty(), Wanted::new(&"one".into(), None)).refreshed);
    assert_eq!(bench.systemd.calls(), [format!("tryrestart {ONE}")]);
    let should = |ensure: &str| Attributes::from_iter([("ensure", ensure)]);
    let is = |ensure: &str| State::present("one", should(ensure));
    assert!(provider.acts_on_refresh(&is("running"), &should("running")));
    assert!(!provider.acts_on_refresh(&is("stopped"), &should("running")));
}

#[test]
fn names_are_those_of_machines() {
    for name in ["web", "web-1", "a.b_c", &"a".repeat(64)] {
        assert_eq!(problem(name), None, "{name}");
    }
    for name in ["", "a/b", "../x", ".host", "a..b", "-a", "a-", "a b", "ä", "a;b", &"a".repeat(65)] {
        assert!(problem(name).unwrap().contains("is not the name of a machine"), "{name}");
    }
}

#[test]
fn watch_reports_machines_by_their_names() {
    let bench = MachineBench::new([(ONE, FakeUnit::disabled())], &["one"]);
    let provider = bench.provider();
    let flag = AtomicBool::new(false);
    let (sender, told) = channel();
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let told = ToldEvents(sender);
            provider.watch(&Context::empty().with_interrupt(Interrupt::new(&flag, None)), None, &told)
        });
        let next = || told.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(next(), "watching");
        bench.systemd.report("other.service");
        bench.systemd.report(ONE);
        assert_eq!(next(), "one");
        flag.store(true, Ordering::Release);
        assert_eq!(watch.join().unwrap(), Ok(()));
    });
}

fn subject() -> Subject {
    let failing = FakeUnit { result: "failed".into(), ..FakeUnit::disabled() };
    let slow = FakeUnit { result: "never".into(), ..FakeUnit::disabled() };
    let units = [
        (ONE, FakeUnit::disabled()),
        ("systemd-nspawn@two.service", FakeUnit::disabled()),
        ("systemd-nspawn@bad.service", failing),
        ("systemd-nspawn@slow.service", slow),
    ];
    let bench = Arc::new(MachineBench::new(units, &["one", "two", "bad", "slow"]));
    let (of_provider, seen, begun) = (Arc::clone(&bench), Arc::clone(&bench), Arc::clone(&bench));
    let one = Sample::new("one")
        .present([("ensure", "running"), ("enable", "true")])
        .changed([("ensure", "stopped"), ("enable", "mask")]);
    let two = Sample::new("two").present([("ensure", "running")]).changed([("ensure", "stopped")]);
    Subject::new(move || of_provider.provider(), move || seen.systemd.fingerprint())
        .specimen(one)
        .specimen(two)
        .unknown(["nothing"])
        .failing(Sample::new("bad").present([("ensure", "running")]))
        .slow(Sample::new("slow").present([("ensure", "running")]), move || {
            begun.systemd.unit("systemd-nspawn@slow.service").active == "activating"
        })
        .without(Unsupported::Removal, "machines cannot be removed")
        .keeping(bench)
}

#[test]
fn nspawn_conforms() {
    let report = Suite::new(subject).run();
    println!("{report}");
    report.assert();
}
