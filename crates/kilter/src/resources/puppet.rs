//! In the Puppet language.

use kilter_model::{State, TypeSchema};

use super::{Secrets, declared, left_out, missing};
use crate::puppet::{string, value};
use crate::render::diff::visible;

/// The resources as declarations of the Puppet language.
pub(crate) fn puppet(schema: &TypeSchema, states: &[State], secrets: Secrets) -> String {
    let resources: Vec<String> = states.iter().map(|state| resource(schema, state, secrets)).collect();
    resources.join("\n")
}

fn resource(schema: &TypeSchema, state: &State, secrets: Secrets) -> String {
    if let Some(why) = missing(schema, state) {
        return format!("# {}[{}] {why}\n", schema.name, visible(state.label()));
    }
    let declared = declared(schema, state, secrets);
    let mut attributes: Vec<(&str, String)> = Vec::new();
    if !state.exists {
        attributes.push(("ensure", string("absent")));
    }
    for (name, found) in &declared.attributes {
        attributes.push((name.as_str(), value(found)));
    }
    let widest = attributes.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("{} {{ {}:\n", schema.name, string(state.label()));
    for (name, shown) in attributes {
        text += &format!("  {name:widest$} => {shown},\n");
    }
    if !declared.left_out.is_empty() {
        text += &format!("  # {}\n", left_out(&declared.left_out));
    }
    text + "}\n"
}
