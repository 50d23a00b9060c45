//! Regular expressions that select lines.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Regexp};
use kilter_provider::ValidationError;

/// A regular expression that is tried on each line without its line break.
///
/// Most expressions contain a literal. Only lines with the literal are tried, which is faster by orders of magnitude.
pub(crate) struct LinePattern {
    regexp: Regexp,
    /// Literal with which each matching line begins.
    prefix: Option<Vec<u8>>,
    /// Literal that each matching line contains.
    needle: Option<Vec<u8>>,
}

impl LinePattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If the expression is invalid.
    pub(crate) fn new(source: &str) -> Result<LinePattern, EcoString> {
        let regexp = Regexp::new(source);
        regexp.compile().map_err(|error| eco_format!("`{source}` is not a regular expression: {error}"))?;
        let (prefix, needle) = literals(source);
        Ok(LinePattern { regexp, prefix, needle })
    }

    /// Returns the text of the expression.
    pub(crate) fn source(&self) -> &str {
        self.regexp.source()
    }

    /// Returns the literal with which each matching line begins, if there is one.
    pub(crate) fn prefix(&self) -> Option<&[u8]> {
        self.prefix.as_deref()
    }

    pub(super) fn needle(&self) -> Option<&[u8]> {
        self.needle.as_deref()
    }

    /// Returns true if a line matches. Bytes that are not UTF-8 count as U+FFFD.
    ///
    /// # Errors
    /// If the match takes too many steps.
    pub(crate) fn is_match(&self, line: &[u8]) -> Result<bool, EcoString> {
        if self.prefix().is_some_and(|prefix| !line.starts_with(prefix)) {
            return Ok(false);
        }
        let line = String::from_utf8_lossy(line);
        self.regexp.is_match(&line).map_err(|error| eco_format!("`{}`: {error}", self.source()))
    }
}

/// Returns the literal with which each match begins at the start of the line, and the longest literal that each match
/// contains. Finds no literal in expressions with alternatives, options or look-around.
fn literals(source: &str) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    if source.contains('|') || source.replace("(?:", "").contains("(?") {
        return (None, None);
    }
    let (is_anchored, rest) = match (source.strip_prefix('^'), source.strip_prefix(r"\A")) {
        (Some(rest), _) | (_, Some(rest)) => (true, rest),
        _ => (false, source),
    };
    let mut runs = vec![String::new()];
    let (mut depth, mut chars) = (0_usize, rest.chars().peekable());
    while let Some(c) = chars.next() {
        let run = runs.last_mut().expect("there is always a run");
        let literal = match c {
            '\\' => chars.next().filter(|escaped| escaped.is_ascii_punctuation()),
            '?' | '*' | '{' => {
                run.pop();
                if c == '{' {
                    let _ = chars.by_ref().find(|c| *c == '}');
                }
                None
            }
            '(' => {
                depth += 1;
                None
            }
            ')' => {
                depth = depth.saturating_sub(1);
                None
            }
            '[' => {
                skip_class(&mut chars);
                None
            }
            '.' | '^' | '$' | '+' => None,
            // The expression may not be what it seems.
            c if c.is_control() || !c.is_ascii() => None,
            c => Some(c),
        };
        match literal.filter(|_| depth == 0) {
            Some(literal) => run.push(literal),
            None => runs.push(String::new()),
        }
    }
    let bytes = |run: &String| Some(run.clone().into_bytes()).filter(|run| !run.is_empty());
    let prefix = runs.first().filter(|_| is_anchored).and_then(bytes);
    (prefix, runs.iter().max_by_key(|run| run.len()).and_then(bytes))
}

fn skip_class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    let (mut depth, mut is_first) = (1, true);
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => depth += 1,
            '^' if is_first => continue,
            ']' if !is_first => depth -= 1,
            _ => {}
        }
        is_first = false;
        if depth == 0 {
            return;
        }
    }
}

/// Compiles the expression of an attribute, if it is declared.
///
/// # Errors
/// If the expression is invalid.
pub(crate) fn pattern(should: &Attributes, attribute: &str) -> Result<Option<LinePattern>, EcoString> {
    should.text(attribute).map(LinePattern::new).transpose()
}

/// Returns the problem of an invalid expression.
pub(crate) fn pattern_problem(should: &Attributes, attribute: &str) -> Option<ValidationError> {
    pattern(should, attribute).err().map(|why| ValidationError::with(attribute, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> (String, String) {
        let (prefix, needle) = literals(source);
        let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap_or_default()).unwrap();
        (text(prefix), text(needle))
    }

    #[test]
    fn literals_are_parts_of_every_match() {
        let of =
            |source, prefix: &str, needle: &str| assert_eq!(found(source), (prefix.into(), needle.into()), "{source}");
        of("^key=", "key=", "key=");
        of(r"\Anet\.ipv4", "net.ipv4", "net.ipv4");
        of(r"^#?\s*Port\s+", "", "Port");
        of("^ab*c", "a", "c");
        of("^ab+c", "ab", "ab");
        of("^ab{2}cde", "a", "cde");
        of("^a|b", "", "");
        of("(?i)abc", "", "");
        of("x(abc)?y[def]+z1", "", "z1");
        of("a[]b]cc", "", "cc");
        of(r"\d\w\.conf$", "", ".conf");
        of("", "", "");
    }

    #[test]
    fn every_pattern_agrees_with_its_expression() {
        let lines = ["Port 22", "#Port 22", "# Port 22", "ort", "abbc", "abc", "ac", "a.b", "x", "", "é=1"];
        for source in ["^#?\\s*Port", "ab*c", "ab+c", "a.b", "a\\.b", "^$", "(ab)?c", "[a-c]c", "é", "b{1,2}c"] {
            let pattern = LinePattern::new(source).unwrap();
            for line in lines {
                let holds =
                    pattern.needle().is_none_or(|needle| memchr::memmem::find(line.as_bytes(), needle).is_some());
                let is = holds && pattern.is_match(line.as_bytes()).unwrap();
                assert_eq!(is, Regexp::new(source).is_match(line).unwrap(), "{source} {line}");
            }
        }
    }
}
