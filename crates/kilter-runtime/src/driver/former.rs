//! What was begun for a graph before the one that is held, and goes on: it is not waited for, but by whoever takes its place.

use kilter_engine::{Input, VertexId};
use kilter_provider::Level;

use super::Driver;
use super::calls::{Call, CallId, Target};
use super::debts::owed_for;
use super::stop::Doing;
use crate::journal::Journal;
use crate::observer::Event;
use crate::step::Done;

impl<'run: 'scope, 'scope, 'env> Driver<'run, '_, 'scope, 'env> {
    /// A call has been answered: what it was if it was begun for a former graph.
    pub(super) fn landed(&mut self, call: CallId) -> Option<Call> {
        let call = self.calls.end(call).filter(|call| !self.calls.is_own(call))?;
        self.workers.allow_one_more();
        Some(call)
    }

    /// Takes the answer of a call of a former graph: what is declared as it was goes on with it, and what takes the place of the
    /// rest may begin.
    pub(super) fn former(&mut self, call: &Call, doing: Doing, done: Vec<Done>) {
        let mut kept = Vec::new();
        for one in done {
            match call.target(one.vertex) {
                Some(Target { now: Some(now), .. }) => kept.push(Done { vertex: *now, ..one }),
                Some(gone) if doing != Doing::Check => self.changed_former(gone, one),
                _ => {}
            }
        }
        self.answer(doing, kept);
        self.landed_at = self.now;
        for (_, number) in call.freed() {
            self.machine.input(self.now, Input::Freed(*number));
        }
        let heirs = call.former().filter_map(|(provider, name)| self.lookup.named(*provider, name));
        let owed = call.gone().flat_map(|target| owed_for(self.lookup, self.journal.as_ref(), &target.reference));
        for vertex in heirs.chain(owed).collect::<Vec<_>>() {
            self.begins_to_be_watched(vertex);
        }
    }

    /// Nobody asks any more for what was declared then; that something was done all the same is told.
    fn changed_former(&mut self, former: &Target, mut done: Done) {
        let sent = done.outcome.take().map(|outcome| outcome.outputs).unwrap_or_default();
        if done.result.is_ok()
            && !sent.is_empty()
            && let Err(why) = self.board.keep_former(former, &sent)
        {
            done.result = Err(why);
        }
        let (provider, name) = (former.of.0, &former.of.1);
        let type_name = self.prepared.registry.at(usize::from(provider)).schema().name.clone();
        let (level, message) = match &done.result {
            Ok(_) => (Level::Notice, "what was begun before the manifest was edited has ended".to_owned()),
            Err(why) => (Level::Warning, format!("what was begun before the manifest was edited has failed: {why}")),
        };
        let message = &self.board.sealed(type_name.as_str(), name, message);
        self.observer.event(Event::Log { level, type_name: type_name.as_str(), name, message });
    }

    /// Whether something is still done to a resource as it was declared before.
    fn is_awaited(&self, vertex: VertexId) -> bool {
        if self.calls.is_empty() {
            return false;
        }
        let mut heirs = self.calls.former().filter_map(|(provider, name)| self.lookup.named(*provider, name));
        heirs.any(|heir| heir == vertex) || self.waits_for_change(vertex)
    }

    /// Whether a vertex is owed a refresh by what is still being changed as it was declared before.
    fn waits_for_change(&self, vertex: VertexId) -> bool {
        let mut debts = self.journal.iter().flat_map(Journal::owed);
        debts.any(|(first, second)| {
            self.lookup.referred(second) == Some(vertex) && self.calls.changing().any(|changing| changing == first)
        })
    }

    /// Whatever happens to a resource from now on is told, so that it may be looked at, unless something is still done to it as it
    /// was declared before or its provider has yet to say that it watches.
    pub(super) fn begins_to_be_watched(&mut self, vertex: VertexId) {
        let is_silent = self.holder.as_ref().is_some_and(|holder| holder.listening.is_silent(vertex));
        if !is_silent && !self.is_awaited(vertex) {
            self.machine.input(self.now, Input::Watching(vertex));
        }
    }
}
