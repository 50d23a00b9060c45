//! Questions at the terminal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};

use kilter_remote::Password;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::exit::Exit;
use crate::{output, signals};

/// Asks for a password at the terminal, without showing it.
///
/// # Errors
/// If there is no terminal, or the user interrupts; reported.
pub(super) fn password(question: &str) -> Result<Password, Exit> {
    let fail = |error: std::io::Error| output::fail(format_args!("cannot ask for the password: {error}"));
    let terminal = terminal().map_err(fail)?;
    let before = tcgetattr(&terminal).map_err(|error| fail(error.into()))?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Flush, &hidden).map_err(|error| fail(error.into()))?;
    let answer = line(&terminal, question);
    let _ = tcsetattr(&terminal, OptionalActions::Flush, &before);
    let _ = writeln!(&terminal);
    answer.map(Password::new)
}

/// Asks a question at the terminal and returns the line of the answer.
///
/// # Errors
/// If there is no terminal, or the user interrupts; reported.
pub(super) fn question(question: &str) -> Result<String, Exit> {
    let terminal = terminal().map_err(|error| output::fail(format_args!("cannot ask for the approval: {error}")))?;
    line(&terminal, question)
}

fn line(terminal: &File, question: &str) -> Result<String, Exit> {
    let _ = write!(&*terminal, "{question}");
    let mut text = String::new();
    let read = signals::killable(|| BufReader::new(terminal).read_line(&mut text));
    match (read, signals::exit()) {
        (_, Some(exit)) => Err(exit),
        (Ok(0), None) => Err(Exit::Interrupted),
        (Ok(_), None) => Ok(text.trim_end_matches('\n').to_owned()),
        (Err(error), None) => Err(output::fail(error)),
    }
}

/// Returns true if the user can answer.
pub(super) fn is_possible() -> bool {
    terminal().is_ok() && std::io::IsTerminal::is_terminal(&std::io::stderr())
}

fn terminal() -> std::io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}
