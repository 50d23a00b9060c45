//! Output in a form close to Puppet's language.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use kilter_model::{Difference, Value};
use kilter_provider::Provider;

use super::ShownAttributes;
use crate::ralsh::lookup;
use crate::visible::visible;
use crate::{output, puppet};

const NAME: Style = AnsiColor::Blue.on_default();
const ATTRIBUTE: Style = AnsiColor::Green.on_default();

/// Style of a provider's resources.
pub(super) struct ResourceStyle {
    qualified: String,
    of_name: Style,
    of_attribute: Style,
}

impl ResourceStyle {
    pub(super) fn of(provider: &dyn Provider) -> ResourceStyle {
        let [of_name, of_attribute] = output::seen([NAME, ATTRIBUTE]);
        ResourceStyle { qualified: lookup::qualified(provider), of_name, of_attribute }
    }
}

/// Returns a resource with its attributes, `ensure` first.
pub(super) fn resource(look: &ResourceStyle, name: &str, shown: &ShownAttributes<'_>) -> String {
    let ResourceStyle { qualified, of_name, of_attribute } = look;
    let quoted = puppet::string(name);
    // The text between the quotes is coloured, the quotes are not.
    let (quote, inner) = (&quoted[..1], &quoted[1..quoted.len() - 1]);
    let widest = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::with_capacity(256);
    let is_ensure = |(name, _): &&(&str, &Value)| *name == "ensure";
    let attributes = shown.iter().filter(is_ensure).chain(shown.iter().filter(|one| !is_ensure(one)));
    // A write to a string cannot fail.
    let _ = writeln!(text, "{of_name}{qualified}{of_name:#} {{ {quote}{of_name}{inner}{of_name:#}{quote}:");
    for (name, value) in attributes {
        let _ = write!(text, "  {of_attribute}{name:widest$}{of_attribute:#} => ");
        text.push_str(&value_of(value));
        text.push_str(",\n");
    }
    text + "}\n"
}

/// Returns a line for each changed attribute.
pub(super) fn changes(changes: &[Difference]) -> String {
    let line = |change: &Difference| {
        let entry = change.entry.as_ref().map(|entry| format!("[{}]", visible(entry))).unwrap_or_default();
        format!("{}{entry}({}->{})\n", change.attribute, bare(&change.is), bare(&change.should))
    };
    changes.iter().map(line).collect()
}

fn value_of(value: &Value) -> String {
    match value {
        Value::Undef => "(none)".to_owned(),
        value if value.holds_sensitive() => value.to_string(),
        value => puppet::value(value),
    }
}

/// Returns a value without quotes.
fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        value => value_of(value),
    }
}
