//! Regular expressions in Ruby's dialect, compiled on first use.

mod limits;
mod ruby;

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock};

use ecow::EcoString;
use fancy_regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

/// Maximum number of compiled expressions that a thread caches for the expression language.
const CACHED_PATTERNS: usize = 128;

/// Maximum number of backtracking steps of a match that cannot run in linear time. This takes some tens of
/// milliseconds. After that, the match fails with an error.
const BACKTRACKS: usize = 200_000;

/// Maximum size of a compiled expression, in bytes.
const MAX_COMPILED_BYTES: usize = 4 << 20;

thread_local! {
    static COMPILED: RefCell<FxHashMap<EcoString, Regexp>> = RefCell::default();
}

/// Error of a regular expression.
#[derive(Clone, Debug)]
pub enum PatternError {
    /// The text is not a valid regular expression.
    Compile(Box<fancy_regex::Error>),
    /// The expression refers to a group number that does not exist.
    Group(EcoString),
    /// The expression contains nested or too many group calls.
    Calls,
    /// The match takes too many steps on this text.
    Match(Box<fancy_regex::Error>),
}

impl PatternError {
    /// Returns the reason in one line, without the matched text.
    pub(crate) fn reason(&self) -> String {
        let error = match self {
            PatternError::Calls => return r"groups are called (\g) too often, or twice from within groups".into(),
            PatternError::Group(number) => return format!("there is no group {number}"),
            PatternError::Compile(error) | PatternError::Match(error) => error.to_string(),
        };
        error.lines().last().unwrap_or_default().trim().to_owned()
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason())
    }
}

impl std::error::Error for PatternError {}

/// A regular expression in Ruby's dialect.
///
/// `^` and `$` match at line boundaries, `\A` and `\z` at the ends of the text. `\Z` matches at the end or
/// before a final line break. `\h` matches a hexadecimal digit. Look-around and named groups are supported.
/// `\w`, `\d` and `\s` match ASCII only.
///
/// The expression is compiled on first use, once for all clones.
#[derive(Clone)]
pub struct Regexp(Arc<Inner>);

struct Inner {
    source: EcoString,
    compiled: OnceLock<Result<Regex, PatternError>>,
}

impl Regexp {
    /// Creates an expression from `source`, without slashes.
    pub fn new(source: impl Into<EcoString>) -> Regexp {
        Regexp(Arc::new(Inner { source: source.into(), compiled: OnceLock::new() }))
    }

    /// Returns the text between the slashes.
    pub fn source(&self) -> &EcoString {
        &self.0.source
    }

    /// Compiles the expression if necessary.
    ///
    /// # Errors
    /// If the text is not a valid regular expression, or is too large.
    pub fn compile(&self) -> Result<(), PatternError> {
        self.compiled().map(|_| ())
    }

    pub(crate) fn compiled(&self) -> Result<&Regex, PatternError> {
        self.0.compiled.get_or_init(|| compile(&self.0.source)).as_ref().map_err(Clone::clone)
    }

    /// Returns true if the expression matches anywhere in `text`.
    ///
    /// # Errors
    /// If the text is not a valid regular expression, or the match takes too many steps.
    pub fn is_match(&self, text: &str) -> Result<bool, PatternError> {
        self.compiled()?.is_match(text).map_err(|error| PatternError::Match(Box::new(error)))
    }
}

fn compile(source: &str) -> Result<Regex, PatternError> {
    let text = ruby::rewritten(source);
    if let Some(number) = limits::group_beyond(&text) {
        return Err(PatternError::Group(number.into()));
    }
    if limits::calls_too_often(&text) {
        return Err(PatternError::Calls);
    }
    let mut builder = RegexBuilder::new(&text);
    builder.oniguruma_mode(true).multi_line(true).backtrack_limit(BACKTRACKS).delegate_size_limit(MAX_COMPILED_BYTES);
    builder.build().map_err(|error| PatternError::Compile(Box::new(error)))
}

impl PartialEq for Regexp {
    fn eq(&self, other: &Regexp) -> bool {
        self.0.source == other.0.source
    }
}

/// Writes the expression between slashes.
impl fmt::Display for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("/")?;
        let mut escaped = false;
        for c in self.0.source.chars() {
            match c {
                '/' if !escaped => f.write_str("\\/")?,
                c => write!(f, "{c}")?,
            }
            escaped = c == '\\' && !escaped;
        }
        f.write_str("/")
    }
}

impl fmt::Debug for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Returns true if `pattern` matches anywhere in `text`.
pub(crate) fn is_match(pattern: &str, text: &str) -> Result<bool, PatternError> {
    let regexp = COMPILED.with_borrow_mut(|compiled| {
        if let Some(regexp) = compiled.get(pattern) {
            return regexp.clone();
        }
        if compiled.len() >= CACHED_PATTERNS {
            compiled.clear();
        }
        let regexp = Regexp::new(pattern);
        compiled.insert(pattern.into(), regexp.clone());
        regexp
    });
    regexp.is_match(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Regexp::new(pattern).is_match(text).unwrap()
    }

    #[test]
    fn anchors_follow_ruby() {
        assert!(matches("^b$", "a\nb\nc"));
        assert!(matches(r"\Aa\Z", "a\n"));
        assert!(!matches(r"\Aa\z", "a\n"));
        assert!(!matches(r"\Aa\Z", "a\n\n"));
        assert!(!matches("a.b", "a\nb"));
        assert!(matches("(?m)a.b", "a\nb"));
        assert!(matches("(?m:a.b)", "a\nb"));
        assert!(!matches("(?m-m:a.b)", "a\nb"));
    }

    #[test]
    fn character_classes_are_ascii() {
        assert!(matches(r"\A\h+\z", "00fF") && !matches(r"\h", "xyz"));
        assert!(matches(r"\H", "x"));
        assert!(!matches(r"\A\d\z", "٣") && !matches(r"\A\w\z", "é") && matches(r"\A\W\z", "é"));
        assert!(!matches(r"\A[\d]\z", "٣") && matches(r"\A[\w.-]+\z", "a.b-c"));
        assert!(matches(r"\A[^\d]\z", "٣"));
        assert!(matches(r"\A[[:alpha:]]\z", "é"));
        assert!(matches(r"\A\p{Alpha}\z", "é"));
    }

    #[test]
    fn look_around_named_groups_and_recursion_work() {
        assert!(matches(r"(?<!x)a", "ya") && !matches(r"(?<!x)a", "xa"));
        assert!(matches(r"a(?=b)", "ab") && !matches(r"a(?!b)", "ab"));
        assert!(matches(r"\A(?<c>.)\k<c>\z", "aa") && !matches(r"\A(?<c>.)\k<c>\z", "ab"));
        assert!(matches(r"\A(?<part>[0-9a-z]+)(?:\.\g<part>)*\z", "a.b.c"));
        assert!(matches(r"\A(?i:https?:\/\/.*\z)", "HTTP://x"));
        assert!(matches("\\A\\101\\z", "A") && matches(r"\A\e\z", "\u{1b}"));
    }

    #[test]
    fn slow_pattern_hits_step_limit() {
        for evil in [r"\A((a|a)+)\1b(?!x)\z", r"\A(?:a|a(?=a))+\z(?<=b)", r"\A(?:(a)|(a))+(?<!a)c\z"] {
            let given_up = Regexp::new(evil).is_match(&"a".repeat(60));
            assert!(matches!(given_up, Err(PatternError::Match(_))), "{evil}");
        }
        assert!(matches!(Regexp::new("(").is_match(""), Err(PatternError::Compile(_))));
        assert!(matches!(Regexp::new("((a{1000}){1000}){1000}").is_match(""), Err(PatternError::Compile(_))));
    }

    #[test]
    fn reference_to_impossible_group_is_refused() {
        for far in [r"a\g333333333333", r"(a)\g<99999999999999999999>", r"\k<-333333333333>", r"a(?(333333333333)b|c)"]
        {
            assert!(Regexp::new(far).compile().is_err(), "{far}");
        }
        assert!(matches!(Regexp::new(r"\g<4000000000>").compile(), Err(PatternError::Group(_))));
        assert!(matches(r"\A(a)\k<1>\g<1>\z", "aaa") && matches(r"\A(a)\k<-1>\z", "aa"));
        assert!(matches(r"\\(g333)", r"\g333") && matches(r"a{2,3}", "aaa") && matches(r"\A\x31\z", "1"));
    }

    #[test]
    fn calls_that_would_multiply_are_refused_and_others_work() {
        for bomb in [r"pP|t\g0\.a|t\g0\'", r"n?<(%a>(/);??\g1\g1)+a|", r"(?<a>x\g<a>|\g<a>y)", r"(a)(\g1\g1)(\g2\g2)"] {
            assert!(matches!(Regexp::new(bomb).compile(), Err(PatternError::Calls)), "{bomb}");
        }
        assert!(matches(r"\A(?<n>\d{1,3})\.\g<n>\.\g<n>\.\g<n>\z", "10.0.0.1"));
        assert!(matches(r"\A(?<p>\((?:[^()]|\g<p>)*\))\z", "(a(b)c)"), "one recursive call");
        assert!(matches(r"\A[(]\\g\z", r"(\g"));
    }

    #[test]
    fn pattern_displays_between_slashes() {
        assert_eq!(Regexp::new("a/b").to_string(), r"/a\/b/");
        assert_eq!(Regexp::new(r"a\/b").to_string(), r"/a\/b/");
    }
}
