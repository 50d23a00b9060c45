use std::sync::atomic::AtomicBool;

use kilter_provider::{Interrupt, check_one};

use super::*;
use crate::accounts::fake::Fake;

const REQUEST: &str = "systemd-run --quiet --collect --unit=kilter-reboot --on-active=5s \
                       --timer-property=AccuracySec=1s systemctl reboot";

static ENDING: AtomicBool = AtomicBool::new(true);

/// A machine whose boots the test decides.
struct RebootBench {
    fake: Fake,
    state: tempfile::TempDir,
    provider: RebootProvider,
}

impl RebootBench {
    fn new() -> RebootBench {
        let fake = Fake::new("", "", "");
        std::fs::create_dir_all(fake.root.path().join("run/systemd/system")).unwrap();
        let provider = RebootProvider::new(fake.system());
        let bench = RebootBench { fake, state: tempfile::tempdir().unwrap(), provider };
        bench.boots("one");
        bench
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.fake.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Starts the machine and a run.
    fn boots(&self, id: &str) {
        self.write("proc/sys/kernel/random/boot_id", &format!("{id}\n"));
        self.opens();
    }

    fn opens(&self) {
        self.provider.open(&self.cx()).unwrap();
    }

    /// Context of a run that is about to end, so that nothing waits for the reboot.
    fn cx(&self) -> Context<'_> {
        Context::empty().with_var_dir(Some(self.state.path())).with_ending(&ENDING)
    }

    fn found_in(&self, cx: &Context<'_>, should: &Attributes, refresh: bool) -> Found {
        let name = "kernel".into();
        check_one(&self.provider, cx, Wanted::new(&name, Some(should)).with_refresh(refresh)).unwrap()
    }

    /// Returns the reason of a reboot without a refresh.
    fn due(&self, should: &Attributes) -> Option<String> {
        let found = self.found_in(&self.cx(), should, false);
        found.differences.first().and_then(|one| one.message.as_ref()).map(ToString::to_string)
    }

    fn acts(&self, should: &Attributes) -> bool {
        self.found_in(&self.cx(), should, true).acts_on_refresh
    }

    fn refresh(&self, should: &Attributes) -> Outcome {
        let name = "kernel".into();
        self.provider.refresh(&self.cx(), Wanted::new(&name, Some(should)))
    }

    fn requests(&self) -> usize {
        self.fake.argvs().iter().filter(|argv| *argv == REQUEST).count()
    }
}

fn should(more: &[(&str, Value)]) -> Attributes {
    let mut should = Attributes::from_iter([("timeout", Value::Integer(5)), ("message", "now".into())]);
    should.set("apply", "immediately");
    more.iter().for_each(|(name, value)| should.set(*name, value.clone()));
    should
}

#[test]
fn refresh_reboots_once_and_the_next_run_continues() {
    let bench = RebootBench::new();
    let immediately = should(&[]);
    assert_eq!(bench.due(&immediately), None);
    assert!(bench.acts(&immediately) && bench.refresh(&immediately).refreshed);
    assert_eq!(bench.fake.argvs(), [REQUEST, "wall now: in 5 s (systemctl stop kilter-reboot.timer cancels it)"]);
    bench.write(UNIT_FILE, "");
    assert!(bench.refresh(&immediately).refreshed);
    assert_eq!(bench.requests(), 0, "a second refresh during the countdown only waits");
    let finished = should(&[("apply", "finished".into())]);
    assert_eq!(bench.refresh(&finished).notes, ["a reboot has been requested in this boot already"]);
    std::fs::remove_file(bench.fake.root.path().join(UNIT_FILE)).unwrap();
    // The run was killed before it recorded that the refresh is done.
    bench.boots("two");
    assert!(!bench.acts(&immediately), "the reboot has happened");
    assert!(bench.acts(&immediately), "a later refresh has another cause");
    assert!(bench.refresh(&immediately).refreshed);
    assert_eq!(bench.requests(), 1);
    bench.opens();
    assert_eq!(bench.due(&immediately), None);
}

#[test]
fn cancelled_reboot_fails_and_is_requested_again() {
    let bench = RebootBench::new();
    let running = Context::empty().with_var_dir(Some(bench.state.path()));
    for _ in 0..2 {
        let name = "kernel".into();
        // The fake starts no timer, as if it was stopped at once.
        let failure = bench.provider.refresh(&running, Wanted::new(&name, Some(&should(&[])))).failure.unwrap();
        assert!(failure.contains("was cancelled"), "{failure}");
        assert_eq!(bench.requests(), 1);
    }
    // The run was killed during the countdown, which was cancelled then.
    assert!(bench.refresh(&should(&[])).refreshed);
    bench.opens();
    assert_eq!(bench.requests(), 1);
    assert!(bench.refresh(&should(&[])).refreshed);
    assert_eq!(bench.requests(), 1);
}

#[test]
fn settled_reboot_does_not_hide_a_new_refresh() {
    let bench = RebootBench::new();
    assert!(bench.refresh(&should(&[])).refreshed);
    bench.provider.flush(&bench.cx()).unwrap();
    bench.boots("two");
    assert!(bench.acts(&should(&[])));
    assert_eq!(std::fs::read_dir(bench.state.path().join("kept/reboot")).unwrap().count(), 0);
}

#[test]
fn reboot_follows_the_run() {
    let bench = RebootBench::new();
    let finished = should(&[("apply", "finished".into())]);
    let outcome = bench.refresh(&finished);
    assert_eq!(outcome.notes, ["the machine reboots 5 s after the end of this run"]);
    assert_eq!((bench.requests(), bench.due(&finished)), (0, None));
    bench.provider.flush(&bench.cx()).unwrap();
    bench.provider.flush(&bench.cx()).unwrap();
    assert_eq!(bench.requests(), 1);
}

#[test]
fn killed_run_is_followed_by_one_that_reboots() {
    let bench = RebootBench::new();
    let finished = should(&[("apply", "finished".into())]);
    assert!(bench.refresh(&finished).refreshed);
    bench.opens();
    assert_eq!(bench.due(&finished).as_deref(), Some("an earlier run ended before it asked for the reboot"));
    bench.boots("two");
    assert_eq!(bench.due(&finished), None, "the machine was rebooted meanwhile");
}

#[test]
fn run_during_the_countdown_waits_too() {
    let bench = RebootBench::new();
    assert!(bench.refresh(&should(&[])).refreshed);
    assert_eq!(bench.requests(), 1);
    bench.write(UNIT_FILE, "");
    bench.opens();
    assert_eq!(bench.due(&should(&[])).as_deref(), Some("the reboot has been requested"));
    assert_eq!(bench.due(&should(&[("apply", "finished".into())])), None);
    assert!(bench.refresh(&should(&[])).notes.is_empty());
    assert_eq!(bench.requests(), 0);
}

#[test]
fn pending_reboot_of_a_package_is_found() {
    let bench = RebootBench::new();
    let pending = should(&[("pending", true.into())]);
    assert_eq!(bench.due(&pending), None);
    bench.write(PENDING, "*** System restart required ***\n");
    assert_eq!((bench.due(&pending).as_deref(), bench.due(&should(&[]))), (Some("a package asks for a reboot"), None));
    bench.write(PENDING_PACKAGES, "linux-image\ndbus\nlinux-image\n");
    assert_eq!(bench.due(&pending).as_deref(), Some("for dbus, linux-image"));
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    let file = std::fs::File::options().write(true).open(bench.fake.root.path().join(PENDING)).unwrap();
    file.set_modified(old).unwrap();
    assert_eq!(bench.due(&pending), None, "the file is older than the boot");
}

#[test]
fn dry_run_changes_nothing() {
    let bench = RebootBench::new();
    assert!(bench.refresh(&should(&[])).refreshed);
    assert_eq!(bench.requests(), 1);
    bench.write("proc/sys/kernel/random/boot_id", "two\n");
    let cx = bench.cx().with_noop(true);
    bench.provider.open(&cx).unwrap();
    for _ in 0..2 {
        assert!(!bench.found_in(&cx, &should(&[]), true).acts_on_refresh);
    }
    let (name, is, declared) = ("kernel".into(), State::default(), should(&[]));
    let change = Change::new(&name, &is, Some(&declared), &[]);
    assert_eq!(bench.provider.set(&cx, &[change], Mode::Preview).remove(0).failure, None);
    assert_eq!(bench.fake.argvs(), [""; 0]);
}

#[test]
fn machine_without_systemd_is_refused() {
    let bench = RebootBench::new();
    std::fs::remove_dir(bench.fake.root.path().join("run/systemd/system")).unwrap();
    let Suitability::Unsuitable(why) = bench.provider.suitable() else { panic!("it is suitable") };
    assert!(why.contains("container without init"), "{why}");
    assert!(bench.refresh(&should(&[])).failure.is_some());
    assert_eq!(bench.fake.argvs(), [""; 0]);
}

#[test]
fn failed_request_leaves_no_record() {
    let bench = RebootBench::new();
    *bench.fake.log.answer.lock().unwrap() = (1, "Access denied".into());
    let failure = bench.refresh(&should(&[])).failure.unwrap();
    assert!(failure.contains("systemd-run failed with") && failure.contains("Access denied"), "{failure}");
    *bench.fake.log.answer.lock().unwrap() = (0, String::new());
    assert!(bench.acts(&should(&[])) && bench.refresh(&should(&[])).refreshed);
    let without = Context::empty().with_ending(&ENDING);
    let name = "other".into();
    let failure = bench.provider.refresh(&without, Wanted::new(&name, Some(&should(&[])))).failure.unwrap();
    assert!(failure.contains("there is no state directory"), "{failure}");
}

#[test]
fn interrupt_ends_the_wait() {
    let flag = AtomicBool::new(true);
    let cx = Context::empty().with_interrupt(Interrupt::new(&flag, None));
    assert_eq!(wait(&cx, Duration::from_secs(100), &|| true), Ok(false));
    let none = Context::empty();
    assert_eq!(wait(&none, Duration::from_secs(100), &|| true), Ok(true));
    assert!(wait(&none, Duration::ZERO, &|| false).unwrap_err().contains("has not rebooted"));
}
