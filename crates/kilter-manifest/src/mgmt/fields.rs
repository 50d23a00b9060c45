//! Reads the fields of a resource according to its kind.

use ecow::{EcoString, eco_format};
use kilter_model::Span;

use super::emit::Piece;
use super::{GraphReader, is_list};
use crate::diagnostic::{Diagnostic, choose};
use crate::tree::View;

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A text: a scalar as written, also `0644`.
    Text,
    Truth,
    /// A whole number.
    Number,
    /// A list of texts.
    Texts,
    /// A mapping from texts to texts.
    Words,
    Any,
    /// A field that kilter does not support.
    Unsupported,
    /// An obsolete field without effect. The listed values never had an effect; an empty list means that no value
    /// had.
    Historical(&'static [&'static str]),
}

struct Field {
    name: &'static str,
    at: Span,
    value: Piece,
}

/// Fields of a resource.
pub(super) struct Fields {
    /// Name of the resource.
    pub(super) title: EcoString,
    pub(super) at: Span,
    given: Vec<Field>,
}

impl Fields {
    /// Reads the fields. Reports invalid fields and leaves them out.
    pub(super) fn read(
        reader: &mut GraphReader,
        (kind, shapes): (&str, &'static [(&'static str, Shape)]),
        title: &str,
        at: Span,
        body: View<'_>,
    ) -> Fields {
        let mut fields = Fields { title: title.into(), at, given: Vec::new() };
        for (key, value) in body.entries().filter(|(key, _)| !matches!(key.text(), "name" | "meta")) {
            let Some((name, shape)) = shapes.iter().find(|(name, _)| *name == key.text()) else {
                let known: Vec<&str> = shapes.iter().map(|(name, _)| *name).chain(["name", "meta"]).collect();
                let problem = Diagnostic::new(eco_format!("the kind `{}` has no field `{}`", kind, key.text()));
                reader.report(problem.at(key.span()).hint(choose(key.text(), &known, "its fields")));
                continue;
            };
            match shape {
                Shape::Historical(harmless) => {
                    let is_harmless = harmless.is_empty() || harmless.contains(&value.text()) || value.is_null();
                    reader.historical(eco_format!("`{name}` of `{}`", kind), key.span(), is_harmless);
                }
                Shape::Unsupported if !is_nothing(value) => {
                    let message = eco_format!("kilter has nothing like `{name}` of the kind `{}`", kind);
                    reader.report(Diagnostic::new(message).at(key.span()));
                }
                _ if value.is_null() || *shape == Shape::Unsupported => {}
                _ => match piece(*shape, value, &mut reader.left) {
                    Ok(piece) => fields.given.push(Field { name, at: key.span(), value: piece }),
                    Err(expected) => {
                        let problem = Diagnostic::new(eco_format!("`{name}` is {expected}"));
                        reader.report(problem.at(value.span()));
                    }
                },
            }
        }
        fields
    }

    /// Returns the name of the field with this value.
    pub(super) fn of(&self, value: Span) -> Option<&'static str> {
        self.given.iter().find(|field| field.value.span() == value).map(|field| field.name)
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.given.iter().find(|field| field.name == name)
    }

    /// Returns a value and the position of its name.
    pub(super) fn get(&self, name: &str) -> Option<(&Piece, Span)> {
        self.field(name).map(|field| (&field.value, field.at))
    }

    /// Returns a text that is not empty, and its position.
    pub(super) fn text(&self, name: &str) -> Option<(&EcoString, Span)> {
        match &self.field(name)?.value {
            Piece::Text(text, at) if !text.is_empty() => Some((text, *at)),
            _ => None,
        }
    }

    /// Returns the value of a boolean field; false if it is not given.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self.get(name), Some((Piece::Plain(text, _), _)) if text == "true")
    }

    /// Returns a list that is not empty.
    pub(super) fn texts(&self, name: &str) -> Option<(&Vec<Piece>, Span)> {
        match &self.field(name)?.value {
            Piece::List(texts, at) if !texts.is_empty() => Some((texts, *at)),
            _ => None,
        }
    }
}

/// Returns true if the value of a field is its zero value.
fn is_nothing(value: View<'_>) -> bool {
    let is_zero = matches!(value.text(), "" | "0" | "false");
    value.is_null() || value.is_scalar() && is_zero || !value.is_scalar() && value.count() == 0
}

fn piece(shape: Shape, value: View<'_>, left: &mut usize) -> Result<Piece, &'static str> {
    let at = value.span();
    let text =
        |view: View<'_>| (view.is_scalar() && !view.is_null()).then(|| Piece::Text(view.text().into(), view.span()));
    match shape {
        Shape::Text => text(value).ok_or("a text"),
        Shape::Truth => {
            let found = value.is_scalar().then(|| parse_bool(value.text())).flatten().ok_or("true or false")?;
            Ok(Piece::Plain(if found { "true" } else { "false" }.into(), at))
        }
        Shape::Number => {
            let number = value.is_scalar().then(|| number(value.text())).flatten().ok_or("a whole number")?;
            Ok(Piece::Plain(eco_format!("{number}"), at))
        }
        Shape::Texts if is_list(value) => {
            let texts: Option<Vec<Piece>> = value.elements().map(text).collect();
            texts.map(|texts| Piece::List(texts, at)).ok_or("a list of texts")
        }
        Shape::Texts => Err("a list of texts"),
        Shape::Words if value.is_mapping() => {
            let entry = |(key, value)| Some((text(key)?, text(value)?));
            let entries: Option<Vec<(Piece, Piece)>> = value.entries().map(entry).collect();
            entries.map(|entries| Piece::Mapping(entries, at)).ok_or("a mapping of texts")
        }
        Shape::Words => Err("a mapping of texts"),
        Shape::Any | Shape::Unsupported | Shape::Historical(_) => {
            Piece::copy(value, left).ok_or("smaller: its aliases add up to too much")
        }
    }
}

/// Parses a boolean of YAML 1.1, which mgmt uses.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// Parses a whole number of YAML 1.1. A leading zero means octal.
fn number(text: &str) -> Option<i64> {
    let text = text.replace('_', "");
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    let (digits, radix) = match (digits.strip_prefix("0x"), digits.strip_prefix("0o"), digits.strip_prefix("0b")) {
        (Some(digits), ..) => (digits, 16),
        (_, Some(digits), _) => (digits, 8),
        (.., Some(digits)) => (digits, 2),
        _ if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        _ => (digits, 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_truth_values_are_those_of_yaml_1_1() {
        for (text, expected) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("-3", Some(-3)),
            ("+3", Some(3)),
            ("0644", Some(0o644)),
            ("0x1f", Some(31)),
            ("0b101", Some(5)),
            ("1_000", Some(1000)),
            ("-010", Some(-8)),
            ("089", None),
            ("--1", None),
            ("", None),
            ("1.5", None),
            ("x", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
        assert_eq!(["yes", "off", "TRUE", "maybe"].map(parse_bool), [Some(true), Some(false), Some(true), None]);
    }
}
