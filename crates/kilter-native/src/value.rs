//! The type `value`: a value of any kind, for other resources.

use ecow::{EcoString, eco_format};
use kilter_model::{
    Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value, from_canonical_json, to_canonical_json,
};
use kilter_provider::{
    Context, Mode, Placement, Provider, ProviderError, Query, ReadOne, Scheduling, ValidationError, Wanted, Watch,
    WatchSource, get_each,
};

use crate::builtin::present;
use crate::state_files::{self, StateFiles};

const KIND: &str = "value";

const DESC: &str = "\
Values of any type, stored in the state directory for other resources.

```yaml
resources:
  value[ports]:
    any: { http: 8080, https: 8443 }
  file[/etc/app.ports]:
    content: \"${value[ports].any.http} ${value[ports].any.https}\\n\"
```

The output is the declared value, which may contain outputs of other resources. Without a declared value, it is the \
stored one. kilter does not encrypt \
the value, so a secret is an error. Only the owner of the state directory can read it.";

fn schema() -> TypeSchema {
    TypeSchema::new("value", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.")
        .attribute("any", "Data", Behaviour::Property, "Value: a text, a number, a list or a mapping.")
        .features(&[Feature::SimpleGetFilter, Feature::SupportsNoop])
        .output("any", "Any", "Value.")
}

/// Provides the type `value`.
pub struct ValueProvider;

impl ValueProvider {
    fn put(cx: &Context<'_>, name: &str, should: Option<&Attributes>) -> Result<Attributes, EcoString> {
        let files = StateFiles::of(cx, KIND);
        let Some(should) = should else { return files.remove(name).map(|()| Attributes::new()) };
        let Some(any) = should.get("any") else { return Ok(Attributes::new()) };
        // A value from another resource has not been validated before.
        if let Some(problem) = problem(should) {
            return Err(problem.to_string().into());
        }
        files.write(name, format!("{}\n", to_canonical_json(any)).as_bytes())?;
        Ok(Attributes::from_iter([("any", any.clone())]))
    }
}

fn problem(should: &Attributes) -> Option<ValidationError> {
    let is_secret = should.get("any").is_some_and(Value::holds_sensitive);
    let problem = || {
        ValidationError::with("any", "a secret is not stored in clear text")
            .hint("refer to the resource or file that has the secret")
    };
    is_secret.then(problem)
}

impl Provider for ValueProvider {
    crate::builtin::describe!("value", "local", schema, [read_one, scheduling, watch], InProcess: [predict]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || StateFiles::of(cx, KIND).names().map_err(ProviderError::new))
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let put = |change: &Change<'_>| match mode {
            Mode::Preview => Outcome::done(),
            Mode::Apply => match Self::put(cx, change.name, change.should) {
                Ok(outputs) => Outcome { outputs, ..Outcome::done() },
                Err(why) => Outcome::failed(why),
            },
        };
        changes.iter().map(put).collect()
    }

    fn validate(&self, _: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        problem(should).into_iter().collect()
    }
}

impl ReadOne for ValueProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let kept = StateFiles::of(cx, KIND).read(wanted.name).map_err(ProviderError::new)?;
        let mut state = present(wanted.name);
        let Some(bytes) = kept else {
            // A query without a declaration reports a missing value as absent.
            return Ok(if wanted.should.is_some() { state } else { State::absent(wanted.name.clone()) });
        };
        let value = serde_json::from_slice(&bytes).ok().and_then(|json| from_canonical_json(&json).ok());
        let value = match (value, wanted.should.and_then(|should| should.get("any"))) {
            (Some(value), _) => value,
            // A damaged value is written again.
            (None, Some(_)) => return Ok(state),
            (None, None) => return Err(ProviderError::new(eco_format!("the stored value is damaged"))),
        };
        state.attributes.push("any", value.clone());
        state.outputs.push("any", value);
        Ok(state)
    }
}

impl Scheduling for ValueProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Watch for ValueProvider {
    fn watches(&self, name: &str, _: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::StateFile(state_files::path_of(KIND, name))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_any_type_is_stored_and_output() {
        let state = tempfile::tempdir().unwrap();
        let cx = Context::empty().with_var_dir(Some(state.path()));
        let (provider, name) = (ValueProvider, EcoString::from("x"));
        let list = Value::array([Value::Integer(1), "two".into(), Value::Float(3.5), Value::Boolean(true)]);
        for value in [list, Value::hash([("a", Value::Integer(1))]), "text".into(), Value::Integer(7)] {
            let should = Attributes::from_iter([("any", value.clone())]);
            let wanted = Wanted::new(&name, Some(&should));
            let found = kilter_provider::check(&provider, &cx, &[wanted]).remove(0).unwrap();
            assert_eq!(found.differences.len(), 1);
            let (is, differences) = (&found.state, &found.differences[..]);
            let change = Change::new(&name, is, Some(&should), differences);
            let outcome = provider.set(&cx, &[change], Mode::Apply).remove(0);
            assert_eq!((outcome.failure, outcome.outputs.get("any")), (None, Some(&value)));
            let nothing = Attributes::new();
            let kept = provider.get_one(&cx, Wanted::new(&name, Some(&nothing))).unwrap();
            assert_eq!(kept.outputs.get("any"), Some(&value));
            let found = kilter_provider::check(&provider, &cx, &[wanted]).remove(0).unwrap();
            assert_eq!(found.differences, []);
        }
    }

    #[test]
    fn a_secret_is_refused() {
        let should = Attributes::from_iter([("any", Value::array([Value::sensitive("s".into())]))]);
        assert_eq!(ValueProvider.validate("x", &should, &[]).len(), 1);
        assert!(ValueProvider::put(&Context::empty(), "x", Some(&should)).unwrap_err().contains("secret"));
    }
}
