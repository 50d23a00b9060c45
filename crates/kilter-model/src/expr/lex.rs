//! Lexer for expressions.

use ecow::{EcoString, eco_format};

use super::ExprError;
use super::ast::At;
use crate::value::Value;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'t> {
    Name(&'t str),
    Number(Value),
    Text(EcoString),
    Symbol(&'static str),
    End,
}

/// Two-byte symbols come first, so that the longest match wins.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", "[", "]", "{", "}", ",", ".",
    "?", ":",
];

pub(super) struct Lexer<'t> {
    pub(super) text: &'t str,
    pub(super) pos: usize,
}

pub(super) fn error(message: impl Into<EcoString>, at: At) -> ExprError {
    ExprError { message: message.into(), at: at.into(), hint: None }
}

pub(super) fn hinted(message: impl Into<EcoString>, at: At, hint: impl Into<EcoString>) -> ExprError {
    ExprError { hint: Some(hint.into()), ..error(message, at) }
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.pos..]
    }

    fn bytes_while(&self, from: usize, accept: impl Fn(u8) -> bool) -> usize {
        from + self.text.as_bytes()[from..].iter().take_while(|byte| accept(**byte)).count()
    }

    /// Reads the next token and its location.
    pub(super) fn next(&mut self) -> Result<(Token<'t>, At), ExprError> {
        self.pos = self.bytes_while(self.pos, |byte| byte.is_ascii_whitespace());
        let start = self.pos;
        let Some(first) = self.rest().chars().next() else { return Ok((Token::End, At::new(start, start))) };
        let token = match first {
            '"' | '\'' => self.string(false)?,
            'r' if self.rest()[1..].starts_with(['"', '\'']) => {
                self.pos += 1;
                self.string(true)?
            }
            'a'..='z' | 'A'..='Z' | '_' => self.name(),
            '0'..='9' => self.number()?,
            _ => self.symbol(first)?,
        };
        Ok((token, At::new(start, self.pos)))
    }

    fn name(&mut self) -> Token<'t> {
        let start = self.pos;
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        self.pos = self.bytes_while(start, word);
        while self.rest().starts_with("::") && self.rest()[2..].starts_with(|c: char| c.is_ascii_lowercase()) {
            self.pos = self.bytes_while(self.pos + 2, word);
        }
        Token::Name(&self.text[start..self.pos])
    }

    fn number(&mut self) -> Result<Token<'t>, ExprError> {
        let start = self.pos;
        let bytes = self.text.as_bytes();
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        if self.rest().starts_with("0x") {
            self.pos = self.bytes_while(start + 2, |byte| byte.is_ascii_hexdigit());
            let number = i64::from_str_radix(&self.text[start + 2..self.pos], 16);
            return number.map(|n| Token::Number(Value::Integer(n))).map_err(|_| self.bad_number(start));
        }
        self.pos = self.bytes_while(start, |byte| byte.is_ascii_digit());
        let mut whole = true;
        if self.rest().starts_with('.') && digit(self.pos + 1) {
            whole = false;
            self.pos = self.bytes_while(self.pos + 1, |byte| byte.is_ascii_digit());
        }
        if self.rest().starts_with(['e', 'E']) {
            let sign = usize::from(self.rest()[1..].starts_with(['+', '-']));
            if digit(self.pos + 1 + sign) {
                whole = false;
                self.pos = self.bytes_while(self.pos + 1 + sign, |byte| byte.is_ascii_digit());
            }
        }
        let text = &self.text[start..self.pos];
        let value = match whole {
            true => text.parse().ok().map(Value::Integer),
            false => text.parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Float),
        };
        value.map(Token::Number).ok_or_else(|| self.bad_number(start))
    }

    fn bad_number(&self, start: usize) -> ExprError {
        let text = &self.text[start..self.pos];
        error(eco_format!("`{text}` is not a number of 64 bits"), At::new(start, self.pos))
    }

    fn string(&mut self, raw: bool) -> Result<Token<'t>, ExprError> {
        let start = self.pos;
        let quote = self.text.as_bytes()[start];
        self.pos += 1;
        let mut text = EcoString::new();
        loop {
            let from = self.pos;
            self.pos = self.bytes_while(from, |byte| byte != quote && (raw || byte != b'\\'));
            text.push_str(&self.text[from..self.pos]);
            match self.text.as_bytes().get(self.pos) {
                None => return Err(error("the text has no closing quote", At::new(start, self.pos))),
                Some(&byte) if byte == quote => {
                    self.pos += 1;
                    return Ok(Token::Text(text));
                }
                Some(_) => text.push(self.escape()?),
            }
        }
    }

    fn escape(&mut self) -> Result<char, ExprError> {
        let start = self.pos;
        let letter = self.rest()[1..].chars().next();
        let digits = match letter {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => 0,
        };
        self.pos += 1 + letter.map_or(0, char::len_utf8);
        let plain = match letter {
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            Some('r') => Some('\r'),
            Some('0') => Some('\0'),
            Some(same @ ('\\' | '"' | '\'' | '`' | '?' | '$')) => Some(same),
            Some(_) if digits > 0 => {
                let hex = self.text.get(self.pos..self.pos + digits).filter(|hex| hex.is_ascii());
                self.pos += hex.map_or(0, str::len);
                hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32)
            }
            _ => None,
        };
        plain.ok_or_else(|| {
            let written = &self.text[start..self.pos];
            hinted(
                eco_format!("`{written}` is not an escape"),
                At::new(start, self.pos),
                "a backslash is written `\\\\`, or the text as r\"…\"",
            )
        })
    }

    fn symbol(&mut self, first: char) -> Result<Token<'t>, ExprError> {
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| self.rest().starts_with(**symbol)) {
            self.pos += symbol.len();
            return Ok(Token::Symbol(symbol));
        }
        let at = At::new(self.pos, self.pos + first.len_utf8());
        let unexpected = eco_format!("unexpected `{first}`");
        Err(match first {
            '=' => hinted(unexpected, at, "`==` compares"),
            '&' => hinted(unexpected, at, "`&&` means and"),
            '|' => hinted(unexpected, at, "`||` means or"),
            _ => error(unexpected, at),
        })
    }
}
