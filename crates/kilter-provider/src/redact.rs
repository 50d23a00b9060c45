//! Redaction of secrets in messages.
//!
//! Providers receive secrets in clear, and the tools that they call repeat their input. The runtime therefore
//! redacts all secrets of a resource in every message of a provider about it. A provider without secrets in its
//! messages is safe with every caller.

use ecow::EcoString;
use kilter_model::{Attributes, Change, Difference, Outcome, REDACTED, Value};

use crate::contract::{ProviderError, ValidationError};

/// Minimum length of a redacted text, in bytes. Shorter texts would match parts of ordinary words.
const SHORTEST: usize = 4;

/// Marker for truncated text.
const CUT: char = '…';

/// Redacts the secrets of a change in the messages of its outcome.
pub fn redacted_outcome(change: &Change<'_>, outcome: Outcome) -> Outcome {
    match change.should {
        Some(should) => Redactor::of(should).outcome(outcome),
        None => outcome,
    }
}

/// Secret texts of a resource, to be redacted.
///
/// Texts of fewer than four bytes are ignored.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redactor {
    texts: Vec<String>,
}

impl Redactor {
    /// Collects the secrets in `attributes`, as a whole and line by line, the longest first.
    pub fn of(attributes: &Attributes) -> Redactor {
        Redactor::of_values(attributes.iter().map(|(_, value)| value))
    }

    /// Collects the secrets of several resources, for messages about all of them, such as the error of a call.
    pub fn of_all<'a>(resources: impl IntoIterator<Item = &'a Attributes>) -> Redactor {
        Redactor::of_values(resources.into_iter().flat_map(|attributes| attributes.iter().map(|(_, value)| value)))
    }

    /// Collects the secrets in `values`.
    pub fn of_values<'a>(values: impl IntoIterator<Item = &'a Value>) -> Redactor {
        let mut texts = Vec::new();
        for value in values.into_iter().filter(|value| value.holds_sensitive()) {
            collect(value, false, &mut texts);
        }
        texts.retain(|text| text.len() >= SHORTEST);
        Redactor::of_texts(texts)
    }

    /// Returns the union of both.
    #[must_use]
    pub fn and(self, other: Redactor) -> Redactor {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Redactor::of_texts(self.texts.into_iter().chain(other.texts).collect()),
        }
    }

    /// Sorts the texts, the longest first, and removes duplicates.
    fn of_texts(mut texts: Vec<String>) -> Redactor {
        texts.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        texts.dedup();
        Redactor { texts }
    }

    /// Returns the texts, for callers with a search of their own.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Returns true if there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Redacts the secrets in `text`, including parts of a secret that was truncated at a `…`.
    pub fn redact(&self, text: EcoString) -> EcoString {
        if !text.contains(CUT) && !self.texts.iter().any(|secret| text.contains(secret.as_str())) {
            return text;
        }
        redacted(&text, &self.texts)
    }

    /// Redacts the secrets in `difference`.
    pub fn redact_difference(&self, mut difference: Difference) -> Difference {
        if self.texts.is_empty() {
            return difference;
        }
        difference.message = difference.message.map(|message| self.redact(message));
        difference.diff = difference.diff.map(|diff| self.redact(diff));
        for value in [&mut difference.is, &mut difference.should] {
            self.redact_value(value);
        }
        difference
    }

    /// Redacts the secrets in the texts of `value`.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact(text.clone()),
            Value::Array(values) => {
                let mut hidden = values.to_vec();
                hidden.iter_mut().for_each(|value| self.redact_value(value));
                *value = Value::array(hidden);
            }
            Value::Hash(entries) => {
                let mut hidden = (**entries).clone();
                hidden.values_mut().for_each(|value| self.redact_value(value));
                *value = Value::hash(hidden);
            }
            _ => {}
        }
    }

    /// Redacts the secrets in `problem`.
    pub fn problem(&self, problem: ValidationError) -> ValidationError {
        let hint = problem.hint.map(|hint| self.redact(hint));
        ValidationError { message: self.redact(problem.message), hint, ..problem }
    }

    /// Redacts the secrets in the messages of `outcome`. Outputs are values and can themselves be sensitive.
    pub fn outcome(&self, outcome: Outcome) -> Outcome {
        Outcome {
            failure: outcome.failure.map(|failure| self.redact(failure)),
            changed: outcome.changed.into_iter().map(|each| self.redact_difference(each)).collect(),
            notes: outcome.notes.into_iter().map(|note| self.redact(note)).collect(),
            by: self.redact(outcome.by),
            ..outcome
        }
    }

    /// Redacts the secrets in `error`.
    pub fn error(&self, error: ProviderError) -> ProviderError {
        ProviderError { message: self.redact(error.message) }
    }
}

/// Shows only the number of texts.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor of {} texts", self.texts.len())
    }
}

/// Redacts `secrets` in a text. The secrets must be non-empty and sorted by length, the longest first. The
/// replacement is not searched again. Text before or after a `…` may contain a part of a secret, which is
/// redacted too.
pub fn redacted(text: &str, secrets: &[String]) -> EcoString {
    let mut hidden = EcoString::with_capacity(text.len());
    let mut at = 0;
    let cuts: Vec<usize> = text.match_indices(CUT).map(|(cut, _)| cut).collect();
    while let Some(c) = text[at..].chars().next() {
        match end_of_secret(text, at, secrets, &cuts) {
            Some(end) => {
                hidden.push_str(REDACTED);
                at = end;
            }
            None => {
                hidden.push(c);
                at += c.len_utf8();
            }
        }
    }
    hidden
}

/// Returns the end of the secret that starts at `start`, including secrets that overlap it.
fn end_of_secret(text: &str, start: usize, secrets: &[String], cuts: &[usize]) -> Option<usize> {
    let mut end = start + length_at(text, start, secrets, cuts)?;
    let mut at = start;
    while let Some(c) = text[at..end].chars().next() {
        at += c.len_utf8();
        if let Some(length) = length_at(text, at, secrets, cuts).filter(|_| at < end) {
            end = end.max(at + length);
        }
    }
    Some(end)
}

/// Returns the length of the secret at `at`, or of the rest of a truncated secret.
fn length_at(text: &str, at: usize, secrets: &[String], cuts: &[usize]) -> Option<usize> {
    let rest = &text[at..];
    if let Some(secret) = secrets.iter().find(|secret| rest.starts_with(secret.as_str())) {
        return Some(secret.len());
    }
    let begins = |part: &str| !part.is_empty() && secrets.iter().any(|secret| secret.starts_with(part));
    let next = cuts.get(cuts.partition_point(|cut| *cut < at)).map(|cut| cut - at);
    if let Some(length) = next.filter(|length| begins(&rest[..*length])) {
        return Some(length);
    }
    let is_behind_cut = at >= CUT.len_utf8() && cuts.binary_search(&(at - CUT.len_utf8())).is_ok();
    if is_behind_cut { secrets.iter().filter_map(|secret| end_at(rest, secret)).max() } else { None }
}

/// Returns the length of the longest suffix of a secret that the text starts with.
fn end_at(text: &str, secret: &str) -> Option<usize> {
    let ends = secret.char_indices().map(|(at, _)| &secret[at..]);
    ends.into_iter().find(|end| text.starts_with(end)).map(str::len)
}

/// Collects the texts of all scalars in sensitive values. Adds the single lines of a multi-line text, because
/// tools repeat single lines.
fn collect(value: &Value, sealed: bool, texts: &mut Vec<String>) {
    match value {
        Value::Sensitive(inner) => collect(inner, true, texts),
        Value::Array(values) => values.iter().for_each(|value| collect(value, sealed, texts)),
        Value::Hash(entries) => entries.values().for_each(|value| collect(value, sealed, texts)),
        Value::Undef | Value::Boolean(_) | Value::Binary(_) => {}
        _ if !sealed => {}
        scalar => {
            let text = scalar.to_string();
            texts.extend(text.lines().map(str::trim).filter(|line| *line != text).map(str::to_owned));
            texts.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_secrets_are_redacted_completely() {
        let secret = |text: &str| Value::sensitive(text.into());
        let seal = Redactor::of_values(&[secret("abc123xyz"), secret("xyz789secret"), secret("ünder")]);
        let hidden = |text: &str| seal.redact(text.into()).to_string();
        assert_eq!(hidden("1 abc123xyz789secret 2"), "1 [redacted] 2");
        assert_eq!(hidden("abc123xyzxyz789secret"), "[redacted][redacted]");
        assert_eq!(hidden("ü ünder ünde"), "ü [redacted] ünde");
    }

    #[test]
    fn merged_redactors_hide_secrets_of_both() {
        let of = |texts: &[&str]| {
            Redactor::of_values(&texts.iter().map(|&text| Value::sensitive(text.into())).collect::<Vec<_>>())
        };
        let seal = of(&["abcd", "wxyz"]).and(of(&["abcdef", "wxyz"]));
        assert_eq!(seal.texts(), ["abcdef", "abcd", "wxyz"]);
        assert_eq!(seal.redact("abcdef abcd wxyz ab".into()), "[redacted] [redacted] [redacted] ab");
        assert!(
            of(&["abcd"]).and(Redactor::default()) == of(&["abcd"])
                && Redactor::default().and(of(&["abcd"])) == of(&["abcd"])
        );
    }

    #[test]
    fn truncated_secret_is_redacted() {
        let secret = |text: &str| Value::sensitive(text.into());
        let seal = Redactor::of_values(&[secret("hunter2"), secret("r2xyzü")]);
        let hidden = |text: &str| seal.redact(text.into()).to_string();
        assert_eq!(hidden("it is hunte… (3 more)"), "it is [redacted]… (3 more)");
        assert_eq!(hidden("it is hunter2xy…"), "it is [redacted]…");
        assert_eq!(hidden("…zü, hunter2, hunte"), "…[redacted], [redacted], hunte");
        assert_eq!(hidden("…ter2xyzü…"), "…[redacted]…");
        assert_eq!(hidden("… nothing is cut …"), "… nothing is cut …");
        assert_eq!(Redactor::default().redact("a…".into()), "a…");
    }

    #[test]
    fn sensitive_texts_are_removed_from_messages() {
        let sealed = |value: Value| Value::sensitive(value);
        let attributes: Attributes = [
            ("content", sealed("first line\nhunter2\n".into())),
            ("uid", sealed(Value::Integer(98765))),
            ("words", Value::array(["plain".into(), sealed("s3cret".into())])),
        ]
        .into_iter()
        .collect();
        let seal = Redactor::of(&attributes);
        let hidden = seal.redact("line 2: hunter2; uid 98765; s3cret plain".into());
        assert_eq!(hidden, "line 2: [redacted]; uid [redacted]; [redacted] plain");
        let difference = Difference::new("x", "hunter2".into(), Value::Undef).saying("was hunter2");
        let hidden = seal.redact_difference(difference);
        assert_eq!((hidden.is, hidden.message.as_deref()), (REDACTED.into(), Some("was [redacted]")));
        let listed = Difference::new("x", Value::strings(["plain", "s3cret"]), Value::Undef);
        assert_eq!(seal.redact_difference(listed).is, Value::strings(["plain", REDACTED]));
        let outcome = Outcome { notes: vec!["hunter2".into()], ..Outcome::failed("no 98765") };
        let hidden = seal.outcome(outcome);
        assert_eq!((hidden.failure.as_deref(), &hidden.notes[..]), (Some("no [redacted]"), &[REDACTED.into()][..]));
        let problem = seal.problem(ValidationError::new("`s3cret` is none").hint("not s3cret"));
        assert_eq!(problem.to_string(), "`[redacted]` is none (not [redacted])");
        assert_eq!(seal.error(ProviderError::new("no hunter2")).message, "no [redacted]");
    }
}
