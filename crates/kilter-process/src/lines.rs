//! Splits chunks into lines.

use crate::event::{Event, Stream};

/// End of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineEnd {
    /// The line ended with a line feed.
    Newline,
    /// The line was too long. Its beginning is passed on and the rest is dropped.
    Cut,
    /// The stream ended inside the line.
    Missing,
}

/// Splits the chunks of one stream into lines of limited length.
///
/// It buffers at most one line, and copies only lines that span several chunks.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    part: Vec<u8>,
    /// True while the rest of a line that is too long is dropped.
    is_cut: bool,
}

impl Lines {
    /// Creates a splitter for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Lines {
        Lines { limit, part: Vec::new(), is_cut: false }
    }

    /// Adds a chunk and passes each complete line to `give`, without its line feed. An over-long line is passed on
    /// as soon as it exceeds the limit.
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

    /// Passes on the incomplete last line at the end of the stream.
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

/// Splits the outputs of a child into lines, for an observer that forwards its events.
#[derive(Debug)]
pub struct StreamLines {
    of: [Lines; 3],
}

impl StreamLines {
    /// Creates a splitter for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> StreamLines {
        StreamLines { of: std::array::from_fn(|_| Lines::new(limit)) }
    }

    /// Adds an event and passes on the lines that it completes.
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
    fn too_long_line_is_marked_and_next_is_whole() {
        for chunks in [&["123456789\nnext\n"][..], &["1234", "5", "6789", "\nne", "xt\n"]] {
            assert_eq!(lines(5, chunks), [("12345".into(), LineEnd::Cut), ("next".into(), LineEnd::Newline)]);
        }
        assert_eq!(lines(5, &["12345", "\n"]), [("12345".into(), LineEnd::Newline)]);
        assert_eq!(lines(5, &["123456"]), [("12345".into(), LineEnd::Cut)]);
    }
}
