//! Hosts booted by systemd, for tests that need a complete machine.
//!
//! The programs in `hosts` of this crate create and boot them. Their first lines explain the details. A test runs a
//! second time in a sandbox, as root of a small environment: hosts and a bridge that connects them. All its effects
//! end with the sandbox.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Output and exit code of a command in a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOutput {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Returns the path of a program in the directory `hosts`.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hosts").join(name)
}

/// Runs the named test again in a sandbox, and `body` inside it.
///
/// # Panics
/// If the test fails there, if no test has this name, or if a component for the sandbox is missing. The message
/// names the component.
pub fn sandboxed(test: &str, body: impl FnOnce()) {
    sandboxed_with(test, &[], body);
}

/// Like [`sandboxed`], with hosts of another release of Debian, such as `trixie`.
///
/// # Panics
/// As [`sandboxed`].
pub fn sandboxed_on(release: &str, test: &str, body: impl FnOnce()) {
    sandboxed_with(test, &[("KILTER_HOSTS_RELEASE", release)], body);
}

fn sandboxed_with(test: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if Path::new("/run/kilter/hosts").is_dir() {
        return body();
    }
    let this = std::env::current_exe().expect("a test program knows where it is");
    // Kill the sandbox if this test is killed.
    let mut sandbox = Command::new("setpriv");
    sandbox.args(["--pdeathsig", "KILL", "--"]).arg(program("sandbox")).arg(this).args([
        "--exact",
        test,
        "--nocapture",
    ]);
    sandbox.envs(environment.iter().copied());
    let answer = answer(&mut sandbox);
    // The output is indented, so that tools do not count the test twice.
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
    /// Creates a host, copies files and directories to it as root's, and boots it.
    ///
    /// # Panics
    /// If the boot fails, or a unit fails during the boot.
    #[must_use]
    pub fn up(name: &str, files: &[(&Path, &str)]) -> Host {
        let host = Host { name: name.to_owned() };
        host.copies("up", files);
        host
    }

    /// Runs a command in the host, as a separate unit.
    #[must_use]
    pub fn run(&self, command: &[&str]) -> HostOutput {
        let mut run = Command::new(program("host"));
        answer(run.args(["run", &self.name]).args(command))
    }

    /// Runs a bash script in the host, up to the first failing command, and returns its output.
    ///
    /// # Panics
    /// If a command fails.
    pub fn bash(&self, script: &str) -> String {
        let answer = self.run(&["bash", "-euc", script]);
        assert!(answer.code == 0, "{}: {script}\n{answer:#?}", self.name);
        answer.stdout
    }

    /// Copies files and directories to the host as root's.
    ///
    /// # Panics
    /// If a file cannot be read, or there is no space.
    pub fn copy(&self, files: &[(&Path, &str)]) {
        self.copies("copy", files);
    }

    /// Returns the path of its root directory outside of the host. `/proc`, `/run`, `/sys` and `/tmp` are not
    /// visible there.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        PathBuf::from(self.does("root").trim_end())
    }

    /// Returns its address, which other hosts and the test can reach.
    #[must_use]
    pub fn address(&self) -> String {
        self.does("address").trim_end().to_owned()
    }

    /// Reboots the host in an orderly way.
    pub fn reboot(&self) {
        self.does("reboot");
    }

    /// Cuts the power of the host.
    pub fn crash(&self) {
        self.does("crash");
    }

    /// Boots the host after a power cut.
    pub fn start(&self) {
        self.does("start");
    }

    /// Shuts the host down and removes it.
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

/// Runs a program of the directory `hosts` to its end.
fn answer(command: &mut Command) -> HostOutput {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    // A program ended by a signal has no exit code.
    let code = output.status.code().unwrap_or(-1);
    HostOutput { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}
