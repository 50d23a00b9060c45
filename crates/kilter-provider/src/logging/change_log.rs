//! Log of a `set`: messages about its resources and their outcomes.

use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_model::{Change, Outcome, TypeSchema};
use rustc_hash::FxHashMap;

use super::blocks::Open;
use super::event::{Block, EventKind, ProviderEvent};
use super::failure::Failure;
use super::status::{FinalStatus, Misuse, Phase, Rule};
use super::titles::Titles;
use crate::context::{Context, Level};
use crate::contract::{Mode, Provider};

/// Log of a `set`. Receives the messages of a provider about the changed resources, and returns the outcome of
/// each (Puppet Resource API, "Logging and reporting").
///
/// ```
/// # use kilter_model::{Change, Outcome};
/// # use kilter_provider::{ChangeLog, Context, Failure, Mode, Provider};
/// # fn make(_: &str) -> std::io::Result<()> { Ok(()) }
/// fn set(provider: &dyn Provider, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
///     let mut log = ChangeLog::new(provider, cx, changes, mode);
///     for change in changes {
///         log.updating(change, None, |log| {
///             make(change.name)?;
///             log.info("it is made");
///             Ok(())
///         });
///     }
///     log.outcomes()
/// }
/// ```
///
/// Rules:
///
/// - Only resources among the changes may be named.
/// - An `attribute_changed` must come before the final status.
/// - A block must come before all other messages about its resources.
/// - No message may follow the final status.
///
/// A violation is an *error of the provider*: the log reports it and drops the message. The surrounding block
/// fails, and so does every resource without a final status at the end.
pub struct ChangeLog<'a> {
    pub(super) provider: &'a dyn Provider,
    pub(super) cx: Context<'a>,
    pub(super) mode: Mode,
    pub(super) entries: Vec<ResourceEntry<'a>>,
    by_name: FxHashMap<&'a str, usize>,
    pub(super) blocks: Vec<Open>,
    pub(super) misuses: Vec<Misuse>,
    /// The fatal failure, after which no block starts.
    pub(super) fatal: Option<EcoString>,
    /// Failures of blocks without resources.
    pub(super) strays: Vec<EcoString>,
    start: Instant,
    clock: Option<&'a dyn Fn() -> Duration>,
}

/// State of a resource.
pub(super) struct ResourceEntry<'a> {
    pub(super) name: &'a EcoString,
    pub(super) phase: Phase,
    pub(super) outcome: Outcome,
}

impl<'a> ChangeLog<'a> {
    /// Creates a log for these changes.
    pub fn new(provider: &'a dyn Provider, cx: &Context<'a>, changes: &'a [Change<'a>], mode: Mode) -> ChangeLog<'a> {
        let entry = |change: &'a Change<'a>| ResourceEntry {
            name: change.name,
            phase: Phase::Untouched,
            outcome: Outcome::default(),
        };
        ChangeLog {
            provider,
            cx: *cx,
            mode,
            entries: changes.iter().map(entry).collect(),
            by_name: changes.iter().enumerate().map(|(at, change)| (change.name.as_str(), at)).collect(),
            blocks: Vec::new(),
            misuses: Vec::new(),
            fatal: None,
            strays: Vec::new(),
            start: Instant::now(),
            clock: None,
        }
    }

    /// Returns the log with another time source.
    #[must_use]
    pub fn with_clock(self, clock: &'a dyn Fn() -> Duration) -> ChangeLog<'a> {
        ChangeLog { clock: Some(clock), ..self }
    }

    /// Returns the context of the provider call.
    pub fn context(&self) -> &Context<'a> {
        &self.cx
    }

    /// Returns the schema of the type.
    pub fn schema(&self) -> &'a TypeSchema {
        self.provider.schema()
    }

    /// Returns the mode of the `set`: apply or preview.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns true after a fatal failure. The provider should then start no other work; the log starts no
    /// blocks.
    pub fn is_stopping(&self) -> bool {
        self.fatal.is_some()
    }

    /// Returns the errors of the provider so far.
    pub fn misuses(&self) -> &[Misuse] {
        &self.misuses
    }

    /// Runs `body` and returns the outcomes. A failure of `body` applies to every resource without a final
    /// status.
    pub fn run(mut self, body: impl FnOnce(&mut ChangeLog<'a>) -> Result<(), Failure>) -> Vec<Outcome> {
        match body(&mut self) {
            Ok(()) => self.outcomes(),
            Err(failure) => self.abort(failure),
        }
    }

    /// Ends the `set`. Returns the outcome of each change, in order. Resources that did not fail have
    /// succeeded, unless the provider made an error or a fatal failure happened.
    pub fn outcomes(mut self) -> Vec<Outcome> {
        while let Some(open) = self.blocks.pop() {
            let titles = open.names(&self.entries);
            for title in &titles {
                self.misuse(open.block.action.word(), Some(title.clone()), Rule::LeftOpen);
            }
        }
        self.answer(None)
    }

    /// Aborts the `set`: resources without a final status fail.
    pub fn abort(mut self, failure: impl Into<Failure>) -> Vec<Outcome> {
        let failure = failure.into();
        while !self.blocks.is_empty() {
            self.close(Err(failure.clone()));
        }
        if failure.is_fatal() {
            self.fatal.get_or_insert_with(|| failure.why().clone());
        }
        let what = EventKind::Aborted { why: failure.why(), fatal: failure.is_fatal() };
        self.emit(Level::Err, &[], None, what);
        self.answer(Some(failure.why().clone()))
    }

    /// Returns the outcomes. A resource without a final status fails with the first error.
    fn answer(self, aborted: Option<EcoString>) -> Vec<Outcome> {
        let ended = || self.fatal.as_ref().map(|why| eco_format!("not changed because of a fatal error: {why}"));
        let misused = || self.misuses.first().map(|misuse| eco_format!("{misuse}"));
        let why = aborted.or_else(ended).or_else(misused).or_else(|| self.strays.first().cloned());
        let mut outcomes = Vec::with_capacity(self.entries.len());
        for ResourceEntry { phase, mut outcome, .. } in self.entries {
            if !phase.is_final() {
                outcome.failure = why.clone();
            }
            outcomes.push(outcome);
        }
        if self.fatal.is_some()
            && !outcomes.iter().any(|outcome| outcome.fatal)
            && let Some(last) = outcomes.last_mut()
        {
            last.fatal = true;
        }
        outcomes
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.map_or_else(|| self.start.elapsed(), |clock| clock())
    }

    /// Returns the indexes of the named resources. Records invalid names as provider errors.
    pub(super) fn resolve(&mut self, method: &'static str, titles: &(impl Titles + ?Sized)) -> Vec<usize> {
        if titles.is_here() {
            match self.blocks.last() {
                Some(open) => return open.at.clone(),
                None => self.misuse(method, None, Rule::NoBlock),
            }
            return Vec::new();
        }
        let mut at = Vec::new();
        titles.each(&mut |title| match self.by_name.get(title) {
            Some(&found) => at.push(found),
            None => self.misuse(method, Some(title.into()), Rule::Outside),
        });
        at
    }

    /// Advances the phase of resources according to a rule. Returns the allowed ones.
    pub(super) fn advance(
        &mut self,
        method: &'static str,
        at: Vec<usize>,
        step: impl Fn(Phase) -> Result<Phase, Rule>,
    ) -> Vec<usize> {
        let mut moved = Vec::with_capacity(at.len());
        for at in at {
            match step(self.entries[at].phase) {
                Ok(phase) => {
                    self.entries[at].phase = phase;
                    moved.push(at);
                }
                Err(rule) => self.misuse(method, Some(self.entries[at].name.clone()), rule),
            }
        }
        moved
    }

    pub(super) fn manages(&self, title: &str) -> bool {
        self.by_name.contains_key(title)
    }

    pub(super) fn names(&self, at: &[usize]) -> Vec<EcoString> {
        at.iter().map(|&at| self.entries[at].name.clone()).collect()
    }

    /// Records and reports an error of the provider.
    pub(super) fn misuse(&mut self, method: &'static str, title: Option<EcoString>, rule: Rule) {
        let provider = self.provider.name().into();
        let type_name = self.provider.schema().name.text().clone();
        let misuse = Misuse { provider, type_name, method, title: title.clone(), rule };
        let shown: Vec<EcoString> =
            title.filter(|title| self.by_name.contains_key(title.as_str())).into_iter().collect();
        self.emit(Level::Err, &shown, None, EventKind::Misuse(&misuse));
        if let Rule::Final(_) = rule
            && let Some(at) = shown.first().and_then(|title| self.by_name.get(title.as_str()))
        {
            self.entries[*at].outcome.notes.push(eco_format!("{misuse}"));
        }
        if let Some(open) = self.blocks.last_mut() {
            open.misused.get_or_insert(self.misuses.len());
        }
        self.misuses.push(misuse);
    }

    pub(super) fn emit(&self, level: Level, titles: &[EcoString], block: Option<&Block>, what: EventKind<'_>) {
        let type_name = self.provider.schema().name.as_str();
        let provider = self.provider.name();
        self.cx.event(&ProviderEvent { level, type_name, provider, titles, mode: self.mode, block, what });
    }

    /// Marks resources as failed. An earlier failure reason has priority.
    pub(super) fn fail(&mut self, at: &[usize], why: &EcoString, fatal: bool) {
        for &at in at {
            let ResourceEntry { phase, outcome, .. } = &mut self.entries[at];
            *phase = Phase::Final(FinalStatus::Failed);
            outcome.failure.get_or_insert_with(|| why.clone());
            outcome.fatal |= fatal;
        }
    }
}
