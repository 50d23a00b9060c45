//! Start of a program that outlives this process.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::environment::Environment;

/// Starts a program that outlives this process, its terminal and its login. It returns when the program has printed
/// the first line: by then the program must have begun a session of its own.
///
/// The program has the default [`Environment`], the directory `/`, no input and no error output.
///
/// # Errors
/// If it does not start, or ends before it prints a line.
pub fn start_detached(program: &Path, args: &[OsString]) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(Environment::new().variables().to_vec()).current_dir("/");
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    let mut byte = [0];
    while output.read(&mut byte)? == 1 {
        if byte == *b"\n" {
            return Ok(());
        }
    }
    let ended = child.wait()?;
    Err(io::Error::other(format!("it ended at once: {ended}")))
}
