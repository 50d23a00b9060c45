//! The driver: the loop between the state machine and the providers.

mod call_context;
mod calls;
mod cancel;
mod clock;
mod composite;
mod conditions;
mod deadline;
mod edit;
mod event_buffer;
mod hold;
mod loan;
mod machine_config;
mod manifest_source;
mod matches;
mod message;
mod not_installed;
mod open_providers;
mod owed_refreshes;
mod pause_state;
mod paused;
mod pending_refreshes;
mod polls;
mod prediction;
mod provider_events;
mod provider_watch;
mod provider_watches;
mod read;
mod read_cache;
mod reconcile_loop;
mod reload;
mod resolve;
mod run_state;
mod shutdown;
mod start;
mod status_handle;
mod status_query;
mod status_snapshot;
mod superseded_calls;
mod timeout;
mod watch_channel;
mod watch_plan;
mod watched;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_engine::{Command, Disposition, Group, IdAllocator, Input, Machine, ResourceId, Timestamp};
use kilter_model::ResourceRef;
use rustc_hash::FxHashMap;

use crate::journal::Journal;
use crate::observer::{Event, InFlight, Observer};
use crate::options::{Mode, Options};
use crate::prepare::Prepared;
use crate::preview_context::RunPreview;
use crate::report::Status;
use crate::run_report::Report;
use crate::step::{CallResult, Job, Read};
use crate::worker::{CallId, Workers};
use call_context::CallEnvironment;
use calls::{CallKind, Calls};
use deadline::RunningDeadline;
use machine_config::SemaphoreIds;
pub use manifest_source::{ManifestSource, Reload, ReloadNotifier};
use message::Message;
pub use pause_state::{Pause, Paused};
use read_cache::ReadCaches;
pub use reconcile_loop::Hold;
use reconcile_loop::ReconcileLoop;
use run_state::RunState;
pub use shutdown::ShutdownHandle;
pub use status_handle::{StatusError, StatusHandle};
pub use status_snapshot::{
    ChangeCounters, CompositeStatus, Contest, InFlightCall, ResourceStatus, StatusFilter, StatusSnapshot, Watched,
};

/// Maximum number of resources that are changed on this thread between two checks for an interrupt.
const APPLY_CHUNK: usize = 1024;

/// Interval between checks for long calls.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Carries out the commands of the machine. One driver lives as long as its run; an edit replaces its catalog.
struct Driver<'run: 'scope, 'hold, 'scope, 'env: 'scope> {
    /// Current catalog.
    prepared: Arc<Prepared>,
    preview_context: Arc<RunPreview>,
    ids: IdAllocator,
    /// Catalog of an edit that has not been applied yet: commands have to be carried out first.
    next: Option<Box<Prepared>>,
    environment: CallEnvironment<'run>,
    read_caches: ReadCaches,
    options: &'run Options,
    stop: &'run ShutdownHandle,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    workers: Workers<'scope, 'env>,
    machine: Machine,
    state: RunState<'run>,
    /// Additional state of a run that holds the declared state.
    holder: Option<ReconcileLoop<'hold>>,
    journal: Option<Journal>,
    observer: &'run mut (dyn Observer + 'run),
    start: Instant,
    now: Timestamp,
    /// Vertices that wait for a timer, with the time.
    wakes: Vec<(Timestamp, ResourceId)>,
    /// Calls on workers, including calls of resources that an edit has changed or removed.
    calls: Calls,
    /// Time at which the last call of a changed or removed resource ended.
    landed_at: Timestamp,
    /// Numbers of semaphores.
    numbers: SemaphoreIds,
    seen_requests: u32,
    /// Reason why a single pass cannot write the journal.
    journal_failure: Option<EcoString>,
    /// Vertices whose refreshes could not be journalled, with the reason. Their next changes are refused.
    unrecorded: FxHashMap<ResourceId, EcoString>,
    /// Refused vertices. They are checked when the journal can be written again.
    refused: BTreeSet<ResourceId>,
    /// Resource whose failure ends the run.
    fatal: Option<ResourceRef>,
    /// Calls with a timeout.
    timed: Vec<RunningDeadline>,
    /// Reused buffers for checks on this thread and their results.
    items: Vec<Job>,
    done: Vec<CallResult>,
    /// Checks of a plan that wait for the resources they read, each with its group.
    held_back: Vec<(Group, ResourceId)>,
}

impl Driver<'_, '_, '_, '_> {
    fn run(mut self) -> Report {
        let mut commands = Vec::new();
        if let Some(pause) = self.holder.as_ref().and_then(|holder| holder.hold.paused) {
            self.pause(pause);
        }
        self.begin_holding();
        loop {
            self.tick();
            self.tell_alive();
            self.handle_shutdown();
            self.machine.commands_into(&mut commands);
            let mut idle = commands.is_empty();
            for command in commands.drain(..) {
                self.carry_out(command);
            }
            // All resources may have settled at once, which may never happen again.
            commands.shrink_to(APPLY_CHUNK);
            while let Ok(message) = self.receiver.try_recv() {
                self.take(message);
                // The message may have given the machine work: carry that out before waiting.
                idle = false;
            }
            if !idle {
                continue;
            }
            if self.release_held_back() {
                continue;
            }
            if self.calls.is_empty() && self.machine.is_finished() {
                return self.finish();
            }
            if !self.is_stopping()
                && let Some(next) = self.next.take()
            {
                self.edit(*next);
                continue;
            }
            self.report_conditions();
            if self.on_idle() {
                continue;
            }
            self.wait();
        }
    }

    /// Reads the clock: before a message is handled, and after work on this thread.
    ///
    /// Back-off and timers start at this time. All events between two readings have the same time.
    fn tick(&mut self) {
        self.now = Timestamp(self.start.elapsed().as_millis() as u64);
    }

    fn handle_shutdown(&mut self) {
        let requests = self.stop.requests();
        if self.is_stopping() && !self.machine.is_interrupted() {
            self.machine.input(self.now, Input::Interrupt);
            self.wakes.clear();
            self.cancel_queued();
        }
        if requests > self.seen_requests {
            self.seen_requests = requests;
            let fate = self.stop.fate_after(requests);
            // The first request has ended the checks.
            let in_flight = if fate == InFlight::Finished { self.calls.changes() } else { self.calls.len() };
            self.observer.event(Event::Interrupted { in_flight, fate });
        }
    }

    /// Returns true if the driver starts nothing new: a stop was requested, or a failure was fatal.
    fn is_stopping(&self) -> bool {
        self.fatal.is_some() || self.stop.requests() > 0 || self.holder.as_ref().is_some_and(ReconcileLoop::is_enough)
    }

    /// Returns true if a vertex has not settled yet.
    fn is_under_way(&self, vertex: ResourceId) -> bool {
        self.machine.settlement(vertex).is_none()
    }

    /// Starts nothing new, because an edit comes next. The machine requests queued calls again.
    fn pause_for_edit(&mut self) {
        self.machine.input(self.now, Input::Pause);
        let mut unbegun = self.unbegun(|_| true);
        unbegun.extend(self.read_caches.take_parked());
        for vertex in unbegun {
            self.machine.input(self.now, Input::Requeued(vertex));
        }
    }

    /// Cancels all queued calls.
    fn cancel_queued(&mut self) {
        let mut unbegun = self.unbegun(|_| true);
        unbegun.extend(self.held_back.drain(..).map(|(_, vertex)| vertex));
        self.drop_vertices(&unbegun);
        self.drop_parked();
    }

    /// Cancels the queued calls that no worker has started; returns their vertices.
    fn unbegun(&mut self, is_meant: impl Fn(CallId) -> bool) -> Vec<ResourceId> {
        let calls = self.workers.cancel_queued(is_meant);
        let ended = calls.into_iter().filter_map(|call| self.calls.end(call));
        ended.flat_map(|call| call.targets).map(|target| target.id).collect()
    }

    fn drop_vertices(&mut self, vertices: &[ResourceId]) {
        for vertex in vertices {
            self.machine.input(self.now, Input::Cancelled(*vertex));
        }
    }

    /// Waits for the next message or the next timer.
    fn wait(&mut self) {
        self.wakes.sort_unstable();
        let due = self.wakes.first().map(|(at, _)| Duration::from_millis(at.0.saturating_sub(self.now.0)));
        let (calls, single) = self.calls.single();
        let look = single.filter(|_| self.in_flight() > 0).map(|_| PROGRESS_INTERVAL);
        self.observer.event(Event::Idle);
        let next = self.next_time().into_iter().chain(self.next_deadline());
        let message = match due.into_iter().chain(look).chain(next).min() {
            Some(left) => self.receiver.recv_timeout(left),
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if let (Err(RecvTimeoutError::Timeout), Some((target, since))) = (&message, single) {
            let (reference, is_former) = (&target.reference, !self.prepared.graph.contains(target.id));
            self.observer.event(Event::Waiting { reference, is_former, calls, since: since.elapsed() });
        }
        if let Ok(message) = message {
            self.take(message);
        }
        self.tick();
        let due = self.wakes.iter().take_while(|(at, _)| *at <= self.now).count();
        for (_, vertex) in self.wakes.drain(..due).collect::<Vec<_>>() {
            self.machine.input(self.now, Input::TimerFired(vertex));
        }
        self.end_overdue();
        self.poll_timers();
    }

    fn take(&mut self, message: Message) {
        // The message was sent while this thread waited or worked.
        self.tick();
        match message {
            Message::Stop => {}
            Message::Done { call, doing, mut done } => {
                self.has_ended(call, &mut done);
                let done = self.on_call_finished(call, doing, done);
                self.answer(doing, done);
            }
            Message::Read { call, provider, mut done, mut rest, foreign } => {
                if self.has_ended(call, &mut done) && rest.is_err() {
                    // The batch was too slow for one resource, and may be fast enough for the others.
                    rest = Ok(Read::default());
                }
                let done = self.on_call_finished(call, CallKind::Check, done);
                self.read(Some(call), provider, done, rest, foreign);
            }
            Message::Declared => self.take_declared(),
            Message::WatchEvents => self.take_watch_events(),
            Message::ProviderEvents(told) => self.on_provider_events(&told),
            Message::WatchEnded(told) => self.on_watch_ended(&told),
            Message::Query(question) => self.answer_question(question),
            Message::Begun(deadline) => self.has_begun(deadline),
            Message::Log { level, type_name, name, message } => {
                let message = &self.state.sealed(&type_name, &name, message);
                let (type_name, name) = (&type_name, &name);
                self.observer.event(Event::Log { level, type_name, name, message });
            }
        }
    }

    /// Removes an answered call. Returns its results for resources that are declared as they were.
    fn on_call_finished(&mut self, call: CallId, doing: CallKind, done: Vec<CallResult>) -> Vec<CallResult> {
        match self.calls.end(call) {
            Some(call) => {
                call.ended().into_iter().for_each(|event| self.observer.event(event));
                self.take_superseded(&call, doing, done)
            }
            None => done,
        }
    }

    /// Carries out one command of the machine.
    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Settled(vertex, settlement) => {
                self.preview_context.settled(vertex, settlement);
                self.state.settle(vertex, settlement, &self.machine, self.observer);
            }
            Command::Demoted(vertex) => self.demoted(vertex),
            Command::Contested(vertex) => self.contested(vertex),
            Command::Uncontested(vertex) => self.uncontested(vertex),
            // The watches restart lost watches themselves.
            Command::Watch(vertex) => self.machine.input(self.now, Input::WatchEstablished(vertex)),
            Command::JournalRefresh(tokens) => self.journal_refreshes(&tokens),
            Command::ClearRefresh(tokens) => self.paid(&tokens),
            Command::Check(batch) => self.check(batch),
            Command::Apply(batch) => {
                let batch = self.refuse_unrecorded(CallKind::Apply, batch);
                self.apply(&batch);
            }
            Command::Refresh(batch) => {
                let batch = self.refuse_unrecorded(CallKind::Refresh, batch);
                if batch.vertices.is_empty() {
                    return;
                }
                let items = self.state.items(&batch.vertices);
                self.dispatch(CallKind::Refresh, batch.group, items);
            }
            Command::SetTimer(vertex, at) => {
                // A new check of a settled vertex is no retry.
                if self.machine.settlement(vertex).is_none() {
                    self.state.tell_retry(vertex, self.observer);
                }
                self.wakes.push((at, vertex));
            }
        }
    }

    fn finish(mut self) -> Report {
        let prepared = Arc::clone(&self.prepared);
        for vertex in prepared.graph.vertices() {
            if self.is_under_way(vertex) {
                self.state.settle(vertex, Disposition::Interrupted, &self.machine, self.observer);
            }
        }
        let unflushed = match self.options.mode {
            Mode::Apply => self.state.flushes.flush(&self.prepared.registry, self.options, self.environment.mail),
            Mode::Noop => Vec::new(),
        };
        let owed = match self.options.mode {
            Mode::Apply => {
                let place = |vertex: ResourceId| prepared.graph.place(vertex);
                let mut owed = self.machine.owed();
                owed.sort_unstable_by_key(|token| {
                    (token.first == token.second, place(token.first), place(token.second))
                });
                self.owed_refreshes(&owed)
            }
            Mode::Noop => Vec::new(),
        };
        let ended_by = self.fatal;
        let mut report = self.state.report();
        for resource in report.resources.iter_mut().filter(|resource| resource.status == Status::Interrupted) {
            resource.because_of.clone_from(&ended_by);
        }
        report.ended_by = ended_by;
        report.owed = owed;
        report.journal = self.journal_failure;
        report.interrupted = self.stop.requests() > 0;
        report.unflushed = unflushed;
        report.prepared = Some(prepared);
        report.duration = self.start.elapsed();
        report
    }
}
