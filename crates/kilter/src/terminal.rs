//! Width of the terminal.

use std::io::IsTerminal;

/// Maximum width of text: long lines are hard to read.
const WIDEST: usize = 100;

/// Returns the columns of the terminal at standard output; none if it is no terminal.
pub(crate) fn columns() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= 20)
}

/// Returns the columns of the terminal at standard error.
pub(crate) fn status_width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stderr()).map_or(80, |size| usize::from(size.ws_col).max(20))
}

/// Returns the width of paragraphs.
pub(crate) fn text_width() -> usize {
    columns().map_or(WIDEST, |columns| columns.min(WIDEST))
}
