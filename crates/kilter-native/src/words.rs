//! Texts: what programs say, cut down for a report, lists of them, and states that are no more than a name.

use ecow::EcoString;
use kilter_model::{Attributes, State, Value};
use kilter_process::Cancel;
use kilter_provider::{Context, Problem};

/// The problem of an attribute that is needed when a run begins and would be sent later; `why` says what for.
pub(crate) fn known_before(attribute: &str, why: &str) -> Problem {
    let problem = Problem::with(attribute, format!("{why}: it must be known before the run"));
    problem.hint("give it without outputs of other resources: by a variable or a fact")
}

/// What ends a command in flight.
pub(crate) fn cancel<'a>(cx: &Context<'a>) -> Cancel<'a> {
    let interrupt = cx.interrupt();
    Cancel { flag: interrupt.flag(), fd: interrupt.fd(), urgent: interrupt.urgent() }
}

/// How many lines of an output a report shows.
const LINES: usize = 10;

/// The last lines of an output; none when it says nothing.
pub(crate) fn ending_of(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    (!last.is_empty()).then(|| last.join("\n"))
}

/// The texts of a list, or of a single value.
pub(crate) fn texts(list: Option<&Value>) -> Vec<EcoString> {
    let list = list.map(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(EcoString::from).collect()
}

/// A value in the place of another: sealed if that one was, or held something that was.
pub(crate) fn sealed_like(old: &Value, new: impl Into<Value>) -> Value {
    if old.holds_sensitive() { Value::sensitive(new.into()) } else { new.into() }
}

/// The text of a scalar for a program that is to be given it; sealed ones in clear.
pub(crate) fn word(value: &Value) -> String {
    value.to_text().unwrap_or_default().into()
}

/// The state of what is there as soon as it is asked for, and has nothing but its name.
pub(crate) fn present(name: &EcoString) -> State {
    State::present(name.clone(), Attributes::from_iter([("name", Value::String(name.clone()))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_an_output_is_its_last_lines_that_say_something() {
        assert_eq!(ending_of(" \n\n"), None);
        let long: String = (0..20).map(|n| format!("{n}\n\n")).collect();
        assert_eq!(ending_of(&long).unwrap(), "10\n11\n12\n13\n14\n15\n16\n17\n18\n19");
    }
}
