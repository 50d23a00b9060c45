//! Selection of targets: names, patterns and conditions.
//!
//! A text that compares or calls is a *condition*: `facts.os.family == "debian" && "web" in groups`. Any other text is
//! a *pattern* of Ansible's form.
//!
//! | part of a pattern | selects |
//! |---|---|
//! | `web1`, `web*`, `a,b`, `a:b` | hosts and groups, by names and shell patterns |
//! | `&x` | only the members of `x` |
//! | `!x` | all but the members of `x` |
//! | `~x` | by a regular expression |
//! | `web[0]`, `web[0:2]` | by position |
//!
//! All intersections apply after the union of the others, and all exclusions after the intersections.

mod condition;
mod glob;
mod pattern;

use std::sync::Arc;

use ecow::EcoString;
use kilter_model::expr::Lookup;

use crate::inventory::Inventory;
use crate::target::Target;
use condition::Condition;
use pattern::Pattern;

/// A parsed selection.
#[derive(Clone, Debug)]
pub struct Selector(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Pattern(Pattern),
    Condition(Condition),
}

/// Reason why a selection is not valid, or selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SelectError {
    /// Description of the error.
    pub message: EcoString,
    /// Suggested correction.
    pub hint: Option<EcoString>,
}

impl SelectError {
    fn new(message: impl Into<EcoString>, hint: impl Into<EcoString>) -> SelectError {
        SelectError { message: message.into(), hint: Some(hint.into()).filter(|hint| !hint.is_empty()) }
    }
}

impl Selector {
    /// Parses a selection.
    ///
    /// # Errors
    /// The syntax error.
    pub fn parse(text: &str) -> Result<Selector, SelectError> {
        let text = text.trim();
        Ok(Selector(match condition::is_condition(text) {
            true => Kind::Condition(Condition::parse(text)?),
            false => Kind::Pattern(Pattern::parse(text)?),
        }))
    }

    /// Returns true if the facts of a target decide about it: [`Selector::matches`] then follows
    /// [`Selector::select`].
    pub fn needs_facts(&self) -> bool {
        matches!(&self.0, Kind::Condition(condition) if condition.needs_facts())
    }

    /// Selects targets, without their facts. If the selection needs facts, the result has all targets that they may
    /// select. A name that the inventory does not know is a destination of ssh.
    ///
    /// # Errors
    /// If a name is unknown and similar to a known one, or a condition fails. The empty list is no error.
    pub fn select(&self, inventory: &Inventory) -> Result<Vec<Arc<Target>>, SelectError> {
        match &self.0 {
            Kind::Pattern(pattern) => pattern.select(inventory),
            Kind::Condition(condition) => condition.select(inventory),
        }
    }

    /// Returns true if a target is selected, with its facts.
    ///
    /// # Errors
    /// If the condition fails.
    pub fn matches(
        &self,
        inventory: &Inventory,
        target: &Target,
        fact: &dyn Fn(&str) -> Lookup,
    ) -> Result<bool, SelectError> {
        match &self.0 {
            Kind::Pattern(pattern) => {
                Ok(pattern.select(inventory)?.iter().any(|selected| selected.name == target.name))
            }
            Kind::Condition(condition) => condition.matches(inventory, target, fact),
        }
    }
}

#[cfg(test)]
mod tests;
