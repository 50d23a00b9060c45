//! Conditions in kilter's expression language.

use ecow::{EcoString, eco_format};
use kilter_model::expr::{EvalError, Expr, Lookup, Name, Scope};
use kilter_model::{ResourceRef, Value};

use super::ConditionResult;
use super::fact::ConditionFacts;

/// An expression over facts.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    text: EcoString,
    expr: Expr,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// The error and a suggested correction.
    pub(super) fn parse(text: &str) -> Result<Expression, (EcoString, Option<EcoString>)> {
        let expr = Expr::parse(text).map_err(|error| (error.message, error.hint))?;
        let mut other = false;
        expr.names(&mut |name, _| other |= !matches!(name, Name::Fact(_)));
        match other {
            true => Err(("only facts may be used here".into(), Some("such as facts.os.family == \"debian\"".into()))),
            false => Ok(Expression { text: text.trim().into(), expr }),
        }
    }

    pub(super) fn evaluate(&self, machine: &dyn ConditionFacts) -> ConditionResult {
        match self.expr.eval(&FactsOnly(machine)) {
            Ok(Value::Boolean(true)) => ConditionResult::Holds,
            Ok(Value::Boolean(false)) => ConditionResult::Fails(eco_format!("`{}` does not hold", self.text)),
            Ok(other) => ConditionResult::Fails(eco_format!("`{}` is {other}, not true or false", self.text)),
            Err(EvalError::Unknown(why)) => ConditionResult::Fails(eco_format!("`{}` is not known: {why}", self.text)),
            Err(EvalError::Failed { message, .. }) => ConditionResult::Fails(eco_format!("`{}`: {message}", self.text)),
        }
    }
}

struct FactsOnly<'a>(&'a dyn ConditionFacts);

impl Scope for FactsOnly<'_> {
    fn var(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn fact(&self, name: &str) -> Lookup {
        self.0.fact(name).map_or(Lookup::Missing, Lookup::Found)
    }

    fn output(&self, _: &ResourceRef, _: &str) -> Lookup {
        Lookup::Missing
    }
}
