//! When a provider can be used, and when it is preferred: expressions over facts and commands.
//!
//! A clause is written in the form of libral's text (`command(which)`, `osfamily == 'redhat'`,
//! `a = 'x' and b = 'y'`) or in kilter's own expression language, whose facts begin with `facts.`
//! (`facts.os.family == "debian"`).

mod expression;
mod fact;
mod parse;
mod test;

#[cfg(test)]
mod tests;

use ecow::{EcoString, eco_format};
use kilter_model::Value;

pub use fact::Machine;

use expression::Expression;
use test::Test;

/// A condition: a truth, or clauses.
#[derive(Clone, Debug)]
pub enum Condition {
    /// It is settled.
    Constant(bool),
    /// All of these (`suitable`).
    Every(Vec<Clause>),
    /// One of these (`default`).
    Any(Vec<Clause>),
}

/// One clause of a condition.
#[derive(Clone, Debug)]
pub struct Clause(Form);

#[derive(Clone, Debug)]
enum Form {
    Text(Test),
    Expression(Expression),
}

/// What a condition comes to, with the reason where it does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not: `there is no command dnf`.
    Fails(EcoString),
}

impl Verdict {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        *self == Verdict::Holds
    }
}

impl Clause {
    /// Reads a clause.
    ///
    /// # Errors
    /// What is wrong with it, and how to mend it.
    pub fn parse(text: &str) -> Result<Clause, (EcoString, Option<EcoString>)> {
        // What names `facts.` is meant as kilter's form.
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

    /// The clause of `commands: [NAME, not OTHER]`.
    pub(crate) fn command(text: &str) -> Clause {
        Clause(Form::Text(test::command(text)))
    }

    /// What it comes to on a machine.
    pub fn evaluate(&self, machine: &dyn Machine) -> Verdict {
        match &self.0 {
            Form::Text(test) => test.evaluate(machine),
            Form::Expression(expression) => expression.evaluate(machine),
        }
    }
}

impl Condition {
    /// What it comes to on a machine.
    pub fn evaluate(&self, machine: &dyn Machine) -> Verdict {
        match self {
            Condition::Constant(true) => Verdict::Holds,
            Condition::Constant(false) => Verdict::Fails("its metadata says `false`".into()),
            Condition::Every(clauses) => {
                let mut verdicts = clauses.iter().map(|clause| clause.evaluate(machine));
                verdicts.find(|verdict| !verdict.holds()).unwrap_or(Verdict::Holds)
            }
            Condition::Any(clauses) => {
                let mut reasons: Vec<EcoString> = Vec::new();
                for clause in clauses {
                    match clause.evaluate(machine) {
                        Verdict::Holds => return Verdict::Holds,
                        Verdict::Fails(why) => reasons.push(why),
                    }
                }
                Verdict::Fails(reasons.join("; ").into())
            }
        }
    }
}

/// A value as a reason shows it.
fn shown(value: &Value) -> EcoString {
    value.to_text().filter(|_| !value.holds_sensitive()).unwrap_or_else(|| eco_format!("{value}"))
}
