//! Finds values of sensitive attributes in any output of a script.

use kilter_model::{Value, from_json};
use serde_json::Value as Json;

use super::masker::SecretMasker;

/// Maximum length of a multi-line value, in bytes.
const MAX_BLOCK_BYTES: usize = 64 << 10;

impl SecretMasker {
    /// Learns every text at the position of a value of these attributes. Prefers too many secrets to too few,
    /// because the output may not be a valid answer.
    pub fn learn_written(&mut self, bytes: &[u8], attributes: &[impl AsRef<str>]) {
        if attributes.is_empty() || bytes.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        if let Ok(json) = serde_json::from_str::<Json>(&text) {
            self.learn_changes(&json, attributes);
        }
        for attribute in attributes.iter().map(AsRef::as_ref) {
            for (at, _) in text.match_indices(attribute) {
                let before = text[..at].chars().next_back();
                let after = &text[at + attribute.len()..];
                if before.is_none_or(|c| !is_word(c)) && !after.starts_with(is_word) {
                    self.learn_after(after);
                }
            }
        }
    }

    /// Learns the value that follows an attribute name.
    fn learn_after(&mut self, after: &str) {
        let after = after.strip_prefix(['"', '\'']).unwrap_or(after).trim_start_matches([' ', '\t']);
        let Some(value) = after.strip_prefix("=>").or_else(|| after.strip_prefix([':', '='])) else { return };
        let value = value.trim_start_matches([' ', '\t']);
        let line = value.lines().next().unwrap_or_default().trim();
        match value.chars().next() {
            None | Some('\n') => {}
            Some('"') => self.learn_quoted(value),
            Some('[' | '{') => self.learn_within(value),
            Some('\'') => {
                // A text in single quotes, with or without shell escapes.
                self.register_secrets(line.trim_end_matches(',').trim_matches('\''));
                self.register_secrets(&line.trim_matches('\'').replace("'\\''", "'"));
            }
            _ => {
                let token = line.split([',', '}', ']']).next().unwrap_or_default().trim();
                let is_json = line.len() > token.len() && (token.parse::<f64>().is_ok() || token == "null");
                self.register_secrets(if is_json { token } else { line });
            }
        }
        // The next line may contain the old value.
        let next = value.split_once('\n').map(|(_, rest)| rest.trim_start()).unwrap_or_default();
        if let Some(was) = next.strip_prefix("ral_was").and_then(|rest| rest.trim_start().strip_prefix(':')) {
            self.register_secrets(was.lines().next().unwrap_or_default());
        }
    }

    /// Learns a quoted text, also if it is truncated.
    fn learn_quoted(&mut self, value: &str) {
        let end = closing(value).unwrap_or_else(|| value.find('\n').unwrap_or(value.len()));
        let quoted = &value[..end];
        match serde_json::from_str::<String>(quoted) {
            Ok(text) => self.register_secrets(&text),
            Err(_) => self.register_secrets(quoted.trim_matches('"')),
        }
    }

    /// Learns all texts and numbers of a list or an object, also if it is truncated.
    fn learn_within(&mut self, value: &str) {
        let most = (0..=value.len().min(MAX_BLOCK_BYTES)).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
        let value = &value[..most];
        let (mut depth, mut at) = (0_usize, 0);
        while let Some(c) = value[at..].chars().next() {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' if depth <= 1 => return,
                ']' | '}' => depth -= 1,
                '"' => {
                    let behind = closing(&value[at..]).map_or("", |end| &value[at + end..]);
                    if !behind.trim_start().starts_with(':') {
                        self.learn_quoted(&value[at..]);
                    }
                    at += closing(&value[at..]).map_or(value.len() - at, |end| end - 1);
                    if at >= value.len() {
                        return;
                    }
                }
                c if c.is_alphanumeric() => {
                    let end = value[at..].find([',', ']', '}', ' ', '\n', ':']).unwrap_or(value.len() - at);
                    self.register_secrets(&value[at..at + end]);
                    at += end;
                    continue;
                }
                _ => {}
            }
            at += c.len_utf8();
        }
    }

    /// Learns values in reported changes: `{"attr": "password", "is": …, "was": …}`.
    fn learn_changes(&mut self, json: &Json, attributes: &[impl AsRef<str>]) {
        match json {
            Json::Array(values) => values.iter().for_each(|value| self.learn_changes(value, attributes)),
            Json::Object(entries) => {
                let is_one =
                    |value: &Json| value.as_str().is_some_and(|text| attributes.iter().any(|a| a.as_ref() == text));
                let is_about = entries.iter().any(|(key, value)| key.starts_with("attr") && is_one(value));
                for (key, value) in entries {
                    let is_named = attributes.iter().any(|attribute| attribute.as_ref() == key);
                    if is_named || is_about && matches!(key.as_str(), "is" | "was" | "should") {
                        self.learn_value(&Value::sensitive(from_json(value)));
                    } else {
                        self.learn_changes(value, attributes);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the position after the closing quote. None if there is none.
fn closing(quoted: &str) -> Option<usize> {
    let bytes = quoted.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
