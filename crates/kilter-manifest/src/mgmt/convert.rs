//! Conversions of fields that several kinds share.

use ecow::eco_format;

use super::GraphReader;
use super::emit::{Lowered, Piece};
use super::fields::Fields;
use crate::diagnostic::{Diagnostic, list};

/// Copies a field to an attribute with another name.
pub(super) fn copy(fields: &Fields, name: &str, lowered: &mut Lowered, attribute: &str) {
    if let Some((value, at)) = fields.get(name) {
        lowered.push(attribute, at, value.clone());
    }
}

/// Translates a keyword to its equivalent in kilter.
pub(super) fn word(
    reader: &mut GraphReader,
    fields: &Fields,
    name: &str,
    words: &[(&str, &str)],
    lowered: &mut Lowered,
    attribute: &str,
) {
    let Some((given, at)) = fields.text(name) else { return };
    match words.iter().find(|(word, _)| word == given) {
        Some((_, here)) => lowered.push(attribute, at, Piece::Plain((*here).into(), at)),
        None => {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let problem = Diagnostic::new(eco_format!("`{name}` is not one of its values: `{given}`")).at(at);
            reader.report(problem.hint(list(&known, "allowed are")));
        }
    }
}

/// States of a resource, as values of `ensure`.
pub(super) const STATES: [(&str, &str); 2] = [("exists", "present"), ("absent", "absent")];
