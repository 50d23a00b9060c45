//! Tests of the rules and texts, with a provider of apt keys that changes nothing.

mod blocks;
mod messages;
mod random;
mod reports;
mod rules;

use std::cell::Cell;
use std::sync::Mutex;
use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Attributes, Behaviour, Change, Outcome, State, TypeSchema};

use super::*;
use crate::{Context, Level, Log, Mode, Provider, ProviderError, Query};

/// Log that records lines and events.
#[derive(Default)]
pub(crate) struct EventLog {
    lines: Mutex<Vec<String>>,
    events: Mutex<Vec<serde_json::Value>>,
}

impl EventLog {
    pub(crate) fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    fn events(&self) -> Vec<serde_json::Value> {
        std::mem::take(&mut self.events.lock().unwrap())
    }
}

impl Log for EventLog {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        let whose = if name.is_empty() { type_name.to_owned() } else { format!("{type_name}[{name}]") };
        self.lines.lock().unwrap().push(format!("{}: {whose}: {message}", level.word()));
    }

    fn event(&self, event: &ProviderEvent<'_>) {
        self.events.lock().unwrap().push(event.to_json());
        PlainLog(self).event(event);
    }
}

/// Log that does not implement events.
struct PlainLog<'a>(&'a EventLog);

impl Log for PlainLog<'_> {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        self.0.log(level, type_name, name, message);
    }
}

struct AptKey(TypeSchema);

impl AptKey {
    fn new() -> AptKey {
        AptKey(
            TypeSchema::new("apt_key", "Keys of apt.")
                .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "")
                .attribute("id", "String", Behaviour::Namevar, "")
                .attribute("content", "Optional[String]", Behaviour::Property, "")
                .attribute("trust", "Optional[Integer]", Behaviour::Property, "")
                .attribute("password", "Optional[Sensitive[String]]", Behaviour::Property, "")
                .attribute("size", "Optional[Integer]", Behaviour::ReadOnly, "")
                .attribute("server", "Optional[String]", Behaviour::Parameter, ""),
        )
    }
}

impl Provider for AptKey {
    fn schema(&self) -> &TypeSchema {
        &self.0
    }

    fn name(&self) -> &'static str {
        "apt"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(Vec::new())
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        ChangeLog::new(self, cx, changes, mode).outcomes()
    }
}

/// Outcomes and log lines of a `set`.
struct CallReport {
    outcomes: Vec<Outcome>,
    lines: Vec<String>,
    events: Vec<serde_json::Value>,
}

impl CallReport {
    /// Returns the failure reason of each change.
    fn failures(&self) -> Vec<Option<&str>> {
        self.outcomes.iter().map(|outcome| outcome.failure.as_deref()).collect()
    }

    #[track_caller]
    fn expect(&self, lines: &[&str], failures: &[Option<&str>]) {
        assert_eq!(self.lines, lines);
        assert_eq!(self.failures(), failures);
    }
}

/// Runs `body` in a `set` of the resources `a`, `b` and `c`.
fn told(body: impl FnOnce(ChangeLog<'_>) -> Vec<Outcome>) -> CallReport {
    told_of(&["a", "b", "c"], Mode::Apply, body)
}

/// Runs `body` in a `set` of these resources. Each read of the clock advances it by 123 µs.
fn told_of(names: &[&str], mode: Mode, body: impl FnOnce(ChangeLog<'_>) -> Vec<Outcome>) -> CallReport {
    let (provider, recorder, ticks) = (AptKey::new(), EventLog::default(), Cell::new(0));
    let clock = || {
        ticks.set(ticks.get() + 123);
        Duration::from_micros(ticks.get())
    };
    let names: Vec<EcoString> = names.iter().map(|&name| name.into()).collect();
    let (state, should) = (State::default(), Attributes::new());
    let change = |name| Change::new(name, &state, Some(&should), &[]);
    let changes: Vec<Change<'_>> = names.iter().map(change).collect();
    let cx = Context::empty().with_log(&recorder);
    let outcomes = body(ChangeLog::new(&provider, &cx, &changes, mode).with_clock(&clock));
    assert_eq!(outcomes.len(), changes.len());
    CallReport { outcomes, lines: recorder.lines(), events: recorder.events() }
}
