//! Reads automatic relations of a definition.

use ecow::{EcoString, eco_format};

use super::fault::{Fault, FaultPlace, Path};
use super::read::{Entries, Reader};
use crate::catalog::RelationKind;
use crate::schema::{AutoRelation, AutoTitle};
use crate::value::Value;

/// Kinds of relations, in the order in which they are written.
pub(super) const KINDS: [RelationKind; 4] =
    [RelationKind::Require, RelationKind::Before, RelationKind::Subscribe, RelationKind::Notify];

/// Returns the key of a kind.
pub(super) fn word(kind: RelationKind) -> EcoString {
    eco_format!("auto{}", kind.word())
}

/// Reads the relations of one kind.
pub(super) fn read(kind: RelationKind, entries: &Entries<'_>, reader: &mut Reader) -> Vec<AutoRelation> {
    let Some((value, path)) = entries.get(&word(kind)) else { return Vec::new() };
    let Some(types) = value.as_hash() else {
        reader.expected(path, "a hash of titles by type, such as {package: apt}", value);
        return Vec::new();
    };
    let entries = Entries::new(types, path, reader);
    let relation = |(name, path, value): (&str, Path, &Value)| {
        let mut titles = Vec::new();
        read_titles(value, &path, reader, &mut titles);
        AutoRelation { kind, type_name: name.to_lowercase().into(), titles }
    };
    entries.iter().map(relation).collect()
}

/// Reads a title, or nested lists of titles.
fn read_titles(value: &Value, path: &Path, reader: &mut Reader, titles: &mut Vec<AutoTitle>) {
    match value.unwrap_sensitive() {
        Value::Undef => {}
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                read_titles(value, &path.index(index), reader, titles);
            }
        }
        Value::String(text) => match AutoTitle::parse(text) {
            Ok(title) => titles.push(title),
            Err(error) => {
                reader.fault(
                    Fault::new(path.clone(), error.message).at(FaultPlace::Within(error.at)).hint_if(error.hint),
                );
            }
        },
        other => match other.to_text() {
            Some(text) => titles.push(AutoTitle::Constant(text)),
            None => reader.expected(path.clone(), "a title, an `$attribute`, or a list of them", other),
        },
    }
}
