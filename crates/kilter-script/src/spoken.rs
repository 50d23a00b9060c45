//! What scripts write on standard error, passed on while they run.

use kilter_process::{Event, LineEnd, Lines, Stream};
use kilter_provider::Level;

use crate::convention::beginning;
use crate::provider::known_level;

/// How many characters of a line are taken.
const LONGEST: usize = 2000;

/// Passes on each line of standard error when it has ended, up to a limit.
pub(crate) struct Spoken<'a> {
    lines: Lines,
    /// What a line is that does not say its level.
    otherwise: Level,
    log: &'a dyn Fn(Level, &str),
    /// How many bytes are still passed on.
    left: usize,
    /// How many were not.
    dropped: u64,
}

impl<'a> Spoken<'a> {
    /// Passes on the first `limit` bytes.
    pub(crate) fn new(limit: usize, otherwise: Level, log: &'a dyn Fn(Level, &str)) -> Spoken<'a> {
        // A character has up to four bytes.
        Spoken { lines: Lines::new(4 * LONGEST), otherwise, log, left: limit, dropped: 0 }
    }

    /// Takes an event of the process.
    pub(crate) fn observe(&mut self, event: &Event<'_>) {
        let (log, otherwise) = (self.log, self.otherwise);
        let mut give = |line: &[u8], _: LineEnd| tell(line, otherwise, log);
        match event {
            Event::Chunk { stream: Stream::Stderr, bytes } => {
                let taken = bytes.len().min(self.left);
                self.left -= taken;
                self.dropped += (bytes.len() - taken) as u64;
                self.lines.feed(&bytes[..taken], &mut give);
            }
            Event::Closed { stream: Stream::Stderr } => self.lines.end(&mut give),
            _ => {}
        }
    }

    /// How many bytes were not passed on.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn tell(line: &[u8], otherwise: Level, log: &dyn Fn(Level, &str)) {
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    let (level, message) = known_level(line).unwrap_or((otherwise, line));
    if !message.is_empty() {
        log(level, &beginning(message, LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn said(limit: usize, chunks: &[&str]) -> (Vec<String>, u64) {
        let said = RefCell::new(Vec::new());
        let log = |level: Level, message: &str| said.borrow_mut().push(format!("{} {message}", level.word()));
        let mut spoken = Spoken::new(limit, Level::Warning, &log);
        for chunk in chunks {
            spoken.observe(&Event::Chunk { stream: Stream::Stderr, bytes: chunk.as_bytes() });
        }
        spoken.observe(&Event::Closed { stream: Stream::Stderr });
        let dropped = spoken.dropped();
        (said.into_inner(), dropped)
    }

    #[test]
    fn a_line_is_passed_on_with_its_level_wherever_it_is_cut() {
        let expected = ["info one", "warning two", "err three: more"];
        for chunks in
            [&["info: one\n\n  two\nERROR: three: more"][..], &["in", "fo: one\n\n ", " two\nERROR", ": three: more"]]
        {
            assert_eq!(said(100, chunks), (expected.map(str::to_owned).to_vec(), 0));
        }
    }

    #[test]
    fn what_is_too_much_is_counted_and_not_passed_on() {
        assert_eq!(said(4, &["one\ntwo\n"]), (vec!["warning one".to_owned()], 4));
        assert_eq!(said(2, &["one", "\ntwo\n"]), (vec!["warning on".to_owned()], 6));
    }
}
