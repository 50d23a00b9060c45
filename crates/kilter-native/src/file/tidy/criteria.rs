//! Criteria of a `tidy`: which files it removes.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value};
use kilter_provider::ValidationError;

use crate::file::kind::Kind;
use crate::file::opened_path::OpenedPath;
use crate::value_text::texts;

/// Time of a file that its age is measured from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeOf {
    Access,
    Status,
    Content,
}

/// Criteria of a `tidy`, extracted from its attributes.
#[derive(Clone, Debug)]
pub(super) struct Criteria {
    /// Minimum age in seconds.
    age: Option<i64>,
    /// Minimum size in bytes.
    size: Option<u64>,
    /// Patterns of names; empty for all names.
    patterns: Vec<Vec<char>>,
    time: TimeOf,
    /// True if empty directories are removed.
    pub(super) rmdirs: bool,
    /// Number of levels below the path; none for the path itself.
    pub(super) levels: Option<usize>,
}

impl Criteria {
    /// Reads declared attributes.
    ///
    /// # Errors
    /// If `age` or `size` has no meaning. Values from other resources have not been validated before.
    pub(super) fn of(should: &Attributes) -> Result<Criteria, EcoString> {
        let read = |attribute: &str| should.get(attribute).and_then(Value::to_text);
        let age = read("age").map(|text| seconds(&text).ok_or_else(|| bad_age(&text))).transpose()?;
        let size = read("size").map(|text| bytes(&text).ok_or_else(|| bad_size(&text))).transpose()?;
        let levels = match should.get("recurse") {
            Some(Value::Integer(levels)) => usize::try_from(*levels).ok().filter(|levels| *levels > 0),
            Some(value) if value.as_bool() == Some(true) || value.as_str() == Some("inf") => Some(usize::MAX),
            _ => None,
        };
        let time = match should.text("type") {
            Some("ctime") => TimeOf::Status,
            Some("mtime") => TimeOf::Content,
            _ => TimeOf::Access,
        };
        let patterns = texts(should.get("matches")).iter().map(|pattern| pattern.chars().collect()).collect();
        Ok(Criteria { age, size, patterns, time, rmdirs: should.get_bool("rmdirs") == Some(true), levels })
    }

    /// Returns true if only old files are removed.
    pub(super) fn is_aged(&self) -> bool {
        self.age.is_some_and(|age| age > 0) && self.size.is_none()
    }

    /// Returns true if an entry is to be removed. `now` is the time in seconds since 1970. A directory must be empty
    /// in addition.
    pub(super) fn hold(&self, name: &[u8], is: &OpenedPath, now: i64) -> bool {
        let is_directory = match is.kind {
            Kind::Directory => true,
            Kind::File | Kind::Link => false,
            // A socket or a FIFO may be in use, whatever its times are.
            Kind::Fifo | Kind::Socket | Kind::Block | Kind::Char => return false,
        };
        if is_directory && !self.rmdirs {
            return false;
        }
        let name: Vec<char> = String::from_utf8_lossy(name).chars().collect();
        if !self.patterns.is_empty() && !self.patterns.iter().any(|pattern| is_match(pattern, &name)) {
            return false;
        }
        let time = match self.time {
            // A search for files counts as an access to directories.
            TimeOf::Access if !is_directory => is.stat.st_atime,
            TimeOf::Access | TimeOf::Content => is.stat.st_mtime,
            TimeOf::Status => is.stat.st_ctime,
        };
        let is_old = self.age.map(|age| now.saturating_sub(time) >= age);
        let is_large = self.size.map(|size| is.kind == Kind::File && is.size() >= size);
        match (is_old, is_large) {
            (None, None) => true,
            (old, large) => old == Some(true) || large == Some(true),
        }
    }
}

/// Returns the seconds of an age such as `30d`. Without a unit, it is in days.
fn seconds(text: &str) -> Option<i64> {
    let (number, unit) = number_and_unit(text)?;
    let seconds = match unit {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') | None => 86_400,
        Some('w') => 7 * 86_400,
        Some(_) => return None,
    };
    number.checked_mul(seconds)
}

/// Returns the bytes of a size such as `10m`. Without a unit, it is in kilobytes.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let shift = match unit {
        Some('b') => 0,
        Some('k') | None => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        Some(_) => return None,
    };
    u64::try_from(number).ok()?.checked_mul(1 << shift)
}

/// Splits `10minutes` into the number and the first letter of the unit.
fn number_and_unit(text: &str) -> Option<(i64, Option<char>)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let is_word = unit.bytes().all(|byte| byte.is_ascii_alphabetic());
    Some((number.parse().ok().filter(|_| is_word)?, unit.chars().next().map(|unit| unit.to_ascii_lowercase())))
}

fn bad_age(text: &str) -> EcoString {
    eco_format!("`{text}` is not an age; write a number and a unit: 30s, 10m, 12h, 7d or 4w")
}

fn bad_size(text: &str) -> EcoString {
    eco_format!("`{text}` is not a size; write a number and a unit: 100b, 64k, 10m, 2g or 1t")
}

/// Returns the problems that the schema cannot detect.
pub(super) fn problems(should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    for (attribute, read) in [("age", bad_age as fn(&str) -> EcoString), ("size", bad_size)] {
        let Some(text) = should.get(attribute).and_then(Value::to_text) else { continue };
        let is_good = if attribute == "age" { seconds(&text).is_some() } else { bytes(&text).is_some() };
        if !is_good {
            problems.push(ValidationError::with(attribute, read(&text)));
        }
    }
    let recurses = match should.get("recurse") {
        Some(Value::Integer(levels)) => *levels > 0,
        Some(value) => value.as_bool() != Some(false),
        None => deferred.contains(&"recurse"),
    };
    let patterns = texts(should.get("matches"));
    if !patterns.is_empty() && !recurses {
        let problem = ValidationError::with("matches", "patterns choose among the entries of a directory");
        problems.push(problem.hint("add `recurse: true`, or `recurse: 1` for the entries of the directory alone"));
    }
    if let Some(pattern) = patterns.iter().find(|pattern| pattern.contains('/')) {
        let problem = ValidationError::with("matches", eco_format!("`{pattern}` can match no name: it contains `/`"));
        problems.push(problem.hint("kilter compares the last component of each path with the patterns"));
    }
    problems
}

/// Returns true if a name matches a pattern of glob(7). A dot at the start of the name must be in the pattern.
fn is_match(pattern: &[char], name: &[char]) -> bool {
    if name.first() == Some(&'.') && pattern.first() != Some(&'.') {
        return false;
    }
    let (mut at, mut read) = (0, 0);
    // Position after the last `*`, and the first character that it does not cover.
    let mut star = None;
    while read < name.len() {
        if pattern.get(at) == Some(&'*') {
            at += 1;
            star = Some((at, read));
        } else if let Some(length) = one(&pattern[at..], name[read]) {
            at += length;
            read += 1;
        } else if let Some((after, covered)) = star {
            (at, read) = (after, covered + 1);
            star = Some((after, covered + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|left| *left == '*')
}

/// Returns the length of the first element of a pattern if it matches a character.
fn one(pattern: &[char], is: char) -> Option<usize> {
    match *pattern {
        ['?', ..] => Some(1),
        ['\\', literal, ..] => (literal == is).then_some(2),
        ['[', ..] => match bracket(pattern, is) {
            Some((length, holds)) => holds.then_some(length),
            None => (is == '[').then_some(1),
        },
        [literal, ..] => (literal == is).then_some(1),
        [] => None,
    }
}

/// Returns the length of a bracket expression, and true if it contains a character. None if it has no end.
fn bracket(pattern: &[char], is: char) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = if negated { 2 } else { 1 };
    let mut at = first;
    let mut holds = false;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > first {
            return Some((at + 1, holds != negated));
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some('-'), Some(&high)) if high != ']' => {
                holds |= (low..=high).contains(&is);
                at += 3;
            }
            _ => {
                holds |= low == is;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_have_units() {
        for (text, expected) in
            [("0", 0), ("2", 172_800), ("30s", 30), ("5minutes", 300), ("1H", 3600), ("1week", 604_800)]
        {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for (text, expected) in
            [("0", 0), ("4", 4096), ("100b", 100), ("1megabyte", 1 << 20), ("2G", 2 << 30), ("1t", 1 << 40)]
        {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for bad in ["", "d", "-1d", "1.5h", "1y", "1d2", "99999999999999999w", "1 d"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
        assert_eq!((bytes("1x"), bytes("99999999999999t")), (None, None));
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        let holds = |pattern: &str, name: &str| {
            is_match(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
        };
        for (pattern, name) in [
            ("*", "a"),
            ("*.log", "x.log"),
            ("a*b*c", "a-b-b-c"),
            ("?", "é"),
            ("[a-c]x", "bx"),
            ("[!a]", "b"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("\\*", "*"),
            ("[", "["),
            (".*", ".hidden"),
            ("**", "x"),
            ("a*", "a"),
        ] {
            assert!(holds(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("*.log", "x.log.1"),
            ("?", ""),
            ("[!a]", "a"),
            ("[a-c]", "d"),
            ("*", ".hidden"),
            ("a", "ab"),
            ("[a", "a"),
            ("?hidden", ".hidden"),
        ] {
            assert!(!holds(pattern, name), "{pattern} {name}");
        }
        // The time grows with the product of the lengths, not exponentially.
        assert!(!holds(&"*a".repeat(200), &"a".repeat(250).replace("aa", "ab")));
    }
}
