//! Calls that were started for a former graph. They run to completion; only resources that replace their targets
//! wait for them.

use kilter_engine::{Input, VertexId};
use kilter_provider::Level;

use super::Driver;
use super::calls::{Call, CallId, Target};
use super::debts::owed_for;
use super::stop::CallKind;
use crate::journal::Journal;
use crate::observer::Event;
use crate::step::CallResult;

impl<'run: 'scope, 'scope, 'env> Driver<'run, '_, 'scope, 'env> {
    /// Removes an answered call; returns it if it was started for a former graph.
    pub(super) fn landed(&mut self, call: CallId) -> Option<Call> {
        let call = self.calls.end(call).filter(|call| !self.calls.is_own(call))?;
        self.workers.allow_one_more();
        Some(call)
    }

    /// Handles the answer of a call of a former graph. Unchanged resources use the result; resources that waited
    /// for the call start.
    pub(super) fn former(&mut self, call: &Call, doing: CallKind, done: Vec<CallResult>) {
        let mut kept = Vec::new();
        for one in done {
            match call.target(one.vertex) {
                Some(Target { now: Some(now), .. }) => kept.push(CallResult { vertex: *now, ..one }),
                Some(gone) if doing != CallKind::Check => self.changed_former(gone, one),
                _ => {}
            }
        }
        self.answer(doing, kept);
        self.landed_at = self.now;
        for (_, number) in call.freed() {
            self.machine.input(self.now, Input::SemaphoreReleased(*number));
        }
        let heirs = call.former().filter_map(|(provider, name)| self.lookup.named(*provider, name));
        let owed = call.gone().flat_map(|target| owed_for(self.lookup, self.journal.as_ref(), &target.reference));
        for vertex in heirs.chain(owed).collect::<Vec<_>>() {
            self.begins_to_be_watched(vertex);
        }
    }

    /// Reports the change of a resource as a former graph declared it.
    fn changed_former(&mut self, former: &Target, mut done: CallResult) {
        let outcome = done.outcome.take().unwrap_or_default();
        if outcome.fatal {
            // A fatal failure ends the run, for whichever graph the call was started.
            self.fatal.get_or_insert_with(|| former.reference.clone());
        }
        let sent = outcome.outputs;
        if done.result.is_ok()
            && !sent.is_empty()
            && let Err(why) = self.board.keep_former(former, &sent)
        {
            done.result = Err(why);
        }
        let (provider, name) = (former.of.0, &former.of.1);
        self.board.needs_flush(provider);
        let type_name = self.prepared.registry.at(usize::from(provider)).schema().name.clone();
        let (level, message) = match &done.result {
            Ok(_) => (Level::Notice, "what was begun before the manifest was edited has ended".to_owned()),
            Err(why) => {
                let end = if outcome.fatal { ", which ends the run" } else { "" };
                (Level::Warning, format!("what was begun before the manifest was edited has failed{end}: {why}"))
            }
        };
        let message = &self.board.sealed(type_name.as_str(), name, message);
        self.observer.event(Event::Log { level, type_name: type_name.as_str(), name, message });
    }

    /// Returns the call of a former graph that a resource waits for.
    ///
    /// The call works on the former version of the resource, or on a resource that has a pending refresh for it.
    pub(super) fn awaited(&self, vertex: VertexId) -> Option<(&Call, &Target)> {
        let of_it = |target: &Target| self.lookup.named(target.of.0, &target.of.1) == Some(vertex);
        self.calls.superseded_calls().find(|(_, target)| of_it(target)).or_else(|| self.awaited_change(vertex))
    }

    /// Returns the change of a former resource with a pending refresh for a vertex.
    fn awaited_change(&self, vertex: VertexId) -> Option<(&Call, &Target)> {
        let mut changes = self.calls.superseded_calls().filter(|(call, _)| call.is_change()).peekable();
        changes.peek()?;
        let debts = self.journal.iter().flat_map(Journal::owed);
        let owed_by: Vec<_> =
            debts.filter(|(_, second)| self.lookup.referred(second) == Some(vertex)).map(|(first, _)| first).collect();
        changes.find(|(_, target)| owed_by.contains(&&target.reference))
    }

    /// Returns the call that holds a semaphore for a resource that has changed or been removed since.
    pub(super) fn semaphore_holder(&self, semaphore: &str) -> Option<(&Call, &Target)> {
        let has = |target: &Target| target.semaphores.iter().any(|(name, _)| name == semaphore);
        self.calls.superseded_calls().find(|(_, target)| has(target))
    }

    /// Reports a resource to the machine as watched, so that it can be checked.
    ///
    /// Not if a call of a former graph still works on it, or if its provider has not confirmed the watch.
    pub(super) fn begins_to_be_watched(&mut self, vertex: VertexId) {
        let is_silent = self.holder.as_ref().is_some_and(|holder| holder.listening.is_silent(vertex));
        if !is_silent && self.awaited(vertex).is_none() {
            self.machine.input(self.now, Input::WatchEstablished(vertex));
        }
    }
}
