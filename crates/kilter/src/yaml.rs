//! Values as YAML that every YAML 1.1 or 1.2 reader reads back as the same values.

use std::borrow::Cow;

use kilter_model::{Value, base64, to_json_clear};

use crate::visible;

/// Treatment of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Texts stand for themselves.
    Data,
    /// Texts may contain expressions, so that `${` is written `$${`.
    Manifest,
}

/// Writer of YAML.
pub(crate) struct Yaml {
    out: String,
    texts: Texts,
}

impl Yaml {
    pub(crate) fn new(texts: Texts) -> Yaml {
        Yaml { out: String::new(), texts }
    }

    /// Returns the text.
    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// Writes a comment on its own lines.
    pub(crate) fn comment(&mut self, depth: usize, text: &str) {
        for line in text.lines() {
            self.indent(depth);
            self.out += "# ";
            self.out += &visible::visible(line);
            self.out.push('\n');
        }
    }

    /// Writes an empty line.
    pub(crate) fn blank(&mut self) {
        self.out.push('\n');
    }

    /// Writes `key:` alone. The next entries are one level deeper.
    pub(crate) fn open(&mut self, depth: usize, key: &str) {
        self.key(depth, key);
        self.out.push('\n');
    }

    /// Writes `key: value`.
    pub(crate) fn entry(&mut self, depth: usize, key: &str, value: &Value) {
        self.key(depth, key);
        self.value(depth, value);
    }

    /// Writes a document that is one value.
    pub(crate) fn document(&mut self, value: &Value) {
        match value {
            Value::Hash(entries) if !entries.is_empty() => {
                entries.iter().for_each(|(key, value)| self.entry(0, key, value));
            }
            Value::Array(values) if !values.is_empty() => values.iter().for_each(|value| self.item(0, value)),
            Value::String(text) => {
                self.out += &scalar(text);
                self.out.push('\n');
            }
            other => {
                self.value(0, other);
                self.out = self.out.trim_start().to_owned();
            }
        }
    }

    fn key(&mut self, depth: usize, key: &str) {
        self.indent(depth);
        self.out += &scalar(&self.literal(key));
        self.out.push(':');
    }

    fn item(&mut self, depth: usize, value: &Value) {
        self.indent(depth);
        self.out.push('-');
        match value {
            Value::Hash(entries) if !entries.is_empty() => {
                let start = self.out.len();
                entries.iter().for_each(|(key, value)| self.entry(depth + 1, key, value));
                // The first key is on the line of the dash.
                self.out.replace_range(start..start + 2 * (depth + 1), " ");
            }
            value => self.value(depth, value),
        }
    }

    /// Writes a value after `key:` or `-` at level `depth`.
    fn value(&mut self, depth: usize, value: &Value) {
        match value {
            Value::Undef => self.out += " null\n",
            Value::Boolean(truth) => self.line(&truth.to_string()),
            Value::Integer(number) => self.line(&number.to_string()),
            Value::Float(number) => self.line(&float(*number)),
            Value::String(text) => self.text(depth, text),
            Value::Array(values) if values.is_empty() => self.out += " []\n",
            Value::Array(values) => {
                self.out.push('\n');
                values.iter().for_each(|value| self.item(depth + 1, value));
            }
            Value::Hash(entries) if entries.is_empty() => self.out += " {}\n",
            Value::Hash(entries) => {
                self.out.push('\n');
                entries.iter().for_each(|(key, value)| self.entry(depth + 1, key, value));
            }
            Value::Binary(bytes) if std::str::from_utf8(bytes).is_ok() => {
                self.text(depth, std::str::from_utf8(bytes).unwrap_or_default());
            }
            Value::Binary(bytes) => {
                self.out.push('\n');
                self.entry(depth + 1, "base64", &base64(bytes).into());
            }
            Value::Sensitive(inner) => {
                self.out.push('\n');
                self.entry(depth + 1, "sensitive", inner);
            }
            other => self.line(&to_json_clear(other).to_string()),
        }
    }

    fn text(&mut self, depth: usize, text: &str) {
        let text = &*self.literal(text);
        if !is_block(text) {
            return self.line(&scalar(text));
        }
        let chomping = match text.strip_suffix('\n') {
            None => "-",
            Some(rest) if rest.ends_with('\n') => "+",
            Some(_) => "",
        };
        self.line(&format!("|{chomping}"));
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if !line.is_empty() {
                self.indent(depth + 1);
                self.out += line;
            }
            self.out.push('\n');
        }
    }

    /// Returns the text in the form that stands for itself.
    fn literal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.texts {
            Texts::Manifest if text.contains("${") => Cow::Owned(text.replace("${", "$${")),
            _ => Cow::Borrowed(text),
        }
    }

    fn line(&mut self, text: &str) {
        self.out.push(' ');
        self.out += text;
        self.out.push('\n');
    }

    fn indent(&mut self, depth: usize) {
        (0..depth).for_each(|_| self.out += "  ");
    }
}

/// Returns a text on one line: plain if every reader takes it for a string, otherwise quoted as in JSON.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Returns true if every reader takes the plain text for a string: no boolean, null, number, date or indicator in
/// any version of YAML.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"];
    let inside = |c: char| c.is_ascii_alphanumeric() || "_-./@+=,()[] :".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '_'))
        && text.chars().all(inside)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            c if is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xffff => out += &format!("\\u{:04x}", u32::from(c)),
            c => out += &format!("\\U{:08x}", u32::from(c)),
        }
    }
    out.push('"');
    out
}

/// Returns true if every reader accepts the character unescaped: no control character, no line break of some
/// readers, no byte order mark, no noncharacter.
fn is_printable(c: char) -> bool {
    !visible::is_steering(c) && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') && u32::from(c) & 0xfffe != 0xfffe
}

/// Returns true if a text is more readable as a block of lines, and reads back unchanged.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && text.chars().all(|c| matches!(c, '\n' | '\t') || is_printable(c))
}

fn float(number: f64) -> String {
    match number {
        n if n.is_nan() => ".nan".to_owned(),
        f64::INFINITY => ".inf".to_owned(),
        f64::NEG_INFINITY => "-.inf".to_owned(),
        n => format!("{n:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: impl Into<Value>, texts: Texts) -> String {
        let mut yaml = Yaml::new(texts);
        yaml.entry(0, "a", &value.into());
        yaml.finish()
    }

    #[test]
    fn ambiguous_yaml_texts_are_quoted() {
        for text in [
            "yes",
            "No",
            "NULL",
            "~",
            "1",
            "0x1f",
            "1_000",
            "1e3",
            "",
            " a",
            "a ",
            "a: b",
            "a #b",
            "#",
            "-",
            "2001-01-01",
            "=",
            "<<",
            "12:30",
            "é",
        ] {
            assert_eq!(entry(text, Texts::Data), format!("a: {}\n", quoted(text)));
        }
        for text in ["a", "/bin/sh", "a b", "a:b", "user[root]", "a=b,c"] {
            assert_eq!(entry(text, Texts::Data), format!("a: {text}\n"));
        }
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(entry("x\n  y\n\nz\n", Texts::Data), "a: |\n  x\n    y\n\n  z\n");
        assert_eq!(entry("x\ny", Texts::Data), "a: |-\n  x\n  y\n");
        assert_eq!(entry("x\ny\n\n", Texts::Data), "a: |+\n  x\n  y\n\n");
        assert_eq!(entry("\nx", Texts::Data), "a: \"\\nx\"\n");
        assert_eq!(entry("x\r\ny", Texts::Data), "a: \"x\\r\\ny\"\n");
    }

    #[test]
    fn expressions_in_texts_are_escaped() {
        assert_eq!(entry("${x}", Texts::Manifest), "a: \"$${x}\"\n");
        assert_eq!(entry("${x}", Texts::Data), "a: \"${x}\"\n");
        assert_eq!(entry("${a}\n${b}\n", Texts::Manifest), "a: |\n  $${a}\n  $${b}\n");
    }

    #[test]
    fn values_nest() {
        let inner = Value::hash([("k", Value::strings(["v", "w"])), ("e", Value::array([]))]);
        let value = Value::array([inner, Value::from(1), Value::array([Value::from(true)])]);
        assert_eq!(entry(value, Texts::Data), "a:\n  - k:\n      - v\n      - w\n    e: []\n  - 1\n  -\n    - true\n");
    }
}

#[cfg(test)]
mod reads_back;
