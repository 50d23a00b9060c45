//! Values of Ansible's INI format: Python literals. A text that is none is the value itself.

use ecow::EcoString;
use kilter_model::{Hash, Value};
use std::sync::Arc;

/// Maximum nesting depth of a literal.
const MAX_DEPTH: usize = 32;

/// Returns the value of a text.
pub(crate) fn value(text: &str) -> Value {
    let mut parser = LiteralParser { rest: text.trim_matches([' ', '\t']), depth: 0 };
    match parser.literal().filter(|_| parser.is_at_end()) {
        Some(value) => value,
        None => Value::from(text),
    }
}

struct LiteralParser<'t> {
    rest: &'t str,
    depth: usize,
}

impl LiteralParser<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest.is_empty() || self.rest.starts_with('#')
    }

    fn take(&mut self, symbol: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn literal(&mut self) -> Option<Value> {
        self.skip_space();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let value = match self.rest.chars().next()? {
            '\'' | '"' => self.texts(),
            '[' => self.list(']'),
            '(' => self.list(')'),
            '{' => self.mapping_or_set(),
            c if c.is_ascii_digit() || "+-.".contains(c) => self.number(),
            _ => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "True" => Some(Value::Boolean(true)),
            "False" => Some(Value::Boolean(false)),
            "None" => Some(Value::Undef),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        let sign = if self.take('-') { -1 } else { self.take('+').into() };
        self.skip_space();
        let mut end =
            self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_').unwrap_or(self.rest.len());
        // The sign of an exponent.
        let is_decimal = !self.rest.starts_with("0x") && !self.rest.starts_with("0X");
        if is_decimal && self.rest[..end].ends_with(['e', 'E']) && self.rest[end..].starts_with(['+', '-']) {
            let more = &self.rest[end + 1..];
            end += 1 + more.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(more.len());
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let is_grouped = !word.starts_with('_') && !word.ends_with('_') && !word.contains("__");
        let digits = word.replace('_', "");
        if !is_grouped {
            return None;
        }
        let negative = sign == -1;
        let whole = |text: &str, radix: u32| i128::from_str_radix(text, radix).ok();
        let prefix = digits.get(..2).map(str::to_ascii_lowercase);
        let integer = match prefix.as_deref() {
            Some("0x") => Some(whole(&digits[2..], 16)?),
            Some("0o") => Some(whole(&digits[2..], 8)?),
            Some("0b") => Some(whole(&digits[2..], 2)?),
            _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                let is_octal_of_python_2 = digits.starts_with('0') && digits.bytes().any(|byte| byte != b'0');
                if is_octal_of_python_2 {
                    return None;
                }
                Some(whole(&digits, 10)?)
            }
            _ => None,
        };
        if let Some(integer) = integer {
            return i64::try_from(if negative { -integer } else { integer }).ok().map(Value::Integer);
        }
        let is_float = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
        let float: f64 = digits.parse().ok().filter(|_| is_float)?;
        Some(Value::Float(if negative { -float } else { float }))
    }

    /// Reads texts that follow each other: they are one text.
    fn texts(&mut self) -> Option<Value> {
        let mut whole = EcoString::new();
        loop {
            self.skip_space();
            match self.rest.chars().next() {
                Some(quote @ ('\'' | '"')) => whole.push_str(&self.text(quote)?),
                _ => return Some(Value::String(whole)),
            }
        }
    }

    fn text(&mut self, quote: char) -> Option<String> {
        let triple = quote.to_string().repeat(3);
        let end = if self.rest.starts_with(&triple) { triple } else { quote.to_string() };
        let mut rest = &self.rest[end.len()..];
        let mut text = String::new();
        loop {
            if let Some(after) = rest.strip_prefix(&end) {
                self.rest = after;
                return Some(text);
            }
            let mut chars = rest.chars();
            match chars.next()? {
                '\\' => {
                    let escaped = chars.next()?;
                    rest = chars.as_str();
                    let code = match escaped {
                        'x' => Some(2),
                        'u' => Some(4),
                        'U' => Some(8),
                        // Names of characters and octal numbers are rare: the text stays as it is.
                        'N' | '0'..='7' => return None,
                        _ => None,
                    };
                    match (code, escaped) {
                        (Some(digits), _) => {
                            let number = u32::from_str_radix(rest.get(..digits)?, 16).ok()?;
                            text.push(char::from_u32(number)?);
                            rest = &rest[digits..];
                        }
                        (None, 'n') => text.push('\n'),
                        (None, 't') => text.push('\t'),
                        (None, 'r') => text.push('\r'),
                        (None, c @ ('\\' | '\'' | '"')) => text.push(c),
                        (None, 'a') => text.push('\u{7}'),
                        (None, 'b') => text.push('\u{8}'),
                        (None, 'f') => text.push('\u{c}'),
                        (None, 'v') => text.push('\u{b}'),
                        (None, c) => text.extend(['\\', c]),
                    }
                }
                c => {
                    text.push(c);
                    rest = chars.as_str();
                }
            }
        }
    }

    /// Reads a list or a tuple. One value in parentheses is that value.
    fn list(&mut self, close: char) -> Option<Value> {
        self.rest = &self.rest[1..];
        let mut values = Vec::new();
        let mut has_comma = false;
        while !self.take(close) {
            if !values.is_empty() && !has_comma {
                return None;
            }
            values.push(self.literal()?);
            has_comma = self.take(',');
        }
        match (close, &values[..]) {
            (')', [one]) if !has_comma => Some(one.clone()),
            _ => Some(Value::Array(Arc::from(values))),
        }
    }

    fn mapping_or_set(&mut self) -> Option<Value> {
        self.rest = &self.rest[1..];
        let (mut entries, mut elements) = (Hash::default(), Vec::new());
        let mut has_comma = true;
        while !self.take('}') {
            if !has_comma {
                return None;
            }
            let key = self.literal()?;
            if self.take(':') {
                let value = self.literal()?;
                entries.insert(key.to_text()?, value);
            } else {
                elements.push(key);
            }
            has_comma = self.take(',');
        }
        match (entries.is_empty(), elements.is_empty()) {
            (_, true) => Some(Value::Hash(Arc::new(entries))),
            (true, false) => Some(Value::Array(Arc::from(elements))),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn python_literals_are_values_and_other_texts_stay() {
        for (text, expected) in [
            ("5", "5"),
            ("-5", "-5"),
            ("+ 5", "5"),
            ("0x1F", "31"),
            ("1_000", "1000"),
            ("1.5", "1.5"),
            ("1e3", "1000.0"),
            ("1e-3", "0.001"),
            (".5", "0.5"),
            ("5 # five", "5"),
            ("True", "true"),
            ("None", "undef"),
            ("'a' 'b'", "\"ab\""),
            (r#""a\n\x41""#, "\"a\\nA\""),
            ("[1, 'a', [True]]", "[1, \"a\", [true]]"),
            ("(1,)", "[1]"),
            ("(1)", "1"),
            ("{'a': 1, 'b': [2]}", r#"{"a": 1, "b": [2]}"#),
            ("{1, 2}", "[1, 2]"),
            ("{}", "{}"),
            // No literals.
            ("true", "\"true\""),
            ("FALSE", "\"FALSE\""),
            ("007", "\"007\""),
            ("1.2.3.4", "\"1.2.3.4\""),
            ("2222:1", "\"2222:1\""),
            ("a b", "\"a b\""),
            ("'a", "\"'a\""),
            ("[1 2]", "\"[1 2]\""),
            ("{1: 2, 3}", "\"{1: 2, 3}\""),
            ("5 apples", "\"5 apples\""),
            ("", "\"\""),
            ("1__0", "\"1__0\""),
            ("yes", "\"yes\""),
        ] {
            assert_eq!(format!("{:?}", value(text)), expected, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(value(&deep).as_str(), Some(&*deep));
    }
}
