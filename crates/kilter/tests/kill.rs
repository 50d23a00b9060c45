//! `kill -9` at random moments: no file is ever half-written or readable by the wrong user, and the
//! next apply converges. The history stays whole, and a cut run can be undone.
//!
//! `KILTER_KILLS=500 cargo test -p kilter --test kill history -- --nocapture` kills more commands, by hand.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const FILES: usize = 30;
const KILLS: usize = 200;
/// The owner of the files: no account of its own, so that nothing else uses it.
const OWNER: u32 = 54_321;

struct KillTest {
    directory: PathBuf,
    root: bool,
}

impl KillTest {
    fn file(&self, n: usize) -> PathBuf {
        self.directory.join("files").join(format!("f{n}"))
    }

    /// A manifest of a version: every file with its content, its owner, its mode.
    fn manifest(&self, version: u64) -> PathBuf {
        let mut text = format!(
            "resources:\n  file[{}]:\n    ensure: directory\n    mode: \"0711\"\n",
            self.directory.join("files").display()
        );
        let owner = if self.root { format!("    owner: \"{OWNER}\"\n    group: \"{OWNER}\"\n") } else { String::new() };
        for n in 0..FILES {
            let content = content(version, n).replace('\n', "\\n");
            let _ = write!(
                text,
                "  file[{}]:\n    content: \"{content}\"\n    mode: \"0640\"\n{owner}",
                self.file(n).display()
            );
        }
        let path = self.directory.join("manifest.yaml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn apply(&self, manifest: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kilter"));
        command
            .env_clear()
            .args(["apply", "--format", "json"])
            .arg("--state-dir")
            .arg(self.directory.join("state"))
            .arg(manifest)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .stdout(Stdio::piped());
        command
    }

    /// Checks that every existing file is complete and readable only by its owner and group.
    fn look(&self) -> u64 {
        let mut seen = 0;
        let Ok(entries) = std::fs::read_dir(self.directory.join("files")) else { return 0 };
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(file) = std::fs::File::open(&path) else { continue };
            let found = file.metadata().unwrap();
            let mode = found.mode() & 0o7777;
            if entry.file_name().to_string_lossy().starts_with(".kilter.") {
                assert!(mode & 0o037 == 0, "{} can be read by others: {mode:o}", path.display());
                continue;
            }
            assert_eq!(mode, 0o640, "{}", path.display());
            if self.root {
                assert_eq!((found.uid(), found.gid()), (OWNER, OWNER), "{}", path.display());
            }
            let text = std::io::read_to_string(file).unwrap();
            let version = text.split(' ').nth(1).and_then(|n| n.parse().ok());
            let n = path.file_name().and_then(|name| name.to_str()?[1..].parse().ok());
            let (Some(version), Some(n)) = (version, n) else { panic!("{} is half-written", path.display()) };
            assert!(text == content(version, n), "{} is half-written", path.display());
            seen += 1;
        }
        seen
    }
}

/// The content of file `n`, of a length that takes several pages.
fn content(version: u64, n: usize) -> String {
    let line = format!("version {version} of file {n}\n");
    line.repeat(200 + n * 20)
}

#[test]
fn kill_at_any_moment_leaves_whole_files() {
    let temporary = tempfile::tempdir().unwrap();
    let play = KillTest { directory: temporary.path().to_owned(), root: rustix::process::geteuid().is_root() };
    let seed =
        std::env::var("KILTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    eprintln!("KILTER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let longest = duration_of_an_apply(&play);
    let done = AtomicBool::new(false);
    let looks = AtomicU64::new(0);
    let killed = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                looks.fetch_add(play.look(), Ordering::Relaxed);
            }
        });
        let mut killed = 0;
        for version in 1..=KILLS as u64 {
            let manifest = play.manifest(version);
            let mut child = play.apply(&manifest).spawn().unwrap();
            std::thread::sleep(longest.mul_f64(random.f64()));
            child.kill().unwrap();
            killed += usize::from(!child.wait().unwrap().success());
            assert!(!watcher.is_finished(), "the watcher saw what must not be");
        }
        done.store(true, Ordering::Relaxed);
        killed
    });
    assert!(killed > KILLS / 4, "only {killed} of {KILLS} applies were killed in their midst");
    assert!(looks.load(Ordering::Relaxed) > FILES as u64, "the watcher saw next to nothing");
    let manifest = play.manifest(KILLS as u64 + 1);
    let output = play.apply(&manifest).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let again: serde_json::Value = serde_json::from_slice(&play.apply(&manifest).output().unwrap().stdout).unwrap();
    assert_eq!(again["counts"]["in_sync"], FILES as u64 + 1, "{again}");
    assert_eq!(play.look(), FILES as u64);
    let left = std::fs::read_dir(play.directory.join("files")).unwrap().count();
    assert_eq!(left, FILES, "temporary files of killed runs are cleared away");
}

fn duration_of_an_apply(play: &KillTest) -> Duration {
    let start = Instant::now();
    let output = play.apply(&play.manifest(0)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    start.elapsed()
}

/// Contents of the files; none for a missing file.
type Contents = Vec<Option<String>>;

/// Numbers of killed commands.
#[derive(Debug, Default)]
struct KillCounts {
    killed: usize,
    ended: usize,
    /// Killed before the history had a record of them. They changed nothing.
    unrecorded: usize,
    cut_off: usize,
    restored_files: usize,
}

impl KillTest {
    fn kilter(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kilter"));
        command.env_clear().env("PATH", "/usr/bin:/bin").arg("--state-dir").arg(self.directory.join("state"));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end; returns its output.
    fn told(&self, args: &[&str]) -> String {
        let output = self.kilter(args).output().unwrap();
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{args:?}: {}{}", told(&output.stdout), told(&output.stderr));
        told(&output.stdout)
    }

    fn contents(&self) -> Contents {
        (0..FILES).map(|n| std::fs::read_to_string(self.file(n)).ok()).collect()
    }

    /// Returns the recorded run of a process, in JSON.
    fn run_of(&self, pid: u32) -> Option<serde_json::Value> {
        let runs = self.told(&["history", "--format", "json", "--lines", "1"]);
        let last: serde_json::Value = serde_json::from_str(runs.lines().next()?).unwrap();
        (last["pid"] == pid).then_some(last)
    }
}

#[test]
fn kill_at_any_moment_leaves_a_whole_history() {
    let temporary = tempfile::tempdir().unwrap();
    let play = KillTest { directory: temporary.path().to_owned(), root: false };
    let seed =
        std::env::var("KILTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let kills = std::env::var("KILTER_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(30);
    eprintln!("KILTER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let longest = duration_of_an_apply(&play);
    let mut counts = KillCounts::default();
    for number in 1..=kills {
        let manifest = play.manifest(number).display().to_string();
        let args: &[&str] = match number % 3 {
            0 => &["undo", "last"],
            1 => &["apply", &manifest],
            _ => &["run", &manifest],
        };
        let before = play.contents();
        let mut child = play.kilter(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(longest.mul_f64(random.f64() * 1.2));
        child.kill().unwrap();
        let has_ended = child.wait().unwrap().success();
        counts.killed += usize::from(!has_ended);
        counts.ended += usize::from(has_ended);
        assert!(play.told(&["history", "verify"]).contains("are unchanged"), "{args:?}");
        let Some(run) = play.run_of(child.id()) else {
            assert!(play.contents() == before, "{args:?} of a process without a record changed files");
            counts.unrecorded += 1;
            continue;
        };
        if !has_ended && run["state"] != "ended" {
            assert_eq!(run["state"], "cut_off", "{args:?}: {run}");
            counts.cut_off += 1;
        }
        // Its saved states restore each file.
        let after = play.contents();
        let is_changed = after != before;
        let undone = play.kilter(&["undo", &run["run"].to_string()]).output().unwrap();
        let told = String::from_utf8_lossy(&undone.stdout) + String::from_utf8_lossy(&undone.stderr);
        assert!(undone.status.success() || !is_changed, "{args:?}: {told}");
        assert!(!told.contains("damaged") && !told.contains("cannot be undone"), "{args:?}: {told}");
        assert!(play.contents() == before, "{args:?}: the undo of run {} left other contents: {told}", run["run"]);
        counts.restored_files += after.iter().zip(&before).filter(|(after, before)| after != before).count();
    }
    eprintln!("{counts:?}; {}", play.told(&["history", "verify"]).replace('\n', "; "));
    assert!(counts.killed * 4 > counts.ended && counts.cut_off > 0, "{counts:?}");
}
