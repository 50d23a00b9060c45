//! Checks of providers that read many resources with one call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ecow::EcoString;
use kilter_engine::{Group, ResourceId};
use kilter_model::State;

use super::Driver;
use super::calls::CallKind;
use super::message::Message;
use crate::step::Read;
use crate::step::{self, CallResult, Job};
use crate::worker::CallId;

impl Driver<'_, '_, '_, '_> {
    /// Checks resources with stored states, and reads the others with one call, which also reads ahead.
    ///
    /// While such a call runs, other checks wait for its result.
    pub(super) fn check_together(&mut self, group: Group, items: Vec<Job>) {
        let at = group.provider;
        let vertices: Vec<ResourceId> = items.iter().map(|item| item.vertex).collect();
        if self.holder.is_none() {
            vertices.iter().for_each(|vertex| self.read_caches.mark_visited(*vertex));
        }
        let again = self.is_tried_again(vertices.iter().copied());
        if let (Some(why), false) = (self.read_caches.at(at).unavailable.clone(), again) {
            return self.answer(CallKind::Check, step::failed(&vertices, &why));
        }
        let (known, unknown): (Vec<_>, Vec<_>) = items
            .into_iter()
            .map(|item| (self.read_caches.take(at, item.name()), item))
            .partition(|(s, _)| s.is_some());
        let known = known.into_iter().map(|(state, item)| (item, state));
        let unknown = unknown.into_iter().map(|(state, item)| (item, state));
        if self.read_caches.at(at).reading.is_some() {
            let cache = self.read_caches.at(at);
            cache.parked.extend(unknown.map(|(item, _)| item.vertex));
            cache.parked_on_worker |= group.checks_on_worker;
            let known: Vec<_> = known.collect();
            if !known.is_empty() {
                self.compare(group, known, again);
            }
            return;
        }
        self.compare(group, known.chain(unknown).collect(), again);
    }

    fn compare(&mut self, group: Group, items: Vec<(Job, Option<State>)>, again: bool) {
        let at = group.provider;
        let context = self.environment.context(&self.prepared, at, CallKind::Check);
        let reads = items.iter().any(|(_, state)| state.is_none());
        let waits = reads || items.iter().any(|(item, _)| item.previewed);
        let vertices: Vec<ResourceId> = items.iter().map(|(item, _)| item.vertex).collect();
        let on_worker = group.checks_on_worker && waits;
        let call = on_worker.then(|| self.begun(CallKind::Check, &vertices, &context));
        let to_begin = call.and_then(|call| self.to_begin(call, CallKind::Check, &vertices));
        // While a state is held, stored states would be outdated. A call with a timeout reads for one resource
        // only.
        let reads_ahead = context.provider().capabilities().scheduling().reads_ahead();
        let ahead = match reads && reads_ahead && self.holder.is_none() && to_begin.is_none() {
            true => {
                let mut ahead = self.read_caches.prefetchable(at, &self.prepared);
                // The state of these depends on resources that have not settled yet.
                if let Some(predicted) = self.preview_context.predicted() {
                    ahead.retain(|vertex| !predicted.may_depend_on_others(*vertex));
                }
                self.state.prefetchable(ahead)
            }
            false => Vec::new(),
        };
        if reads {
            self.read_caches.at(at).reading = Some(call);
        }
        let foreign = self.read_caches.foreign_changes(at);
        let of = vertices.clone();
        let work = move || -> (Vec<CallResult>, Result<Read, EcoString>) {
            if let Err(why) = context.call(|cx| context.open(cx, again)) {
                return (step::failed(&of, &why), Err(why));
            }
            context.call_until(to_begin, |cx| {
                let mut done = Vec::with_capacity(items.len());
                let provider = context.provider();
                match step::check_together(provider, cx, items, &ahead, &mut done) {
                    Ok(rest) => (done, Ok(rest)),
                    Err(why) => (done, Err(why)),
                }
            })
        };
        let Some(call) = call else {
            let (done, rest) = work();
            self.tick();
            return if reads { self.read(None, at, done, rest, foreign) } else { self.answer(CallKind::Check, done) };
        };
        let sender = self.sender.clone();
        self.workers.submit(call, move || {
            // The driver would wait forever without an answer, so that a panic is an answer as well.
            let answer = catch_unwind(AssertUnwindSafe(work));
            let (done, rest) = answer.unwrap_or_else(|_| (step::lost(&vertices), Ok(Read::default())));
            // The receiver outlives the workers.
            let _ = sender.send(match reads {
                true => Message::Read { call, provider: at, done, rest, foreign },
                false => Message::Done { call, doing: CallKind::Check, done },
            });
        });
    }

    /// Handles the end of a call that read.
    pub(super) fn read(
        &mut self,
        call: Option<CallId>,
        at: u16,
        done: Vec<CallResult>,
        rest: Result<Read, EcoString>,
        foreign: u64,
    ) {
        // After an edit, another read may have started.
        let is_last = self.read_caches.at(at).reading == Some(call);
        if is_last {
            self.read_caches.at(at).reading = None;
        }
        match rest {
            Ok(read) => {
                self.read_caches.at(at).unavailable = None;
                if self.holder.is_none() {
                    self.read_caches.keep(at, read, foreign);
                }
            }
            Err(why) => self.read_caches.at(at).unavailable = Some(why),
        }
        self.answer(CallKind::Check, done);
        if !is_last {
            return;
        }
        let cache = self.read_caches.at(at);
        let (parked, checks_on_worker) =
            (std::mem::take(&mut cache.parked), std::mem::take(&mut cache.parked_on_worker));
        let group = Group { provider: at, checks_on_worker, changes_on_worker: false };
        if parked.is_empty() {
            return;
        }
        if self.is_stopping() {
            return self.drop_vertices(&parked);
        }
        // Resources with a timeout are read one by one, after all others.
        let (timed, rest): (Vec<ResourceId>, Vec<ResourceId>) =
            parked.into_iter().partition(|vertex| self.is_timed(*vertex));
        for vertices in (!rest.is_empty()).then_some(&*rest).into_iter().chain(timed.chunks(1)) {
            let items = self.state.items(vertices);
            self.check_together(group, items);
        }
    }

    /// Cancels checks that wait for a call which was cancelled.
    pub(super) fn drop_parked(&mut self) {
        for at in 0..self.prepared.registry.len() as u16 {
            let cache = self.read_caches.at(at);
            if self.calls.is_empty() {
                cache.reading = None;
            }
            let parked = std::mem::take(&mut cache.parked);
            self.drop_vertices(&parked);
        }
    }
}
