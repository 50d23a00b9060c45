//! Formats data types.

use std::fmt::{self, Display, Write};

use ecow::EcoString;

use super::assign::Seals;
use super::{DataType, Field};

impl DataType {
    /// Returns the name without parameters.
    pub(super) fn name(&self) -> &str {
        match self {
            DataType::Any => "Any",
            DataType::Unit => "Unit",
            DataType::Undef => "Undef",
            DataType::Default => "Default",
            DataType::Boolean(_) => "Boolean",
            DataType::Integer(..) => "Integer",
            DataType::Float(..) => "Float",
            DataType::Numeric => "Numeric",
            DataType::String(..) | DataType::Literal(_) => "String",
            DataType::Enum(_) | DataType::EnumAnyCase(_) => "Enum",
            DataType::Pattern(_) => "Pattern",
            DataType::Regexp(_) => "Regexp",
            DataType::Binary => "Binary",
            DataType::Timestamp(..) => "Timestamp",
            DataType::Timespan(..) => "Timespan",
            DataType::SemVer(_) => "SemVer",
            DataType::SemVerRange => "SemVerRange",
            DataType::Array(..) => "Array",
            DataType::Hash(..) => "Hash",
            DataType::Collection(..) => "Collection",
            DataType::Iterable(_) => "Iterable",
            DataType::Struct(_) => "Struct",
            DataType::Tuple(..) => "Tuple",
            DataType::Variant(_) => "Variant",
            DataType::Optional(_) => "Optional",
            DataType::NotUndef(_) => "NotUndef",
            DataType::Scalar => "Scalar",
            DataType::ScalarData => "ScalarData",
            DataType::Data => "Data",
            DataType::RichData => "RichData",
            DataType::Sensitive(_) => "Sensitive",
            DataType::Type(_) => "Type",
            DataType::Init(_) => "Init",
            DataType::Foreign(text) => text.split('[').next().unwrap_or_default(),
            DataType::TypeReference(_) => "TypeReference",
            DataType::Alias(alias) => &alias.name,
        }
    }

    /// Returns the type with the definitions of its aliases: `My::Port = Integer[1, 65535]`.
    pub(super) fn expanded(&self) -> String {
        let mut text = String::new();
        let mut printer = Printer { out: &mut text, expanded: Some(Vec::new()) };
        printer.data_type(self).expect("a text takes all that is written to it");
        text
    }
}

impl Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { out: f, expanded: None }.data_type(self)
    }
}

/// Formatter for types. With a list in `expanded`, each alias is followed by its definition the first time.
struct Printer<'a> {
    out: &'a mut dyn Write,
    expanded: Option<Vec<EcoString>>,
}

impl Printer<'_> {
    fn data_type(&mut self, data_type: &DataType) -> fmt::Result {
        match data_type {
            DataType::Foreign(text) => return self.out.write_str(text),
            DataType::TypeReference(name) => {
                // The plain name can be parsed again. Messages use Puppet's form.
                return match self.expanded {
                    Some(_) => write!(self.out, "TypeReference['{name}']"),
                    None => self.out.write_str(name),
                };
            }
            DataType::Alias(alias) => {
                self.out.write_str(&alias.name)?;
                if let Some(seen) = &mut self.expanded
                    && !seen.contains(&alias.name)
                {
                    seen.push(alias.name.clone());
                    self.out.write_str(" = ")?;
                    self.data_type(&alias.definition())?;
                }
                return Ok(());
            }
            _ => self.out.write_str(data_type.name())?,
        }
        let mut list = List { printer: self, open: false };
        list.parameters(data_type)?;
        match list.open {
            true => self.out.write_str("]"),
            false => Ok(()),
        }
    }
}

/// Parameters of a type. The first parameter opens the bracket.
struct List<'p, 'a> {
    printer: &'p mut Printer<'a>,
    open: bool,
}

impl List<'_, '_> {
    fn next(&mut self) -> fmt::Result {
        let lead = if self.open { ", " } else { "[" };
        self.open = true;
        self.printer.out.write_str(lead)
    }

    fn text(&mut self, text: impl Display) -> fmt::Result {
        self.next()?;
        write!(self.printer.out, "{text}")
    }

    fn data_type(&mut self, data_type: &DataType) -> fmt::Result {
        self.next()?;
        self.printer.data_type(data_type)
    }

    /// Writes a type parameter. Omits `Any` and writes a literal as a text.
    fn inner(&mut self, data_type: &DataType) -> fmt::Result {
        match data_type {
            DataType::Any => Ok(()),
            DataType::Literal(text) => self.text(quoted(text)),
            other => self.data_type(other),
        }
    }

    fn range<T: Display>(&mut self, from: &Option<T>, to: &Option<T>) -> fmt::Result {
        match (from, to) {
            (None, None) => return Ok(()),
            (Some(from), _) => self.text(from)?,
            (None, Some(_)) => self.text("default")?,
        }
        to.iter().try_for_each(|to| self.text(to))
    }

    fn parameters(&mut self, data_type: &DataType) -> fmt::Result {
        match data_type {
            DataType::Boolean(Some(truth)) => self.text(truth),
            DataType::Integer(from, to) => self.range(from, to),
            DataType::Float(from, to) => self.range(&from.map(Number), &to.map(Number)),
            DataType::String(from, to) | DataType::Collection(from, to) => self.range(from, to),
            DataType::Enum(words) => words.iter().try_for_each(|word| self.text(quoted(word))),
            DataType::EnumAnyCase(words) => {
                words.iter().try_for_each(|word| self.text(quoted(word)))?;
                self.text("true")
            }
            DataType::Pattern(patterns) => patterns.iter().try_for_each(|pattern| self.text(pattern)),
            DataType::Regexp(Some(regexp)) => self.text(regexp),
            DataType::SemVer(ranges) => ranges.iter().try_for_each(|range| self.text(format_args!("'{range}'"))),
            DataType::Timestamp(from, to) => self.times(&from.map(|t| t.to_string()), &to.map(|t| t.to_string())),
            DataType::Timespan(from, to) => self.times(&from.map(|t| t.to_string()), &to.map(|t| t.to_string())),
            DataType::Array(_, Some(0), Some(0)) | DataType::Hash(_, _, Some(0), Some(0)) => {
                self.range(&Some(0), &Some(0))
            }
            DataType::Array(of, None, None) => self.inner(of),
            DataType::Array(of, from, to) => self.data_type(of).and_then(|()| self.range(from, to)),
            DataType::Hash(keys, of, None, None) if **keys == DataType::Any && **of == DataType::Any => Ok(()),
            DataType::Hash(keys, of, from, to) => {
                self.data_type(keys)?;
                self.data_type(of)?;
                self.range(from, to)
            }
            DataType::Struct(fields) if fields.is_empty() => Ok(()),
            DataType::Struct(fields) => self.fields(fields),
            DataType::Tuple(types, from, to) => {
                types.iter().try_for_each(|part| self.data_type(part))?;
                self.range(from, to)
            }
            DataType::Variant(types) => types.iter().try_for_each(|part| self.data_type(part)),
            DataType::Optional(inner)
            | DataType::NotUndef(inner)
            | DataType::Sensitive(inner)
            | DataType::Iterable(inner)
            | DataType::Type(inner)
            | DataType::Init(inner) => self.inner(inner),
            _ => Ok(()),
        }
    }

    /// Writes a time range. A range of a single point is written as that point.
    fn times(&mut self, from: &Option<String>, to: &Option<String>) -> fmt::Result {
        let quote = |text: &String| format!("'{text}'");
        let to = if from == to { &None } else { to };
        self.range(&from.as_ref().map(quote), &to.as_ref().map(quote))
    }

    fn fields(&mut self, fields: &[Field]) -> fmt::Result {
        self.next()?;
        for (index, field) in fields.iter().enumerate() {
            let lead = if index == 0 { "{" } else { ", " };
            let name = quoted(&field.name);
            match (field.optional, field.data_type.takes(&DataType::Undef, Seals::Exact)) {
                (true, false) => write!(self.printer.out, "{lead}Optional[{name}] => ")?,
                (false, true) => write!(self.printer.out, "{lead}NotUndef[{name}] => ")?,
                _ => write!(self.printer.out, "{lead}{name} => ")?,
            }
            self.printer.data_type(&field.data_type)?;
        }
        self.printer.out.write_str("}")
    }
}

/// Quotes a text so that the Puppet language can read it.
pub(super) fn quoted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 2);
    if text.chars().any(|c| c < ' ') {
        shown.push('"');
        for c in text.chars() {
            match c {
                '\n' => shown.push_str("\\n"),
                '\t' => shown.push_str("\\t"),
                '\r' => shown.push_str("\\r"),
                '"' | '\\' | '$' => shown.extend(['\\', c]),
                c if c < ' ' => shown.push_str(&format!("\\u{{{:X}}}", u32::from(c))),
                c => shown.push(c),
            }
        }
        shown.push('"');
        return shown;
    }
    shown.push('\'');
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\'' => shown.push_str("\\'"),
            // A backslash is doubled only if it would otherwise start an escape.
            '\\' if matches!(rest.peek(), None | Some('\\' | '\'')) => shown.push_str("\\\\"),
            c => shown.push(c),
        }
    }
    shown.push('\'');
    shown
}

/// A float in Ruby's notation: `1.0e+20`, `1.0e-07`, `100.0`.
pub(super) struct Number(pub(super) f64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if !self.0.is_finite() {
            let sign = if self.0 < 0.0 { "-" } else { "" };
            return if self.0.is_nan() { f.write_str("NaN") } else { write!(f, "{sign}Infinity") };
        }
        if size == 0.0 || (1e-4..1e16).contains(&size) {
            return write!(f, "{:?}", self.0);
        }
        let text = format!("{:e}", self.0);
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let point = if digits.contains('.') { "" } else { ".0" };
        write!(f, "{digits}{point}e{exponent:+03}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_texts_round_trip() {
        for text in ["a", "it's", r"a\b", r"\", r"\\", r"\'", "a\nb", "\u{1}$x\"", "é", ""] {
            let shown = DataType::Enum(vec![text.into()]).to_string();
            let read: DataType = shown.parse().unwrap();
            assert_eq!(read, DataType::Enum(vec![text.into()]), "{shown}");
        }
        assert_eq!(quoted(r"a\b"), r"'a\b'");
        assert_eq!(quoted("it's"), r"'it\'s'");
    }

    #[test]
    fn floats_are_written_as_ruby_writes_them() {
        let shown = |number: f64| Number(number).to_string();
        assert_eq!([shown(1e20), shown(1e-7), shown(100.0)], ["1.0e+20", "1.0e-07", "100.0"]);
        assert_eq!([shown(0.0001), shown(1.5e16), shown(-2.5e-10)], ["0.0001", "1.5e+16", "-2.5e-10"]);
        assert_eq!([shown(f64::NAN), shown(f64::NEG_INFINITY)], ["NaN", "-Infinity"]);
    }
}
