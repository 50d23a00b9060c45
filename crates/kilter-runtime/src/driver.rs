//! One pass: the loop between the state machine and the providers.

mod board;
mod calls;
mod composite;
mod conditions;
mod debts;
mod graph_swap;
mod hold;
mod listening;
mod machine_config;
mod not_installed;
mod opened;
mod paused;
mod polls;
mod prediction;
mod provider_watch;
mod read;
mod reading;
mod resolve;
mod shelf;
mod start;
mod status_query;
mod stop;
mod superseded_calls;
mod surroundings;
mod tidings;
mod timeout;
mod window;
mod work;

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_engine::{Command, Disposition, Input, Machine, Timestamp, VertexId};
use kilter_model::ResourceRef;
use kilter_provider::{Durability, Strictness};
use opened::OpenProviders;
use rustc_hash::FxHashMap;

use crate::journal::{Journal, JournalError};
use crate::lookup::Lookup;
use crate::observer::{Event, Observer};
use crate::outlook::Outlook;
use crate::prepare::Prepared;
use crate::report::{Report, Status};
use crate::state_dir::{StateDir, StateDirError};
use crate::step::{CallResult, Job};
use crate::worker::Workers;
use board::RunState;
pub(crate) use calls::CallId;
use calls::Calls;
pub use conditions::{Conditions, Outdated, Stale};
use graph_swap::SuspendedParts;
pub use graph_swap::{ResumePlan, SuspendedRun};
pub use hold::Hold;
use hold::ReconcileLoop;
use machine_config::SemaphoreIds;
pub use paused::{Pause, Paused};
pub use reading::{ManifestSource, Reload, ReloadNotifier};
pub(crate) use shelf::Read;
use shelf::ReadCaches;
pub use start::Held;
use stop::Message;
use stop::{CallKind, LogSender};
pub use stop::{InFlight, ShutdownHandle};
use surroundings::LazyAttributes;
use timeout::RunningDeadline;
pub use window::{
    ChangeCounters, CompositeStanding, Contest, InFlightCall, ResourceStatus, StatusError, StatusFilter, StatusHandle,
    StatusSnapshot, Watched,
};

/// Maximum number of resources whose states are held in memory at the same time.
pub(crate) const CHUNK: usize = 64;

/// Maximum number of resources that are changed on this thread between two checks for an interrupt.
const APPLY_CHUNK: usize = 1024;

/// Interval between checks for long calls.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Returns a time in the unit of the state machine.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Bit of a group whose checks run on a worker.
const CHECKS_ON_WORKER: u16 = 2;
/// Bit of a group whose changes run on a worker.
const CHANGES_ON_WORKER: u16 = 1;

/// Mode of a run: with or without changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Brings resources to their declared state.
    Apply,
    /// Only reports the changes that a run would make. Takes no lock and writes nothing.
    Noop,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Mode of the run.
    pub mode: Mode,
    /// Maximum number of concurrent calls that may block.
    pub jobs: usize,
    /// Durability of changes after a crash of the machine.
    pub durability: Durability,
    /// Strictness of the checks that providers keep their contract.
    pub strictness: Strictness,
    /// State directory; none for a run that stores no state.
    pub state_dir: Option<StateDir>,
}

/// Reason why a run did not take place, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory cannot be used.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The journal of pending refreshes cannot be used; the run makes no further changes.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The system has no descriptor left for the interrupt.
    #[error("cannot make an event descriptor")]
    Event(#[source] std::io::Error),
}

/// End of a driver.
enum Ended {
    Report(Box<Report>),
    Replaced(Box<SuspendedParts>),
}

struct Driver<'run, 'hold, 'scope, 'env: 'scope> {
    prepared: &'run Prepared<'run>,
    lookup: &'run Lookup<'run>,
    outlook: &'run Outlook<'run>,
    opened: &'run OpenProviders,
    lazy: &'run LazyAttributes,
    shelves: ReadCaches,
    options: &'run Options,
    stop: &'run ShutdownHandle,
    mail: &'run LogSender,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    workers: Workers<'scope, 'env>,
    machine: Machine,
    board: RunState<'run>,
    /// Additional state of a run that holds the declared state.
    holder: Option<ReconcileLoop<'hold>>,
    journal: Option<Journal>,
    observer: &'hold mut dyn Observer,
    start: Instant,
    now: Timestamp,
    /// Vertices that wait for a timer, with the time.
    wakes: Vec<(Timestamp, VertexId)>,
    /// Calls on workers, including calls of former graphs.
    calls: Calls,
    /// Time at which the last call of a former graph ended.
    landed_at: Timestamp,
    /// Numbers of semaphores.
    numbers: SemaphoreIds,
    seen_requests: u32,
    /// Reason why a single pass cannot write the journal.
    journal_failure: Option<EcoString>,
    /// Vertices whose refreshes could not be journalled, with the reason. Their next changes are refused.
    unrecorded: FxHashMap<VertexId, EcoString>,
    /// Refused vertices. They are checked when the journal can be written again.
    refused: BTreeSet<VertexId>,
    /// Resource whose failure ends the run.
    fatal: Option<ResourceRef>,
    /// Calls with a timeout.
    timed: Vec<RunningDeadline>,
    /// Reused buffers for checks on this thread and their results.
    items: Vec<Job<'run>>,
    done: Vec<CallResult>,
    /// Checks of a plan that wait for the resources they read, each with its group.
    held_back: Vec<(u16, VertexId)>,
}

impl<'run: 'scope, 'scope, 'env> Driver<'run, '_, 'scope, 'env> {
    fn run(mut self, is_first: bool) -> Ended {
        let mut commands = Vec::new();
        if let Some(holder) = &mut self.holder
            && holder.begins_anew()
        {
            self.observer.event(Event::Converged(false));
        }
        // The manifest may have changed between the read and the start of the watch.
        self.tell_door();
        if is_first && let Some(pause) = self.holder.as_ref().and_then(|holder| holder.hold.paused) {
            self.pause(pause);
        }
        self.look_at_declared();
        self.go_on();
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
                return Ended::Report(Box::new(self.finish()));
            }
            if !self.is_ending() && self.is_superseded() {
                return Ended::Replaced(Box::new(self.hand_over()));
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
        if self.is_ending() && !self.machine.is_interrupted() {
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
    fn is_ending(&self) -> bool {
        self.fatal.is_some() || self.stop.requests() > 0 || self.holder.as_ref().is_some_and(ReconcileLoop::is_enough)
    }

    /// Returns true if another graph is declared, for which this driver ends.
    fn is_superseded(&self) -> bool {
        self.holder.as_ref().is_some_and(ReconcileLoop::is_superseded)
    }

    /// Returns true if a vertex has not settled yet.
    ///
    /// Work that was cancelled in favour of the next graph counts as not settled: the next graph starts it.
    fn is_under_way(&self, vertex: VertexId) -> bool {
        match self.machine.settlement(vertex) {
            None => true,
            Some(settlement) => {
                self.is_superseded()
                    && settlement == Disposition::Interrupted
                    && self.board.standing_of(vertex).is_none()
            }
        }
    }

    /// Starts nothing new, because another graph is declared.
    fn pause_for_swap(&mut self) {
        self.machine.input(self.now, Input::Pause);
        self.cancel_queued();
    }

    /// Hands everything over to the driver of the next graph. Calls in flight continue.
    fn hand_over(mut self) -> SuspendedParts {
        self.observer.event(Event::Idle);
        // Some watches end after this, and may still send events.
        let listened = self.holder.iter().flat_map(|holder| holder.listening.vertices());
        let vertices: Vec<VertexId> = self.calls.vertices().chain(listened).collect();
        self.board.remember_secrets(vertices.into_iter());
        let Driver { machine, board, holder, journal, refused, wakes, calls, timed, sender, receiver, start, .. } =
            self;
        let (machine, watching, board) = (Some(machine), holder.map(ReconcileLoop::leave), Some(board.leave()));
        SuspendedParts {
            lock: None,
            machine,
            watching,
            board,
            journal,
            refused,
            wakes,
            calls,
            timed,
            sender,
            receiver,
            start,
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
    fn unbegun(&mut self, is_meant: impl Fn(CallId) -> bool) -> Vec<VertexId> {
        let calls = self.workers.take_back(is_meant);
        let ended = calls.into_iter().filter_map(|call| self.calls.end(call));
        ended.flat_map(|call| call.targets).filter_map(|target| target.now).collect()
    }

    fn drop_vertices(&mut self, vertices: &[VertexId]) {
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
            let (reference, is_former) = (&target.reference, target.now.is_none());
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
                match self.landed(call) {
                    Some(former) => self.former(&former, doing, done),
                    None => self.answer(doing, done),
                }
            }
            Message::Read { call, provider, mut done, mut rest, foreign } => {
                if self.has_ended(call, &mut done) && rest.is_err() {
                    // The batch was too slow for one resource, and may be fast enough for the others.
                    rest = Ok(Read::default());
                }
                match self.landed(call) {
                    Some(former) => self.former(&former, CallKind::Check, done),
                    None => self.read(provider, done, rest, foreign),
                }
            }
            Message::Declared => self.take_declared(),
            Message::WatchEvents => self.take_tidings(),
            Message::ProviderEvents(told) => self.heard(&told),
            Message::WatchEnded(told) => self.left(&told),
            Message::Query(question) => self.answer_question(question),
            Message::Begun(deadline) => self.has_begun(deadline),
            Message::Log { level, type_name, name, message } => {
                let message = &self.board.sealed(&type_name, &name, message);
                let (type_name, name) = (&type_name, &name);
                self.observer.event(Event::Log { level, type_name, name, message });
            }
        }
    }

    /// Carries out one command of the machine.
    fn carry_out(&mut self, command: Command) {
        match command {
            // The next graph starts it.
            Command::Settled(_, Disposition::Interrupted) if self.is_superseded() && !self.is_ending() => {}
            Command::Settled(vertex, settlement) => {
                self.outlook.settled(vertex, settlement);
                self.board.settle(vertex, settlement, &self.machine, self.observer);
            }
            Command::Demoted(vertex) => self.demoted(vertex),
            Command::Contested(vertex) => self.contested(vertex),
            Command::Uncontested(vertex) => self.uncontested(vertex),
            // The watches restart lost watches themselves.
            Command::Watch(vertex) => self.machine.input(self.now, Input::WatchEstablished(vertex)),
            Command::JournalRefresh(tokens) => self.owe(&tokens),
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
                let items = self.board.items(&batch.vertices);
                self.dispatch(CallKind::Refresh, batch.group, items);
            }
            Command::SetTimer(vertex, at) => {
                // A new check of a settled vertex is no retry.
                if self.machine.settlement(vertex).is_none() {
                    self.board.tell_retry(vertex, self.observer);
                }
                self.wakes.push((at, vertex));
            }
        }
    }

    fn finish(mut self) -> Report {
        for vertex in self.prepared.graph.vertices() {
            if self.is_under_way(vertex) {
                self.board.settle(vertex, Disposition::Interrupted, &self.machine, self.observer);
            }
        }
        let unflushed = match self.options.mode {
            Mode::Apply => self.board.flush_now(self.mail),
            Mode::Noop => Vec::new(),
        };
        let owed = match self.options.mode {
            Mode::Apply => self.debts(&self.machine.owed()),
            Mode::Noop => Vec::new(),
        };
        let ended_by = self.fatal;
        let mut report = self.board.report();
        for resource in report.resources.iter_mut().filter(|resource| resource.status == Status::Interrupted) {
            resource.because_of.clone_from(&ended_by);
        }
        report.ended_by = ended_by;
        report.owed = owed;
        report.journal = self.journal_failure;
        report.interrupted = self.stop.requests() > 0;
        report.unflushed = unflushed;
        report.duration = self.start.elapsed();
        report
    }
}
