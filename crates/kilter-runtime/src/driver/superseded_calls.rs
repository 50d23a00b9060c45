//! Calls for resources that an edit has changed or removed. They run to completion; only resources that replace their
//! targets wait for them.

use kilter_engine::{Input, ResourceId};
use kilter_provider::Level;

use super::Driver;
use super::calls::CallKind;
use super::calls::{Call, CallTarget};
use crate::journal::Journal;
use crate::observer::Event;
use crate::step::CallResult;

impl Driver<'_, '_, '_, '_> {
    /// Handles the parts of an answer that are for changed or removed resources; returns the others. Resources that
    /// waited for the call start.
    pub(super) fn take_superseded(&mut self, call: &Call, doing: CallKind, done: Vec<CallResult>) -> Vec<CallResult> {
        if call.superseded(&self.prepared.graph).next().is_none() {
            return done;
        }
        let (current, superseded): (Vec<_>, Vec<_>) =
            done.into_iter().partition(|one| self.prepared.graph.contains(one.vertex));
        self.landed_at = self.now;
        // The answer of a call that ended early does not name all targets.
        for target in call.superseded(&self.prepared.graph) {
            self.machine.input(self.now, Input::Cancelled(target.id));
        }
        for one in superseded {
            if let Some(target) = call.targets.iter().find(|target| target.id == one.vertex)
                && doing != CallKind::Check
            {
                self.changed_superseded(target, one);
            }
        }
        // The journal may have changed since the edit chose the resources that wait for the call.
        for vertex in self.machine.awaiting_watch() {
            self.begins_to_be_watched(vertex);
        }
        current
    }

    /// Reports the change of a resource as it was declared before.
    fn changed_superseded(&mut self, former: &CallTarget, mut done: CallResult) {
        let outcome = done.outcome.take().unwrap_or_default();
        if outcome.fatal {
            // A fatal failure ends the run, also that of a former declaration.
            self.fatal.get_or_insert_with(|| former.reference.clone());
        }
        let sent = outcome.outputs;
        if done.result.is_ok()
            && !sent.is_empty()
            && let Err(why) = self.state.outputs.keep_superseded(&self.prepared, former, &sent)
        {
            done.result = Err(why);
        }
        let (provider, name) = (former.of.0, &former.of.1);
        self.state.flushes.add(provider);
        let type_name = self.prepared.registry.at(usize::from(provider)).schema().name.clone();
        let (level, message) = match &done.result {
            Ok(_) => (Level::Notice, "a call from before the edit of the manifest has ended".to_owned()),
            Err(why) => {
                let end = if outcome.fatal { ", which ends the run" } else { "" };
                (Level::Warning, format!("a call from before the edit of the manifest has failed{end}: {why}"))
            }
        };
        let message = &self.state.sealed(type_name.as_str(), name, message);
        self.observer.event(Event::Log { level, type_name: type_name.as_str(), name, message });
    }

    /// Returns the superseded call that a resource waits for.
    ///
    /// The call works on the former declaration of the resource, or on a resource that has a pending refresh for it.
    pub(super) fn awaited(&self, vertex: ResourceId) -> Option<(&Call, &CallTarget)> {
        let lookup = self.prepared.lookup();
        let of_it = |target: &CallTarget| lookup.named(target.of.0, &target.of.1) == Some(vertex);
        let mut superseded = self.calls.superseded(&self.prepared.graph);
        superseded.find(|(_, target)| of_it(target)).or_else(|| self.awaited_change(vertex))
    }

    /// Returns the superseded change of a resource with a pending refresh for a vertex.
    fn awaited_change(&self, vertex: ResourceId) -> Option<(&Call, &CallTarget)> {
        let superseded = self.calls.superseded(&self.prepared.graph);
        let mut changes = superseded.filter(|(call, _)| call.is_change()).peekable();
        changes.peek()?;
        let lookup = self.prepared.lookup();
        let owed_refreshes = self.journal.iter().flat_map(Journal::owed);
        let owed_by: Vec<_> = owed_refreshes
            .filter(|(_, second)| lookup.referred(second) == Some(vertex))
            .map(|(first, _)| first)
            .collect();
        changes.find(|(_, target)| owed_by.contains(&&target.reference))
    }

    /// Returns the superseded call of a resource that has changed or been removed.
    pub(super) fn superseded_call(&self, id: ResourceId) -> Option<(&Call, &CallTarget)> {
        self.calls.superseded(&self.prepared.graph).find(|(_, target)| target.id == id)
    }

    /// Reports a resource to the machine as watched, so that it can be checked.
    ///
    /// Not if a superseded call still works on it, or if its provider has not confirmed the watch.
    pub(super) fn begins_to_be_watched(&mut self, vertex: ResourceId) {
        let is_silent = self.holder.as_ref().is_some_and(|holder| holder.provider_watches.is_silent(vertex));
        if !is_silent && self.awaited(vertex).is_none() {
            self.machine.input(self.now, Input::WatchEstablished(vertex));
        }
    }
}
