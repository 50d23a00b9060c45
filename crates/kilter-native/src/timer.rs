//! The type `timer`: periodic events.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Difference, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    Context, Mode, Provider, ProviderError, Purpose, Query, ReadOne, Refresh, ValidationError, Wanted, Watch,
    WatchSource, get_each,
};
use rustc_hash::FxHashMap;

use crate::builtin::{known_before, present};

const DESC: &str = "\
Periodic events during `kilter run`.

```yaml
resources:
  timer[hourly]:
    interval: 3600
    notify: exec[collect]
  exec[collect]:
    command: /usr/local/bin/collect
    refreshonly: true
```

At the end of each interval the timer counts as changed and refreshes the resources that it notifies; other \
dependents do not \
run. The first interval begins at the first check of the timer. A refresh of the timer restarts the interval. With \
`plan` and `apply` a timer is always in sync.";

fn schema() -> TypeSchema {
    TypeSchema::new("timer", DESC)
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the resource.")
        .attribute(
            "interval",
            "Integer[1, 4294967295]",
            Behaviour::Parameter,
            "Time between two events, in seconds: `3600`.",
        )
        .required()
        .features(&[Feature::Refresh, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `timer`.
pub struct TimerProvider {
    /// Start of the current interval of each timer.
    begun: Mutex<FxHashMap<EcoString, Instant>>,
}

impl TimerProvider {
    /// Creates the provider.
    pub fn new() -> TimerProvider {
        TimerProvider { begun: Mutex::default() }
    }

    fn begun(&self) -> MutexGuard<'_, FxHashMap<EcoString, Instant>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, name: &EcoString) {
        self.begun().insert(name.clone(), Instant::now());
    }

    /// Starts the next interval. It begins at the end of the previous one, even if the check was late.
    fn go_on(&self, name: &EcoString, interval: Duration) {
        let mut begun = self.begun();
        let begun = begun.entry(name.clone()).or_insert_with(Instant::now);
        let over = (*begun).elapsed() + early(interval);
        let intervals = u32::try_from(over.as_millis() / interval.as_millis().max(1)).unwrap_or(u32::MAX);
        *begun = begun.checked_add(interval.saturating_mul(intervals)).unwrap_or_else(Instant::now);
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

/// Returns the tolerance for checks before the end of an interval. The runtime started its timer slightly earlier.
fn early(interval: Duration) -> Duration {
    (interval / 10).min(Duration::from_millis(500))
}

impl Provider for TimerProvider {
    crate::builtin::describe!("timer", "builtin", schema, [read_one, refresh, watch], InProcess: [predict, scheduling]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Ok(Vec::new()))
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let tick = |change: &Change<'_>| match change.should {
            Some(_) => {
                if let (Mode::Apply, Some(interval)) = (mode, interval(change.should)) {
                    self.go_on(change.name, interval);
                }
                Outcome { refreshed: change.refresh, ..Outcome::done() }
            }
            None => Outcome::failed("a timer is not an object on the system and cannot be removed"),
        };
        changes.iter().map(tick).collect()
    }

    fn validate(&self, _: &str, _: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let problem = || known_before("interval", "the timer starts with the run");
        deferred.contains(&"interval").then(problem).into_iter().collect()
    }
}

impl ReadOne for TimerProvider {
    fn get_one(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let mut state = present(wanted.name);
        if let Some(interval) = interval(wanted.should) {
            let begun = *self.begun().entry(wanted.name.clone()).or_insert_with(Instant::now);
            if begun.elapsed() + early(interval) >= interval {
                let why = eco_format!("{} s have passed", interval.as_secs());
                state.drift.push(Difference::new("interval", Value::Undef, Value::Undef).saying(why));
            }
        }
        Ok(state)
    }
}

impl Refresh for TimerProvider {
    fn refresh(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.begin(wanted.name);
        Outcome { refreshed: true, ..Outcome::done() }
    }
}

impl Watch for TimerProvider {
    fn watches(&self, _: &str, should: &Attributes) -> Vec<WatchSource> {
        interval(Some(should)).map(WatchSource::Poll).into_iter().collect()
    }

    fn purpose(&self, _: &Attributes) -> Purpose {
        Purpose::Action
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(provider: &TimerProvider, name: &EcoString, should: &Attributes) -> usize {
        let cx = Context::empty();
        provider.get_one(&cx, Wanted::new(name, Some(should))).unwrap().drift.len()
    }

    #[test]
    fn elapsed_interval_is_a_change_and_restarts() {
        let (provider, name) = (TimerProvider::new(), EcoString::from("often"));
        let should = Attributes::from_iter([("interval", 60)]);
        assert_eq!(differences(&provider, &name, &should), 0);
        let long_ago = Instant::now().checked_sub(Duration::from_secs(61)).expect("the machine runs for a minute");
        provider.begun().insert(name.clone(), long_ago);
        assert_eq!(differences(&provider, &name, &should), 1);
        let (cx, is) = (Context::empty(), State::present("often", Attributes::new()));
        let change = Change::new(&name, &is, Some(&should), &[]);
        assert!(provider.set(&cx, &[change], Mode::Apply)[0].is_done());
        assert_eq!(differences(&provider, &name, &should), 0);
        provider.begun().insert(name.clone(), long_ago);
        assert!(provider.refresh(&cx, Wanted::new(&name, Some(&should))).refreshed);
        assert_eq!(differences(&provider, &name, &should), 0);
    }

    #[test]
    fn intervals_do_not_drift_with_late_checks() {
        let (provider, name) = (TimerProvider::new(), EcoString::from("often"));
        let should = Attributes::from_iter([("interval", 60)]);
        let second = Duration::from_secs(1);
        for (elapsed, over) in [(59 * second, 0), (60 * second - second / 4, 1), (70 * second, 1), (185 * second, 3)] {
            let first = Instant::now().checked_sub(elapsed).expect("the machine runs for some minutes");
            provider.begun().insert(name.clone(), first);
            assert_eq!(differences(&provider, &name, &should), usize::from(over > 0), "{elapsed:?}");
            if over > 0 {
                let is = State::present("often", Attributes::new());
                let change = Change::new(&name, &is, Some(&should), &[]);
                provider.set(&Context::empty(), &[change], Mode::Apply);
                assert_eq!(provider.begun()[&name], first + over * 60 * second, "{elapsed:?}");
            }
        }
        let problems = provider.validate("often", &Attributes::new(), &["interval"]);
        assert!(matches!(&problems[..], [problem] if problem.hint.is_some()), "{problems:?}");
    }
}
