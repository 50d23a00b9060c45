//! Values of fields in a file of apt, and their edits.

use ecow::EcoString;
use kilter_model::Attributes;

use super::schema::{FIELDS, RepositoryForm, SIGNED_BY, options};
use super::stanza::{Edit, Stanza};
use crate::value_text::texts;

/// Parses a word of apt that means yes or no.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "with" | "on" | "enable" => Some(true),
        "no" | "false" | "without" | "off" | "disable" => Some(false),
        _ => None,
    }
}

/// Returns lines without indentation.
pub(super) fn trimmed(text: &str) -> String {
    text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

/// Returns the words of an other field.
pub(super) fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().collect()
}

/// Returns the file with the declared values. Fields that mean the same stay as they are.
pub(super) fn edited(stanza: &Stanza<'_>, should: &Attributes, ring: Option<&str>) -> String {
    let others = options(should);
    let mut edits: Vec<Edit<'_>> = Vec::new();
    for (attribute, field, form) in FIELDS {
        let is = stanza.value(field);
        let (wanted, is_same): (EcoString, bool) = match form {
            _ if field == SIGNED_BY && ring.is_some() => {
                let ring = ring.unwrap_or_default();
                (ring.into(), is.as_deref() == Some(ring))
            }
            _ if should.get(attribute).is_none() => continue,
            RepositoryForm::List => {
                let wanted = texts(should.get(attribute));
                let is = is.as_deref().map(words).unwrap_or_default();
                (wanted.join(" ").into(), is.iter().eq(wanted.iter().map(EcoString::as_str).collect::<Vec<_>>().iter()))
            }
            RepositoryForm::Flag => {
                let wanted = should.get_bool(attribute) == Some(true);
                let default = (attribute == "enabled").then_some(true);
                (if wanted { "yes" } else { "no" }.into(), is.map_or(default, |is| flag(&is)) == Some(wanted))
            }
            RepositoryForm::Text => {
                let wanted = trimmed(should.text(attribute).unwrap_or_default());
                (wanted.as_str().into(), is.as_ref() == Some(&wanted))
            }
        };
        if !is_same {
            edits.push((field, (!wanted.is_empty()).then_some(wanted)));
        }
    }
    for (name, value) in &others {
        if words(&stanza.value(name).unwrap_or_default()) != words(value) {
            edits.push((name, (!value.is_empty()).then(|| value.clone())));
        }
    }
    let comment = should.text("comment").map(trimmed);
    let is_same = comment == stanza.comment() || comment.as_deref() == Some("") && stanza.comment().is_none();
    stanza.edited(&edits, comment.as_deref().filter(|_| !is_same))
}
