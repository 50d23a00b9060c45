//! The type `kv`: values under keys, in the state directory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    Context, Insync, Mode, Placement, Provider, ProviderError, Query, ReadOne, Refresh, Scheduling, ValidationError,
    Wanted, Watch, WatchSource, World, get_each,
};

use crate::state_files;
use crate::values::Values;

/// Maximum number of attempts to set a value that other machines change at the same time.
const TRIES: usize = 100;

const DESC: &str = "\
A value under a key, in the state directory or in a store that machines share.

```yaml
resources:
  kv[schema]:
    key: schema/version
    value: \"3\"
    skiplessthan: true
    notify: exec[migrate]
  exec[migrate]:
    command: /usr/local/bin/migrate
    refreshonly: true
```

With [`--world`](../world.md), all machines with the same world share the value, and `kilter run` repairs changes by \
other machines. \
Several resources may have the same `key`. Keys and values are texts. kilter does not encrypt them, so a secret is an \
error; only \
the owner of the state directory or the world can read them. `kilter get kv` lists all keys except `mapped` ones. \
A refresh sets the value regardless of `skiplessthan`.";

fn schema() -> TypeSchema {
    TypeSchema::new("kv", DESC)
        .attribute(
            "ensure",
            "Enum[present, absent]",
            Behaviour::Property,
            "State of the key: `present` with a value, `absent` without one.",
        )
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.")
        .attribute("key", "String[1]", Behaviour::Parameter, "Key: `schema/version`; by default the name.")
        .attribute("value", "String", Behaviour::Property, "Value: `\"3\"`. Without it, the key keeps its value.")
        .attribute(
            "mapped",
            "Boolean",
            Behaviour::Parameter,
            "Store one value per machine under the key, instead of one for all machines.",
        )
        .default(Value::Boolean(false))
        .attribute("skiplessthan", "Boolean", Behaviour::Parameter, "Keep a found value that is greater than `value`.")
        .default(Value::Boolean(false))
        .attribute(
            "skipcmpstyle",
            "Enum[int, str]",
            Behaviour::Parameter,
            "Comparison for `skiplessthan`: as integers (`int`), or as texts, byte by byte (`str`).",
        )
        .default("int")
        .features(&[Feature::CustomInsync, Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
        .output("value", "String", "Value of the key.")
}

/// Provides the type `kv`.
pub struct KvProvider {
    world: Arc<dyn World>,
    /// Held from the read of a value to its write.
    turn: Mutex<()>,
}

impl KvProvider {
    /// Creates the provider of values on this machine, or in the world if it is shared.
    pub fn new(world: Arc<dyn World>) -> KvProvider {
        KvProvider { world, turn: Mutex::new(()) }
    }

    fn values<'a>(&'a self, cx: &'a Context<'a>, should: &Attributes) -> Values<'a> {
        Values::of(cx, &*self.world, should.get_bool("mapped") == Some(true))
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the value of a resource. If `exactly`, also replaces a greater value.
    fn put(&self, cx: &Context<'_>, name: &str, should: Option<&Attributes>, exactly: bool) -> Result<(), EcoString> {
        let none = Attributes::new();
        let should_be = should.unwrap_or(&none);
        let (values, key) = (self.values(cx, should_be), key(name, should_be));
        if should.is_none() || should_be.text("ensure") == Some("absent") {
            return values.remove(key);
        }
        // A value from another resource has not been validated before.
        if let Some(problem) = problems(name, should_be).into_iter().next() {
            return Err(problem.to_string().into());
        }
        let _turn = self.turn();
        for _ in 0..TRIES {
            let is = values.read(key)?;
            let value = match (&is, should_be.text("value")) {
                (Some(_), None) => return Ok(()),
                (None, None) => "",
                (Some(is), Some(value)) if is == value || !exactly && is_greater(is, value, should_be)? => {
                    return Ok(());
                }
                (_, Some(value)) => value,
            };
            if values.replace(key, is.as_deref(), value)? {
                return Ok(());
            }
        }
        Err(eco_format!("others change `{key}` all the time"))
    }
}

fn key<'a>(name: &'a str, should: &'a Attributes) -> &'a str {
    should.text("key").unwrap_or(name)
}

/// Returns true if the present value is greater and must be kept.
fn is_greater(is: &str, value: &str, should: &Attributes) -> Result<bool, EcoString> {
    if should.get_bool("skiplessthan") != Some(true) {
        return Ok(false);
    }
    if should.text("skipcmpstyle") == Some("str") {
        return Ok(is > value);
    }
    let number = |text: &str| {
        text.trim().parse::<i64>().map_err(|_| {
            eco_format!(
                "`{text}` is not an integer, so the values cannot be compared; `skipcmpstyle: str` compares texts"
            )
        })
    };
    Ok(number(is)? > number(value)?)
}

fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    if should.get("value").is_some_and(Value::holds_sensitive) {
        let problem = ValidationError::with("value", "a secret is not stored in clear text");
        problems.push(problem.hint("a secret is handed on as an output, such as ${password[x].password}"));
    }
    let attribute = if should.get("key").is_some() { "key" } else { "name" };
    if should.get("key").is_some_and(Value::holds_sensitive) {
        problems.push(ValidationError::with("key", "a key cannot be a secret"));
    } else if !state_files::is_listed(key(name, should)) {
        problems.push(ValidationError::with(
            attribute,
            "a key has at most 200 bytes, fewer if it contains characters other than letters and digits",
        ));
    }
    if should.get_bool("skiplessthan") == Some(true)
        && should.text("skipcmpstyle") != Some("str")
        && should.text("value").is_some_and(|value| value.trim().parse::<i64>().is_err())
    {
        let problem = ValidationError::with("value", "with `skiplessthan` it must be an integer");
        problems.push(problem.hint("or `skipcmpstyle: str`, to compare texts"));
    }
    problems
}

impl Provider for KvProvider {
    crate::builtin::describe!("kv", "local", schema, [read_one, scheduling, refresh, watch], InProcess: [predict]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let values = self.values(cx, &Attributes::new());
        get_each(self, cx, query, || values.names().map_err(ProviderError::new))
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let put = |change: &Change<'_>| {
            if mode == Mode::Preview {
                return Outcome::done();
            }
            match self.put(cx, change.name, change.should, change.refresh) {
                Ok(()) => Outcome { refreshed: change.refresh, ..self.sent(cx, change.name, change.should) },
                Err(why) => Outcome::failed(why),
            }
        };
        changes.iter().map(put).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        problems(name, should)
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let (Some(is), Some(value)) = (is.attributes.text("value"), should.text("value")) else {
            return Insync::Default;
        };
        match is_greater(is, value, should) {
            _ if attribute != "value" => Insync::Default,
            Ok(true) => Insync::Same,
            Ok(false) => Insync::Default,
            Err(why) => Insync::Failed(why),
        }
    }
}

impl ReadOne for KvProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let none = Attributes::new();
        let should = wanted.should.unwrap_or(&none);
        let key = key(wanted.name, should);
        let kept = self.values(cx, should).read(key).map_err(ProviderError::new)?;
        let Some(value) = kept else {
            let mut state = State::absent(wanted.name.clone());
            state.attributes.push("ensure", "absent");
            return Ok(state);
        };
        let mut attributes = Attributes::with_capacity(3);
        attributes.push("ensure", "present");
        attributes.push("name", wanted.name.clone());
        attributes.push("value", value.clone());
        let outputs = Attributes::from_iter([("value", Value::String(value))]);
        Ok(State { outputs, ..State::present(wanted.name.clone(), attributes) })
    }
}

impl Scheduling for KvProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        if self.world.is_shared() { Placement::Worker } else { Placement::Inline }
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Refresh for KvProvider {
    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        match self.put(cx, wanted.name, wanted.should, true) {
            Ok(()) => Outcome { refreshed: true, ..self.sent(cx, wanted.name, wanted.should) },
            Err(why) => Outcome::failed(why),
        }
    }
}

impl Watch for KvProvider {
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        vec![self.values(&Context::empty(), should).watch(key(name, should))]
    }
}

impl KvProvider {
    /// Returns the outcome of a change, with the present value as output.
    fn sent(&self, cx: &Context<'_>, name: &EcoString, should: Option<&Attributes>) -> Outcome {
        let found = self.get_one(cx, Wanted::new(name, should));
        Outcome { outputs: found.map(|state| state.outputs).unwrap_or_default(), ..Outcome::done() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct KvFixture {
        state: tempfile::TempDir,
        provider: KvProvider,
    }

    impl KvFixture {
        fn new() -> KvFixture {
            KvFixture {
                state: tempfile::tempdir().unwrap(),
                provider: KvProvider::new(Arc::new(crate::tests::Nowhere)),
            }
        }

        /// Brings a resource in sync. Returns true if it changed, and the present value.
        fn converge(&self, name: &str, should: &[(&str, &str)]) -> (bool, Option<String>) {
            let truth = |text: &str| match text {
                "true" => Value::Boolean(true),
                text => Value::from(text),
            };
            let mut should: Attributes = should.iter().map(|(name, value)| (*name, truth(value))).collect();
            if should.get("ensure").is_none() {
                should.push("ensure", "present");
            }
            let cx = Context::empty().with_var_dir(Some(self.state.path()));
            let name = EcoString::from(name);
            let wanted = Wanted::new(&name, Some(&should));
            let found = kilter_provider::check(&self.provider, &cx, &[wanted]).remove(0).unwrap();
            let differs = !found.differences.is_empty();
            if differs {
                let (is, differences) = (&found.state, &found.differences[..]);
                let change = Change::new(&name, is, Some(&should), differences);
                assert_eq!(self.provider.set(&cx, &[change], Mode::Apply)[0].failure, None);
            }
            let state = self.provider.get_one(&cx, wanted).unwrap();
            (differs, state.attributes.text("value").map(str::to_owned))
        }
    }

    #[test]
    fn a_value_is_set_kept_and_removed() {
        let machine = KvFixture::new();
        assert_eq!(machine.converge("hello", &[("value", "world")]), (true, Some("world".into())));
        assert_eq!(machine.converge("hello", &[("value", "world")]), (false, Some("world".into())));
        assert_eq!(machine.converge("other", &[("key", "hello"), ("value", "you")]), (true, Some("you".into())));
        assert_eq!(
            machine.converge("here", &[("key", "hello"), ("mapped", "true"), ("value", "x")]).1,
            Some("x".into())
        );
        assert_eq!(machine.converge("hello", &[]), (false, Some("you".into())));
        let cx = Context::empty().with_var_dir(Some(machine.state.path()));
        let listed = machine.provider.get(&cx, Query::All).unwrap();
        assert_eq!(listed.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["hello"]);
        assert_eq!(machine.converge("hello", &[("ensure", "absent")]), (true, None));
        assert_eq!(machine.converge("hello", &[("ensure", "absent")]), (false, None));
    }

    #[test]
    fn skiplessthan_keeps_greater_value() {
        let machine = KvFixture::new();
        let stage = |value| [("key", "stage"), ("value", value), ("skiplessthan", "true")];
        for (value, expected) in [("1", (true, "1")), ("3", (true, "3")), ("2", (false, "3")), ("10", (true, "10"))] {
            assert_eq!(machine.converge("x", &stage(value)), (expected.0, Some(expected.1.into())), "{value}");
        }
        let as_text = [("key", "stage"), ("value", "9"), ("skiplessthan", "true"), ("skipcmpstyle", "str")];
        assert_eq!(machine.converge("x", &as_text), (true, Some("9".into())));
        // A refresh sets the value in any case.
        let cx = Context::empty().with_var_dir(Some(machine.state.path()));
        let should = Attributes::from_iter([
            ("key", Value::from("stage")),
            ("value", "2".into()),
            ("skiplessthan", Value::Boolean(true)),
        ]);
        let outcome = machine.provider.refresh(&cx, Wanted::new(&"x".into(), Some(&should)));
        assert_eq!((outcome.refreshed, outcome.outputs.text("value")), (true, Some("2")));
    }

    #[test]
    fn invalid_value_is_refused_in_validation() {
        let provider = KvProvider::new(Arc::new(crate::tests::Nowhere));
        let said = |name: &str, should: &[(&str, Value)]| {
            let should: Attributes = should.iter().cloned().collect();
            provider.validate(name, &should, &[]).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert!(said("x", &[("value", Value::sensitive("s".into()))]).contains("a secret is not stored in clear text"));
        assert!(said(&"x".repeat(201), &[]).contains("at most 200 bytes"));
        let wrong = [("value", Value::from("three")), ("skiplessthan", Value::Boolean(true))];
        assert!(said("x", &wrong).contains("an integer"));
        assert_eq!(said("x", &[("value", "three".into())]), "");
    }
}
