//! In the form of Puppet's language, almost.

use anstyle::{AnsiColor, Style};
use kilter_model::{Difference, Value};
use kilter_provider::Provider;

use super::Shown;
use crate::puppet;
use crate::ralsh::lookup;
use crate::render::diff::visible;
use crate::render::styled;

const NAME: Style = AnsiColor::Blue.on_default();
const ATTRIBUTE: Style = AnsiColor::Green.on_default();

/// A resource with its attributes, `ensure` first.
pub(super) fn resource(provider: &dyn Provider, name: &str, shown: &Shown) -> String {
    let quoted = puppet::string(name);
    // The quotes are not coloured; what is within them is.
    let inner = &quoted[1..quoted.len() - 1];
    let quote = &quoted[..1];
    let mut text = format!("{} {{ {quote}{}{quote}:\n", styled(NAME, lookup::qualified(provider)), styled(NAME, inner));
    let widest = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let (ensure, rest): (Vec<_>, Vec<_>) = shown.iter().partition(|(name, _)| name == "ensure");
    for (name, value) in ensure.into_iter().chain(rest) {
        text += &format!("  {} => {},\n", styled(ATTRIBUTE, format!("{name:widest$}")), value_of(value));
    }
    text + "}\n"
}

/// A line for each attribute that was changed.
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

/// A value without quotes around it.
fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        value => value_of(value),
    }
}
