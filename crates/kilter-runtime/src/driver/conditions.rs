//! Reports changed conditions of a run.

use super::Driver;
use crate::conditions::Conditions;
use crate::observer::Event;

impl Driver<'_, '_, '_, '_> {
    /// Returns the conditions that keep this run from holding the declared state as usual.
    pub(super) fn conditions(&self) -> Conditions {
        let Some(holder) = &self.holder else { return Conditions::default() };
        Conditions {
            outdated: holder.reading.outdated.clone(),
            journal: holder.journal.as_ref().map(|failure| failure.why.clone()),
            collected: holder.hold.declared.stale(),
            source: holder.hold.declared.source().filter(|source| source.failure.is_some()),
            is_declared_polled: holder.reading.is_unwatched,
            unwatched: holder.polls.missing(),
            contested: self.machine.contested(),
            watched_only: self.machine.watched_only(),
        }
    }

    /// Reports changed conditions.
    pub(super) fn report_conditions(&mut self) {
        let conditions = self.conditions();
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.conditions != conditions) else { return };
        holder.conditions = conditions;
        self.observer.event(Event::Conditions(&holder.conditions));
    }
}
