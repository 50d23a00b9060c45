//! Parser for data types.

use std::str::FromStr;

use ecow::EcoString;

use super::{DataType, build};

/// Maximum number of characters of an invalid text in a message.
const MAX_SHOWN_CHARS: usize = 120;

/// Maximum nesting depth.
const DEEPEST: usize = 32;

/// Reason why a text is not a data type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a data type: {why} (at character {at})")]
pub struct DataTypeError {
    text: String,
    why: String,
    at: usize,
}

impl DataTypeError {
    /// Creates an error at byte `at` of `text`.
    pub(super) fn new(text: &str, why: impl Into<String>, at: usize) -> DataTypeError {
        let shown = match text.char_indices().nth(MAX_SHOWN_CHARS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        DataTypeError { text: shown, why: why.into(), at: text[..at.min(text.len())].chars().count() + 1 }
    }

    /// Returns the position of the invalid character, counted from 1.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl FromStr for DataType {
    type Err = DataTypeError;

    fn from_str(text: &str) -> Result<DataType, DataTypeError> {
        let mut parser = Parser { text, at: 0, depth: 0, patterns: Patterns::Compiled };
        parser.whole()
    }
}

/// Parses a data type without compiling its regular expressions. Compilation would take most of the time of a
/// short run.
pub(crate) fn parse(text: &str) -> Result<DataType, DataTypeError> {
    let mut parser = Parser { text, at: 0, depth: 0, patterns: Patterns::AsTheyAre };
    parser.whole()
}

/// Treatment of regular expressions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patterns {
    Compiled,
    AsTheyAre,
}

/// A parameter in brackets, before it is interpreted.
#[derive(Clone, Debug)]
pub(super) enum Parameter {
    Type(DataType),
    Word(EcoString),
    Regex(EcoString),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Default,
    /// Keys and types of a struct, each with its position.
    Fields(Vec<(Parameter, DataType, usize)>),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    patterns: Patterns,
}

type Result_<T> = Result<T, DataTypeError>;

impl Parser<'_> {
    fn whole(&mut self) -> Result_<DataType> {
        let data_type = self.data_type()?;
        self.space();
        match self.at < self.text.len() {
            true => Err(self.error("something follows it")),
            false => Ok(data_type),
        }
    }

    fn error(&self, why: impl Into<String>) -> DataTypeError {
        DataTypeError::new(self.text, why, self.at)
    }

    fn error_at(&self, at: usize, why: impl Into<String>) -> DataTypeError {
        DataTypeError::new(self.text, why, at)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result_<()> {
        if self.eat(token) {
            return Ok(());
        }
        match self.rest().is_empty() {
            true => Err(self.error(format!("the closing {token} is missing"))),
            false => Err(self.error(format!("`{token}` expected"))),
        }
    }

    fn word(&mut self) -> EcoString {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == '-')).unwrap_or(rest.len());
        let word: EcoString = rest[..end].into();
        self.at += end;
        word
    }

    fn data_type(&mut self) -> Result_<DataType> {
        self.space();
        let start = self.at;
        if self.depth >= DEEPEST {
            return Err(self.error(format!("types are nested more than {DEEPEST} deep")));
        }
        let name = self.word();
        if !is_type_name(&name) {
            self.at = start;
            return Err(self.error("the name of a type, such as String, is expected"));
        }
        self.depth += 1;
        let parameters = match self.eat("[") {
            true if build::is_opaque(&name) => {
                self.skip_parameters()?;
                Some(Vec::new())
            }
            true => Some(self.parameters()?),
            false => None,
        };
        self.depth -= 1;
        let written = &self.text[start..self.at];
        build::data_type(&name, parameters, written).map_err(|why| self.error_at(start, why))
    }

    fn parameters(&mut self) -> Result_<Vec<Parameter>> {
        let mut parameters = Vec::new();
        loop {
            parameters.push(self.parameter()?);
            if !self.eat(",") {
                self.expect("]")?;
                return Ok(parameters);
            }
            if self.eat("]") {
                return Ok(parameters);
            }
        }
    }

    /// Skips the parameters of a type that is kept as written: balanced brackets with texts and regular
    /// expressions.
    fn skip_parameters(&mut self) -> Result_<()> {
        let mut open = vec![']'];
        let mut may_be_regex = true;
        while let Some(wanted) = open.last().copied() {
            self.space();
            let at = self.at;
            let Some(c) = self.rest().chars().next() else {
                return Err(self.error(format!("the closing {wanted} is missing")));
            };
            match c {
                '\'' | '"' => drop(self.quoted(c, &|_, _| {})?),
                '/' if may_be_regex => drop(self.quoted('/', &|_, _| {})?),
                '[' => open.push(']'),
                '{' => open.push('}'),
                '(' => open.push(')'),
                ']' | '}' | ')' if c != wanted => return Err(self.error(format!("`{wanted}` expected"))),
                ']' | '}' | ')' => drop(open.pop()),
                _ => {}
            }
            may_be_regex = matches!(c, '[' | '{' | '(' | ',' | '>');
            if self.at == at {
                self.at += c.len_utf8();
            }
        }
        Ok(())
    }

    fn parameter(&mut self) -> Result_<Parameter> {
        self.space();
        match self.rest().chars().next() {
            Some('\'') => Ok(Parameter::Word(self.single_quoted()?)),
            Some('"') => Ok(Parameter::Word(self.double_quoted()?)),
            Some('/') => self.regex(),
            Some('{') => self.fields(),
            Some(c) if c.is_ascii_uppercase() => Ok(Parameter::Type(self.data_type()?)),
            Some(c) if c.is_ascii_digit() || c == '-' => self.number(),
            Some(_) => match self.word() {
                word if word.is_empty() => Err(self.error("a parameter is expected")),
                word => Ok(match word.as_str() {
                    "default" => Parameter::Default,
                    "true" => Parameter::Boolean(true),
                    "false" => Parameter::Boolean(false),
                    _ => Parameter::Word(word),
                }),
            },
            None => Err(self.error("the closing ] is missing")),
        }
    }

    /// Reads up to the closing `quote`. `escaped` handles a character after a backslash.
    fn quoted(&mut self, quote: char, escaped: &dyn Fn(char, &mut EcoString)) -> Result_<EcoString> {
        let start = self.at;
        let mut text = EcoString::new();
        let mut after_backslash = false;
        for (offset, c) in self.text[start..].char_indices().skip(1) {
            match c {
                _ if after_backslash => {
                    escaped(c, &mut text);
                    after_backslash = false;
                }
                '\\' => after_backslash = true,
                _ if c == quote => {
                    self.at = start + offset + c.len_utf8();
                    return Ok(text);
                }
                _ => text.push(c),
            }
        }
        Err(self.error_at(start, format!("the closing {quote} is missing")))
    }

    fn single_quoted(&mut self) -> Result_<EcoString> {
        self.quoted('\'', &|c, text| {
            if !matches!(c, '\'' | '\\') {
                text.push('\\');
            }
            text.push(c);
        })
    }

    /// Reads a text with escapes. Interpolated variables are an error.
    fn double_quoted(&mut self) -> Result_<EcoString> {
        let start = self.at;
        // Escapes are kept for now, because an escape may have several characters.
        let raw = self.quoted('"', &|c, text| text.extend(['\\', c]))?;
        let mut text = EcoString::new();
        let mut rest = raw.as_str();
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            let named = || rest.starts_with(|c: char| c == '{' || c == '_' || c == ':' || c.is_ascii_alphabetic());
            match c {
                '\\' => rest = unescaped(rest, &mut text),
                '$' if named() => return Err(self.error_at(start, "there are no variables in a data type")),
                c => text.push(c),
            }
        }
        Ok(text)
    }

    fn regex(&mut self) -> Result_<Parameter> {
        let start = self.at;
        let source = self.quoted('/', &|c, text| {
            if c != '/' {
                text.push('\\');
            }
            text.push(c);
        })?;
        self.compile(&source, start)?;
        Ok(Parameter::Regex(source))
    }

    fn compile(&self, source: &EcoString, at: usize) -> Result_<()> {
        if self.patterns == Patterns::AsTheyAre {
            return Ok(());
        }
        let compiled = crate::pattern::Regexp::new(source.clone()).compile();
        compiled.map_err(|error| self.error_at(at, format!("/{source}/ is not a regular expression: {error}")))
    }

    /// Reads a number: decimal, hexadecimal (`0x1f`), octal (`017`), or with a fraction or an exponent.
    fn number(&mut self) -> Result_<Parameter> {
        let start = self.at;
        let rest = &self.text[start..];
        let mut last = ' ';
        let end = rest.find(|c: char| {
            let belongs =
                c.is_ascii_alphanumeric() || c == '.' || (matches!(c, '-' | '+') && matches!(last, ' ' | 'e' | 'E'));
            last = c;
            !belongs
        });
        let digits = &rest[..end.unwrap_or(rest.len())];
        self.at += digits.len();
        number(digits).map_err(|why| self.error_at(start, why))
    }

    fn fields(&mut self) -> Result_<Parameter> {
        if self.depth >= DEEPEST {
            return Err(self.error(format!("types are nested more than {DEEPEST} deep")));
        }
        self.depth += 1;
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.eat("}") {
            self.space();
            let start = self.at;
            let key = self.parameter()?;
            self.expect("=>")?;
            fields.push((key, self.data_type()?, start));
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        self.depth -= 1;
        Ok(Parameter::Fields(fields))
    }
}

/// Returns true if a word is a type name: capitalised parts separated by `::`.
fn is_type_name(word: &str) -> bool {
    word.split("::").all(|part| {
        part.starts_with(|c: char| c.is_ascii_uppercase())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// Reads an escape after the backslash. Returns the rest of the text.
fn unescaped<'a>(rest: &'a str, text: &mut EcoString) -> &'a str {
    let Some(c) = rest.chars().next() else { return rest };
    let after = &rest[c.len_utf8()..];
    let plain = match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        's' => ' ',
        '\\' | '"' | '\'' | '$' => c,
        'u' => match code_point(after) {
            Some((c, after)) => {
                text.push(c);
                return after;
            }
            None => {
                text.push('\\');
                c
            }
        },
        c => {
            text.push('\\');
            c
        }
    };
    text.push(plain);
    after
}

/// Reads the code point of `00e9` or `{e9}`.
fn code_point(rest: &str) -> Option<(char, &str)> {
    let (digits, after) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}')?,
        None => rest.split_at_checked(4)?,
    };
    let code = (digits.len() <= 6).then(|| u32::from_str_radix(digits, 16).ok()).flatten()?;
    Some((char::from_u32(code)?, after))
}

pub(super) fn number(text: &str) -> Result<Parameter, String> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let digits = digits.trim_start();
    let radix = match digits.as_bytes() {
        [b'0', b'x' | b'X', rest @ ..] if !rest.is_empty() => 16,
        [b'0', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => 8,
        all if !all.is_empty() && all.iter().all(u8::is_ascii_digit) => 10,
        _ => 0,
    };
    let whole = match radix {
        16 => &digits[2..],
        8 => &digits[1..],
        10 => digits,
        _ => return float(text).ok_or_else(|| format!("`{text}` is not a number")),
    };
    let valid = whole.bytes().all(|b| char::from(b).is_digit(radix));
    match i64::from_str_radix(&format!("{sign}{whole}"), radix) {
        Ok(number) if valid => Ok(Parameter::Integer(number)),
        Err(_) if valid => Err(format!("`{text}` is beyond whole numbers, which have 64 bits")),
        _ => Err(format!("`{text}` is not a number")),
    }
}

/// Parses a number with digits on both sides of its point, or with an exponent.
fn float(text: &str) -> Option<Parameter> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let number: f64 = (plain(whole) && plain(fraction) && plain(exponent)).then(|| text.parse().ok()).flatten()?;
    number.is_finite().then_some(Parameter::Float(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_printed_as_it_is_read() {
        for text in [
            "Enum['present', 'absent']",
            "Enum['a', 'b', true]",
            "Optional[Integer[0, 255]]",
            "Variant[String[1], Array[String]]",
            "Hash[String, Data]",
            "Hash[String, Data, 1, 2]",
            "Struct[{'a' => Integer, Optional['b'] => String, NotUndef['c'] => Optional[Integer], 'd' => Any}]",
            "Sensitive[String]",
            "Integer[default, 7]",
            "Float[0.5, 1.0e+20]",
            "Boolean",
            "Boolean[true]",
            "Tuple[String, Integer, 1, 3]",
            "Tuple[String, 1]",
            "Collection[1, 2]",
            "Iterable[String]",
            "Pattern[/^a\\/b/, /(?i:c)/]",
            "Regexp[/a/]",
            "Timestamp['2021-01-01T00:00:00.000000000 UTC', '2022-01-01T00:00:00.000000000 UTC']",
            "Timespan[default, '0-00:00:05.0']",
            "SemVer['>=1.0.0 <2.0.0', '3.x']",
            "SemVerRange",
            "Type[Integer[1, 2]]",
            "Init[Integer]",
            "Array[Array[Any, 1], 0, 2]",
            "Array[Stdlib::HTTPUrl]",
            "Optional['x']",
            "Callable[String, Integer]",
            "RichData",
            "Default",
        ] {
            assert_eq!(text.parse::<DataType>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn parse_error_names_expected_token() {
        for (text, message) in [
            ("Enum[a", "`Enum[a` is not a data type: the closing ] is missing (at character 7)"),
            ("string", "`string` is not a data type: the name of a type, such as String, is expected (at character 1)"),
            ("", "`` is not a data type: the name of a type, such as String, is expected (at character 1)"),
            ("Integer]", "`Integer]` is not a data type: something follows it (at character 8)"),
            ("Enum['é', 'b]", "`Enum['é', 'b]` is not a data type: the closing ' is missing (at character 11)"),
            ("Array[x]", "`Array[x]` is not a data type: Array takes a type and sizes (at character 1)"),
            ("Enum[a b]", "`Enum[a b]` is not a data type: `]` expected (at character 8)"),
        ] {
            assert_eq!(text.parse::<DataType>().unwrap_err().to_string(), message);
        }
        let message = "Pattern[/(/]".parse::<DataType>().unwrap_err().to_string();
        assert!(message.contains("/(/ is not a regular expression: "), "{message}");
    }

    #[test]
    fn nesting_depth_is_limited() {
        let deep = |levels: usize| format!("{}String{}", "Array[".repeat(levels), "]".repeat(levels));
        assert!(deep(31).parse::<DataType>().is_ok());
        assert!(deep(32).parse::<DataType>().is_err());
        assert!(deep(100_000).parse::<DataType>().is_err());
        assert!("{".repeat(100_000).parse::<DataType>().is_err());
        assert!("Struct[{a=>".repeat(100_000).parse::<DataType>().is_err());
    }

    #[test]
    fn numbers_are_read_in_every_base() {
        assert_eq!("Integer[0x1F, 0777]".parse(), Ok(DataType::Integer(Some(31), Some(511))));
        assert_eq!("Integer[-9223372036854775808]".parse(), Ok(DataType::Integer(Some(i64::MIN), None)));
        for text in
            ["Integer[9223372036854775808]", "Integer[08]", "Integer[1.5]", "Integer[0x]", "Float[1.]", "Float[1e999]"]
        {
            assert!(text.parse::<DataType>().is_err(), "{text}");
        }
    }

    #[test]
    fn parse_time_is_linear() {
        // In quadratic time it would take minutes.
        let words: Vec<String> = (0..200_000).map(|n| format!("w{n}")).collect();
        assert!(format!("Enum[{}]", words.join(",")).parse::<DataType>().is_ok());
        let fields: Vec<String> = (0..100_000).map(|n| format!("k{n} => Integer")).collect();
        assert!(format!("Struct[{{{}}}]", fields.join(",")).parse::<DataType>().is_ok());
        assert!("[".repeat(1_000_000).parse::<DataType>().is_err());
    }
}
