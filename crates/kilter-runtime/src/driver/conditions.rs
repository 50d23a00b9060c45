//! Conditions that keep a run from holding the declared state as usual.

use std::time::SystemTime;

use ecow::EcoString;

use super::Driver;
use crate::observer::Event;

/// Conditions that keep a run from holding the declared state as usual. None of them ends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The manifest has errors, so an older state is held.
    pub outdated: Option<Outdated>,
    /// Why the journal of owed refreshes cannot be written: changes that owe a refresh wait.
    pub journal: Option<EcoString>,
    /// Where collected resources come from cannot be reached: those that were collected last are held.
    pub collected: Option<Stale>,
    /// The manifest cannot be watched: it is polled.
    pub is_declared_polled: bool,
    /// Number of resources that are polled because they cannot be watched.
    pub unwatched: usize,
    /// Number of resources whose repairs another program undoes.
    pub contested: usize,
    /// Number of resources that were contested and are not repaired any more (`contested: observe`).
    pub watched_only: usize,
}

/// What is held is older than what is declared, because that has errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// Time at which what is held was declared for the last time, as far as is known.
    pub held: SystemTime,
    /// Number of errors in what is declared now.
    pub errors: usize,
    /// The errors, as they are shown to people.
    pub messages: Vec<EcoString>,
}

/// Collected resources that may be older than those that are exported now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Time at which they were exported, as far as is known.
    pub at: SystemTime,
    /// Why newer ones cannot be collected.
    pub why: EcoString,
}

impl Driver<'_, '_, '_, '_> {
    /// Conditions that keep this run from holding the declared state as usual.
    pub(super) fn conditions(&self) -> Conditions {
        let Some(holder) = &self.holder else { return Conditions::default() };
        Conditions {
            outdated: holder.reading.outdated.clone(),
            journal: holder.journal.as_ref().map(|failure| failure.why.clone()),
            collected: holder.hold.declared.stale(),
            is_declared_polled: holder.reading.is_unwatched,
            unwatched: holder.polls.missing(),
            contested: self.machine.contested(),
            watched_only: self.machine.watched_only(),
        }
    }

    /// Reports conditions that have changed.
    pub(super) fn report_conditions(&mut self) {
        let conditions = self.conditions();
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.conditions != conditions) else { return };
        holder.conditions = conditions;
        self.observer.event(Event::Conditions(&holder.conditions));
    }
}
