//! Values in the Puppet language.

use kilter_model::{Value, base64};

use crate::visible;

/// Returns a value in the Puppet language.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Undef => "undef".to_owned(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::String(text) => string(text),
        Value::Binary(bytes) => format!("Binary('{}')", base64(bytes)),
        Value::Array(values) => format!("[{}]", list(values.iter().map(self::value))),
        Value::Hash(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Hash(entries) => {
            let entries = entries.iter().map(|(key, inner)| format!("{} => {}", string(key), self::value(inner)));
            format!("{{ {} }}", list(entries))
        }
        Value::Sensitive(inner) => format!("Sensitive({})", self::value(inner)),
        other => string(&other.to_string()),
    }
}

fn list(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(", ")
}

/// Returns a string literal: in single quotes, or in double quotes if characters need an escape.
pub(crate) fn string(text: &str) -> String {
    if text.contains(visible::is_steering) { double_quoted(text) } else { single_quoted(text) }
}

fn single_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for part in text.split_inclusive(['\\', '\'']) {
        match part.strip_suffix(['\\', '\'']) {
            Some(before) => {
                quoted.push_str(before);
                quoted.push('\\');
                quoted.push_str(&part[before.len()..]);
            }
            None => quoted.push_str(part),
        }
    }
    quoted.push('\'');
    quoted
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' | '$' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            c if visible::is_steering(c) => out += &format!("\\u{{{:x}}}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puppet_text_quoting_round_trips() {
        assert_eq!(string("it's C:\\"), r"'it\'s C:\\'");
        assert_eq!(string("${x}"), "'${x}'");
        assert_eq!(string("a\n\"$b\"\u{1}"), r#""a\n\"\$b\"\u{1}""#);
    }

    #[test]
    fn values_are_written_like_puppet() {
        let nested = Value::hash([("k", Value::array([Value::from(1), Value::from("a")]))]);
        assert_eq!(value(&nested), "{ 'k' => [1, 'a'] }");
        assert_eq!(value(&Value::sensitive(Value::from("x"))), "Sensitive('x')");
        assert_eq!(value(&Value::Undef), "undef");
    }
}
