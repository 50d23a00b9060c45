//! Helpers for texts: output of programs, lists of texts, and states that consist of a name.

use ecow::EcoString;
use kilter_model::{Attributes, State, Value};
use kilter_process::Cancel;
use kilter_provider::{Context, ValidationError};

/// Creates the problem of an attribute that must be known before the run but depends on an output. `why` gives the
/// purpose.
pub(crate) fn known_before(attribute: &str, why: &str) -> ValidationError {
    let problem = ValidationError::with(attribute, format!("{why}: it must be known before the run"));
    problem.hint("give it without outputs of other resources: by a variable or a fact")
}

/// Returns the means to cancel a command in flight.
pub(crate) fn cancel<'a>(cx: &Context<'a>) -> Cancel<'a> {
    let interrupt = cx.interrupt();
    Cancel { flag: interrupt.flag(), fd: interrupt.fd(), urgent: interrupt.urgent() }
}

/// Maximum number of output lines in a report.
const LINES: usize = 10;

/// Returns the last lines of an output; none if it is blank.
pub(crate) fn ending_of(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    (!last.is_empty()).then(|| last.join("\n"))
}

/// Returns the texts of a list, or of a single value.
pub(crate) fn texts(list: Option<&Value>) -> Vec<EcoString> {
    let list = list.map(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(EcoString::from).collect()
}

/// Returns a new value, sensitive if the old value is or contains a sensitive value.
pub(crate) fn sealed_like(old: &Value, new: impl Into<Value>) -> Value {
    if old.holds_sensitive() { Value::sensitive(new.into()) } else { new.into() }
}

/// Returns a scalar as text for a program, sensitive values in clear text.
pub(crate) fn word(value: &Value) -> String {
    value.to_text().unwrap_or_default().into()
}

/// Returns the state of a resource that always exists and has only a name.
pub(crate) fn present(name: &EcoString) -> State {
    State::present(name.clone(), Attributes::from_iter([("name", Value::String(name.clone()))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_ending_has_last_nonempty_lines() {
        assert_eq!(ending_of(" \n\n"), None);
        let long: String = (0..20).map(|n| format!("{n}\n\n")).collect();
        assert_eq!(ending_of(&long).unwrap(), "10\n11\n12\n13\n14\n15\n16\n17\n18\n19");
    }
}
