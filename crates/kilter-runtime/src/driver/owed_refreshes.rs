//! Pending refreshes, in the form of the machine and in the form of the journal.

use ecow::{EcoString, eco_format};
use kilter_engine::{Batch, Input, RefreshToken, ResourceId, Timestamp};
use kilter_model::{Outcome, ResourceRef};
use kilter_provider::Level;
use rustc_hash::FxHashSet;

use super::Driver;
use super::calls::CallKind;
use super::pending_refreshes::{JOURNAL_RETRY, JournalFailure, described, hold_state_dir, token_of};
use crate::journal::{Journal, JournalError, OwedRefresh};
use crate::observer::Event;
use crate::step;

impl Driver<'_, '_, '_, '_> {
    /// Journals the refreshes of the next changes. If that fails, the driver refuses these changes and makes all
    /// others.
    pub(super) fn journal_refreshes(&mut self, tokens: &[RefreshToken]) {
        // The machine repeats each refresh that could not be recorded, so that an earlier failure no longer counts.
        for token in tokens {
            self.unrecorded.remove(&token.first);
        }
        let owed_refreshes = self.owed_refreshes(tokens);
        let Err(why) = self.journalled(|journal| journal.add(owed_refreshes)) else { return };
        // A running change cannot be refused: when it started, it notified no resource.
        let under_way: FxHashSet<ResourceId> = self.calls.ids().collect();
        let (late, next): (Vec<RefreshToken>, Vec<RefreshToken>) =
            tokens.iter().partition(|token| under_way.contains(&token.first));
        let late = self.owed_refreshes(&late);
        if let Some(journal) = &mut self.journal {
            journal.owe_later(late);
        }
        for token in next {
            self.machine.input(self.now, Input::Unrecorded(token));
            self.unrecorded.insert(token.first, why.clone());
        }
    }

    /// Removes delivered refreshes from the journal. If that fails, a crash leads to one refresh too many.
    pub(super) fn paid(&mut self, tokens: &[RefreshToken]) {
        let owed_refreshes = self.owed_refreshes(tokens);
        // The failure has been reported, and the write is retried.
        let written = self.journalled(|journal| journal.paid(&owed_refreshes));
        if let (Err(_), Some(journal)) = (written, &mut self.journal) {
            journal.forget(&owed_refreshes);
        }
    }

    /// Writes to the journal. After a failure, a run that holds a state does not write before the next retry.
    fn journalled(&mut self, write: impl FnOnce(&mut Journal) -> Result<(), JournalError>) -> Result<(), EcoString> {
        let failure = self.holder.as_ref().and_then(|holder| holder.journal.as_ref());
        if let Some(failure) = failure.filter(|failure| failure.next_try > self.now) {
            return Err(failure.why.clone());
        }
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let held = if journal.creates_file() { hold_state_dir(self.options) } else { Ok(()) };
        let written = held.and_then(|()| write(journal).map_err(|error| described(&error)));
        match &written {
            Ok(()) => self.journal_works(),
            Err(why) => self.journal_fails(why),
        }
        written
    }

    /// Reports once that the journal cannot be written. While a state is held, the driver retries.
    fn journal_fails(&mut self, why: &EcoString) {
        let (is_known, verb) = match &mut self.holder {
            Some(holder) => {
                let next_try = Timestamp(self.now.0.saturating_add(JOURNAL_RETRY));
                (holder.journal.replace(JournalFailure { why: why.clone(), next_try }).is_some(), "wait")
            }
            None => (self.journal_failure.replace(why.clone()).is_some(), "are not made"),
        };
        if !is_known {
            let message = &eco_format!("{why}. Changes that owe a refresh {verb}; everything else goes on");
            self.observer.event(Event::Log { level: Level::Err, type_name: "journal", name: "", message });
        }
    }

    /// Retries all vertices that waited for the journal.
    fn journal_works(&mut self) {
        let Some(holder) = &mut self.holder else {
            // Refused vertices have failed with the reason.
            self.journal_failure = None;
            return;
        };
        if holder.journal.take().is_none() {
            return;
        }
        let message = "the journal can be written again: changes that owe a refresh are made";
        self.observer.event(Event::Log { level: Level::Warning, type_name: "journal", name: "", message });
        for vertex in std::mem::take(&mut self.refused) {
            self.is_stale(vertex);
        }
    }

    /// Retries the write of a journal that failed or was removed.
    pub(super) fn look_at_journal(&mut self) {
        let Some(holder) = &self.holder else { return };
        let is_due = holder.journal.as_ref().is_some_and(|failure| failure.next_try <= self.now);
        let Some(journal) = self.journal.as_mut().filter(|journal| is_due || journal.is_removed()) else { return };
        let held = hold_state_dir(self.options);
        match held.and_then(|()| journal.restore().map_err(|error| described(&error))) {
            Ok(()) => self.journal_works(),
            Err(why) => self.journal_fails(&why),
        }
    }

    /// Refuses the vertices of a batch whose refreshes could not be journalled; returns the others.
    pub(super) fn refuse_unrecorded(&mut self, doing: CallKind, mut batch: Batch) -> Batch {
        if self.unrecorded.is_empty() {
            return batch;
        }
        let mut refused = Vec::new();
        batch.vertices.retain(|vertex| match self.unrecorded.remove(vertex) {
            Some(why) => {
                refused.push((*vertex, why));
                false
            }
            None => true,
        });
        for (vertex, why) in refused {
            self.refused.insert(vertex);
            let why = eco_format!("not begun, because its refreshes cannot be recorded: {why}");
            let mut done = step::failed(&[vertex], &why);
            done.iter_mut().for_each(|one| one.outcome = Some(Outcome::failed(why.clone())));
            self.answer(doing, done);
        }
        batch
    }

    /// Returns the resources whose changes have a pending or running refresh of a vertex.
    pub(super) fn owed_by(&self, vertex: ResourceId) -> Vec<ResourceRef> {
        self.owed_refreshes(&self.machine.owed_to(vertex)).into_iter().map(|(first, _)| first).collect()
    }

    /// Converts tokens to journal entries. An inherited token stands for the entries of all notifiers that left the
    /// graph.
    pub(super) fn owed_refreshes(&self, tokens: &[RefreshToken]) -> Vec<OwedRefresh> {
        let reference = |vertex: ResourceId| &self.prepared.resource(vertex).reference;
        let mut owed_refreshes = Vec::with_capacity(tokens.len());
        for token in tokens {
            if token.first != token.second {
                owed_refreshes.push((reference(token.first).clone(), reference(token.second).clone()));
                continue;
            }
            let lookup = self.prepared.lookup();
            let owed = self.journal.iter().flat_map(Journal::owed);
            owed_refreshes.extend(
                owed.filter(|owed_refresh| token_of(&lookup, owed_refresh, self.machine.graph()) == Some(*token))
                    .cloned(),
            );
        }
        owed_refreshes
    }
}
