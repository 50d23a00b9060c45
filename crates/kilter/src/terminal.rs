//! How wide the terminal is.

use std::io::IsTerminal;

/// Text is never set wider than this: long lines are hard to read.
const WIDEST: usize = 100;

/// The columns of the terminal at standard output; none when it is something else.
pub(crate) fn columns() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= 20)
}

/// The columns of the terminal at standard error.
pub(crate) fn status_width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr()).map_or(80, |size| usize::from(size.ws_col).max(20))
}

/// How wide paragraphs are set.
pub(crate) fn text_width() -> usize {
    columns().map_or(WIDEST, |columns| columns.min(WIDEST))
}
