//! Output: data to standard output, everything else to standard error.
//!
//! A reader that closes the pipe early (`kilter get user | head -1`) causes no error.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{BufWriter, ErrorKind, Write};

use anstyle::{AnsiColor, Style};

use crate::exit::Exit;
use crate::style::{FAILED, styled};
use crate::{streams, visible};

const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// Writes data. The exit code shows if the write succeeded.
pub(crate) fn data(text: &str) -> Exit {
    parts([text])
}

/// Writes data in parts. No part may start a style that another part ends. The exit code shows if all writes
/// succeeded.
pub(crate) fn parts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Exit {
    match write_parts(texts) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => fail(format!("cannot write to the standard output: {error}")),
    }
}

/// Writes text to the standard output, if possible in one call. Removes styles for outputs without colours.
pub(crate) fn write(text: &str) -> std::io::Result<()> {
    write_parts([text])
}

/// Maximum number of bytes of one write.
const AT_ONCE: usize = 64 << 10;

fn write_parts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> std::io::Result<()> {
    let styled = is_styled();
    let mut buffered = BufWriter::with_capacity(AT_ONCE, streams::stdout());
    for text in texts {
        let text = &*visible::escaped(text.as_ref());
        if styled || is_plain(text) {
            buffered.write_all(text.as_bytes())?;
        } else {
            anstream::adapter::strip_str(text).try_for_each(|piece| buffered.write_all(piece.as_bytes()))?;
        }
    }
    buffered.flush()
}

/// Returns these styles, or none if they would be removed again. Faster for texts of many parts.
pub(crate) fn seen<const N: usize>(styles: [Style; N]) -> [Style; N] {
    if is_styled() { styles } else { [Style::new(); N] }
}

/// Returns true if styles in data reach the reader.
pub(crate) fn is_styled() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// Returns true if a text contains nothing to remove, as nearly all texts.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
}

/// Writes bytes unchanged to the standard output, styles included.
pub(crate) fn bytes(data: &[u8]) -> Exit {
    let mut stdout = streams::stdout();
    match stdout.write_all(data).and_then(|()| stdout.flush()) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => fail(format!("cannot write to the standard output: {error}")),
    }
}

thread_local! {
    /// Buffered lines of this thread, if it buffers them.
    static HELD_BACK: RefCell<Option<BufferedLines>> = const { RefCell::new(None) };
}

/// Buffered lines of output for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferedLines {
    /// Lines, each for [`line()`].
    pub(crate) lines: Vec<String>,
    /// Number of errors that they report.
    pub(crate) errors: usize,
}

/// Counts errors in buffered lines.
pub(crate) fn count_errors(errors: usize) {
    HELD_BACK.with_borrow_mut(|held| held.iter_mut().for_each(|held| held.errors += errors));
}

/// Buffers the output for people of this thread while `work` runs.
pub(crate) fn buffered<T>(work: impl FnOnce() -> T) -> (T, BufferedLines) {
    HELD_BACK.set(Some(BufferedLines::default()));
    let done = work();
    (done, HELD_BACK.take().unwrap_or_default())
}

/// Writes a line for people.
pub(crate) fn line(text: impl Display) {
    let is_held_back = HELD_BACK.with_borrow_mut(|held| match held {
        Some(held) => {
            held.lines.push(text.to_string());
            true
        }
        None => false,
    });
    if !is_held_back {
        streams::error_line(&visible::escaped(&text.to_string()), is_styled());
    }
}

/// Reports an error.
pub(crate) fn error(message: impl Display) {
    count_errors(1);
    line(format_args!("{} {message}", styled(FAILED, "error:")));
}

/// Reports a warning.
pub(crate) fn warning(message: impl Display) {
    line(format_args!("{} {message}", styled(WARNING, "warning:")));
}

/// Adds a hint to the last error or warning.
pub(crate) fn hint(message: impl Display) {
    line(format_args!("  {} {message}", styled(HINT, "hint:")));
}

/// Reports the reason why the command did not start.
pub(crate) fn fail(message: impl Display) -> Exit {
    error(message);
    Exit::NotStarted
}

/// Reports the reason why the command did not start, with hints.
pub(crate) fn fail_with(message: impl Display, hints: impl IntoIterator<Item = impl Display>) -> Exit {
    error(message);
    hints.into_iter().for_each(hint);
    Exit::NotStarted
}
