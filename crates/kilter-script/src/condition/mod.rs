//! Conditions for the suitability and preference of a provider: expressions over facts and commands.
//!
//! A clause is written in libral's notation (`command(which)`, `osfamily == 'redhat'`, `a = 'x' and b = 'y'`)
//! or in kilter's expression language, whose facts start with `facts.` (`facts.os.family == "debian"`).

mod expression;
mod fact;
mod parse;
mod test;

#[cfg(test)]
mod tests;

use ecow::{EcoString, eco_format};
use kilter_model::Value;

pub use fact::ConditionFacts;

use expression::Expression;
use test::Test;

/// A condition: a constant or clauses.
#[derive(Clone, Debug)]
pub enum Condition {
    /// A constant result.
    Constant(bool),
    /// All clauses must hold (`suitable`).
    Every(Vec<Clause>),
    /// At least one clause must hold (`default`).
    Any(Vec<Clause>),
}

/// A clause of a condition.
#[derive(Clone, Debug)]
pub struct Clause(Form);

#[derive(Clone, Debug)]
enum Form {
    Text(Test),
    Expression(Expression),
}

/// Result of a condition, with the reason if it does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionResult {
    /// The condition holds.
    Holds,
    /// The condition does not hold: the reason, such as `there is no command dnf`.
    Fails(EcoString),
}

impl ConditionResult {
    /// Returns true if the condition holds.
    pub fn holds(&self) -> bool {
        *self == ConditionResult::Holds
    }
}

impl Clause {
    /// Parses a clause.
    ///
    /// # Errors
    /// The error and a suggested correction.
    pub fn parse(text: &str) -> Result<Clause, (EcoString, Option<EcoString>)> {
        // A text with `facts.` is in kilter's notation.
        if text.contains("facts.") || text.contains("facts[") {
            return Expression::parse(text).map(|expression| Clause(Form::Expression(expression)));
        }
        match parse::clause(text) {
            Ok(test) => Ok(Clause(Form::Text(test))),
            Err(wrong) => {
                Err((wrong, Some("such as command(apt-get), os.family == 'debian', or a = 'x' and b = 'y'".into())))
            }
        }
    }

    /// Returns the clause for an entry of `commands: [NAME, not OTHER]`.
    pub(crate) fn command(text: &str) -> Clause {
        Clause(Form::Text(test::command(text)))
    }

    /// Evaluates the clause on a machine.
    pub fn evaluate(&self, machine: &dyn ConditionFacts) -> ConditionResult {
        match &self.0 {
            Form::Text(test) => test.evaluate(machine),
            Form::Expression(expression) => expression.evaluate(machine),
        }
    }
}

impl Condition {
    /// Evaluates the condition on a machine.
    pub fn evaluate(&self, machine: &dyn ConditionFacts) -> ConditionResult {
        match self {
            Condition::Constant(true) => ConditionResult::Holds,
            Condition::Constant(false) => ConditionResult::Fails("its metadata says `false`".into()),
            Condition::Every(clauses) => {
                let mut verdicts = clauses.iter().map(|clause| clause.evaluate(machine));
                verdicts.find(|verdict| !verdict.holds()).unwrap_or(ConditionResult::Holds)
            }
            Condition::Any(clauses) => {
                let mut reasons: Vec<EcoString> = Vec::new();
                for clause in clauses {
                    match clause.evaluate(machine) {
                        ConditionResult::Holds => return ConditionResult::Holds,
                        ConditionResult::Fails(why) => reasons.push(why),
                    }
                }
                ConditionResult::Fails(reasons.join("; ").into())
            }
        }
    }
}

/// Formats a value for a reason.
fn shown(value: &Value) -> EcoString {
    value.to_text().filter(|_| !value.holds_sensitive()).unwrap_or_else(|| eco_format!("{value}"))
}
