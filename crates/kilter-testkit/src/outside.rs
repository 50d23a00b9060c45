//! A run of the command that holds a state, as it is seen from outside: by its socket, and by what the kernel says of it.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

/// A run that holds a state. It is killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    socket: PathBuf,
}

/// What a process has of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Kilobytes of memory.
    pub memory: u64,
    /// The most that it was.
    pub peak: u64,
    /// Open descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: usize,
    /// Watches of inotify, as the kernel counts them.
    pub watches: usize,
    /// Processes that it has begun and that are there still, if only to be waited for.
    pub children: usize,
}

/// Waits until something holds, and returns for how long.
///
/// # Panics
/// When it takes longer than this.
#[track_caller]
pub fn wait(what: &str, longest: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < longest, "it never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

impl Running {
    /// Begins a run that prints nothing, with its state in `state`.
    ///
    /// # Panics
    /// When the command is not there.
    #[must_use]
    pub fn begin(command: &mut Command, state: &Path) -> Running {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("kilter is there");
        Running { child, socket: state.join("status.sock") }
    }

    fn ask(&self, question: &Json) -> Option<Lines<BufReader<UnixStream>>> {
        // Before it listens, and when it has ended, there is nobody.
        let mut socket = UnixStream::connect(&self.socket).ok()?;
        socket.write_all(format!("{question}\n").as_bytes()).ok()?;
        Some(BufReader::new(socket).lines())
    }

    /// What it says of itself and of `which` resources: `"notable"`, `"all"` or a list of references. None while there is
    /// nobody to ask.
    ///
    /// # Panics
    /// When the answer is no JSON.
    #[must_use]
    pub fn status(&self, which: impl Into<Json>) -> Option<Json> {
        let answer = self.ask(&json!({"ask": "status", "which": which.into()}))?.next()?.ok()?;
        let answer: Json = serde_json::from_str(&answer).expect("it answers by JSON");
        answer["error"].is_null().then_some(answer)
    }

    /// The events from now on, as lines of JSON.
    ///
    /// # Panics
    /// When nobody is there to follow.
    pub fn follow(&self) -> impl Iterator<Item = String> + use<> {
        let lines = self.ask(&json!({"ask": "follow"})).expect("it listens");
        lines.map(|line| line.expect("it goes on"))
    }

    /// Waits until nothing is left to be done.
    ///
    /// # Panics
    /// When that takes more than ten minutes.
    #[track_caller]
    pub fn wait_until_quiet(&self) {
        let is_quiet = || self.status("notable").is_some_and(|status| !status["quiet_for_ms"].is_null());
        wait("quiet", Duration::from_secs(600), is_quiet);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it was started here");
    }

    /// Lets it do nothing until it [goes on](Running::go_on).
    ///
    /// # Panics
    /// When it has ended.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        // The state comes behind the name, which stands in parentheses.
        let is_stopped = |stat: String| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'));
        wait("all its threads standing still", Duration::from_secs(60), || {
            self.tasks().into_iter().all(|task| fs::read_to_string(task.join("stat")).is_ok_and(is_stopped))
        });
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When it has ended.
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

    /// Milliseconds of processor time that all its threads have used.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        let of = |task: PathBuf| fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let used = |text: String| text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0);
        self.tasks().into_iter().map(|task| used(of(task))).sum::<f64>() / 1e6
    }

    /// What it has of the system. While it answers a question that is a descriptor and a thread more.
    ///
    /// # Panics
    /// When it has ended.
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
        // Those that have ended meanwhile are none.
        let stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&own)).count()
    }

    /// Ends it by SIGTERM, and returns its exit code.
    ///
    /// # Panics
    /// When it cannot be waited for.
    pub fn end(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.child.wait().expect("it was started here").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
