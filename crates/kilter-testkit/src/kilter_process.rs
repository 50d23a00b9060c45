//! Observes a run of the command from outside: through its socket and the kernel.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

/// A run that holds a state. Dropping it kills the process.
#[derive(Debug)]
pub struct KilterProcess {
    child: Child,
    socket: PathBuf,
}

/// System resources of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Memory in kilobytes.
    pub memory: u64,
    /// Peak memory in kilobytes.
    pub peak: u64,
    /// Number of open descriptors.
    pub descriptors: usize,
    /// Number of threads.
    pub threads: usize,
    /// Number of inotify watches, as the kernel counts them.
    pub watches: usize,
    /// Number of child processes, with zombies.
    pub children: usize,
}

/// Waits until a condition holds, and returns the waiting time.
///
/// # Panics
/// If it takes longer than `longest`.
#[track_caller]
pub fn wait(what: &str, longest: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < longest, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

impl KilterProcess {
    /// Starts a run without output, with its state in `state`.
    ///
    /// # Panics
    /// If the command does not exist.
    #[must_use]
    pub fn begin(command: &mut Command, state: &Path) -> KilterProcess {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("kilter is there");
        KilterProcess { child, socket: state.join("status.sock") }
    }

    fn ask(&self, question: &Json) -> Option<Lines<BufReader<UnixStream>>> {
        // The socket exists only while the run listens.
        let mut socket = UnixStream::connect(&self.socket).ok()?;
        socket.write_all(format!("{question}\n").as_bytes()).ok()?;
        Some(BufReader::new(socket).lines())
    }

    /// Returns the status of the run and of the resources selected by `filter`: `"notable"`, `"all"` or a list of
    /// references. Returns none while the run does not listen.
    ///
    /// # Panics
    /// If the answer is not JSON.
    #[must_use]
    pub fn status(&self, filter: impl Into<Json>) -> Option<Json> {
        let answer = self.ask(&json!({"request": "status", "filter": filter.into()}))?.next()?.ok()?;
        let answer: Json = serde_json::from_str(&answer).expect("it answers by JSON");
        answer["error"].is_null().then_some(answer)
    }

    /// Returns the events from now on, as lines of JSON.
    ///
    /// # Panics
    /// If the run does not listen.
    pub fn follow(&self) -> impl Iterator<Item = String> + use<> {
        let lines = self.ask(&json!({"request": "follow"})).expect("it listens");
        lines.map(|line| line.expect("it goes on"))
    }

    /// Waits until the run is quiet.
    ///
    /// # Panics
    /// If it takes more than ten minutes.
    #[track_caller]
    pub fn wait_until_quiet(&self) {
        let is_quiet = || self.status("notable").is_some_and(|status| !status["quiet_for_ms"].is_null());
        wait("quiet", Duration::from_secs(600), is_quiet);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it was started here");
    }

    /// Stops the process until [`go_on`](KilterProcess::go_on).
    ///
    /// # Panics
    /// If the process has ended.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        // The state follows the name, which is in parentheses.
        let is_stopped = |stat: String| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
        wait("all its threads standing still", Duration::from_secs(60), || {
            self.tasks().into_iter().all(|task| fs::read_to_string(task.join("stat")).is_ok_and(is_stopped))
        });
    }

    /// Continues the process.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn proc(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.child.id())).join(name)
    }

    fn entries(&self, name: &str) -> Vec<PathBuf> {
        fs::read_dir(self.proc(name)).expect("it runs").filter_map(|entry| Some(entry.ok()?.path())).collect()
    }

    fn tasks(&self) -> Vec<PathBuf> {
        self.entries("task")
    }

    /// Returns the processor time of all its threads in milliseconds.
    ///
    /// # Panics
    /// If the process has ended.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        let of = |task: PathBuf| fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let used = |text: String| text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0);
        self.tasks().into_iter().map(|task| used(of(task))).sum::<f64>() / 1e6
    }

    /// Returns its system resources. While it answers a query it uses an additional descriptor and thread.
    ///
    /// # Panics
    /// If the process has ended.
    #[must_use]
    pub fn held(&self) -> Held {
        let status = fs::read_to_string(self.proc("status")).expect("it runs");
        let of_status = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("the kernel says so");
            line.trim_matches([':', ' ', '\t']).trim_end_matches(" kB").parse().expect("it is a number")
        };
        let watches = |info: PathBuf| {
            let info = fs::read_to_string(info).unwrap_or_default();
            info.lines().filter(|line| line.starts_with("inotify ")).count()
        };
        Held {
            memory: of_status("VmRSS"),
            peak: of_status("VmHWM"),
            descriptors: self.entries("fd").len(),
            threads: self.tasks().len(),
            watches: self.entries("fdinfo").into_iter().map(watches).sum(),
            children: self.children(),
        }
    }

    fn children(&self) -> usize {
        let own = self.child.id().to_string();
        let all = fs::read_dir("/proc").expect("it is mounted").filter_map(Result::ok);
        // Processes that have ended meanwhile are not counted.
        let stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&own)).count()
    }

    /// Ends the process with SIGTERM, and returns its exit code.
    ///
    /// # Panics
    /// If the wait fails.
    pub fn end(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.child.wait().expect("it was started here").code()
    }
}

impl Drop for KilterProcess {
    fn drop(&mut self) {
        // The process has usually ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
