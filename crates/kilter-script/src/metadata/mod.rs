//! What a provider says of itself: the YAML of `describe`, or of the file beside the script.

mod actions;
mod attributes;
mod conditions;
mod fault;
pub(crate) mod node;
mod read;

#[cfg(test)]
mod tests;

use std::time::Duration;

use ecow::EcoString;
use kilter_model::TypeSchema;

use crate::condition::Condition;
use crate::convention::ConventionName;

pub use actions::Actions;
pub use fault::{Fault, Place};

/// What a provider says of itself.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Its name: `provider.name`, or else the stem of its file.
    pub name: EcoString,
    /// How it is called.
    pub convention: ConventionName,
    /// What it can do.
    pub actions: Actions,
    /// When it can be used.
    pub suitable: Condition,
    /// When it is preferred to others of its type.
    pub default: Condition,
    /// Whether it may be called to tell what it would change: it then heeds `ral_noop`.
    pub noop_safe: bool,
    /// Whether it is confined while it reads, unless it says otherwise: it then cannot change the machine.
    pub confine: bool,
    /// How long one call may take; kilter's own limit if none.
    pub timeout: Option<Duration>,
    /// The type, as this provider has it. Keys that kilter does not know are in
    /// [`TypeSchema::extra`] and in that of the attributes.
    pub schema: TypeSchema,
    /// What is allowed, but hardly meant.
    pub warnings: Vec<Fault>,
}

impl Metadata {
    /// Reads metadata. `stem` is the name of the provider's file without its ending.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the places.
    pub fn parse(text: &str, stem: &str) -> Result<Metadata, Vec<Fault>> {
        read::read(text, stem)
    }
}

/// The value that a text in YAML stands for.
pub(crate) fn value(text: &str) -> Result<kilter_model::Value, Fault> {
    node::parse(text).map(|node| node.value())
}
