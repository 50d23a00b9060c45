//! Checks that an output can be a value of the attribute that uses it.

use ecow::{EcoString, eco_format};
use kilter_model::DataType;
use kilter_model::expr::{Name, Template};

use crate::diagnostic::Diagnostic;

/// An attribute and its declared type.
#[derive(Clone, Copy)]
pub(crate) struct Receiver<'a> {
    pub(crate) attribute: &'a str,
    pub(crate) wanted: &'a DataType,
}

impl Receiver<'_> {
    /// Returns a problem if no value of `found`, the type of a template with outputs, is valid for the attribute.
    pub(crate) fn refuses(self, template: &Template, found: &DataType) -> Option<Diagnostic> {
        let Receiver { attribute, wanted } = self;
        if wanted.overlaps(found) {
            return None;
        }
        if template.is_text() {
            let problem = Diagnostic::new(eco_format!("`{attribute}` takes {wanted}, but this is a text"));
            return Some(problem.hint("a value that consists of one `${…}` keeps its type"));
        }
        let output = alone(template);
        let what = output.as_ref().map_or("this".into(), |output| eco_format!("`{output}`"));
        let problem = Diagnostic::new(eco_format!("`{attribute}` takes {wanted}, but {what} is {found}"));
        let instead = conversion(wanted, found, output.as_deref().unwrap_or("x"));
        Some(problem.hint_if(instead.map(|instead| eco_format!("write `${{{instead}}}`"))))
    }
}

/// Returns the output if the template consists of a single output. Other templates are not shown, because they may
/// contain a secret.
fn alone(template: &Template) -> Option<EcoString> {
    let mut outputs = Vec::new();
    template.names(&mut |name, _| {
        if let Name::Output(reference, output) = name {
            outputs.push(eco_format!("{reference}.{output}"));
        }
    });
    let written = template.source()?.strip_prefix("${")?.strip_suffix('}')?;
    outputs.into_iter().find(|output| output == written)
}

/// Returns an expression that converts a value of the type `found` to the type `wanted`.
fn conversion(wanted: &DataType, found: &DataType, x: &str) -> Option<EcoString> {
    let text = || DataType::text();
    let (is_text, is_number) = (found.overlaps(&text()), found.overlaps(&DataType::Numeric));
    let is_boolean = found.overlaps(&DataType::Boolean(None));
    let ways = [
        (is_text || is_number, DataType::Integer(None, None), eco_format!("int({x})")),
        (is_text || is_number, DataType::Float(None, None), eco_format!("double({x})")),
        (is_number, DataType::Boolean(None), eco_format!("{x} == 0")),
        (is_text, DataType::Boolean(None), eco_format!("{x} == 'true'")),
        (is_text, DataType::Array(Box::new(text()), None, None), eco_format!("{x}.split(',')")),
        (is_number || is_boolean, text(), eco_format!("string({x})")),
    ];
    ways.into_iter().find(|(fits, made, _)| *fits && wanted.overlaps(made)).map(|(.., text)| text)
}
