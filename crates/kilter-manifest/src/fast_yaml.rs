//! Fast parser for a simple subset of YAML, several times faster than the full parser.
//!
//! Nearly all manifests consist of block mappings and sequences, single-line scalars, literal blocks, and small flow
//! collections. This module parses exactly these. For all other input (anchors, tags, tabs, several documents,
//! multi-line scalars, any error) it returns none, and the caller uses the full parser. It never reports errors.
//! Tests compare its trees with those of the full parser.

use memchr::{memchr, memchr2, memchr2_iter};

use crate::tree::{Builder, NodeKind};

/// Maximum nesting of collections. The full parser handles deeper ones.
const MAX_DEPTH: u32 = 40;

/// Maximum length of a key in bytes. The full parser has its own limit.
const MAX_KEY: usize = 500;

/// None means that the full parser must read the text.
type FastResult<T = ()> = Option<T>;

struct FastReader<'t, 'b> {
    text: &'t str,
    /// Start of the current line.
    at: usize,
    /// The current line, if it has been read.
    line: Option<Line>,
    builder: &'b mut Builder,
    scratch: String,
}

/// A line with content.
#[derive(Clone, Copy)]
struct Line {
    indent: usize,
    start: usize,
    end: usize,
}

/// Parses a text; returns none if the full parser must read it. The builder is unusable then.
pub(crate) fn parse(text: &str, builder: &mut Builder) -> FastResult {
    if !is_simple(text) {
        return None;
    }
    let mut reader = FastReader { text, at: 0, line: None, builder, scratch: String::new() };
    let first = reader.line()?;
    reader.block(first, 0)?;
    reader.line().is_none().then_some(())
}

/// Returns true if the text is a single document without characters that YAML versions treat differently.
fn is_simple(text: &str) -> bool {
    let is_special =
        |c: char| matches!(c, '\u{80}'..='\u{a0}' | '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{fffe}'..='\u{ffff}');
    text.ends_with('\n')
        && text.as_bytes().chunks(4096).all(is_plain)
        && (text.is_ascii() || !text.contains(is_special))
        && !text.starts_with('\u{feff}')
}

/// Returns true if there are no control characters except line breaks. Has no early exit, so that the compiler can
/// vectorise the loop.
fn is_plain(bytes: &[u8]) -> bool {
    let odd = |byte: u8| (u8::from(byte < b' ') & u8::from(byte != b'\n')) | u8::from(byte == 0x7f);
    bytes.iter().fold(0, |found, byte| found | odd(*byte)) == 0
}

/// Returns true if an unindented line marks the start or the end of a document.
fn is_mark(content: &str) -> bool {
    matches!(content.as_bytes(), [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..] | [b'%', ..])
}

/// Returns true if a line is an entry of a block sequence.
fn is_entry(content: &str) -> bool {
    content == "-" || content.starts_with("- ")
}

impl FastReader<'_, '_> {
    /// Returns the next line with content without consuming it.
    fn line(&mut self) -> Option<Line> {
        if let Some(line) = self.line.filter(|line| line.start >= self.at) {
            return Some(line);
        }
        let bytes = self.text.as_bytes();
        loop {
            let rest = bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
            let indent = spaces(rest);
            let start = self.at + indent;
            let end = start + memchr(b'\n', &bytes[start..])?;
            if start < end && bytes[start] != b'#' {
                self.line = Some(Line { indent, start, end });
                return self.line;
            }
            self.at = end + 1;
        }
    }

    fn block(&mut self, line: Line, depth: u32) -> FastResult {
        if depth > MAX_DEPTH {
            return None;
        }
        match is_entry(&self.text[line.start..line.end]) {
            true => self.sequence(line, depth),
            false => self.mapping(line, depth),
        }
    }

    fn sequence(&mut self, first: Line, depth: u32) -> FastResult {
        self.builder.start(NodeKind::Sequence, (first.start, first.start), 0);
        while let Some(line) = self.line().filter(|line| line.indent >= first.indent) {
            let content = &self.text[line.start..line.end];
            if line.indent > first.indent || line.indent == 0 && is_mark(content) {
                return None;
            }
            if !is_entry(content) {
                break;
            }
            self.value(line.start + 1, line, depth, false)?;
        }
        self.builder.end();
        Some(())
    }

    fn mapping(&mut self, first: Line, depth: u32) -> FastResult {
        self.builder.start(NodeKind::Mapping, (first.start, first.start), 0);
        while let Some(line) = self.line().filter(|line| line.indent >= first.indent) {
            let content = &self.text[line.start..line.end];
            if line.indent > first.indent || is_entry(content) || line.indent == 0 && is_mark(content) {
                return None;
            }
            let after = self.key(line)?;
            self.value(after, line, depth, true)?;
        }
        self.builder.end();
        Some(())
    }

    /// Reads a key and its colon. Returns the position after the colon.
    fn key(&mut self, line: Line) -> FastResult<usize> {
        let bytes = self.text.as_bytes();
        if matches!(bytes[line.start], b'"' | b'\'') {
            let end = self.quoted(line.start, line.end)?;
            let ends = bytes[end] == b':' && matches!(bytes[end + 1], b' ' | b'\n');
            return (ends && end - line.start < MAX_KEY).then_some(end + 1);
        }
        if is_indicator(bytes[line.start]) {
            return None;
        }
        let mut marks = memchr2_iter(b':', b'#', &bytes[line.start..line.end]).map(|at| line.start + at);
        let colon = loop {
            let at = marks.next()?;
            match bytes[at] {
                b':' if matches!(bytes[at + 1], b' ' | b'\n') => break at,
                b'#' if bytes[at - 1] == b' ' => return None,
                _ => {}
            }
        };
        let key = &self.text[line.start..colon];
        if key.len() > MAX_KEY || key == "<<" || key.ends_with(' ') {
            return None;
        }
        self.builder.borrowed(NodeKind::Plain, (line.start, colon), (line.start, colon), 0);
        Some(colon + 1)
    }

    /// Reads the value after the `:` or `-` that ends at `from`.
    fn value(&mut self, from: usize, line: Line, depth: u32, of_mapping: bool) -> FastResult {
        let bytes = self.text.as_bytes();
        let start = from + spaces(&bytes[from..line.end]);
        self.at = line.end + 1;
        match bytes[start] {
            b'\n' | b'#' => return self.below(from, line, depth, of_mapping),
            b'|' => return self.literal(start, line),
            b'"' | b'\'' => {
                let end = self.quoted(start, line.end)?;
                self.blank(end, line.end)?;
            }
            b'{' | b'[' => {
                let end = self.flow(start, line.end, depth)?;
                self.blank(end, line.end)?;
            }
            first if is_indicator(first) && !(first == b'-' && bytes[start + 1] > b' ') => return None,
            _ => self.plain(start, line)?,
        }
        // A line with deeper indentation would continue the scalar.
        match self.line() {
            Some(next) if next.indent > line.indent => None,
            _ => Some(()),
        }
    }

    /// Reads the collection on the following lines, or null.
    fn below(&mut self, from: usize, line: Line, depth: u32, of_mapping: bool) -> FastResult {
        match self.line() {
            Some(next) if next.indent > line.indent => self.block(next, depth + 1),
            Some(next) if of_mapping && next.indent == line.indent && is_entry(&self.text[next.start..next.end]) => {
                self.sequence(next, depth + 1)
            }
            _ => {
                self.builder.null((from - 1, from - 1));
                Some(())
            }
        }
    }

    /// Continues only if the rest of the line is blank or a comment.
    fn blank(&self, from: usize, end: usize) -> FastResult {
        let rest = &self.text[from..end];
        let trimmed = rest.trim_start_matches(' ');
        (trimmed.is_empty() || trimmed.starts_with('#') && trimmed.len() < rest.len()).then_some(())
    }

    fn plain(&mut self, start: usize, line: Line) -> FastResult {
        let bytes = self.text.as_bytes();
        let mut end = line.end;
        for at in memchr2_iter(b':', b'#', &bytes[start..line.end]).map(|at| start + at) {
            match bytes[at] {
                b':' if matches!(bytes[at + 1], b' ' | b'\n') => return None,
                b'#' if bytes[at - 1] == b' ' => {
                    end = at - 1;
                    break;
                }
                _ => {}
            }
        }
        let end = start + self.text[start..end].trim_end_matches(' ').len();
        self.builder.borrowed(NodeKind::Plain, (start, end), (start, end), 0);
        Some(())
    }

    /// Reads a quoted scalar that ends before `limit`. Returns the position after it.
    fn quoted(&mut self, start: usize, limit: usize) -> FastResult<usize> {
        let bytes = self.text.as_bytes();
        let quote = bytes[start];
        let kind = if quote == b'"' { NodeKind::Double } else { NodeKind::Single };
        let escape = if quote == b'"' { b'\\' } else { quote };
        let mut at = start + 1 + memchr2(quote, escape, &bytes[start + 1..limit])?;
        if bytes[at] == quote && (quote == b'"' || bytes[at + 1] != b'\'') {
            self.builder.borrowed(kind, (start, at + 1), (start + 1, at), 0);
            return Some(at + 1);
        }
        self.scratch.clear();
        self.scratch.push_str(&self.text[start + 1..at]);
        loop {
            match (bytes[at], bytes[at + 1]) {
                (b'\'', b'\'') => self.scratch.push('\''),
                (b'\\', b'n') => self.scratch.push('\n'),
                (b'\\', b't') => self.scratch.push('\t'),
                (b'\\', same @ (b'"' | b'\\')) => self.scratch.push(char::from(same)),
                (b'\\', _) => return None,
                _ => {
                    self.builder.owned(kind, (start, at + 1), &self.scratch, 0);
                    return Some(at + 1);
                }
            }
            let from = at + 2;
            at = from + memchr2(quote, escape, bytes.get(from..limit)?)?;
            self.scratch.push_str(&self.text[from..at]);
        }
    }

    /// Reads a literal block.
    fn literal(&mut self, start: usize, line: Line) -> FastResult {
        let strip = match &self.text[start..line.end] {
            "|" => false,
            "|-" => true,
            _ => return None,
        };
        let bytes = self.text.as_bytes();
        let indent = spaces(&bytes[self.at..]);
        let first = self.at + indent;
        if indent <= line.indent || matches!(bytes.get(first), None | Some(b'\n')) {
            return None;
        }
        self.scratch.clear();
        let (mut at, mut end, mut blank) = (self.at, first, 0);
        while at < bytes.len() {
            let line_end = at + memchr(b'\n', &bytes[at..])?;
            let depth = spaces(&bytes[at..line_end]);
            if at == line_end {
                blank += 1;
            } else if at + depth == line_end {
                return None;
            } else if depth < indent {
                if depth > line.indent {
                    return None;
                }
                break;
            } else {
                self.scratch.extend(std::iter::repeat_n('\n', blank));
                self.scratch.push_str(&self.text[at + indent..=line_end]);
                (end, blank) = (line_end + 1, 0);
            }
            at = line_end + 1;
        }
        self.at = at;
        if strip {
            self.scratch.pop();
        }
        self.builder.owned(NodeKind::Literal, (first, end), &self.scratch, 0);
        Some(())
    }

    /// Reads a flow collection that ends before `limit`. Returns the position after it.
    fn flow(&mut self, start: usize, limit: usize, depth: u32) -> FastResult<usize> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mapping = self.text.as_bytes()[start] == b'{';
        let (kind, close) = if mapping { (NodeKind::Mapping, b'}') } else { (NodeKind::Sequence, b']') };
        self.builder.start(kind, (start, start + 1), 0);
        let mut at = self.skip(start + 1);
        while self.text.as_bytes()[at] != close {
            if mapping {
                at = self.flow_scalar(at, limit)?;
                if !self.text[at..limit].starts_with(": ") {
                    return None;
                }
                at = self.skip(at + 1);
            }
            at = match self.text.as_bytes()[at] {
                b'{' | b'[' => self.flow(at, limit, depth + 1)?,
                _ => self.flow_scalar(at, limit)?,
            };
            at = self.skip(at);
            match self.text.as_bytes()[at] {
                b',' => at = self.skip(at + 1),
                byte if byte == close => break,
                _ => return None,
            }
            // The full parser handles a trailing comma.
            if self.text.as_bytes()[at] == close {
                return None;
            }
        }
        self.builder.end();
        (at < limit).then_some(at + 1)
    }

    fn skip(&self, from: usize) -> usize {
        from + spaces(&self.text.as_bytes()[from..])
    }

    /// Reads a quoted scalar or a simple word.
    fn flow_scalar(&mut self, start: usize, limit: usize) -> FastResult<usize> {
        let bytes = self.text.as_bytes();
        match bytes[start] {
            b'"' | b'\'' => return self.quoted(start, limit),
            b'-' if bytes[start + 1].is_ascii_digit() => {}
            first if first.is_ascii_alphanumeric() || matches!(first, b'/' | b'_' | b'.') => {}
            _ => return None,
        }
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-');
        let end = start + bytes[start..limit].iter().take_while(|byte| word(byte)).count();
        self.builder.borrowed(NodeKind::Plain, (start, end), (start, end), 0);
        Some(end)
    }
}

/// Returns the number of leading spaces.
fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == b' ').count()
}

/// Returns true if a plain scalar cannot start with this byte.
fn is_indicator(byte: u8) -> bool {
    matches!(
        byte,
        b'-' | b'?'
            | b':'
            | b','
            | b'['
            | b']'
            | b'{'
            | b'}'
            | b'#'
            | b'&'
            | b'*'
            | b'!'
            | b'|'
            | b'>'
            | b'\''
            | b'"'
            | b'%'
            | b'@'
            | b'`'
    )
}
