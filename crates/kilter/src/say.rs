//! The two ways out: data to standard output, everything else to standard error.
//!
//! A reader that has seen enough (`kilter get user | head -1`) ends nothing and is no error.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{BufWriter, ErrorKind, Write};

use anstyle::{AnsiColor, Style};

use crate::exit::Exit;
use crate::render::{FAILED, styled};
use crate::visible;

const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();

/// Writes data. The exit says whether it reached its reader.
pub(crate) fn data(text: &str) -> Exit {
    parts([text])
}

/// Writes data that comes in parts, in none of which a style is begun that another one ends. The exit says whether
/// all of it reached its reader.
pub(crate) fn parts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Exit {
    match write_parts(texts) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => fail(format!("cannot write to the standard output: {error}")),
    }
}

/// Writes text to the standard output, in one call where it can: styles are taken out where they are not
/// wanted, and the pieces between them put together again.
pub(crate) fn write(text: &str) -> std::io::Result<()> {
    write_parts([text])
}

/// So many bytes are written in one call.
const AT_ONCE: usize = 64 << 10;

fn write_parts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> std::io::Result<()> {
    let styled = is_styled();
    let mut buffered = BufWriter::with_capacity(AT_ONCE, std::io::stdout().lock());
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

/// These styles, or none where they would be taken out again: for texts of many parts.
pub(crate) fn seen<const N: usize>(styles: [Style; N]) -> [Style; N] {
    if is_styled() { styles } else { [Style::new(); N] }
}

fn is_styled() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// Whether nothing of a text would be taken out of it: nearly always, and that is soon seen.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n'))
}

/// Writes bytes as they are, to the standard output: no style is taken out of them.
pub(crate) fn bytes(data: &[u8]) -> Exit {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(data).and_then(|()| stdout.flush()) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => fail(format!("cannot write to the standard output: {error}")),
    }
}

thread_local! {
    /// The lines of this thread that are held back, if they are.
    static HELD_BACK: RefCell<Option<Said>> = const { RefCell::new(None) };
}

/// What was said to people and held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Lines, each for [`line()`].
    pub(crate) lines: Vec<String>,
    /// Number of errors that they report.
    pub(crate) errors: usize,
}

/// Counts errors that lines report which are held back.
pub(crate) fn count_errors(errors: usize) {
    HELD_BACK.with_borrow_mut(|held| held.iter_mut().for_each(|held| held.errors += errors));
}

/// Does something, and holds back what it says to people on this thread.
pub(crate) fn holding_back<T>(work: impl FnOnce() -> T) -> (T, Said) {
    HELD_BACK.set(Some(Said::default()));
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
        // There is nowhere left to tell that standard error is gone.
        let _ = writeln!(anstream::stderr().lock(), "{}", visible::escaped(&text.to_string()));
    }
}

/// Says what is wrong.
pub(crate) fn error(message: impl Display) {
    count_errors(1);
    line(format_args!("{} {message}", styled(FAILED, "error:")));
}

/// Says what may be wrong.
pub(crate) fn warning(message: impl Display) {
    line(format_args!("{} {message}", styled(WARNING, "warning:")));
}

/// Says how to mend what was said before.
pub(crate) fn hint(message: impl Display) {
    line(format_args!("  {} {message}", styled(HINT, "hint:")));
}

/// Says why nothing was started.
pub(crate) fn fail(message: impl Display) -> Exit {
    error(message);
    Exit::NotStarted
}

/// Says why nothing was started, and how to mend it.
pub(crate) fn fail_with(message: impl Display, hints: impl IntoIterator<Item = impl Display>) -> Exit {
    error(message);
    hints.into_iter().for_each(hint);
    Exit::NotStarted
}
