//! The type `notify`: says something.

use std::sync::LazyLock;

use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{Context, Level, Mode, Placement, Provider, ProviderError, Query, Reach, Wanted};

const DESC: &str = "\
Says something in the log of a run.

```yaml
resources:
  notify[greeting]:
    message: This is ${facts.networking.hostname}.
```

A message is no change: nothing on the system is different afterwards. It is logged at level *notice* whenever the \
resource is checked, in a plan too, and once more when another resource refreshes it; it never counts as changed and \
sends no refreshes. (In Puppet it is a change in every run.)";

fn schema() -> TypeSchema {
    TypeSchema::new("notify", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "What it is called.")
        .attribute(
            "message",
            "Data",
            Behaviour::Parameter,
            "What is said; by default the title. It may hold outputs of other resources: \
             `message: ${exec[token].stdout}` is said when they have run. Sensitive values are shown as `[redacted]`.",
        )
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `notify`.
pub struct NotifyProvider {
    schema: LazyLock<TypeSchema>,
}

impl NotifyProvider {
    /// The provider.
    pub fn new() -> NotifyProvider {
        NotifyProvider { schema: LazyLock::new(schema) }
    }

    fn say(&self, cx: &Context<'_>, wanted: Wanted<'_>) {
        let message = match wanted.should.and_then(|should| should.get("message")) {
            Some(message) => message.to_string(),
            None => wanted.name.to_string(),
        };
        cx.log(Level::Notice, "notify", wanted.name, &message);
    }
}

impl Default for NotifyProvider {
    fn default() -> NotifyProvider {
        NotifyProvider::new()
    }
}

impl Provider for NotifyProvider {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn type_name(&self) -> &str {
        "notify"
    }

    fn name(&self) -> &'static str {
        "log"
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => Ok(Vec::new()),
            Query::Named(wanted) => wanted.iter().map(|&wanted| self.get_one(cx, wanted)).collect(),
        }
    }

    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        // Nobody who only asks what there is wants to hear it.
        if wanted.should.is_some() {
            self.say(cx, wanted);
        }
        let name = [("name", Value::String(wanted.name.clone()))];
        Ok(State::present(wanted.name.clone(), Attributes::from_iter(name)))
    }

    fn reads_singly(&self) -> bool {
        true
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        let said = |change: &Change<'_>| match change.should {
            Some(_) => Outcome::done(),
            None => Outcome::failed("what was said cannot be taken back"),
        };
        changes.iter().map(said).collect()
    }

    fn refresh(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.say(cx, wanted);
        Outcome { refreshed: true, ..Outcome::done() }
    }

    fn reach(&self, _: &Attributes) -> Reach {
        Reach::Own
    }

    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ecow::EcoString;
    use kilter_provider::{Log, check};

    use super::*;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Log for Lines {
        fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
            self.0.lock().unwrap().push(format!("{}: {type_name}[{name}]: {message}", level.word()));
        }
    }

    #[test]
    fn a_message_is_logged_at_each_check_and_refresh_and_is_never_a_change() {
        let (provider, lines) = (NotifyProvider::new(), Lines::default());
        let cx = Context::bare().with_log(&lines);
        let should = Attributes::from_iter([("message", "hello")]);
        let (greeting, bare) = (EcoString::from("greeting"), EcoString::from("just this"));
        let none = Attributes::new();
        let wanted = [Wanted::new(&greeting, Some(&should)), Wanted::new(&bare, Some(&none))];
        let found = check(&provider, &cx, &wanted);
        assert!(found.iter().all(|found| found.as_ref().unwrap().differences.is_empty()));
        assert!(provider.refresh(&cx, wanted[0]).refreshed);
        let hello = "notice: notify[greeting]: hello";
        assert_eq!(*lines.0.lock().unwrap(), [hello, "notice: notify[just this]: just this", hello]);
    }

    #[test]
    fn what_was_said_cannot_be_taken_back() {
        let is = State::present("x", Attributes::new());
        let change = Change { name: &"x".into(), is: &is, should: None, differences: &[], refresh: false };
        assert!(!NotifyProvider::new().set(&Context::bare(), &[change], Mode::Apply)[0].is_done());
    }

    #[test]
    fn a_secret_is_not_said() {
        let (provider, lines) = (NotifyProvider::new(), Lines::default());
        let cx = Context::bare().with_log(&lines);
        let should = Attributes::from_iter([("message", Value::sensitive("hunter2".into()))]);
        provider.get_one(&cx, Wanted::new(&"x".into(), Some(&should))).unwrap();
        assert_eq!(*lines.0.lock().unwrap(), ["notice: notify[x]: [redacted]"]);
    }
}
