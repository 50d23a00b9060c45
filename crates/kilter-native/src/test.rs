//! The type `test`: an attribute of every kind, without any effect.

use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    Context, Mode, Placement, Provider, ProviderError, Query, ReadOne, Refresh, Scheduling, ValidationError, Wanted,
    get_each,
};

use crate::builtin::{present, stateless};

const DESC: &str = "\
A resource without an effect that has attributes of every type, to test a front-end, an editor or the engine.

```yaml
resources:
  test[sender]:
    send_value: hello
  test[receiver]:
    str: \"${test[sender].hello}\"
    int: \"${test[sender].answer}\"
```

It is always in sync and makes no changes. `validate_bool`, `validate_error` and `waitforerror` make it fail.";

/// Attributes that only accept a value, with their data types.
const TAKEN: [(&str, &str); 31] = [
    ("bool", "Boolean"),
    ("str", "String"),
    ("int", "Integer"),
    ("int8", "Integer[-128, 127]"),
    ("int16", "Integer[-32768, 32767]"),
    ("int32", "Integer[-2147483648, 2147483647]"),
    ("int64", "Integer"),
    ("uint", "Integer[0]"),
    ("uint8", "Integer[0, 255]"),
    ("uint16", "Integer[0, 65535]"),
    ("uint32", "Integer[0, 4294967295]"),
    ("uint64", "Integer[0]"),
    ("byte", "Integer[0, 255]"),
    ("rune", "Integer[-2147483648, 2147483647]"),
    ("float32", "Numeric"),
    ("float64", "Numeric"),
    ("bool_ptr", "Boolean"),
    ("string_ptr", "String"),
    ("int64ptr", "Integer"),
    ("int8ptr", "Integer[-128, 127]"),
    ("uint8ptr", "Integer[0, 255]"),
    ("int8ptrptrptr", "Integer[-128, 127]"),
    ("slicestring", "Array[String]"),
    ("mapintfloat", "Hash[Variant[String, Integer], Numeric]"),
    (
        "mixedstruct",
        "Struct[{ Optional[somebool] => Boolean, Optional[somestr] => String, Optional[someint] => Integer, \
         Optional[somefloat] => Numeric }]",
    ),
    ("interface", "Data"),
    ("anotherstr", "String"),
    ("always_group", "Boolean"),
    ("compare_fail", "Boolean"),
    ("only_show", "Array[String]"),
    ("comment", "String"),
];

fn schema() -> TypeSchema {
    let schema =
        TypeSchema::new("test", DESC).attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.");
    let taken = |schema: TypeSchema, (name, data_type): &(&str, &str)| {
        schema.attribute(name, data_type, Behaviour::Parameter, "Accepted without an effect.")
    };
    TAKEN
        .iter()
        .fold(schema, taken)
        .attribute("validate_bool", "Boolean", Behaviour::Parameter, "Fail the validation.")
        .default(Value::Boolean(false))
        .attribute("validate_error", "String", Behaviour::Parameter, "Fail the validation with this message.")
        .attribute(
            "expect_recv",
            "Array[String]",
            Behaviour::Parameter,
            "Attributes that must have received outputs of other resources; a check fails if one has not.",
        )
        .attribute("send_value", "String", Behaviour::Parameter, "Value of the output `hello`.")
        .attribute(
            "waitforerror",
            "Integer[0]",
            Behaviour::Parameter,
            "Time after which a check fails, in milliseconds; 0: no failure.",
        )
        .default(Value::Integer(0))
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
        .output("hello", "String", "Value of `send_value`.")
        .output("answer", "Integer", "Always 42.")
        .output("changed", "Array[String]", "Attributes that received a different value than before.")
}

/// Provides the type `test`.
pub struct TestProvider;

fn wait(should: &Attributes) -> Option<Duration> {
    let milliseconds = should.get("waitforerror")?.as_integer()?.unsigned_abs();
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

impl Provider for TestProvider {
    crate::builtin::describe!("test", "builtin", schema, [read_one, scheduling, refresh], InProcess: [predict, watch]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Ok(Vec::new()))
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        stateless(changes)
    }

    fn validate(&self, _: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let mut problems = Vec::new();
        if should.get_bool("validate_bool") == Some(true) {
            problems.push(ValidationError::with("validate_bool", "it is to be found wrong"));
        }
        if let Some(what) = should.get("validate_error").filter(|what| what.as_str() != Some("")) {
            problems.push(ValidationError::with("validate_error", EcoString::from(what.to_string())));
        }
        problems
    }
}

impl ReadOne for TestProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let mut state = present(wanted.name);
        let Some(should) = wanted.should else { return Ok(state) };
        if let Some(wait) = wait(should) {
            let begun = Instant::now();
            while begun.elapsed() < wait && !cx.interrupt().is_raised() {
                std::thread::sleep((wait - begun.elapsed().min(wait)).min(Duration::from_millis(20)));
            }
            return Err(ProviderError::new(format!("it fails after {} ms, as it should", wait.as_millis())));
        }
        let is_received = |name: &&str| wanted.received.iter().any(|receipt| receipt.attribute == **name);
        let expected = should.get("expect_recv").map(Value::as_list).unwrap_or_default();
        if let Some(missing) = expected.iter().filter_map(Value::as_str).find(|name| !is_received(name)) {
            return Err(ProviderError::new(format!("nothing was sent for `{missing}`, which `expect_recv` names")));
        }
        let changed = wanted.received.iter().filter(|receipt| receipt.changed);
        let changed = Value::strings(changed.map(|receipt| receipt.attribute.as_str()));
        state.outputs.push("hello", should.get("send_value").cloned().unwrap_or_else(|| "".into()));
        state.outputs.push("answer", 42);
        state.outputs.push("changed", changed);
        Ok(state)
    }
}

impl Scheduling for TestProvider {
    fn placement(&self, should: &Attributes) -> Placement {
        if wait(should).is_some() { Placement::Worker } else { Placement::Inline }
    }
}

impl Refresh for TestProvider {
    /// Does nothing: the resource has nothing to refresh.
    fn refresh(&self, _: &Context<'_>, _: Wanted<'_>) -> Outcome {
        Outcome { refreshed: true, ..Outcome::default() }
    }
}

#[cfg(test)]
mod tests {
    use kilter_model::ReceivedValue;

    use super::*;

    #[test]
    fn expect_recv_requires_received_outputs() {
        let name = "x".into();
        let mut should = Attributes::new();
        should.push("expect_recv", Value::strings(["str"]));
        let receipt = |changed| [ReceivedValue { attribute: "str".into(), from: Box::default(), changed }];
        let look = |received: &[ReceivedValue]| {
            let wanted = Wanted::new(&name, Some(&should)).receiving(received);
            TestProvider.get_one(&Context::empty(), wanted).map(|state| state.outputs.get("changed").cloned())
        };
        assert!(look(&[]).unwrap_err().message.contains("nothing was sent for `str`"));
        assert_eq!(look(&receipt(true)).unwrap(), Some(Value::strings(["str"])));
        assert_eq!(look(&receipt(false)).unwrap(), Some(Value::strings([""; 0])));
    }

    #[test]
    fn sensitive_input_gives_sensitive_output() {
        let should = Attributes::from_iter([("send_value", Value::sensitive("hunter2".into()))]);
        let state = TestProvider.get_one(&Context::empty(), Wanted::new(&"x".into(), Some(&should))).unwrap();
        assert_eq!(state.outputs.get("hello"), should.get("send_value"));
        assert!(state.outputs.get("hello").is_some_and(Value::holds_sensitive));
        let wrong = Attributes::from_iter([("validate_error", Value::sensitive("hunter2".into()))]);
        assert!(!TestProvider.validate("x", &wrong, &[])[0].message.contains("hunter2"));
    }
}
