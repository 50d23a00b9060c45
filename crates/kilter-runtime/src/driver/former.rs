//! What was begun for a graph before the one that is held, and goes on: it is not waited for, but by whoever takes its place.

use kilter_engine::{Input, VertexId};
use kilter_provider::Level;

use super::Driver;
use super::calls::{Call, CallId, Target};
use super::stop::Doing;
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
                Some(Target { of: (provider, name), .. }) if doing != Doing::Check => {
                    self.tell_former(&one, *provider, name);
                }
                _ => {}
            }
        }
        self.answer(doing, kept);
        for (_, number) in call.freed() {
            self.machine.input(self.now, Input::Freed(*number));
        }
        for (provider, name) in call.former() {
            if let Some(heir) = self.lookup.named(*provider, name) {
                self.begins_to_be_watched(heir);
            }
        }
    }

    /// Nobody asks any more for what was declared then; that something was done all the same is told.
    fn tell_former(&mut self, done: &Done, provider: u16, name: &str) {
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
        let (provider, name) = (self.prepared.providers[vertex.0 as usize], &self.prepared.resource(vertex).name);
        self.calls.former().any(|former| former.0 == provider && former.1 == *name)
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
