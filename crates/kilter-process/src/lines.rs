//! Lines out of what comes in parts.

use crate::event::{Event, Stream};

/// How a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineEnd {
    /// With a line feed.
    Newline,
    /// It was longer than is allowed: its beginning is given, the rest is dropped.
    Cut,
    /// The stream ended in the middle of it.
    Missing,
}

/// Puts the chunks of one stream together to lines, none longer than a limit.
///
/// It holds at most one line, and copies only those that come in parts.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    part: Vec<u8>,
    /// The rest of the line is too much.
    is_cut: bool,
}

impl Lines {
    /// With lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Lines {
        Lines { limit, part: Vec::new(), is_cut: false }
    }

    /// Takes a chunk, and gives each line that has ended, without its line feed. An over-long one is given
    /// as soon as it is known to be too long.
    pub fn feed(&mut self, mut bytes: &[u8], give: &mut dyn FnMut(&[u8], LineEnd)) {
        while let Some(end) = bytes.iter().position(|&b| b == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.part.is_empty() && !self.is_cut && line.len() <= self.limit {
                give(line, LineEnd::Newline);
            } else {
                self.take(line, give);
                if !self.is_cut {
                    give(&self.part, LineEnd::Newline);
                }
                self.part.clear();
                self.is_cut = false;
            }
            bytes = rest;
        }
        self.take(bytes, give);
    }

    /// Gives the half line that is left when the stream has ended.
    pub fn end(&mut self, give: &mut dyn FnMut(&[u8], LineEnd)) {
        if !self.part.is_empty() && !self.is_cut {
            give(&self.part, LineEnd::Missing);
        }
        self.part.clear();
        self.is_cut = false;
    }

    fn take(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8], LineEnd)) {
        if self.is_cut {
            return;
        }
        let room = self.limit - self.part.len();
        self.part.extend_from_slice(&bytes[..room.min(bytes.len())]);
        if bytes.len() > room {
            self.is_cut = true;
            give(&self.part, LineEnd::Cut);
        }
    }
}

/// The lines of all streams of a child, for an observer that passes its events on.
#[derive(Debug)]
pub struct StreamLines {
    of: [Lines; 3],
}

impl StreamLines {
    /// With lines of at most `limit` bytes.
    pub fn new(limit: usize) -> StreamLines {
        StreamLines { of: std::array::from_fn(|_| Lines::new(limit)) }
    }

    /// Takes an event, and gives the lines that end with it.
    pub fn feed(&mut self, event: &Event<'_>, give: &mut dyn FnMut(Stream, &[u8], LineEnd)) {
        match event {
            Event::Chunk { stream, bytes } => {
                self.of[*stream as usize].feed(bytes, &mut |line, end| give(*stream, line, end));
            }
            Event::Closed { stream } => self.of[*stream as usize].end(&mut |line, end| give(*stream, line, end)),
            Event::Spawned { .. } | Event::StdinWritten { .. } | Event::Unseen { .. } | Event::Exited { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limit: usize, chunks: &[&str]) -> Vec<(String, LineEnd)> {
        let mut given = Vec::new();
        let mut give = |line: &[u8], end| given.push((String::from_utf8(line.to_vec()).unwrap(), end));
        let mut lines = Lines::new(limit);
        chunks.iter().for_each(|chunk| lines.feed(chunk.as_bytes(), &mut give));
        lines.end(&mut give);
        given
    }

    #[test]
    fn lines_do_not_depend_on_where_chunks_are_cut() {
        let text = "one\n\ntwo three\nhalf";
        let expected = [("one", LineEnd::Newline), ("", LineEnd::Newline), ("two three", LineEnd::Newline)];
        let expected: Vec<(String, LineEnd)> =
            expected.into_iter().chain([("half", LineEnd::Missing)]).map(|(line, end)| (line.into(), end)).collect();
        for at in 0..=text.len() {
            assert_eq!(lines(9, &[&text[..at], &text[at..]]), expected, "cut at {at}");
        }
        let bytes: Vec<&str> = (0..text.len()).map(|at| &text[at..=at]).collect();
        assert_eq!(lines(9, &bytes), expected);
    }

    #[test]
    fn a_line_that_is_too_long_is_given_once_with_a_mark_and_the_next_one_is_whole() {
        for chunks in [&["123456789\nnext\n"][..], &["1234", "5", "6789", "\nne", "xt\n"]] {
            assert_eq!(lines(5, chunks), [("12345".into(), LineEnd::Cut), ("next".into(), LineEnd::Newline)]);
        }
        assert_eq!(lines(5, &["12345", "\n"]), [("12345".into(), LineEnd::Newline)]);
        assert_eq!(lines(5, &["123456"]), [("12345".into(), LineEnd::Cut)]);
    }
}
