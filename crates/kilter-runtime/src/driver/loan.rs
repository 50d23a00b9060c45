//! Loan of the state directory: a paused run lets another process make changes with its state directory.

use std::sync::Arc;

use ecow::EcoString;
use kilter_engine::{GraphDiff, Input};

use super::Driver;
use super::pending_refreshes::{described, owed};
use crate::journal::Journal;
use crate::observer::Event;

impl Driver<'_, '_, '_, '_> {
    /// Prepares the loan of the state directory. The run is paused. Returns false while calls are in flight.
    ///
    /// # Errors
    /// If the journal cannot be written: the pending refreshes would be lost.
    pub(super) fn lend(&mut self) -> Result<bool, EcoString> {
        if let Some(failure) = self.holder.as_ref().and_then(|holder| holder.journal.as_ref()) {
            return Err(failure.why.clone());
        }
        if self.in_flight() > 0 {
            return Ok(false);
        }
        self.flush_what_was_done();
        if let Some(journal) = &mut self.journal {
            journal.close();
        }
        Ok(true)
    }

    /// Reads the journal again, which another process may have written, and delivers the refreshes that it left
    /// pending.
    pub(super) fn take_back(&mut self) {
        let Some(state_dir) = &self.options.state_dir else { return };
        let journal = match Journal::open(state_dir.path(), self.options.durability) {
            Ok(journal) => journal,
            Err(error) => {
                let level = kilter_provider::Level::Err;
                let message = &described(&error);
                self.observer.event(Event::Log { level, type_name: "journal", name: "", message });
                return;
            }
        };
        let of_others = owed(&self.prepared.lookup(), Some(&journal), &self.prepared.graph);
        let own = self.owed_refreshes(&self.machine.owed());
        let journal = self.journal.insert(journal);
        // The other process may have delivered some of them. A refresh too many is harmless.
        journal.owe_later(own);
        if !of_others.is_empty() {
            let diff = GraphDiff { owed: of_others, ..GraphDiff::of_edges(Arc::clone(&self.prepared.graph)) };
            self.machine.input(self.now, Input::Edit(diff.into()));
        }
    }
}
