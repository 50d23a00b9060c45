//! Reads title patterns of a definition.

use ecow::{EcoString, eco_format};

use super::fault::{Fault, FaultPlace, Path};
use super::read::{Entries, Reader, kind};
use crate::schema::TitlePattern;
use crate::value::Value;

/// Reads the list of patterns.
pub(super) fn read(found: Option<(&Value, Path)>, reader: &mut Reader) -> Vec<TitlePattern> {
    let Some((value, path)) = found else { return Vec::new() };
    let Some(list) = value.as_array() else {
        reader.unread.patterns = true;
        reader.expected(path, "a list of patterns, each with `pattern` and `desc`", value);
        return Vec::new();
    };
    list.iter().enumerate().map(|(index, one)| pattern(one, path.index(index), reader)).collect()
}

/// Reads a pattern. An invalid pattern becomes an empty text, which [`check`](super::check) ignores.
fn pattern(value: &Value, path: Path, reader: &mut Reader) -> TitlePattern {
    let Some(entries) = value.as_hash() else {
        let fault = Fault::new(path, eco_format!("expects a hash with `pattern` and `desc`, got {}", kind(value)));
        reader.fault(fault.hint_if(value.as_str().map(|_| "write {pattern: …, desc: …}".into())));
        return TitlePattern::new("", "");
    };
    let entries = Entries::new(entries, path, reader);
    let found = entries.get("pattern");
    if found.is_none() {
        reader.fault(Fault::new(entries.path.clone(), "it has no `pattern`").at(FaultPlace::Key));
    }
    let text = reader.text(found, "the text of a regular expression").unwrap_or_default();
    let desc = reader.desc(&entries, None);
    reader.extra(&entries, &["pattern", "desc"]);
    TitlePattern::new(regexp(text), desc)
}

/// Converts Ruby's notation `%r{…}` with flags. Returns other texts unchanged.
fn regexp(text: &str) -> EcoString {
    let literal = text.trim().strip_prefix("%r{").and_then(|rest| rest.rsplit_once('}'));
    match literal {
        Some((inner, "")) => inner.into(),
        Some((inner, flags)) if flags.chars().all(|c| matches!(c, 'i' | 'm' | 'x')) => eco_format!("(?{flags}){inner}"),
        _ => text.into(),
    }
}
