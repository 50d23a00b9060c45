//! Conditions in libral's notation.

use ecow::{EcoString, eco_format};
use kilter_model::Value;

use super::fact::{ConditionFacts, lookup};
use super::{ConditionResult, shown};

/// A test of a clause.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Constant(bool),
    /// `command(which)`.
    Command(EcoString),
    /// `osfamily == 'redhat'`, `osfamily != 'redhat'`.
    Compare {
        fact: EcoString,
        equal: bool,
        text: EcoString,
    },
    /// A fact alone: it exists and is neither false nor empty.
    Fact(EcoString),
    Not(Box<Test>),
    And(Vec<Test>),
    Or(Vec<Test>),
}

/// Returns the test for a command name. With the prefix `not `, the command must not exist.
pub(super) fn command(text: &str) -> Test {
    let text = text.trim();
    match text.strip_prefix("not").filter(|rest| rest.starts_with(char::is_whitespace)) {
        Some(name) => Test::Not(Box::new(Test::Command(name.trim().into()))),
        None => Test::Command(text.into()),
    }
}

impl Test {
    pub(super) fn evaluate(&self, machine: &dyn ConditionFacts) -> ConditionResult {
        match self {
            Test::Constant(true) => ConditionResult::Holds,
            Test::Constant(false) => ConditionResult::Fails("its metadata says `false`".into()),
            Test::Command(name) => match machine.has_command(name) {
                true => ConditionResult::Holds,
                false => ConditionResult::Fails(eco_format!("there is no command {name}")),
            },
            Test::Compare { fact, equal, text } => compare(machine, fact, *equal, text),
            Test::Fact(name) => match lookup(machine, name) {
                Some(value) if is_truthy(&value) => ConditionResult::Holds,
                Some(value) => ConditionResult::Fails(eco_format!("the fact {name} is {}", shown(&value))),
                None => ConditionResult::Fails(eco_format!("there is no fact {name}")),
            },
            Test::Not(inner) => match inner.evaluate(machine) {
                ConditionResult::Holds => ConditionResult::Fails(inner.presence()),
                ConditionResult::Fails(_) => ConditionResult::Holds,
            },
            Test::And(tests) => {
                let mut verdicts = tests.iter().map(|test| test.evaluate(machine));
                verdicts.find(|verdict| !verdict.holds()).unwrap_or(ConditionResult::Holds)
            }
            Test::Or(tests) => {
                let verdicts: Vec<ConditionResult> = tests.iter().map(|test| test.evaluate(machine)).collect();
                if verdicts.iter().any(ConditionResult::holds) {
                    return ConditionResult::Holds;
                }
                let reasons = verdicts.into_iter().filter_map(|verdict| match verdict {
                    ConditionResult::Holds => None,
                    ConditionResult::Fails(why) => Some(why),
                });
                ConditionResult::Fails(reasons.collect::<Vec<_>>().join("; ").into())
            }
        }
    }

    /// Returns the reason for a negated test that fails.
    fn presence(&self) -> EcoString {
        match self {
            Test::Command(name) => eco_format!("there is the command {name}"),
            Test::Fact(name) => eco_format!("there is the fact {name}"),
            Test::Compare { fact, equal: true, text } => eco_format!("the fact {fact} is {text}"),
            Test::Compare { fact, equal: false, text } => eco_format!("the fact {fact} is not {text}"),
            _ => "the excluded condition is true".into(),
        }
    }
}

fn is_truthy(value: &Value) -> bool {
    !matches!(value, Value::Boolean(false)) && value.as_str() != Some("")
}

/// Compares a fact with a text, ignoring case. Facter writes `RedHat` while libral writes `redhat` and kilter's
/// facts are in lower case.
fn compare(machine: &dyn ConditionFacts, fact: &str, equal: bool, text: &str) -> ConditionResult {
    let found = lookup(machine, fact);
    let same = found.as_ref().is_some_and(|value| shown(value).to_lowercase() == text.to_lowercase());
    match (&found, same == equal) {
        (_, true) => ConditionResult::Holds,
        (None, false) => ConditionResult::Fails(eco_format!("there is no fact {fact}")),
        (Some(value), false) if equal => {
            ConditionResult::Fails(eco_format!("the fact {fact} is {}, not {text}", shown(value)))
        }
        (Some(value), false) => ConditionResult::Fails(eco_format!("the fact {fact} is {}", shown(value))),
    }
}
