//! Reader of the subset of HOCON that files of credentials use: JSON with comments, keys and values without quotes,
//! and line breaks in place of commas.
//!
//! Files that are made of several sources (`include`, `${…}`, `+=`) are refused. No message quotes a value, because
//! it may be a secret.

use ecow::EcoString;
use kilter_model::{Hash, Value};

/// Maximum nesting of objects and arrays.
const MAX_DEPTH: usize = 32;

/// Characters that a value or a key without quotes cannot contain.
const RESERVED: &str = "$\"{}[]:=,+#`^?!@*&\\";

/// Error in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HoconError {
    /// Line number, counted from 1.
    pub(super) line: usize,
    /// Description of the problem.
    pub(super) message: String,
}

impl std::fmt::Display for HoconError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

/// Parses a text, which is an object with or without braces.
///
/// # Errors
/// The first error.
pub(super) fn parse(text: &str) -> Result<Hash, HoconError> {
    let mut reader = HoconReader { rest: text, line: 1, depth: 0 };
    reader.skip_lines();
    let is_braced = reader.take("{");
    if reader.rest.starts_with('[') {
        return Err(reader.error("an object is expected, not an array"));
    }
    let object = reader.object(is_braced)?;
    reader.skip_lines();
    match reader.rest.is_empty() {
        true => Ok(object),
        false => Err(reader.error("nothing may follow the closing `}`")),
    }
}

struct HoconReader<'t> {
    rest: &'t str,
    line: usize,
    depth: usize,
}

impl<'t> HoconReader<'t> {
    fn error(&self, message: impl Into<String>) -> HoconError {
        HoconError { line: self.line, message: message.into() }
    }

    /// Consumes `bytes` bytes.
    fn advance(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.rest.starts_with(word);
        if is_next {
            self.advance(word.len());
        }
        is_next
    }

    /// Skips spaces within a line.
    fn skip_spaces(&mut self) {
        let end = self.rest.find(|c: char| c == '\n' || !is_space(c)).unwrap_or(self.rest.len());
        self.advance(end);
    }

    /// Skips spaces, line breaks and comments.
    fn skip_lines(&mut self) {
        loop {
            let end = self.rest.find(|c: char| !is_space(c)).unwrap_or(self.rest.len());
            self.advance(end);
            if !self.is_comment() {
                return;
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.advance(end);
        }
    }

    fn is_comment(&self) -> bool {
        self.rest.starts_with('#') || self.rest.starts_with("//")
    }

    /// Parses the entries of an object up to its brace, or up to the end of the text.
    fn object(&mut self, is_braced: bool) -> Result<Hash, HoconError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("objects and arrays are nested more than {MAX_DEPTH} levels deep")));
        }
        let mut object = Hash::default();
        loop {
            self.skip_lines();
            if is_braced && self.take("}") {
                break;
            }
            match self.rest.chars().next() {
                None if is_braced => return Err(self.error("a `}` is missing at the end")),
                None => break,
                Some('}') => return Err(self.error("this `}` closes nothing")),
                Some(_) => {}
            }
            let path = self.path()?;
            let value = self.entry_value()?;
            insert(&mut object, &path, value);
            // The next turn reports a `}` that closes nothing.
            self.separator("}")?;
        }
        self.depth -= 1;
        Ok(object)
    }

    /// Parses a key: parts separated by dots.
    fn path(&mut self) -> Result<Vec<EcoString>, HoconError> {
        let mut path = Vec::new();
        loop {
            self.skip_spaces();
            if self.rest.starts_with('"') {
                path.push(self.quoted()?.into());
            } else {
                let is_end = |c: char| c == '.' || is_space(c) || RESERVED.contains(c);
                let end = self.rest.find(is_end).unwrap_or(self.rest.len());
                let part = self.advance(end);
                if part.is_empty() {
                    return Err(self.error("a key is expected; keys with special characters need quotes"));
                }
                path.push(part.into());
            }
            self.skip_spaces();
            if path == ["include"] && !self.rest.starts_with([':', '=', '{', '.']) {
                return Err(self.error("`include` is not supported: write all keys in one file"));
            }
            if !self.take(".") {
                return Ok(path);
            }
        }
    }

    /// Parses the value behind a key.
    fn entry_value(&mut self) -> Result<Value, HoconError> {
        self.skip_spaces();
        if self.rest.starts_with("+=") {
            return Err(self.error("`+=` is not supported: write the whole list"));
        }
        if !self.rest.starts_with('{') && !self.take(":") && !self.take("=") {
            return Err(self.error("`:` or `=` is expected after the key"));
        }
        self.skip_lines();
        self.value()
    }

    fn value(&mut self) -> Result<Value, HoconError> {
        if self.take("{") {
            return self.object(true).map(|object| Value::Hash(std::sync::Arc::new(object)));
        }
        if self.take("[") {
            return self.array();
        }
        let line = self.line;
        let (mut text, mut pieces, mut is_quoted) = (String::new(), 0, false);
        loop {
            let before = self.rest;
            self.skip_spaces();
            let spaces = &before[..before.len() - self.rest.len()];
            match self.rest.chars().next() {
                None | Some('\n' | ',' | '}' | ']') => break,
                Some(_) if self.is_comment() => break,
                Some('"') => {
                    text += if pieces > 0 { spaces } else { "" };
                    text += &self.quoted()?;
                    is_quoted = true;
                }
                Some('$') => return Err(self.error("substitutions with `$` are not supported; quote the value")),
                Some('{' | '[') => return Err(self.error("values cannot be joined with an object or an array")),
                Some(c) if RESERVED.contains(c) => {
                    return Err(self.error(format!("a value with `{c}` needs quotes")));
                }
                Some(_) => {
                    let is_end = |c: char| is_space(c) || RESERVED.contains(c);
                    let mut end = self.rest.find(is_end).unwrap_or(self.rest.len());
                    end = self.rest[..end].find("//").unwrap_or(end);
                    text += if pieces > 0 { spaces } else { "" };
                    text += self.advance(end);
                }
            }
            pieces += 1;
        }
        match (pieces, is_quoted) {
            (0, _) => Err(HoconError { line, message: "the value is missing".to_owned() }),
            (1, false) => Ok(scalar(&text)),
            _ => Ok(Value::from(text)),
        }
    }

    fn array(&mut self) -> Result<Value, HoconError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("objects and arrays are nested more than {MAX_DEPTH} levels deep")));
        }
        let mut values = Vec::new();
        loop {
            self.skip_lines();
            if self.take("]") {
                self.depth -= 1;
                return Ok(Value::array(values));
            }
            if self.rest.is_empty() {
                return Err(self.error("a `]` is missing at the end"));
            }
            values.push(self.value()?);
            self.separator("]")?;
        }
    }

    /// Consumes the separator after an entry: a comma or a line break. None is needed before `closing` or the end.
    fn separator(&mut self, closing: &str) -> Result<(), HoconError> {
        let line = self.line;
        self.skip_lines();
        let is_closed = self.rest.is_empty() || !closing.is_empty() && self.rest.starts_with(closing);
        if self.take(",") || is_closed || self.line > line {
            return Ok(());
        }
        Err(self.error("a comma or a line break is expected after the value"))
    }

    /// Parses a text in quotes.
    fn quoted(&mut self) -> Result<String, HoconError> {
        let begin = self.line;
        let unclosed = || HoconError { line: begin, message: "the closing quote is missing".to_owned() };
        if self.take("\"\"\"") {
            let mut end = self.rest.find("\"\"\"").ok_or_else(unclosed)?;
            // Further quotes before the closing ones belong to the text.
            while self.rest[end + 3..].starts_with('"') {
                end += 1;
            }
            let text = self.advance(end).to_owned();
            self.advance(3);
            return Ok(text);
        }
        self.advance(1);
        let mut text = String::new();
        loop {
            let end = self.rest.find(['"', '\\', '\n']).ok_or_else(unclosed)?;
            text += self.advance(end);
            match self.rest.as_bytes()[0] {
                b'"' => {
                    self.advance(1);
                    return Ok(text);
                }
                b'\\' => text.push(self.escaped()?),
                _ => return Err(unclosed()),
            }
        }
    }

    /// Parses an escape, as in JSON.
    fn escaped(&mut self) -> Result<char, HoconError> {
        // A surrogate pair takes twelve characters.
        for length in [2, 6, 12] {
            let Some(escape) = self.rest.get(..length) else { break };
            if let Ok(text) = serde_json::from_str::<String>(&format!("\"{escape}\""))
                && let Some(c) = text.chars().next()
            {
                self.advance(length);
                return Ok(c);
            }
        }
        Err(self.error("the escape after `\\` is invalid"))
    }
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// Returns the value of a text without quotes.
fn scalar(text: &str) -> Value {
    match text {
        "true" => return Value::Boolean(true),
        "false" => return Value::Boolean(false),
        "null" => return Value::Undef,
        _ => {}
    }
    match serde_json::from_str::<serde_json::Number>(text) {
        Ok(number) => number.as_i64().map(Value::Integer).or_else(|| number.as_f64().map(Value::Float)),
        Err(_) => None,
    }
    .unwrap_or_else(|| Value::from(text))
}

/// Inserts a value at a path. Two objects at the same path are merged; otherwise the later value counts.
fn insert(object: &mut Hash, path: &[EcoString], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    let mut inner = match object.get(first) {
        Some(Value::Hash(known)) => (**known).clone(),
        _ => Hash::default(),
    };
    let value = match (rest.is_empty(), value) {
        (false, value) => {
            insert(&mut inner, rest, value);
            Value::hash(inner)
        }
        (true, Value::Hash(new)) => {
            new.iter().for_each(|(key, value)| insert(&mut inner, std::slice::from_ref(key), value.clone()));
            Value::hash(inner)
        }
        (true, value) => value,
    };
    object.insert(first.clone(), value);
}

#[cfg(test)]
mod tests {
    use kilter_model::to_json;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> serde_json::Value {
        to_json(&Value::hash(parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))))
    }

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn usual_credentials_are_read() {
        let wanted = json!({"host": "10.0.0.1", "port": 443, "user": "admin", "password": "s3:cret #1", "tls": true});
        let written = [
            "{ host: 10.0.0.1, port: 443, user: admin, password: \"s3:cret #1\", tls: true }",
            "# the switch\nhost = 10.0.0.1\nport = 443 // https\nuser = admin\npassword = \"s3:cret #1\"\ntls=true\n",
            "{\n  \"host\": \"10.0.0.1\",\n  \"port\": 443,\n  \"user\": \"admin\",\n  \"password\": \"s3:cret #1\",\n\
             \"tls\": true,\n}\n",
        ];
        for text in written {
            assert_eq!(read(text), wanted, "{text}");
        }
        assert_eq!(read(""), json!({}));
        assert_eq!(read("\u{feff}a:b\r\nc:d\r\n"), json!({"a": "b", "c": "d"}));
    }

    #[test]
    fn nested_values_and_paths_are_read() {
        assert_eq!(
            read("a.b.c: 1\na.d = [1, two\n three]\n\"x.y\" { z: null }"),
            json!({
                "a": {"b": {"c": 1}, "d": [1, "two", "three"]}, "x.y": {"z": null}
            })
        );
        assert_eq!(read("a { b: 1 }\na { c: 2 }\nb: 1\nb: 2"), json!({"a": {"b": 1, "c": 2}, "b": 2}));
        assert_eq!(read("a: hello big world\nb: x \"y z\" w"), json!({"a": "hello big world", "b": "x y z w"}));
        assert_eq!(read("include: 1\ninclude.x: 2"), json!({"include": {"x": 2}}));
    }

    #[test]
    fn texts_have_the_escapes_of_json_or_none() {
        assert_eq!(read(r#"a: "q\" \\ \n é 😀""#), json!({"a": "q\" \\ \n é 😀"}));
        assert_eq!(read("a: \"\"\"raw \\n \"x\"\nline\"\"\"\""), json!({"a": "raw \\n \"x\"\nline\""}));
        assert_eq!(read("a: 0644\nb: -1.5e3\nc: 1.2.3"), json!({"a": "0644", "b": -1500.0, "c": "1.2.3"}));
    }

    #[test]
    fn errors_name_the_line_and_quote_no_value() {
        let cases = [
            ("a: 1\npassword: p@ss", "2: a value with `@` needs quotes"),
            ("password: \"hunter2\nb: 1", "1: the closing quote is missing"),
            ("a: ${b}", "1: substitutions with `$` are not supported; quote the value"),
            ("include \"x.conf\"", "1: `include` is not supported: write all keys in one file"),
            ("a += 1", "1: `+=` is not supported: write the whole list"),
            ("{ a: 1", "1: a `}` is missing at the end"),
            ("a: [1, 2", "1: a `]` is missing at the end"),
            ("a: 1 }", "1: this `}` closes nothing"),
            ("{ a: 1 } x", "1: nothing may follow the closing `}`"),
            ("\n\na hunter2", "3: `:` or `=` is expected after the key"),
            ("a:\n\n,", "3: the value is missing"),
            ("a: {b: 1} {c: 2}", "1: a comma or a line break is expected after the value"),
            ("[1]", "1: an object is expected, not an array"),
            ("a: \"\\x\"", "1: the escape after `\\` is invalid"),
            ("*: 1", "1: a key is expected; keys with special characters need quotes"),
        ];
        for (text, message) in cases {
            assert_eq!(refused(text), message, "{text}");
        }
        assert!(refused(&format!("a:{}", "[".repeat(20_000))).contains("levels deep"));
        assert!(refused(&"a{".repeat(20_000)).contains("levels deep"));
    }

    #[test]
    fn no_text_causes_a_panic() {
        let text = "a.b: {c = [1, \"x\\u00e9\" y // z\n], d: \"\"\"q\"\"\"}\n";
        for from in 0..text.len() {
            for to in from..text.len() {
                let _ = text.get(from..to).map(parse);
            }
        }
    }
}
