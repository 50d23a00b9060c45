//! Data types from text.

use std::str::FromStr;

use ecow::EcoString;

use super::{DataType, Field};

/// Says why a text is not a data type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a data type: {why} (at character {at})")]
pub struct DataTypeError {
    text: String,
    why: String,
    at: usize,
}

impl FromStr for DataType {
    type Err = DataTypeError;

    fn from_str(text: &str) -> Result<DataType, DataTypeError> {
        let data_type = parse(text)?;
        match faulty_pattern(&data_type) {
            Some(why) => Err(DataTypeError { text: text.to_owned(), why, at: 1 }),
            None => Ok(data_type),
        }
    }
}

/// Parses a data type, but leaves its regular expressions alone: compiling them takes longer than
/// all the rest of a short run.
pub(crate) fn parse(text: &str) -> Result<DataType, DataTypeError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let data_type = parser.data_type()?;
    parser.space();
    if parser.at < text.len() {
        return Err(parser.error("something follows it"));
    }
    Ok(data_type)
}

/// Why the first pattern that is not a regular expression is none.
fn faulty_pattern(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Pattern(patterns) => patterns.iter().find_map(|pattern| {
            let error = fancy_regex::Regex::new(pattern).err()?;
            Some(format!("the pattern /{pattern}/ is not a regular expression: {error}"))
        }),
        DataType::Array(inner, ..)
        | DataType::Optional(inner)
        | DataType::NotUndef(inner)
        | DataType::Sensitive(inner) => faulty_pattern(inner),
        DataType::Hash(keys, of, ..) => faulty_pattern(keys).or_else(|| faulty_pattern(of)),
        DataType::Struct(fields) => fields.iter().find_map(|field| faulty_pattern(&field.data_type)),
        DataType::Tuple(types) | DataType::Variant(types) => types.iter().find_map(faulty_pattern),
        _ => None,
    }
}

/// A parameter in brackets, before its meaning is known.
enum Parameter {
    Type(DataType),
    Word(EcoString),
    Regex(EcoString),
    Number(f64),
    Default,
    Fields(Vec<Field>),
}

/// Nesting beyond which a text is refused.
const DEEPEST: usize = 32;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, why: impl Into<String>) -> DataTypeError {
        DataTypeError { text: self.text.to_owned(), why: why.into(), at: self.at + 1 }
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

    fn expect(&mut self, token: &str) -> Result<(), DataTypeError> {
        if self.eat(token) { Ok(()) } else { Err(self.error(format!("`{token}` expected"))) }
    }

    fn word(&mut self) -> EcoString {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == '-')).unwrap_or(rest.len());
        let word: EcoString = rest[..end].into();
        self.at += end;
        word
    }

    fn quoted(&mut self, quote: char) -> Result<EcoString, DataTypeError> {
        let mut text = EcoString::new();
        let mut escaped = false;
        for (offset, c) in self.text[self.at..].char_indices().skip(1) {
            match c {
                _ if escaped => {
                    if quote == '/' && c != '/' {
                        text.push('\\');
                    }
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                _ if c == quote => {
                    self.at += offset + c.len_utf8();
                    return Ok(text);
                }
                _ => text.push(c),
            }
        }
        Err(self.error(format!("the closing {quote} is missing")))
    }

    fn data_type(&mut self) -> Result<DataType, DataTypeError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.error("it is nested too deeply"));
        }
        self.space();
        let start = self.at;
        let name = self.word();
        if !name.starts_with(|c: char| c.is_ascii_uppercase()) {
            self.at = start;
            return Err(self.error("the name of a type, such as String, is expected"));
        }
        let parameters = if self.eat("[") { self.parameters()? } else { Vec::new() };
        self.depth -= 1;
        build(&name, parameters).map_err(|why| {
            self.at = start;
            self.error(why)
        })
    }

    fn parameters(&mut self) -> Result<Vec<Parameter>, DataTypeError> {
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

    fn parameter(&mut self) -> Result<Parameter, DataTypeError> {
        self.space();
        match self.rest().chars().next() {
            Some(quote @ ('\'' | '"')) => Ok(Parameter::Word(self.quoted(quote)?)),
            Some('/') => Ok(Parameter::Regex(self.quoted('/')?)),
            Some('{') => self.fields(),
            Some(c) if c.is_ascii_uppercase() => Ok(Parameter::Type(self.data_type()?)),
            Some(c) if c.is_ascii_digit() || c == '-' => {
                let start = self.at;
                let rest = self.rest();
                let end = rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '.' | 'e' | '+')).unwrap_or(rest.len());
                let number = rest[..end].parse();
                self.at += end;
                number.map(Parameter::Number).map_err(|_| {
                    self.at = start;
                    self.error("a number is expected")
                })
            }
            Some(_) => match self.word() {
                word if word.is_empty() => Err(self.error("a parameter is expected")),
                word if word == "default" => Ok(Parameter::Default),
                word => Ok(Parameter::Word(word)),
            },
            None => Err(self.error("the closing ] is missing")),
        }
    }

    fn fields(&mut self) -> Result<Parameter, DataTypeError> {
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.eat("}") {
            let (name, optional) = self.field_name()?;
            self.expect("=>")?;
            fields.push(Field { name, optional, data_type: self.data_type()? });
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Parameter::Fields(fields))
    }

    fn field_name(&mut self) -> Result<(EcoString, bool), DataTypeError> {
        let optional = self.eat("Optional[");
        let name = match self.parameter()? {
            Parameter::Word(name) => name,
            _ => return Err(self.error("the name of a key is expected")),
        };
        if optional {
            self.expect("]")?;
        }
        Ok((name, optional))
    }
}

fn build(name: &str, parameters: Vec<Parameter>) -> Result<DataType, String> {
    match name {
        "Any" | "Undef" | "Numeric" | "Binary" | "Scalar" | "Data" if !parameters.is_empty() => {
            Err(format!("{name} takes no parameters"))
        }
        "Any" => Ok(DataType::Any),
        "Undef" => Ok(DataType::Undef),
        "Numeric" => Ok(DataType::Numeric),
        "Binary" => Ok(DataType::Binary),
        "Scalar" => Ok(DataType::Scalar),
        "Data" => Ok(DataType::Data),
        "Boolean" => match parameters.as_slice() {
            [] => Ok(DataType::Boolean(None)),
            [Parameter::Word(word)] if word == "true" || word == "false" => Ok(DataType::Boolean(Some(word == "true"))),
            _ => Err("Boolean takes true or false".to_owned()),
        },
        "Integer" => range(name, &parameters).map(|(a, b)| DataType::Integer(a.map(|n| n as i64), b.map(|n| n as i64))),
        "Float" => range(name, &parameters).map(|(a, b)| DataType::Float(a, b)),
        "String" => size(name, &parameters).map(|(a, b)| DataType::String(a, b)),
        "Enum" => words(name, parameters).map(DataType::Enum),
        "Pattern" => patterns(parameters).map(DataType::Pattern),
        "Array" => {
            let (types, rest) = split(parameters);
            let of = one(name, types)?.unwrap_or(DataType::Data);
            size(name, &rest).map(|(a, b)| DataType::Array(Box::new(of), a, b))
        }
        "Hash" => {
            let (mut types, rest) = split(parameters);
            let (keys, of) = match (types.pop(), types.pop(), types.len()) {
                (None, None, _) => (DataType::Scalar, DataType::Data),
                (Some(of), Some(keys), 0) => (keys, of),
                _ => return Err("Hash takes the types of keys and values".to_owned()),
            };
            size(name, &rest).map(|(a, b)| DataType::Hash(Box::new(keys), Box::new(of), a, b))
        }
        "Struct" => match parameters.into_iter().next() {
            Some(Parameter::Fields(fields)) => Ok(DataType::Struct(fields)),
            _ => Err("Struct takes {key => Type, …}".to_owned()),
        },
        "Tuple" => types(name, parameters).map(DataType::Tuple),
        "Variant" => types(name, parameters).map(DataType::Variant),
        "Optional" => one(name, types(name, parameters)?).map(|t| DataType::Optional(boxed(t))),
        "NotUndef" => one(name, types(name, parameters)?).map(|t| DataType::NotUndef(boxed(t))),
        "Sensitive" => one(name, types(name, parameters)?).map(|t| DataType::Sensitive(boxed(t))),
        _ => Err(format!("there is no type {name}")),
    }
}

fn boxed(data_type: Option<DataType>) -> Box<DataType> {
    Box::new(data_type.unwrap_or(DataType::Any))
}

fn split(parameters: Vec<Parameter>) -> (Vec<DataType>, Vec<Parameter>) {
    let mut found = Vec::new();
    let mut rest = Vec::new();
    for parameter in parameters {
        match parameter {
            Parameter::Type(data_type) => found.push(data_type),
            other => rest.push(other),
        }
    }
    (found, rest)
}

fn one(name: &str, mut types: Vec<DataType>) -> Result<Option<DataType>, String> {
    match types.len() {
        0 | 1 => Ok(types.pop()),
        _ => Err(format!("{name} takes one type")),
    }
}

fn types(name: &str, parameters: Vec<Parameter>) -> Result<Vec<DataType>, String> {
    let (types, rest) = split(parameters);
    if rest.is_empty() { Ok(types) } else { Err(format!("{name} takes types")) }
}

fn words(name: &str, parameters: Vec<Parameter>) -> Result<Vec<EcoString>, String> {
    parameters
        .into_iter()
        .map(|parameter| match parameter {
            Parameter::Word(word) => Ok(word),
            _ => Err(format!("{name} takes words")),
        })
        .collect()
}

fn patterns(parameters: Vec<Parameter>) -> Result<Vec<EcoString>, String> {
    parameters
        .into_iter()
        .map(|parameter| match parameter {
            Parameter::Regex(text) | Parameter::Word(text) => Ok(text),
            _ => Err("Pattern takes regular expressions".to_owned()),
        })
        .collect()
}

fn range(name: &str, parameters: &[Parameter]) -> Result<(Option<f64>, Option<f64>), String> {
    let bound = |parameter: &Parameter| match parameter {
        Parameter::Number(number) => Ok(Some(*number)),
        Parameter::Default => Ok(None),
        _ => Err(format!("{name} takes numbers or `default`")),
    };
    match parameters {
        [] => Ok((None, None)),
        [from] => Ok((bound(from)?, None)),
        [from, to] => Ok((bound(from)?, bound(to)?)),
        _ => Err(format!("{name} takes two bounds at most")),
    }
}

fn size(name: &str, parameters: &[Parameter]) -> Result<(Option<u64>, Option<u64>), String> {
    let (from, to) = range(name, parameters)?;
    Ok((from.map(|n| n as u64), to.map(|n| n as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_printed_as_it_is_read() {
        for text in [
            "Enum['present', 'absent']",
            "Optional[Integer[0, 255]]",
            "Variant[String[1], Array[String]]",
            "Hash[String, Data]",
            "Struct[{'a' => Integer, Optional['b'] => String}]",
            "Sensitive[String]",
            "Integer[default, 7]",
            "Boolean",
        ] {
            assert_eq!(text.parse::<DataType>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_text_says_what_is_expected() {
        for text in ["Enum[a", "string", "Wibble", "Integer[a]", "Integer]", "Pattern[/(/]"] {
            assert!(text.parse::<DataType>().is_err(), "{text}");
        }
    }
}
