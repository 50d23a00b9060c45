//! Work on batches: on this thread, or on workers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ecow::EcoString;
use kilter_engine::{Batch, CheckResult, Group, Input, ResourceId};
use kilter_model::Outcome;

use super::call_context::CallContext;
use super::calls::CallKind;
use super::calls::CallTarget;
use super::message::Message;
use super::{APPLY_CHUNK, Driver};
use crate::observer::Event;
use crate::pending_change::PendingChange;
use crate::step::CHUNK;
use crate::step::{self, CallResult, Job};
use crate::worker::CallId;

impl Driver<'_, '_, '_, '_> {
    /// Changes resources. On this thread it works in portions, so that an interrupt need not wait for all of them.
    pub(super) fn apply(&mut self, batch: &Batch) {
        let portion = if !batch.group.changes_on_worker { APPLY_CHUNK } else { batch.vertices.len() };
        for vertices in batch.vertices.chunks(portion) {
            if self.is_stopping() {
                self.drop_vertices(vertices);
                continue;
            }
            let items = self.state.changes(vertices, &self.machine);
            if let Err(why) = self.record_before(&items) {
                self.end_unrecorded(&items, &why);
                continue;
            }
            self.dispatch(CallKind::Apply, batch.group, items);
        }
    }

    /// Lets the observer record the state of resources that are about to be changed.
    fn record_before(&mut self, items: &[Job]) -> Result<(), EcoString> {
        let changes: Vec<PendingChange<'_>> = items
            .iter()
            .filter_map(|item| {
                Some(PendingChange {
                    resource: &item.resource,
                    should: item.should(),
                    found: item.found.as_ref()?,
                    provider: self.prepared.provider(item.vertex),
                    hostname: self.prepared.registry.hostname(),
                    is_whole: false,
                })
            })
            .collect();
        if changes.is_empty() { Ok(()) } else { self.observer.before_changes(&changes) }
    }

    /// Ends the run before a change that cannot be recorded. The first resource has the reason.
    fn end_unrecorded(&mut self, items: &[Job], why: &EcoString) {
        let Some((first, others)) = items.split_first() else { return };
        self.fatal.get_or_insert_with(|| first.resource.reference.clone());
        let mut done = step::failed(&[first.vertex], why);
        done.iter_mut().for_each(|one| one.outcome = Some(Outcome::failed(why.clone())));
        self.answer(CallKind::Apply, done);
        let others: Vec<ResourceId> = others.iter().map(|item| item.vertex).collect();
        self.drop_vertices(&others);
    }

    /// Resolves received outputs, answers for resources that cannot be checked, and checks the others.
    ///
    /// On this thread it works in chunks, so that the states of all resources are never in memory at the same time.
    pub(super) fn check(&mut self, batch: Batch) {
        let Batch { group, vertices } = batch;
        let vertices = self.hold_back(group, vertices);
        if !vertices.is_empty() {
            self.check_now(Batch { group, vertices });
        }
    }

    /// Checks resources that need not wait for the prediction of a plan.
    pub(super) fn check_now(&mut self, batch: Batch) {
        let Batch { group, vertices } = batch;
        let together = self.prepared.registry.at(usize::from(group.provider)).capabilities().read_one.is_none();
        let chunk = if !group.checks_on_worker && !together { CHUNK } else { vertices.len() };
        for vertices in vertices.chunks(chunk) {
            if self.is_stopping() {
                self.drop_vertices(vertices);
                continue;
            }
            let mut items = std::mem::take(&mut self.items);
            let context = self.environment.context(&self.prepared, group.provider, CallKind::Check);
            let answers = context.call(|cx| self.state.checkable(cx, vertices, &mut items));
            for (vertex, verdict) in answers {
                self.machine.input(self.now, Input::Checked(vertex, verdict));
            }
            for item in &mut items {
                item.refresh = self.machine.is_owed_to(item.vertex) || self.state.would_be_refreshed(item.vertex);
            }
            // The watches start before the checks.
            items.iter().for_each(|item| self.follow(item));
            match together {
                _ if items.is_empty() => {}
                true => self.check_together(group, items),
                false if !group.checks_on_worker => self.check_here(&context, items),
                false => self.dispatch(CallKind::Check, group, items),
            }
        }
    }

    /// Checks resources on this thread. It reuses its buffers, because a chain of dependent resources calls it once
    /// for each.
    fn check_here(&mut self, context: &CallContext<'_>, mut items: Vec<Job>) {
        let again = self.is_tried_again(items.iter().map(|item| item.vertex));
        let mut done = std::mem::take(&mut self.done);
        context.call(|cx| match context.open(cx, again) {
            Ok(()) => step::check(context.provider(), cx, &items, &mut done),
            Err(why) => done.extend(items.iter().flat_map(|item| step::failed(&[item.vertex], &why))),
        });
        self.tick();
        for one in done.drain(..) {
            let vertex = one.vertex;
            let verdict = self.verdict_unless_ended(one);
            self.machine.input(self.now, Input::Checked(vertex, verdict));
        }
        self.renew();
        items.clear();
        (self.items, self.done) = (items, done);
    }

    /// Makes a call on this thread, or gives it to a worker.
    pub(super) fn dispatch(&mut self, doing: CallKind, group: Group, items: Vec<Job>) {
        let on_worker = match doing {
            CallKind::Check => group.checks_on_worker,
            CallKind::Apply | CallKind::Refresh => group.changes_on_worker,
        };
        let at = group.provider;
        if doing != CallKind::Check {
            items.iter().for_each(|item| self.read_caches.forget(at, item.name()));
        }
        let vertices = || items.iter().map(|item| item.vertex);
        let (context, again) = (self.environment.context(&self.prepared, at, doing), self.is_tried_again(vertices()));
        let of: Vec<ResourceId> = if on_worker { vertices().collect() } else { Vec::new() };
        let call = on_worker.then(|| self.begun(doing, &of, &context));
        let to_begin = call.and_then(|call| self.to_begin(call, doing, &of));
        let work = move || {
            let provider = context.provider();
            // The time of the open does not count for the timeout of the call, because it is for all resources.
            if let Err(why) = context.call(|cx| context.open(cx, again)) {
                return items.iter().flat_map(|item| step::failed(&[item.vertex], &why)).collect();
            }
            context.call_until(to_begin, |cx| {
                let mut done = Vec::with_capacity(items.len());
                match doing {
                    CallKind::Check => step::check(provider, cx, &items, &mut done),
                    CallKind::Apply => step::apply(provider, cx, items, &mut done),
                    CallKind::Refresh => step::refresh(provider, cx, &items, &mut done),
                }
                done
            })
        };
        let Some(call) = call else {
            let done = work();
            self.tick();
            return self.answer(doing, done);
        };
        let sender = self.sender.clone();
        self.workers.submit(call, move || {
            // The driver would wait forever without an answer, so that a panic is an answer as well.
            let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| step::lost(&of));
            // The receiver outlives the workers.
            let _ = sender.send(Message::Done { call, doing, done });
        });
    }

    /// Registers a call on a worker.
    pub(super) fn begun(&mut self, doing: CallKind, vertices: &[ResourceId], context: &CallContext<'_>) -> CallId {
        if let [only] = vertices {
            let reference = &self.prepared.resource(*only).reference;
            self.observer.event(Event::Begun { reference, doing: doing.word() });
        }
        let target = |vertex: &ResourceId| {
            let resource = self.prepared.resource(*vertex);
            CallTarget {
                id: *vertex,
                of: (self.prepared.provider_index(*vertex), resource.name.clone()),
                reference: resource.reference.clone(),
                semaphores: self.numbers.of_resource(resource),
                sends: if doing == CallKind::Check {
                    None
                } else {
                    self.state.outputs.sends_as(&self.prepared, *vertex)
                },
            }
        };
        self.calls.begin(doing, vertices.iter().map(target).collect(), context.preview_context())
    }

    pub(super) fn is_tried_again(&self, mut vertices: impl Iterator<Item = ResourceId>) -> bool {
        // While a state is held, every attempt counts as a retry.
        self.holder.is_some() || vertices.any(|vertex| self.state.is_tried_again(vertex))
    }

    pub(super) fn answer(&mut self, doing: CallKind, done: Vec<CallResult>) {
        if doing != CallKind::Check
            && let Some(first) = done.first()
        {
            self.read_caches.changed(self.prepared.provider_index(first.vertex), done.len());
            // A preview with a fatal failure does not end the run.
            let is_fatal = |done: &&CallResult| done.outcome.as_ref().is_some_and(|outcome| outcome.fatal);
            if let Some(fatal) = done.iter().find(is_fatal) {
                self.fatal.get_or_insert_with(|| self.prepared.resource(fatal.vertex).reference.clone());
            }
        }
        for done in done {
            let vertex = done.vertex;
            let owed_by = if self.holder.is_some() { self.owed_by(vertex) } else { Vec::new() };
            let input = match doing {
                CallKind::Check => Input::Checked(vertex, self.verdict_unless_ended(done)),
                CallKind::Apply => Input::Applied(vertex, self.state.applied(done, self.now, owed_by)),
                CallKind::Refresh => Input::Refreshed(vertex, self.state.refreshed(done, owed_by)),
            };
            self.machine.input(self.now, input);
            self.state.report_done(vertex, &self.machine, self.observer);
        }
        self.renew();
    }

    /// Returns the result of a check for the machine. The error of a cancelled check says nothing about its resource.
    fn verdict_unless_ended(&mut self, done: CallResult) -> CheckResult {
        if done.result.is_err() && self.has_ended_checks() { CheckResult::Cancelled } else { self.verdict(done) }
    }

    /// Returns the result of a completed check for the machine.
    fn verdict(&mut self, mut done: CallResult) -> CheckResult {
        let is_owed = self.machine.is_owed_to(done.vertex);
        let unknown = self.unknown(&mut done);
        unknown.unwrap_or_else(|| self.state.checked(done, self.now, is_owed))
    }

    /// Returns true if an interrupt has cancelled the checks in flight.
    fn has_ended_checks(&mut self) -> bool {
        if !self.stop.interrupt(CallKind::Check).is_raised() {
            return false;
        }
        // The answer may come before the stop message.
        self.handle_shutdown();
        true
    }

    /// Checks the resources whose received outputs have changed.
    fn renew(&mut self) {
        for receiver in self.state.outputs.take_renewed() {
            // New outputs reset the repair budget. A loop, in which a receiver triggers its own sender, must not
            // reset it forever.
            if self.state.outputs.may_be_renewed(receiver, self.now) {
                self.machine.input(self.now, Input::ResetBudget(receiver));
            }
            self.is_stale(receiver);
        }
    }
}
