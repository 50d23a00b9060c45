//! `kill -9` at random moments: no file is ever half-written or readable by the wrong user, and the
//! next apply converges.

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
