//! The type `timer`: an event every so often.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Difference, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{Context, Mode, Placement, Provider, ProviderError, Query, Reach, Wanted, Watch};
use rustc_hash::FxHashMap;

const DESC: &str = "\
An event every so many seconds, for as long as a state is held (`kilter run`).

```yaml
resources:
  timer[hourly]:
    interval: 3600
    notify: exec[collect]
  exec[collect]:
    command: /usr/local/bin/collect
    refreshonly: true
```

Each time the interval is over the timer counts as changed, and refreshes whom it notifies; who only comes after it is not \
concerned. The first interval begins when the timer is first looked at, and anew when something refreshes the timer. With \
`plan` and `apply` it is in its state.";

fn schema() -> TypeSchema {
    TypeSchema::new("timer", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "What it is called.")
        .attribute("interval", "Integer[1, 4294967295]", Behaviour::Parameter, "Seconds between two events: `3600`.")
        .required()
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `timer`.
pub struct TimerProvider {
    schema: LazyLock<TypeSchema>,
    /// When the interval of each began.
    begun: Mutex<FxHashMap<EcoString, Instant>>,
}

impl TimerProvider {
    /// The provider.
    pub fn new() -> TimerProvider {
        TimerProvider { schema: LazyLock::new(schema), begun: Mutex::default() }
    }

    fn begun(&self) -> MutexGuard<'_, FxHashMap<EcoString, Instant>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, name: &EcoString) {
        self.begun().insert(name.clone(), Instant::now());
    }
}

impl Default for TimerProvider {
    fn default() -> TimerProvider {
        TimerProvider::new()
    }
}

fn interval(should: Option<&Attributes>) -> Option<Duration> {
    let seconds = should?.get("interval")?.as_integer()?;
    Some(Duration::from_secs(seconds.max(1).unsigned_abs()))
}

impl Provider for TimerProvider {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn type_name(&self) -> &str {
        "timer"
    }

    fn name(&self) -> &'static str {
        "builtin"
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        match query {
            Query::All => Ok(Vec::new()),
            Query::Named(wanted) => wanted.iter().map(|&wanted| self.get_one(cx, wanted)).collect(),
        }
    }

    fn get_one(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let name = [("name", Value::String(wanted.name.clone()))];
        let mut state = State::present(wanted.name.clone(), Attributes::from_iter(name));
        if let Some(interval) = interval(wanted.should) {
            let begun = *self.begun().entry(wanted.name.clone()).or_insert_with(Instant::now);
            if begun.elapsed() >= interval {
                let why = eco_format!("{} s are over", interval.as_secs());
                state.drift.push(Difference::new("interval", Value::Undef, Value::Undef).saying(why));
            }
        }
        Ok(state)
    }

    fn reads_singly(&self) -> bool {
        true
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let tick = |change: &Change<'_>| match change.should {
            Some(_) => {
                if mode == Mode::Apply {
                    self.begin(change.name);
                }
                Outcome { refreshed: change.refresh, ..Outcome::done() }
            }
            None => Outcome::failed("a timer is not on the system, and cannot be removed"),
        };
        changes.iter().map(tick).collect()
    }

    fn refresh(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.begin(wanted.name);
        Outcome { refreshed: true, ..Outcome::done() }
    }

    fn reach(&self, _: &Attributes) -> Reach {
        Reach::Own
    }

    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }

    fn watches(&self, _: &str, should: &Attributes) -> Vec<Watch> {
        interval(Some(should)).map(Watch::Every).into_iter().collect()
    }

    fn acts_anew(&self, _: &Attributes) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(provider: &TimerProvider, name: &EcoString, should: &Attributes) -> usize {
        let cx = Context::bare();
        provider.get_one(&cx, Wanted::new(name, Some(should))).unwrap().drift.len()
    }

    #[test]
    fn an_interval_that_is_over_is_a_change_and_begins_anew() {
        let (provider, name) = (TimerProvider::new(), EcoString::from("often"));
        let should = Attributes::from_iter([("interval", 60)]);
        assert_eq!(differences(&provider, &name, &should), 0);
        let long_ago = Instant::now().checked_sub(Duration::from_secs(61)).expect("the machine runs for a minute");
        provider.begun().insert(name.clone(), long_ago);
        assert_eq!(differences(&provider, &name, &should), 1);
        let (cx, is) = (Context::bare(), State::present("often", Attributes::new()));
        let change = Change { name: &name, is: &is, should: Some(&should), differences: &[], refresh: false };
        assert!(provider.set(&cx, &[change], Mode::Apply)[0].is_done());
        assert_eq!(differences(&provider, &name, &should), 0);
        provider.begun().insert(name.clone(), long_ago);
        assert!(provider.refresh(&cx, Wanted::new(&name, Some(&should))).refreshed);
        assert_eq!(differences(&provider, &name, &should), 0);
    }
}
