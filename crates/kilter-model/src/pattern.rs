//! Regular expressions, compiled once.

use std::cell::RefCell;

use ecow::EcoString;
use rustc_hash::FxHashMap;

/// How many compiled expressions a thread keeps.
const KEPT: usize = 128;

thread_local! {
    static COMPILED: RefCell<FxHashMap<EcoString, fancy_regex::Regex>> = RefCell::default();
}

/// Says why a text could not be held against a regular expression.
#[derive(Clone, Debug)]
pub(crate) enum PatternError {
    /// It is not a regular expression.
    Compile(Box<fancy_regex::Error>),
    /// It takes too many steps on this text.
    Match(Box<fancy_regex::Error>),
}

impl PatternError {
    /// The reason in one line, without the text that was looked at.
    pub(crate) fn reason(&self) -> String {
        let error = match self {
            PatternError::Compile(error) | PatternError::Match(error) => error.to_string(),
        };
        error.lines().last().unwrap_or_default().trim().to_owned()
    }
}

/// Whether `pattern` matches somewhere in `text`.
pub(crate) fn is_match(pattern: &str, text: &str) -> Result<bool, PatternError> {
    COMPILED.with_borrow_mut(|compiled| {
        if !compiled.contains_key(pattern) {
            let regex = fancy_regex::Regex::new(pattern).map_err(|error| PatternError::Compile(Box::new(error)))?;
            if compiled.len() >= KEPT {
                compiled.clear();
            }
            compiled.insert(pattern.into(), regex);
        }
        let regex = compiled.get(pattern).expect("it was just put there");
        regex.is_match(text).map_err(|error| PatternError::Match(Box::new(error)))
    })
}

/// How often an expression may go back before it is given up.
const BACKTRACKS: usize = 200_000;

/// How large a compiled expression may be, in bytes.
const LARGEST: usize = 4 << 20;

/// Compiles an expression in Ruby's dialect: `^` and `$` are the ends of lines.
pub(crate) fn compile(pattern: &str) -> Result<fancy_regex::Regex, PatternError> {
    let mut builder = fancy_regex::RegexBuilder::new(pattern);
    builder.oniguruma_mode(true).multi_line(true).backtrack_limit(BACKTRACKS).delegate_size_limit(LARGEST);
    builder.build().map_err(|error| PatternError::Compile(Box::new(error)))
}
