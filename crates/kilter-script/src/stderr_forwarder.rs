//! Forwards the stderr lines of running scripts.

use ecow::EcoString;
use kilter_process::{Event, LineEnd, Lines, Stream};
use kilter_provider::{Level, Redactor};

use crate::convention::beginning;

/// Maximum length of a line, in characters.
const MAX_LINE_CHARS: usize = 2000;

/// Forwarder for the lines of stderr, up to a limit, with secrets redacted.
pub(crate) struct StderrForwarder<'a> {
    lines: Lines,
    /// Level of a line without a level.
    otherwise: Level,
    /// Secrets that a line may repeat.
    seal: &'a Redactor,
    log: &'a dyn Fn(Level, &str),
    /// Number of bytes that may still be forwarded.
    left: usize,
    /// Number of dropped bytes.
    dropped: u64,
}

impl<'a> StderrForwarder<'a> {
    /// Forwards the first `limit` bytes.
    pub(crate) fn new(
        limit: usize,
        otherwise: Level,
        seal: &'a Redactor,
        log: &'a dyn Fn(Level, &str),
    ) -> StderrForwarder<'a> {
        // A character has at most four bytes.
        StderrForwarder { lines: Lines::new(4 * MAX_LINE_CHARS), otherwise, seal, log, left: limit, dropped: 0 }
    }

    /// Handles an event of the process.
    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        let (log, otherwise, seal) = (self.log, self.otherwise, self.seal);
        let ends_early = self.dropped > 0;
        let mut give = |line: &[u8], end: LineEnd| {
            let is_cut = end == LineEnd::Cut || end == LineEnd::Missing && ends_early;
            log_line(&hidden(line, is_cut, seal), otherwise, log);
        };
        match event {
            Event::Chunk { stream: Stream::Stderr, bytes } => {
                let taken = bytes.len().min(self.left);
                self.left -= taken;
                self.dropped = self.dropped.saturating_add((bytes.len() - taken) as u64);
                self.lines.feed(&bytes[..taken], &mut give);
            }
            Event::Unseen { stream: Stream::Stderr, bytes } => {
                self.left = 0;
                self.dropped = self.dropped.saturating_add(*bytes);
            }
            Event::Closed { stream: Stream::Stderr } => self.lines.end(&mut give),
            _ => {}
        }
    }

    /// Number of bytes that were not forwarded.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Redacts the secrets in a line. This happens before truncation, because the rest of a truncated secret could
/// not be recognised.
fn hidden(line: &[u8], is_cut: bool, seal: &Redactor) -> EcoString {
    let whole = if is_cut { &line[..whole_characters(line)] } else { line };
    let mut text = EcoString::from(String::from_utf8_lossy(whole).as_ref());
    if is_cut {
        text.push('…');
    }
    seal.redact(text)
}

/// Returns the length without an incomplete UTF-8 character at the end.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let behind = bytes.iter().rev().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    let Some(first) = bytes.len().checked_sub(behind + 1) else { return bytes.len() };
    let length = match bytes[first] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    if length > behind + 1 { first } else { bytes.len() }
}

/// Splits a line into its level and message. The level is a case-insensitive prefix `LEVEL:`, with warning as
/// the default.
pub(crate) fn level(line: &str) -> (Level, &str) {
    known_level(line).unwrap_or((Level::Warning, line))
}

/// Splits a line into its level and message. None if there is no level.
fn known_level(line: &str) -> Option<(Level, &str)> {
    let (word, message) = line.split_once(':')?;
    let level = match word.trim_end().to_ascii_lowercase().as_str() {
        "debug" => Level::Debug,
        "info" => Level::Info,
        "notice" => Level::Notice,
        "warn" | "warning" => Level::Warning,
        "error" => Level::Err,
        _ => return None,
    };
    Some((level, message.trim_start()))
}

fn log_line(line: &str, otherwise: Level, log: &dyn Fn(Level, &str)) {
    let line = line.trim();
    let (level, message) = known_level(line).unwrap_or((otherwise, line));
    if !message.is_empty() {
        log(level, &beginning(message, MAX_LINE_CHARS));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use kilter_model::Value;

    use super::*;

    fn said(limit: usize, chunks: &[&str]) -> (Vec<String>, u64) {
        said_under(&Redactor::default(), limit, chunks)
    }

    fn said_under(seal: &Redactor, limit: usize, chunks: &[&str]) -> (Vec<String>, u64) {
        let said = RefCell::new(Vec::new());
        let log = |level: Level, message: &str| said.borrow_mut().push(format!("{} {message}", level.word()));
        let mut spoken = StderrForwarder::new(limit, Level::Warning, seal, &log);
        for chunk in chunks {
            spoken.observe(&Event::Chunk { stream: Stream::Stderr, bytes: chunk.as_bytes() });
        }
        spoken.observe(&Event::Closed { stream: Stream::Stderr });
        let dropped = spoken.dropped();
        (said.into_inner(), dropped)
    }

    #[test]
    fn split_line_is_logged_with_level() {
        let expected = ["info one", "warning two", "err three: more"];
        for chunks in
            [&["info: one\n\n  two\nERROR: three: more"][..], &["in", "fo: one\n\n ", " two\nERROR", ": three: more"]]
        {
            assert_eq!(said(100, chunks), (expected.map(str::to_owned).to_vec(), 0));
        }
    }

    #[test]
    fn excess_lines_are_counted_and_dropped() {
        assert_eq!(said(4, &["one\ntwo\n"]), (vec!["warning one".to_owned()], 4));
        assert_eq!(said(2, &["one", "\ntwo\n"]), (vec!["warning on…".to_owned()], 6));
    }

    #[test]
    fn secret_in_split_line_is_redacted() {
        let seal = Redactor::of_values([&Value::sensitive("hunter2ü".into())]);
        for before in (MAX_LINE_CHARS - 10..MAX_LINE_CHARS + 2).chain(4 * MAX_LINE_CHARS - 12..4 * MAX_LINE_CHARS + 2) {
            for filling in ["x", "\u{1F600}"] {
                let filled = filling.repeat(before / filling.len());
                let line = format!("{filled}{}hunter2ü and more\n", "y".repeat(before % filling.len()));
                let (said, _) = said_under(&seal, usize::MAX, &[&line]);
                let said = said.concat();
                assert!(!said.contains('h') && said.len() > 1000, "{before}: {said}");
            }
        }
        for limit in 3..12 {
            let (said, _) = said_under(&seal, limit, &["x hunter2ü"]);
            assert!(!said.concat().contains('h'), "{limit}: {said:?}");
        }
    }

    #[test]
    fn only_partial_line_is_dropped_at_end() {
        for (bytes, whole) in [
            (&b"ab"[..], 2),
            (b"a\xc3", 1),
            (b"a\xc3\xbc", 3),
            (b"\xffa\xf0\x9f\x98", 2),
            (b"\xf0\x9f\x98\x80", 4),
            (b"\x80", 1),
            (b"\x80\x80\x80\x80", 4),
            (b"", 0),
        ] {
            assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        }
    }
}
