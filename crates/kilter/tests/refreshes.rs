//! `kill -9` at random moments of runs with notify edges: no pending refresh is lost, and no refresh that was recorded
//! as done is repeated.
//!
//! Each refresh adds a line to its own log. A refresh is *due* before a run if it is pending in the journal, or if its
//! cause is out of sync. A run that ends by itself makes exactly the due refreshes, once. A killed run makes no other
//! refreshes and none twice for one change; a refresh that is no longer due after it was made. So a refresh happens
//! once more than needed only if the kill came between its end and its record.
//!
//! `KILTER_KILLS` is the number of kills, `KILTER_SEED` selects their moments.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kilter_testkit::kilter_process::wait;
use rustix::process::{WaitOptions, getpid, set_child_subreaper};
use serde_json::Value as Json;

const FILES: usize = 6;
const KILLS: usize = 200;

/// Timeout for an expected event.
const LONGEST: Duration = Duration::from_secs(60);

/// Debounce time of an edited manifest, in milliseconds.
const SETTLED: u64 = 200;

/// Commands with a due refresh.
type Due = [bool; FILES + 2];
/// Number of refreshes of each.
type Refreshed = [usize; FILES + 2];

/// A command that all files notify.
const ALL: usize = FILES;
/// A command that the first command notifies.
const BEHIND: usize = FILES + 1;

struct RefreshTest {
    directory: PathBuf,
}

impl RefreshTest {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn declare(&self, version: usize) {
        let directory = self.directory.display();
        let mut text = String::from("resources:\n");
        for n in 0..FILES {
            // Of every other one it takes a moment until its end is known.
            let rest = if n.is_multiple_of(2) { "; sleep 0.004" } else { "" };
            let _ = write!(
                text,
                "  file[{directory}/f{n}]: {{content: \"version {version}\\n\", notify: [\"exec[{n}]\", \
                 \"exec[{ALL}]\"]}}\n  \
                 exec[{n}]: {{command: [sh, -c, \"cat {directory}/f{n} >> {directory}/log{n}{rest}\"], refreshonly: \
                 true}}\n"
            );
        }
        for (n, more) in [(ALL, ""), (BEHIND, ", subscribe: \"exec[0]\"")] {
            let _ = writeln!(
                text,
                "  exec[{n}]: {{command: [sh, -c, \"echo refreshed >> {directory}/log{n}\"], refreshonly: true{more}}}"
            );
        }
        std::fs::write(self.path("m.new"), text).unwrap();
        std::fs::rename(self.path("m.new"), self.path("m.yaml")).unwrap();
    }

    fn begin(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kilter"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("KILTER_STATE_DIR", self.path("state"));
        command.args(args).arg(self.path("m.yaml")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Runs it to its end: how long that took.
    fn complete(&self, args: &[&str]) -> Duration {
        let begun = Instant::now();
        let ended = self.begin(args).wait().unwrap();
        assert!(ended.success(), "{args:?}: {ended}");
        begun.elapsed()
    }

    /// Returns the pending refreshes of the journal as the next run reads them. Its last line may be truncated.
    fn owed(&self) -> BTreeSet<(String, String)> {
        let text = self.read("state/journal");
        let mut owed = BTreeSet::new();
        let is_record = |line: &&str| line.ends_with('\n') && !line.starts_with("kilter journal ");
        for line in text.split_inclusive('\n').filter(is_record) {
            let record: Json = serde_json::from_str(&line[9..]).unwrap();
            let of = |word: &str| {
                let pairs = record[word].as_array().cloned().unwrap_or_default();
                pairs.into_iter().map(|pair| serde_json::from_value::<(String, String)>(pair).unwrap())
            };
            owed.extend(of("owe"));
            for pair in of("paid") {
                owed.remove(&pair);
            }
        }
        owed
    }

    /// Returns the due refreshes if these files are out of sync.
    fn due(&self, changing: impl Fn(usize) -> bool) -> Due {
        let owed = self.owed();
        let is_owed = |by: &str, to: usize| owed.contains(&(by.to_owned(), format!("exec[{to}]")));
        let file = |n: usize| format!("file[{}]", self.path(&format!("f{n}")).display());
        let mut due = [false; FILES + 2];
        for n in 0..FILES {
            due[n] = changing(n) || is_owed(&file(n), n);
            due[ALL] |= changing(n) || is_owed(&file(n), ALL);
        }
        due[BEHIND] = due[0] || is_owed("exec[0]", BEHIND);
        due
    }

    /// The same, when this version is declared.
    fn due_for(&self, version: usize) -> Due {
        let content = format!("version {version}\n");
        self.due(|n| self.read(&format!("f{n}")) != content)
    }

    /// Number of refreshes of each.
    fn refreshed(&self) -> Refreshed {
        std::array::from_fn(|n| self.read(&format!("log{n}")).lines().count())
    }

    /// Number of refreshes of each since then.
    fn since(&self, before: Refreshed) -> Refreshed {
        let now = self.refreshed();
        std::array::from_fn(|n| now[n] - before[n])
    }

    /// Kills it, and waits for the end of what it has begun, which this process inherits.
    fn kill(&self, mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
        wait("the end of what was begun", LONGEST, || {
            loop {
                match rustix::process::wait(WaitOptions::NOHANG) {
                    Ok(Some(_)) => {}
                    Ok(None) => return false,
                    Err(none) => return none == rustix::io::Errno::CHILD,
                }
            }
        });
    }

    fn is_quiet(&self) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kilter"));
        command.env_clear().env("KILTER_STATE_DIR", self.path("state")).args(["status", "--format", "json"]);
        let said = command.stdin(Stdio::null()).output().unwrap().stdout;
        serde_json::from_slice::<Json>(&said).is_ok_and(|status| !status["quiet_for_ms"].is_null())
    }

    /// A run that is idle.
    fn hold(&self) -> Child {
        let child = self.begin(&["run"]);
        wait("a state that is held", LONGEST, || self.is_quiet());
        child
    }
}

/// Phases that the kills interrupted.
#[derive(Debug, Default)]
struct Fell {
    /// Between the first change, or just before it, and the last record.
    in_midst: usize,
    /// Between the end of a refresh and its record.
    before_the_record: usize,
}

impl Fell {
    fn count(&mut self, play: &RefreshTest, due: Due, refreshed: Refreshed) {
        self.in_midst += usize::from(!play.owed().is_empty());
        self.before_the_record += usize::from((0..FILES + 2).any(|n| due[n] && refreshed[n] > 0));
    }
}

/// Checks a killed run, in which each was refreshed at most this number of times.
#[track_caller]
fn judge(what: &str, before: Due, after: Due, refreshed: Refreshed, at_most: Refreshed) {
    for n in 0..FILES + 2 {
        let (before, after, refreshed) = (before[n], after[n], refreshed[n]);
        let said = format!("{what}: exec[{n}] was due: {before}, is due: {after}, refreshed {refreshed} times");
        assert!(before || !after, "nothing happened to it: {said}");
        assert!(refreshed <= at_most[n], "it was recorded, or never owed: {said}");
        assert!(!before || after || refreshed > 0, "it is lost: {said}");
    }
}

/// Durations of the last few runs that had work and ended by themselves.
#[derive(Debug, Default)]
struct Lately(VecDeque<Duration>);

impl Lately {
    fn note(&mut self, took: Duration) {
        self.0.push_front(took);
        self.0.truncate(5);
    }

    fn median(&self) -> Duration {
        let mut sorted = Vec::from_iter(&self.0);
        sorted.sort_unstable();
        *sorted[sorted.len() / 2]
    }
}

#[test]
fn kill_at_any_moment_loses_and_repeats_no_refresh() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seed = number("KILTER_SEED").unwrap_or_else(|| fastrand::u64(..));
    let kills = number("KILTER_KILLS").map_or(KILLS, |kills| kills as usize);
    eprintln!("KILTER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    // What a killed run leaves running becomes a child of this process, so that its end can be waited for.
    set_child_subreaper(Some(getpid())).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let play = RefreshTest { directory: temporary.path().to_owned() };
    let converge = ["run", "--converged-exit", "--converged-timeout", "0"];
    let mut version = 0;
    let mut lately = Lately::default();
    for _ in 0..5 {
        version += 1;
        play.declare(version);
        lately.note(play.complete(&["apply"]));
    }
    let (mut fell, mut killed, mut round) = (Fell::default(), 0, 0_usize);
    while killed < kills {
        round += 1;
        // Every third time it is killed while it holds a state, and something happens to that.
        if round.is_multiple_of(3) {
            let child = play.hold();
            let before = play.refreshed();
            let is_edited = random.bool();
            let (due, mut at_most);
            if is_edited {
                version += 1;
                play.declare(version);
                due = [true; FILES + 2];
                at_most = due.map(usize::from);
                std::thread::sleep(Duration::from_millis(SETTLED));
            } else {
                let struck: Vec<bool> = (0..FILES).map(|_| random.bool()).collect();
                due = play.due(|n| struck[n]);
                at_most = due.map(usize::from);
                // One may be mended before the next is struck.
                at_most[ALL] = struck.iter().filter(|struck| **struck).count();
                for n in (0..FILES).filter(|n| struck[*n]) {
                    std::fs::remove_file(play.path(&format!("f{n}"))).unwrap();
                }
            }
            std::thread::sleep(lately.median().mul_f64(random.f64()));
            play.kill(child);
            let what = if is_edited { "edited while it was held" } else { "struck while it was held" };
            let (after, refreshed) = (play.due_for(version), play.since(before));
            judge(what, due, after, refreshed, at_most);
            fell.count(&play, after, refreshed);
            killed += 1;
        } else {
            version += 1;
            play.declare(version);
        }
        for _ in 0..random.usize(0..3) {
            let (before, due) = (play.refreshed(), play.due_for(version));
            let args = [&["apply"][..], &["run"]][random.usize(0..2)];
            let child = play.begin(args);
            std::thread::sleep(lately.median().mul_f64(random.f64()));
            play.kill(child);
            let (after, refreshed) = (play.due_for(version), play.since(before));
            judge(args[0], due, after, refreshed, due.map(usize::from));
            fell.count(&play, after, refreshed);
            killed += 1;
        }
        let args = [&["apply"][..], &converge][random.usize(0..2)];
        let (before, due) = (play.refreshed(), play.due_for(version));
        let took = play.complete(args);
        if due == [true; FILES + 2] {
            lately.note(took);
        }
        assert_eq!(play.since(before), due.map(usize::from), "{args:?} refreshes what is due, once");
        assert_eq!(play.due_for(version), [false; FILES + 2], "nothing is due behind {args:?}");
        // The last refresh has seen the last change.
        for n in 0..FILES {
            assert_eq!(play.read(&format!("log{n}")).lines().next_back(), Some(&*format!("version {version}")));
        }
        if round.is_multiple_of(10) {
            let before = play.refreshed();
            play.complete(&["apply"]);
            play.complete(&converge);
            assert_eq!(play.refreshed(), before, "what is converged is not refreshed");
        }
    }
    eprintln!("{killed} kills: {fell:?}");
    // It is a third and more, on a machine that is busy with something else too.
    assert!(fell.in_midst > killed / 8, "only {fell:?} of {killed}");
}
