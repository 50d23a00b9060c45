//! Conditions over variables, groups and facts.

use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::expr::{EvalError, Expr, Lookup, Name, Scope};
use kilter_model::{ResourceRef, Value};

use super::SelectError;
use crate::inventory::Inventory;
use crate::target::Target;

/// Returns true if a text is a condition and no pattern.
pub(super) fn is_condition(text: &str) -> bool {
    if text.starts_with(['~', '&']) || text.starts_with("!~") {
        return false;
    }
    let operators = ["==", "!=", "&&", "||", "<", ">", "\"", "'", "("];
    let positive = text.trim_start_matches('!');
    operators.iter().any(|operator| text.contains(operator))
        || positive.starts_with("vars.")
        || positive.starts_with("facts.")
        || text.contains(" in ")
}

/// A parsed condition.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    text: EcoString,
    expression: Expr,
    needs_facts: bool,
}

impl Condition {
    pub(super) fn parse(text: &str) -> Result<Condition, SelectError> {
        let expression = Expr::parse_for_target(text).map_err(|error| {
            let hint =
                error.hint.unwrap_or_else(|| "such as facts.os.family == \"debian\" && \"web\" in groups".into());
            SelectError::new(eco_format!("the condition `{text}`: {}", error.message), hint)
        })?;
        let mut needs_facts = false;
        let mut output = None;
        expression.names(&mut |name, _| match name {
            Name::Fact(_) => needs_facts = true,
            Name::Output(reference, _) => output = Some(reference.clone()),
            _ => {}
        });
        match output {
            Some(reference) => Err(SelectError::new(
                eco_format!("the condition `{text}`: `{reference}` is a resource, and targets have none"),
                "name, groups, vars.NAME and facts.NAME are known",
            )),
            None => Ok(Condition { text: text.into(), expression, needs_facts }),
        }
    }

    pub(super) fn needs_facts(&self) -> bool {
        self.needs_facts
    }

    pub(super) fn select(&self, inventory: &Inventory) -> Result<Vec<Arc<Target>>, SelectError> {
        if inventory.targets().is_empty() {
            let hint = "name an inventory (-i), or the hosts themselves";
            return Err(SelectError::new(
                eco_format!("the condition `{}` has no targets to choose from", self.text),
                hint,
            ));
        }
        let unknown = |_: &str| Lookup::Unknown("after the facts are gathered".into());
        let mut selected = Vec::new();
        for target in inventory.targets() {
            if self.decide(inventory, target, &unknown)? != Some(false) {
                selected.push(Arc::clone(target));
            }
        }
        Ok(selected)
    }

    pub(super) fn matches(
        &self,
        inventory: &Inventory,
        target: &Target,
        fact: &dyn Fn(&str) -> Lookup,
    ) -> Result<bool, SelectError> {
        Ok(self.decide(inventory, target, fact)? == Some(true))
    }

    /// Evaluates the condition for a target. None if facts are missing.
    fn decide(
        &self,
        inventory: &Inventory,
        target: &Target,
        fact: &dyn Fn(&str) -> Lookup,
    ) -> Result<Option<bool>, SelectError> {
        let scope = TargetScope { inventory, target, fact };
        let failed = |message: EcoString, hint: EcoString| {
            SelectError::new(eco_format!("the condition `{}` for {}: {message}", self.text, target.name), hint)
        };
        match self.expression.eval(&scope) {
            Ok(value) => match value.as_bool() {
                Some(truth) => Ok(Some(truth)),
                None => Err(failed("its value is not true or false".into(), "compare it: x == \"…\"".into())),
            },
            Err(EvalError::Unknown(_)) => Ok(None),
            Err(EvalError::Failed { message, hint, .. }) => Err(failed(message, hint.unwrap_or_default())),
        }
    }
}

/// Names of a condition for one target.
struct TargetScope<'a> {
    inventory: &'a Inventory,
    target: &'a Target,
    fact: &'a dyn Fn(&str) -> Lookup,
}

impl Scope for TargetScope<'_> {
    fn var(&self, name: &str) -> Lookup {
        match self.target.vars.get(name) {
            Some(value) => Lookup::Found(value.clone()),
            // A variable that only other targets have is null. One that no target has is an error.
            None if self.inventory.var_names().contains(name) => Lookup::Found(Value::Undef),
            None => Lookup::Missing,
        }
    }

    fn fact(&self, name: &str) -> Lookup {
        (self.fact)(name)
    }

    fn output(&self, _reference: &ResourceRef, _name: &str) -> Lookup {
        Lookup::Missing
    }

    fn target(&self, name: &str) -> Lookup {
        match name {
            "groups" => Lookup::Found(Value::strings(self.target.groups.iter().cloned())),
            _ => Lookup::Found(Value::String(self.target.name.clone())),
        }
    }

    fn var_names(&self) -> Vec<EcoString> {
        self.inventory.var_names().iter().cloned().collect()
    }
}
