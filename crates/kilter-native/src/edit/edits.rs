//! Edits of a text file. Lines without edits stay byte for byte.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::rc::Rc;

use ecow::{EcoString, eco_format};

use super::pattern::LinePattern;
use super::text::TextFile;

/// Maximum size of a diff in bytes.
const MAX_DIFF_BYTES: usize = 64 << 10;

/// A line of an edited place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// The line of the file.
    Old,
    New(Vec<u8>),
}

/// Place of a line: a line of the file, and the index among the lines that stand there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    slot: usize,
    index: usize,
}

/// Edits of a file, of which only the edited places are held. The slot after the last line holds appended lines.
pub struct Edits<'t> {
    file: &'t TextFile<'t>,
    slots: BTreeMap<usize, Vec<Piece>>,
    /// Parsed form of the edited text, in the terms of a type.
    parsed: Option<Rc<dyn Any>>,
}

impl<'t> Edits<'t> {
    pub(crate) fn new(file: &'t TextFile<'t>) -> Edits<'t> {
        Edits { file, slots: BTreeMap::new(), parsed: None }
    }

    /// Returns the parsed form that an earlier resource has kept, if nothing was edited after it.
    pub(crate) fn parsed(&self) -> Option<Rc<dyn Any>> {
        if self.is_empty() { self.file.parsed.borrow().clone() } else { self.parsed.clone() }
    }

    /// Keeps a parsed form of the text for the next resource.
    pub(crate) fn keep_parsed(&mut self, parsed: Rc<dyn Any>) {
        if self.is_empty() {
            self.file.parsed.replace(Some(parsed));
        } else {
            self.parsed = Some(parsed);
        }
    }

    /// Returns true if nothing was edited.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the text of a line.
    pub(crate) fn line(&self, at: Position) -> &[u8] {
        match self.slots.get(&at.slot).and_then(|pieces| pieces.get(at.index)) {
            Some(Piece::New(text)) => text,
            _ => self.file.line(at.slot),
        }
    }

    /// Returns the places of all lines, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = Position> + '_ {
        self.places(0..=self.file.count())
    }

    fn places(&self, slots: RangeInclusive<usize>) -> impl Iterator<Item = Position> + '_ {
        slots.flat_map(|slot| {
            let count = self.slots.get(&slot).map_or(usize::from(slot < self.file.count()), Vec::len);
            (0..count).map(move |index| Position { slot, index })
        })
    }

    /// Returns the places of the lines between two lines.
    pub(crate) fn between(&self, first: Position, last: Position) -> Vec<Position> {
        self.places(first.slot..=last.slot).filter(|at| first < *at && *at < last).collect()
    }

    /// Returns the places of the lines that are equal to `text`.
    pub(crate) fn equal(&self, text: &[u8]) -> Vec<Position> {
        let found = self.file.equal(text);
        let new = self.new_lines().filter(|(_, line)| *line == text).map(|(at, _)| at);
        self.placed(found, new.collect())
    }

    /// Returns the places of the lines that match.
    ///
    /// # Errors
    /// If the match takes too many steps.
    pub(crate) fn matching(&self, pattern: &LinePattern) -> Result<Vec<Position>, EcoString> {
        let found = self.file.matching(pattern)?;
        let mut new = Vec::new();
        for (at, line) in self.new_lines() {
            if pattern.is_match(line)? {
                new.push(at);
            }
        }
        Ok(self.placed(found, new))
    }

    fn new_lines(&self) -> impl Iterator<Item = (Position, &[u8])> {
        self.slots.iter().flat_map(|(slot, pieces)| {
            pieces.iter().enumerate().filter_map(|(index, piece)| match piece {
                Piece::New(line) => Some((Position { slot: *slot, index }, line.as_slice())),
                Piece::Old => None,
            })
        })
    }

    /// Returns the places of lines of the file that still stand, and of new lines, in order.
    fn placed(&self, old: Vec<u32>, new: Vec<Position>) -> Vec<Position> {
        let standing = old.into_iter().filter_map(|number| {
            let slot = number as usize;
            let index = match self.slots.get(&slot) {
                Some(pieces) => pieces.iter().position(|piece| *piece == Piece::Old)?,
                None => 0,
            };
            Some(Position { slot, index })
        });
        let mut found: Vec<Position> = standing.chain(new).collect();
        found.sort_unstable();
        found
    }

    fn pieces(&mut self, slot: usize) -> &mut Vec<Piece> {
        self.parsed = None;
        let is_line = slot < self.file.count();
        self.slots.entry(slot).or_insert_with(|| if is_line { vec![Piece::Old] } else { Vec::new() })
    }

    /// Replaces lines. A line that is equal stays.
    pub(crate) fn replace(&mut self, places: &[Position], text: &[u8]) {
        for at in places.iter().filter(|at| self.line(**at) != text).copied().collect::<Vec<_>>() {
            self.pieces(at.slot)[at.index] = Piece::New(text.to_vec());
        }
    }

    /// Removes lines.
    pub(crate) fn remove(&mut self, places: &[Position]) {
        // The last first, because a removal moves the lines after it.
        for at in places.iter().rev() {
            self.pieces(at.slot).remove(at.index);
        }
    }

    /// Inserts a line after each of these lines.
    pub(crate) fn insert_after(&mut self, places: &[Position], text: &[u8]) {
        for at in places.iter().rev() {
            self.pieces(at.slot).insert(at.index + 1, Piece::New(text.to_vec()));
        }
    }

    /// Inserts a line before a line.
    pub(crate) fn insert_before(&mut self, at: Position, text: &[u8]) {
        self.pieces(at.slot).insert(at.index, Piece::New(text.to_vec()));
    }

    /// Adds a line at the end.
    pub(crate) fn append(&mut self, text: &[u8]) {
        let end = self.file.count();
        if self.file.is_unterminated() {
            // The last line gets a line break.
            self.pieces(end - 1);
        }
        self.pieces(end).push(Piece::New(text.to_vec()));
    }

    /// Returns the edited lines with `\n` as line break. None if they are not UTF-8.
    pub(crate) fn text(&self) -> Option<String> {
        let mut bytes = Vec::with_capacity(self.file.bytes().len() + 256);
        for at in self.all() {
            bytes.extend_from_slice(self.line(at));
            bytes.push(b'\n');
        }
        String::from_utf8(bytes).ok()
    }

    /// Replaces the lines that differ from a text with `\n` as line break.
    pub(crate) fn become_text(&mut self, text: &str) {
        let new: Vec<&str> = text.lines().collect();
        let old: Vec<Position> = self.all().collect();
        let is_same = |(at, line): (&Position, &&str)| self.line(*at) == line.as_bytes();
        let head = old.iter().zip(&new).take_while(|pair| is_same(*pair)).count();
        let (old_rest, new_rest) = (&old[head..], &new[head..]);
        let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|pair| is_same(*pair)).count();
        let (gone, added) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
        for (at, line) in gone.iter().zip(added) {
            self.replace(&[*at], line.as_bytes());
        }
        let common = gone.len().min(added.len());
        self.remove(&gone[common..]);
        let before = (head + common).checked_sub(1).map(|before| old[before]);
        for line in added[common..].iter().rev() {
            match (before, old.first()) {
                (Some(before), _) => self.insert_after(&[before], line.as_bytes()),
                (None, Some(first)) => self.insert_before(*first, line.as_bytes()),
                (None, None) => break,
            }
        }
        if old.is_empty() {
            added.iter().for_each(|line| self.append(line.as_bytes()));
        }
    }

    /// Returns the edited content.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let file = self.file;
        let old = file.bytes();
        let mut out = Vec::with_capacity(old.len() + 256);
        let mut next = 0;
        for (slot, pieces) in &self.slots {
            out.extend_from_slice(&old[file.offset(next)..file.offset(*slot)]);
            for piece in pieces {
                if !out.is_empty() && !out.ends_with(b"\n") {
                    out.extend_from_slice(file.line_break());
                }
                match piece {
                    Piece::Old => out.extend_from_slice(file.raw(*slot)),
                    Piece::New(text) => {
                        out.extend_from_slice(text);
                        out.extend_from_slice(file.line_break());
                    }
                }
            }
            next = slot + 1;
        }
        if next < file.count() {
            out.extend_from_slice(&old[file.offset(next)..]);
        }
        if self.keeps_missing_break() {
            let end = out.len() - file.line_break().len();
            out.truncate(end);
        }
        out
    }

    /// Returns true if new text replaces a last line without a line break, and so has none either.
    fn keeps_missing_break(&self) -> bool {
        let last = self.slots.last_key_value().filter(|(slot, _)| **slot + 1 == self.file.count());
        self.file.is_unterminated()
            && last.is_some_and(|(_, pieces)| {
                matches!(pieces.last(), Some(Piece::New(_))) && !pieces.contains(&Piece::Old)
            })
    }

    /// Returns the edits as a unified diff; none if it is too long.
    ///
    /// It has no unchanged lines around the changes, because they may contain other secrets.
    pub(crate) fn diff(&self, path: &str) -> Option<EcoString> {
        if self.is_empty() {
            return None;
        }
        let mut diff = DiffText::default();
        for (slot, pieces) in &self.slots {
            diff.go_to(*slot);
            let is_last = slot + 1 == self.file.count();
            let is_unterminated = is_last && self.file.is_unterminated();
            let has_more = self.slots.contains_key(&(slot + 1)) || pieces.last() != Some(&Piece::Old);
            // A line break that is added to the last line changes it.
            let is_completed = is_unterminated && has_more;
            if *slot < self.file.count() && (is_completed || !pieces.contains(&Piece::Old)) {
                diff.remove(self.file.line(*slot), is_unterminated);
            }
            for (index, piece) in pieces.iter().enumerate() {
                let is_end = is_last && index + 1 == pieces.len() && self.keeps_missing_break();
                match piece {
                    Piece::Old if !is_completed => diff.keep(),
                    Piece::Old => diff.add(self.file.line(*slot), false),
                    Piece::New(line) => diff.add(line, is_end),
                }
            }
        }
        diff.flush();
        let hunks = diff.hunks;
        (hunks.len() <= MAX_DIFF_BYTES).then(|| eco_format!("--- {path} (is)\n+++ {path} (should)\n{hunks}"))
    }
}

/// Hunks of a unified diff without unchanged lines.
#[derive(Default)]
struct DiffText {
    hunks: String,
    /// Removed and added lines of the next hunk, with their numbers.
    removed: (String, usize),
    added: (String, usize),
    /// Number of lines of the old and the new file before the next hunk.
    old: usize,
    new: usize,
}

impl DiffText {
    /// Skips unchanged lines up to a line.
    fn go_to(&mut self, slot: usize) {
        if slot != self.old + self.removed.1 {
            self.flush();
            self.new += slot - self.old;
            self.old = slot;
        }
    }

    fn keep(&mut self) {
        self.flush();
        self.old += 1;
        self.new += 1;
    }

    fn remove(&mut self, line: &[u8], is_unterminated: bool) {
        put(&mut self.removed, '-', line, is_unterminated);
    }

    fn add(&mut self, line: &[u8], is_unterminated: bool) {
        put(&mut self.added, '+', line, is_unterminated);
    }

    fn flush(&mut self) {
        let ((removed, is), (added, should)) = (std::mem::take(&mut self.removed), std::mem::take(&mut self.added));
        if is + should > 0 {
            // A side without lines has the number of the line before.
            let (old, new) = (self.old + usize::from(is > 0), self.new + usize::from(should > 0));
            let _ = write!(self.hunks, "@@ -{old},{is} +{new},{should} @@\n{removed}{added}");
        }
        self.old += is;
        self.new += should;
    }
}

fn put(lines: &mut (String, usize), sign: char, line: &[u8], is_unterminated: bool) {
    let (text, count) = lines;
    text.push(sign);
    text.push_str(&String::from_utf8_lossy(line));
    text.push('\n');
    if is_unterminated {
        text.push_str("\\ No newline at end of file\n");
    }
    *count += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(bytes: &[u8], edit: impl FnOnce(&mut Edits<'_>)) -> (String, String) {
        let file = TextFile::parse("/x", bytes).unwrap();
        let mut edits = Edits::new(&file);
        edit(&mut edits);
        (String::from_utf8(edits.bytes()).unwrap(), edits.diff("/x").unwrap_or_default().into())
    }

    fn append(text: &'static [u8]) -> impl Fn(&mut Edits<'_>) {
        move |edits| edits.append(text)
    }

    #[test]
    fn appended_line_has_line_break_of_file() {
        assert_eq!(edited(b"", append(b"x")).0, "x\n");
        assert_eq!(edited(b"a\n", append(b"x")).0, "a\nx\n");
        assert_eq!(edited(b"a\r\nb\r\n", append(b"x")).0, "a\r\nb\r\nx\r\n");
        assert_eq!(edited(b"a\r\nb", append(b"x")).0, "a\r\nb\r\nx\r\n");
        let (text, diff) = edited(b"a", append(b"x"));
        assert_eq!(text, "a\nx\n");
        assert_eq!(diff, "--- /x (is)\n+++ /x (should)\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+x\n");
    }

    #[test]
    fn replaced_last_line_has_no_more_line_break_than_before() {
        let (text, diff) = edited(b"a\nb", |edits| edits.replace(&edits.equal(b"b"), b"c"));
        assert_eq!(text, "a\nc");
        let ending = "\\ No newline at end of file\n";
        assert_eq!(diff, format!("--- /x (is)\n+++ /x (should)\n@@ -2,1 +2,1 @@\n-b\n{ending}+c\n{ending}"));
    }

    #[test]
    fn text_replaces_only_lines_that_differ() {
        let become_text = |old: &[u8], new: &str| edited(old, |edits| edits.become_text(new));
        let header = "--- /x (is)\n+++ /x (should)\n";
        assert_eq!(
            become_text(b"a\nb\nc\n", "a\nB\nc\n"),
            ("a\nB\nc\n".into(), format!("{header}@@ -2,1 +2,1 @@\n-b\n+B\n"))
        );
        assert_eq!(become_text(b"a\r\nc\r\n", "a\nx\ny\nc\n").0, "a\r\nx\r\ny\r\nc\r\n");
        assert_eq!(become_text(b"a\nb\nc", "a\nc\n"), ("a\nc".into(), format!("{header}@@ -2,1 +1,0 @@\n-b\n")));
        assert_eq!(become_text(b"a", "a\nb\n").0, "a\nb\n");
        assert_eq!(become_text(b"a\n", "x\ny\na\n").0, "x\ny\na\n");
        assert_eq!(become_text(b"", "x\ny\n").0, "x\ny\n");
        assert_eq!(become_text(b"x\n", "").0, "");
        assert_eq!(become_text(b"x\n", "x\n"), ("x\n".into(), String::new()));
    }

    #[test]
    fn edits_see_earlier_edits() {
        let (text, _) = edited(b"a\nb\na\n", |edits| {
            edits.insert_after(&edits.equal(b"a"), b"x");
            edits.remove(&edits.equal(b"b"));
            edits.replace(&edits.equal(b"x")[..1], b"y");
            edits.insert_after(&edits.equal(b"y"), b"z");
            assert_eq!(edits.matching(&LinePattern::new("^[xyz]$").unwrap()).unwrap().len(), 3);
        });
        assert_eq!(text, "a\ny\nz\na\nx\n");
    }

    #[test]
    fn diff_agrees_with_patch() {
        let lines: String = (0..40).map(|n| format!("line {n}\n")).collect();
        let (text, diff) = edited(lines.as_bytes(), |edits| {
            edits.replace(&edits.equal(b"line 3"), b"three");
            edits.remove(&edits.equal(b"line 20"));
            edits.insert_after(&edits.equal(b"line 22"), b"new");
            edits.append(b"end");
        });
        let headers: Vec<&str> = diff.lines().filter(|line| line.starts_with("@@")).collect();
        assert_eq!(headers, ["@@ -4,1 +4,1 @@", "@@ -21,1 +20,0 @@", "@@ -23,0 +23,1 @@", "@@ -40,0 +41,1 @@"]);
        assert_eq!(patched(&lines, &diff), text);
    }

    /// Applies a unified diff of lines that all have line breaks.
    fn patched(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.lines().collect();
        let (mut out, mut next) = (Vec::new(), 0);
        for line in diff.lines().skip(2) {
            if let Some(header) = line.strip_prefix("@@ -") {
                let (start, rest) = header.split_once(',').unwrap();
                let is_insertion = rest.starts_with("0 ");
                let start = start.parse::<usize>().unwrap() - usize::from(!is_insertion);
                out.extend(&old[next..start]);
                next = start;
                continue;
            }
            let (sign, rest) = line.split_at(1);
            if sign != "+" {
                assert_eq!(old[next], rest);
                next += 1;
            }
            if sign != "-" {
                out.push(rest);
            }
        }
        out.extend(&old[next..]);
        out.join("\n") + "\n"
    }
}
