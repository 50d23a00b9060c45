//! A child that this process talks to until one of them ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::environment::{DEFAULT_PATH, Environment};
use crate::finished::Status;
use crate::which::which;

/// A child with three pipes. A drop kills its process group.
#[derive(Debug)]
pub struct Interactive {
    child: Child,
    /// Standard input of the child.
    pub stdin: Option<ChildStdin>,
    /// Standard output of the child.
    pub stdout: ChildStdout,
    /// Error output of the child.
    pub stderr: ChildStderr,
}

impl Interactive {
    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    /// If it is not found, or does not start.
    pub fn start(program: &OsStr, args: &[OsString], environment: &Environment) -> io::Result<Interactive> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("{} is not found", program.display()));
        let path = which(program, OsStr::new(DEFAULT_PATH)).ok_or_else(missing)?;
        let mut command = Command::new(path);
        command.args(args).env_clear().envs(environment.variables().to_vec()).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        match (stdout, stderr) {
            (Some(stdout), Some(stderr)) => Ok(Interactive { child, stdin, stdout, stderr }),
            _ => Err(io::Error::other("the child has no pipes")),
        }
    }

    /// Closes the input and waits until the child has ended.
    ///
    /// # Errors
    /// If the wait fails.
    pub fn wait(&mut self) -> io::Result<Status> {
        self.stdin = None;
        self.child.wait().map(Status::from)
    }

    /// Returns how the child ended; none while it runs.
    ///
    /// # Errors
    /// If the wait fails.
    pub fn try_wait(&mut self) -> io::Result<Option<Status>> {
        Ok(self.child.try_wait()?.map(Status::from))
    }
}

impl Drop for Interactive {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // The child has not been waited for, so that its number still belongs to it.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}
