//! A place for a test to run the command in.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory of its own, in which home and state are empty.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

/// Exit status of the command.
#[derive(Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Place {
        own_session();
        let place = Place { directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.path().join("home")).unwrap();
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file and returns its path as text.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Copies the program, because others may be unable to enter the directory in which it was built.
    pub(crate) fn copy_of_kilter(&self, name: &str) -> PathBuf {
        let program = self.path().join(name);
        // Copied by this process, another test could start a child that keeps it from being run.
        assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_kilter")).arg(&program).status().unwrap().success());
        program
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kilter"));
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("TERM", "dumb")
            .env("HOME", self.path().join("home"))
            .env("KILTER_STATE_DIR", self.path().join("state"))
            .current_dir(self.path())
            .args(args);
        command
    }

    /// Runs the command with nothing on its standard input.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, b"")
    }

    /// Runs the command with `input` on its standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that reads nothing may be gone by now.
        let _ = child.stdin.take().unwrap().write_all(input);
        self.ended(child.wait_with_output().unwrap())
    }

    /// Runs a prepared command without input.
    pub(crate) fn end(&self, command: &mut Command) -> Ended {
        self.ended(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Runs the command as a user without rights: the one that runs the tests, or nobody if that is root. The place
    /// belongs to that user from then on.
    pub(crate) fn run_unprivileged(&self, args: &[&str]) -> Ended {
        let mut command = self.command(args);
        if is_root() {
            const NOBODY: u32 = 65534;
            let program = self.copy_of_kilter("home/kilter");
            let owner = format!("{NOBODY}:{NOBODY}");
            assert!(Command::new("chown").args(["-R", &owner]).arg(self.path()).status().unwrap().success());
            let of_root = std::mem::replace(&mut command, Command::new(&program));
            command.args(of_root.get_args()).env_clear().current_dir(self.path());
            command.envs(of_root.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.uid(NOBODY).gid(NOBODY);
        }
        self.ended(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Runs a script in a mount namespace of its own. The command is `"$0" "$@"` in it.
    pub(crate) fn run_in_own_mounts(&self, script: &str, args: &[&str]) -> Ended {
        let kilter = self.command(args);
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
        command.arg(kilter.get_program()).args(kilter.get_args()).env_clear().current_dir(self.path());
        command.envs(kilter.get_envs().filter_map(|(name, value)| Some((name, value?))));
        self.end(&mut command)
    }

    /// Result of a command.
    pub(crate) fn ended(&self, output: std::process::Output) -> Ended {
        Ended {
            code: output.status.code().unwrap(),
            stdout: self.anonymous(output.stdout),
            stderr: self.anonymous(output.stderr),
        }
    }

    /// The text without what differs from run to run.
    fn anonymous(&self, text: Vec<u8>) -> String {
        let text = String::from_utf8(text).unwrap();
        let text = text.replace(&self.path().display().to_string(), "DIR");
        without_duration(&text)
    }
}

/// Returns a text with `(N ms)` instead of its first duration: `(8 ms)`, or `(2.1 s)` on a busy machine.
pub(crate) fn without_duration(text: &str) -> String {
    let is_number =
        |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    for (end, _) in text.match_indices("s)") {
        let Some(start) = text[..end].rfind('(') else { continue };
        let Some((number, unit)) = text[start + 1..=end].split_once(' ') else { continue };
        if is_number(number) && matches!(unit, "ms" | "s") {
            return format!("{}(N ms{}", &text[..start], &text[end + 1..]);
        }
    }
    text.to_owned()
}

/// Holds a text against the snapshot of that name.
#[track_caller]
pub(crate) fn snapshot(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/command/snapshots").join(name);
    if std::env::var_os("KILTER_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(expected == text, "{} is not what is printed now:\n{text}", path.display());
}

/// Starts a session if that of the tests is outside of their PID namespace: `kilter pause` and `kilter resume` need
/// one that both can name.
fn own_session() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        if after_name.split_whitespace().nth(3) == Some("0") {
            rustix::process::setsid().expect("the process leads no process group");
        }
    });
}

/// Returns true if the tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
