//! Lines of a text file. An index finds the lines that a batch searches in a single pass.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use ecow::{EcoString, eco_format};
use rustc_hash::FxHashMap;

use super::pattern::LinePattern;

/// Maximum number of lines of a file, because each line takes memory.
const MAX_LINES: usize = 4_000_000;

/// A search that a batch announces, so that one pass over the lines can answer all of them.
pub enum Probe {
    /// Lines that are equal to this one.
    Equal(Vec<u8>),
    /// Lines that begin so.
    Prefix(Vec<u8>),
}

/// A text file as lines. A line is compared without its line break.
pub(crate) struct TextFile<'a> {
    bytes: &'a [u8],
    /// Offset of each line.
    starts: Vec<u32>,
    equal: FxHashMap<Vec<u8>, Vec<u32>>,
    prefixed: FxHashMap<Vec<u8>, Vec<u32>>,
    /// Line break of new lines.
    line_break: &'static [u8],
    /// Parsed form of the text, in the terms of a type.
    pub(super) parsed: RefCell<Option<Rc<dyn Any>>>,
}

impl<'a> TextFile<'a> {
    /// Splits a file into lines.
    ///
    /// # Errors
    /// If the file is not a text, or has too many lines.
    pub(crate) fn parse(path: &str, bytes: &'a [u8]) -> Result<TextFile<'a>, EcoString> {
        if memchr::memchr(0, bytes).is_some() {
            return Err(eco_format!("{path} is not a text file: it contains a NUL byte"));
        }
        let mut starts = Vec::new();
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', bytes).map(|at| at + 1).chain([bytes.len()]);
        for end in ends.filter(|end| *end > 0) {
            if end > start {
                starts.push(u32::try_from(start).map_err(|_| eco_format!("{path} is too large"))?);
            }
            start = end;
        }
        if starts.len() > MAX_LINES {
            return Err(eco_format!("{path} has more than {MAX_LINES} lines"));
        }
        let (equal, prefixed) = (FxHashMap::default(), FxHashMap::default());
        let mut file = TextFile { bytes, starts, equal, prefixed, line_break: b"\n", parsed: RefCell::default() };
        if file.count() > 0 && file.raw(0).ends_with(b"\r\n") {
            file.line_break = b"\r\n";
        }
        Ok(file)
    }

    /// Answers searches in advance.
    pub(crate) fn index(&mut self, probes: impl IntoIterator<Item = Probe>) {
        for probe in probes {
            match probe {
                Probe::Equal(line) => drop(self.equal.entry(line).or_default()),
                Probe::Prefix(prefix) => drop(self.prefixed.entry(prefix).or_default()),
            }
        }
        let mut lengths: Vec<usize> = self.prefixed.keys().map(Vec::len).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let (mut equal, mut prefixed) = (std::mem::take(&mut self.equal), std::mem::take(&mut self.prefixed));
        for number in 0..self.count() {
            let line = self.line(number);
            if let Some(found) = equal.get_mut(line) {
                found.push(number as u32);
            }
            for length in lengths.iter().take_while(|length| **length <= line.len()) {
                if let Some(found) = prefixed.get_mut(&line[..*length]) {
                    found.push(number as u32);
                }
            }
        }
        (self.equal, self.prefixed) = (equal, prefixed);
    }

    /// Returns the number of lines.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn line_break(&self) -> &'static [u8] {
        self.line_break
    }

    /// Returns true if the last line has no line break.
    pub(super) fn is_unterminated(&self) -> bool {
        !self.bytes.is_empty() && !self.bytes.ends_with(b"\n")
    }

    fn range(&self, number: usize) -> Range<usize> {
        let end = self.starts.get(number + 1).map_or(self.bytes.len(), |end| *end as usize);
        self.starts[number] as usize..end
    }

    /// Returns the offset of a line, or the size of the file after the last one.
    pub(super) fn offset(&self, number: usize) -> usize {
        self.starts.get(number).map_or(self.bytes.len(), |start| *start as usize)
    }

    /// Returns a line with its line break.
    pub(super) fn raw(&self, number: usize) -> &'a [u8] {
        &self.bytes[self.range(number)]
    }

    /// Returns a line without its line break.
    pub(crate) fn line(&self, number: usize) -> &'a [u8] {
        without_break(self.raw(number))
    }

    /// Returns the numbers of the lines that are equal to `text`.
    pub(super) fn equal(&self, text: &[u8]) -> Vec<u32> {
        match self.equal.get(text) {
            Some(found) => found.clone(),
            None => self.all().filter(|number| self.line(*number as usize) == text).collect(),
        }
    }

    /// Returns the numbers of the lines that match a pattern.
    pub(super) fn matching(&self, pattern: &LinePattern) -> Result<Vec<u32>, EcoString> {
        let mut found = Vec::new();
        let mut test = |number: u32| -> Result<(), EcoString> {
            if pattern.is_match(self.line(number as usize))? {
                found.push(number);
            }
            Ok(())
        };
        if let Some(candidates) = pattern.prefix().and_then(|prefix| self.prefixed.get(prefix)) {
            candidates.iter().try_for_each(|number| test(*number))?;
        } else if let Some(needle) = pattern.needle() {
            let mut last = None;
            for at in memchr::memmem::find_iter(self.bytes, needle) {
                let number = self.starts.partition_point(|start| *start as usize <= at) as u32 - 1;
                if last.replace(number) != Some(number) {
                    test(number)?;
                }
            }
        } else {
            self.all().try_for_each(test)?;
        }
        Ok(found)
    }

    fn all(&self) -> Range<u32> {
        0..self.count() as u32
    }
}

/// Returns a line without `\n` or `\r\n` at its end.
fn without_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
        let file = TextFile::parse("/x", bytes).unwrap();
        (0..file.count()).map(|number| file.line(number).to_vec()).collect()
    }

    #[test]
    fn lines_have_no_line_break() {
        assert_eq!(lines(b""), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"\n"), [b""]);
        assert_eq!(lines(b"a\r\n\nb"), [&b"a"[..], b"", b"b"]);
        assert_eq!(lines(b"a\n\xff\n"), [&b"a"[..], b"\xff"]);
    }

    #[test]
    fn binary_file_is_refused() {
        assert!(TextFile::parse("/x", b"a\0b").err().unwrap().contains("/x is not a text file"));
    }

    #[test]
    fn index_and_scan_find_same_lines() {
        let bytes = b"a=1\nb=2\na=1\naa=3\n";
        let scanned = TextFile::parse("/x", bytes).unwrap();
        let mut indexed = TextFile::parse("/x", bytes).unwrap();
        indexed.index([Probe::Equal(b"a=1".to_vec()), Probe::Prefix(b"a".to_vec()), Probe::Prefix(b"aa=".to_vec())]);
        for file in [&scanned, &indexed] {
            assert_eq!(file.equal(b"a=1"), [0, 2]);
            assert_eq!(file.matching(&LinePattern::new("^a").unwrap()).unwrap(), [0, 2, 3]);
            assert_eq!(file.matching(&LinePattern::new("^aa=").unwrap()).unwrap(), [3]);
            assert_eq!(file.matching(&LinePattern::new("=[12]$").unwrap()).unwrap(), [0, 1, 2]);
        }
    }
}
