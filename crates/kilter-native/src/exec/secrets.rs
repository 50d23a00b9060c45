//! Redacts the sensitive values of a resource.

use ecow::EcoString;
use kilter_model::{Attributes, REDACTED, Value};
use kilter_provider::redacted;

/// Minimum length in bytes of a secret. Shorter texts occur in many words.
const SHORTEST: usize = 4;

/// Sensitive texts in the attributes of a resource.
pub(super) struct SensitiveTexts(Vec<String>);

impl SensitiveTexts {
    pub(super) fn of(should: &Attributes) -> SensitiveTexts {
        let mut secrets = SensitiveTexts(Vec::new());
        should.iter().for_each(|(_, value)| secrets.collect(value, false));
        // Longest first, because a secret may contain another.
        secrets.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets
    }

    fn collect(&mut self, value: &Value, is_sealed: bool) {
        match value {
            Value::Sensitive(inner) => self.collect(inner, true),
            Value::Array(values) => values.iter().for_each(|value| self.collect(value, is_sealed)),
            Value::Hash(entries) => entries.values().for_each(|value| self.collect(value, is_sealed)),
            Value::String(text) if is_sealed => {
                // Programs may print each line of a secret separately and trimmed.
                self.0.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
                // Programs print the value of a variable without its name.
                let value = text.split_once('=').map(|(_, value)| value.trim()).filter(|value| !value.is_empty());
                self.0.extend(value.map(str::to_owned));
            }
            Value::Integer(_) | Value::Float(_) if is_sealed => self.0.extend(value.to_text().map(Into::into)),
            _ => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an output, sensitive if there are secrets.
    pub(super) fn sealing(&self, output: Value) -> Value {
        if self.is_empty() { output } else { Value::sensitive(output) }
    }

    /// Redacts the secrets in a text. Redacts the complete text if it contains a very short secret, which could
    /// otherwise be guessed from the remaining text.
    pub(super) fn redact(&self, text: &str) -> EcoString {
        if self.0.iter().any(|secret| secret.len() < SHORTEST && text.contains(secret.as_str())) {
            return REDACTED.into();
        }
        redacted(text, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redaction_keeps_markers_and_hides_text_with_short_secret() {
        let secrets = |values: &[&str]| {
            let should = [("environment", Value::sensitive(Value::strings(values.iter().copied())))];
            SensitiveTexts::of(&should.into_iter().collect())
        };
        assert_eq!(
            secrets(&["hunter2", "dacted", "hunter2 x"]).redact("a hunter2 x, hunter2"),
            "a [redacted], [redacted]"
        );
        assert_eq!(secrets(&["e"]).redact("the guard failed"), REDACTED);
        assert_eq!(secrets(&["e"]).redact("no"), "no");
    }
}
