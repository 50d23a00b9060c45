//! The type `firewall_rule`: separately declared rules of a table.

use kilter_model::{Attributes, Change, Outcome, State};
use kilter_provider::{Context, Mode, Provider, ProviderError, Query, ValidationError};

use super::schema::rule_schema;

const ALONE: &str = "a rule of the firewall cannot be managed without its table";

/// Provides the type `firewall_rule`. Its provider is never asked to read or change a resource.
pub struct FirewallRuleProvider;

impl Provider for FirewallRuleProvider {
    crate::builtin::describe!("firewall_rule", "builtin", rule_schema, [], InProcess: [predict, scheduling, watch]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        crate::builtin::no_parts(query)
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        changes.iter().map(|_| Outcome::failed(ALONE)).collect()
    }

    fn validate(&self, _: &str, _: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        // A rule in a manifest becomes an entry of its table, unless it is hidden.
        vec![ValidationError::new(ALONE).hint("declare it in a manifest together with `firewall[TABLE]`")]
    }
}
