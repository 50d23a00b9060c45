//! One pass: the loop between the machine and the providers.

mod begin;
mod board;
mod calls;
mod composite;
mod conditions;
mod debts;
mod former;
mod handover;
mod hold;
mod listen;
mod listening;
mod look;
mod not_installed;
mod opened;
mod paused;
mod polls;
mod prediction;
mod read;
mod reading;
mod resolve;
mod shelf;
mod stop;
mod surroundings;
mod tidings;
mod timeout;
mod treatment;
mod window;
mod work;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_engine::{Command, Input, Machine, Settlement, Timestamp, VertexId};
use kilter_model::ResourceRef;
use kilter_provider::{Durability, Strictness};
use opened::Opened;
use rustc_hash::FxHashMap;

use crate::journal::{Journal, JournalError};
use crate::lookup::Lookup;
use crate::observer::{Event, Observer};
use crate::outlook::Outlook;
use crate::prepare::Prepared;
use crate::report::{Report, Status};
use crate::state_dir::{StateDir, StateDirError};
use crate::step::{Done, Item};
use crate::worker::Workers;
pub use begin::Held;
use board::Board;
pub(crate) use calls::CallId;
use calls::Calls;
pub use conditions::{Conditions, Outdated, Stale};
use handover::Parts;
pub use handover::{Handover, Takeover};
pub use hold::Hold;
use hold::Holder;
pub use paused::{Pause, Paused};
pub use reading::{Anew, Declared, Ring};
pub(crate) use shelf::Read;
use shelf::Shelves;
use stop::Message;
use stop::{Doing, Mail};
pub use stop::{Fate, Stop};
use surroundings::Lazy;
use timeout::Timed;
use treatment::Numbers;
pub use window::{Begun, CompositeStanding, Contest, Standing, Standings, Tally, Unseen, Watched, Which, Window};

/// Resources whose states are held at the same time, at most.
pub(crate) const CHUNK: usize = 64;

/// Resources that are changed on this thread between two looks for an interrupt, at most.
const PORTION: usize = 1024;

/// Time between two looks at what takes long.
const LOOK: Duration = Duration::from_millis(500);

/// A time as the machine counts it.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The bit of a group whose checks run on a worker.
const CHECKS_ON_WORKER: u16 = 2;
/// The bit of a group whose changes run on a worker.
const CHANGES_ON_WORKER: u16 = 1;

/// Whether a run changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Brings resources to their state.
    Apply,
    /// Only tells what it would do. Takes no lock and writes nothing.
    Noop,
}

/// How a run is carried out.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether anything is changed.
    pub mode: Mode,
    /// Calls that may wait, at most so many at a time.
    pub jobs: usize,
    /// Whether what was done survives a crash of the machine.
    pub durability: Durability,
    /// How strictly providers are held to their promises.
    pub strictness: Strictness,
    /// Where state is kept; none for a run that leaves nothing behind.
    pub state_dir: Option<StateDir>,
}

/// Why a run did not take place, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The state directory cannot be used.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The journal of owed refreshes cannot be used; nothing further was changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The system has no descriptor left for the interrupt.
    #[error("cannot make an event descriptor")]
    Event(#[source] std::io::Error),
}

/// How a driver has ended.
enum Ended {
    Report(Box<Report>),
    Superseded(Box<Parts>),
}

struct Driver<'run, 'hold, 'scope, 'env: 'scope> {
    prepared: &'run Prepared<'run>,
    lookup: &'run Lookup<'run>,
    outlook: &'run Outlook<'run>,
    opened: &'run Opened,
    lazy: &'run Lazy,
    shelves: Shelves,
    options: &'run Options,
    stop: &'run Stop,
    mail: &'run Mail,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    workers: Workers<'scope, 'env>,
    machine: Machine,
    board: Board<'run>,
    /// What is added where the state is held.
    holder: Option<Holder<'hold>>,
    journal: Option<Journal>,
    observer: &'hold mut dyn Observer,
    start: Instant,
    now: Timestamp,
    /// Vertices that wait for their time.
    wakes: Vec<(Timestamp, VertexId)>,
    /// Calls on workers, those for former graphs too.
    calls: Calls,
    /// When the last one for a former graph ended.
    landed_at: Timestamp,
    /// The numbers of semaphores.
    numbers: Numbers,
    seen_requests: u32,
    /// Why the journal cannot be written in a single pass.
    journal_failure: Option<EcoString>,
    /// Why refreshes could not be journalled that the next changes of these vertices would cause: they are refused.
    unrecorded: FxHashMap<VertexId, EcoString>,
    /// Vertices that were refused, to be checked when the journal can be written again.
    refused: Vec<VertexId>,
    /// The resource whose failure is to end the run.
    fatal: Option<ResourceRef>,
    /// Calls that may take so long only.
    timed: Vec<Timed>,
    /// Room for what is checked on this thread, and for what comes of it.
    items: Vec<Item<'run>>,
    done: Vec<Done>,
    /// Checks of a plan that wait for what they read, each with its group.
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
        // It may be another one since it was made, when nobody watched it.
        self.tell_door();
        if is_first && let Some(pause) = self.holder.as_ref().and_then(|holder| holder.hold.paused) {
            self.pause(pause);
        }
        self.look_at_declared();
        self.go_on();
        loop {
            self.tick();
            self.tell_alive();
            self.heed_stop();
            self.machine.commands_into(&mut commands);
            let mut idle = commands.is_empty();
            for command in commands.drain(..) {
                self.carry_out(command);
            }
            // All resources may have settled at once, and may never again.
            commands.shrink_to(PORTION);
            while let Ok(message) = self.receiver.try_recv() {
                self.take(message);
                // What it brought may have given the machine something to do: no waiting before that.
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
                return Ended::Superseded(Box::new(self.hand_over()));
            }
            self.report_conditions();
            if self.rest() {
                continue;
            }
            self.wait();
        }
    }

    /// Reads the clock: before a message is taken and behind work on this thread, since what is to wait for so long waits from then
    /// on. Between two readings everything happens at the same time.
    fn tick(&mut self) {
        self.now = Timestamp(self.start.elapsed().as_millis() as u64);
    }

    fn heed_stop(&mut self) {
        let requests = self.stop.requests();
        if self.is_ending() && !self.machine.is_interrupted() {
            self.machine.input(self.now, Input::Interrupt);
            self.wakes.clear();
            self.take_back();
        }
        if requests > self.seen_requests {
            self.seen_requests = requests;
            let fate = self.stop.fate_after(requests);
            self.observer.event(Event::Interrupted { in_flight: self.calls.len(), fate });
        }
    }

    /// Whether nothing further is begun: somebody asked for it, or a failure was fatal.
    fn is_ending(&self) -> bool {
        self.fatal.is_some() || self.stop.requests() > 0 || self.holder.as_ref().is_some_and(Holder::is_enough)
    }

    /// Whether something else is declared, for which this run makes way.
    fn is_superseded(&self) -> bool {
        self.holder.as_ref().is_some_and(Holder::is_superseded)
    }

    /// Whether something is still to be done to a vertex. What was not begun, to make way for what is declared now, is begun then.
    fn is_under_way(&self, vertex: VertexId) -> bool {
        match self.machine.settlement(vertex) {
            None => true,
            Some(settlement) => {
                self.is_superseded()
                    && settlement == Settlement::Interrupted
                    && self.board.standing_of(vertex).is_none()
            }
        }
    }

    /// Nothing further is begun: something else is declared.
    fn make_way(&mut self) {
        self.machine.input(self.now, Input::Pause);
        self.take_back();
    }

    /// Leaves everything to whoever holds what is declared now. What is in flight goes on.
    fn hand_over(mut self) -> Parts {
        self.observer.event(Event::Idle);
        // Some watches are ended behind this, and may say something at last.
        let listened = self.holder.iter().flat_map(|holder| holder.listening.vertices());
        let vertices: Vec<VertexId> = self.calls.vertices().chain(listened).collect();
        self.board.remember_secrets(vertices.into_iter());
        let Driver { machine, board, holder, journal, refused, wakes, calls, timed, sender, receiver, start, .. } =
            self;
        let (machine, watching, board) = (Some(machine), holder.map(Holder::leave), Some(board.leave()));
        Parts { machine, watching, board, journal, refused, wakes, calls, timed, sender, receiver, start }
    }

    /// What has not been begun is not begun any more.
    fn take_back(&mut self) {
        let mut unbegun = self.unbegun(|_| true);
        unbegun.extend(self.held_back.drain(..).map(|(_, vertex)| vertex));
        self.drop_vertices(&unbegun);
        self.drop_parked();
    }

    /// Takes back calls that no worker has begun: the vertices that they are for.
    fn unbegun(&mut self, is_meant: impl Fn(CallId) -> bool) -> Vec<VertexId> {
        let calls = self.workers.take_back(is_meant);
        let ended = calls.into_iter().filter_map(|call| self.calls.end(call));
        ended.flat_map(|call| call.targets).filter_map(|target| target.now).collect()
    }

    fn drop_vertices(&mut self, vertices: &[VertexId]) {
        for vertex in vertices {
            self.machine.input(self.now, Input::Dropped(*vertex));
        }
    }

    /// Waits for the next message or the next vertex whose time has come.
    fn wait(&mut self) {
        self.wakes.sort_unstable();
        let due = self.wakes.first().map(|(at, _)| Duration::from_millis(at.0.saturating_sub(self.now.0)));
        let (calls, single) = self.calls.single();
        let look = single.filter(|_| self.in_flight() > 0).map(|_| LOOK);
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
            self.machine.input(self.now, Input::Due(vertex));
        }
        self.end_overdue();
        self.look_around();
    }

    fn take(&mut self, message: Message) {
        // It was sent while this thread waited or worked.
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
                    // It was too slow for one, and may be fast enough for others.
                    rest = Ok(Read::default());
                }
                match self.landed(call) {
                    Some(former) => self.former(&former, Doing::Check, done),
                    None => self.read(provider, done, rest, foreign),
                }
            }
            Message::Declared => self.take_declared(),
            Message::Told => self.take_tidings(),
            Message::Heard(told) => self.heard(&told),
            Message::Left(told) => self.left(&told),
            Message::Asked(question) => self.answer_question(question),
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
            // It begins with what is declared now.
            Command::Settled(_, Settlement::Interrupted) if self.is_superseded() && !self.is_ending() => {}
            Command::Settled(vertex, settlement) => {
                self.outlook.settled(vertex, settlement);
                self.board.settle(vertex, settlement, &self.machine, self.observer);
            }
            Command::Demoted(vertex) => self.demoted(vertex),
            Command::Contested(vertex) => self.contested(vertex),
            Command::Uncontested(vertex) => self.uncontested(vertex),
            // Watches that end are begun anew by those who have them.
            Command::Watch(vertex) => self.machine.input(self.now, Input::Watching(vertex)),
            Command::Owe(tokens) => self.owe(&tokens),
            Command::Paid(tokens) => self.paid(&tokens),
            Command::Check(batch) => self.check(batch),
            Command::Apply(batch) => {
                let batch = self.refuse_unrecorded(Doing::Apply, batch);
                self.apply(&batch);
            }
            Command::Refresh(batch) => {
                let batch = self.refuse_unrecorded(Doing::Refresh, batch);
                if batch.vertices.is_empty() {
                    return;
                }
                let items = self.board.items(&batch.vertices);
                self.dispatch(Doing::Refresh, batch.group, items);
            }
            Command::Wake(vertex, at) => {
                // What has settled is looked at again, which is no retry.
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
                self.board.settle(vertex, Settlement::Interrupted, &self.machine, self.observer);
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
