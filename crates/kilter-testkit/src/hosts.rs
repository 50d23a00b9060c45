//! Hosts that systemd has booted, for tests of what only a whole machine shows.
//!
//! The programs in `hosts` of this crate make and boot them; each says in its first lines how. A test is
//! run a second time in a sandbox, where it is root of a small world: hosts, a bridge that joins them,
//! and nothing else. What it does there ends with it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a command in a host said, and its exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The exit code.
    pub code: i32,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

/// A program of the directory `hosts`.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hosts").join(name)
}

/// Runs the test of that name again in a sandbox, and `body` in there.
///
/// # Panics
/// When it fails in there, when no test has that name, or when there can be no sandbox here: what is missing
/// is said.
pub fn sandboxed(test: &str, body: impl FnOnce()) {
    if Path::new("/run/kilter/hosts").is_dir() {
        return body();
    }
    let this = std::env::current_exe().expect("a test program knows where it is");
    // If this test is killed, the sandbox is.
    let mut sandbox = Command::new("setpriv");
    sandbox.args(["--pdeathsig", "KILL", "--"]).arg(program("sandbox")).arg(this).args([
        "--exact",
        test,
        "--nocapture",
    ]);
    let answer = answer(&mut sandbox);
    // Indented, so that nobody counts the test twice.
    let shown = format!("{}{}", answer.stdout, answer.stderr).replace('\n', "\n    ");
    assert!(answer.code == 0, "{test}, in its sandbox: exit code {}\n    {shown}", answer.code);
    assert!(answer.stdout.contains("test result: ok. 1 passed;"), "no test is called {test}:\n    {shown}");
    println!("    {shown}");
}

/// A host. It is removed with the sandbox.
#[derive(Debug)]
pub struct Host {
    name: String,
}

impl Host {
    /// Makes a host, copies files and directories to places in it, where they are root's, and boots it.
    ///
    /// # Panics
    /// When it does not boot, or a unit fails while it does.
    #[must_use]
    pub fn up(name: &str, files: &[(&Path, &str)]) -> Host {
        let host = Host { name: name.to_owned() };
        host.copies("up", files);
        host
    }

    /// Runs a command in it, as a unit of its own.
    #[must_use]
    pub fn run(&self, command: &[&str]) -> Answer {
        let mut run = Command::new(program("host"));
        answer(run.args(["run", &self.name]).args(command))
    }

    /// Runs a script of bash in it, to its first command that fails; returns what it prints.
    ///
    /// # Panics
    /// When a command fails.
    pub fn bash(&self, script: &str) -> String {
        let answer = self.run(&["bash", "-euc", script]);
        assert!(answer.code == 0, "{}: {script}\n{answer:#?}", self.name);
        answer.stdout
    }

    /// Copies files and directories to places in it, where they are root's.
    ///
    /// # Panics
    /// When one cannot be read, or there is no room for it.
    pub fn copy(&self, files: &[(&Path, &str)]) {
        self.copies("copy", files);
    }

    /// Where its root directory is seen from outside, but for `/proc`, `/run`, `/sys` and `/tmp`.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        PathBuf::from(self.does("root").trim_end())
    }

    /// Its address, by which other hosts and the test reach it.
    #[must_use]
    pub fn address(&self) -> String {
        self.does("address").trim_end().to_owned()
    }

    /// Boots it anew, in good order.
    pub fn reboot(&self) {
        self.does("reboot");
    }

    /// Cuts its power.
    pub fn crash(&self) {
        self.does("crash");
    }

    /// Boots it after its power was cut.
    pub fn start(&self) {
        self.does("start");
    }

    /// Switches it off, and removes it.
    pub fn down(self) {
        self.does("down");
    }

    fn copies(&self, verb: &str, files: &[(&Path, &str)]) {
        let pairs = files.iter().map(|(from, to)| format!("{}:{to}", from.display()));
        self.succeeds(Command::new(program("host")).args([verb, &self.name]).args(pairs));
    }

    fn does(&self, verb: &str) -> String {
        self.succeeds(Command::new(program("host")).args([verb, &self.name]))
    }

    fn succeeds(&self, command: &mut Command) -> String {
        let answer = answer(command);
        assert!(answer.code == 0, "{}: exit code {}\n{}", self.name, answer.code, answer.stderr);
        answer.stdout
    }
}

/// Runs a program of this directory to its end.
fn answer(command: &mut Command) -> Answer {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    // A program that a signal ended has no exit code.
    let code = output.status.code().unwrap_or(-1);
    Answer { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}
