//! Starts a driver from a prepared catalog and turns its result into a report.

use std::sync::Arc;
use std::thread;

use ecow::eco_format;
use kilter_engine::{Machine, Timestamp};
use kilter_provider::Level;
use rustc_hash::FxHashMap;

use super::board::RunState;
use super::calls::Generation;
use super::debts::{described, owed, owed_for};
use super::graph_swap::{Kept, ResumePlan, SuspendedParts, SuspendedRun};
use super::hold::{Hold, ReconcileLoop};
use super::machine_config::{SemaphoreIds, Swap};
use super::opened::OpenProviders;
use super::reading::ManifestSource;
use super::shelf::ReadCaches;
use super::stop::{LogSender, ShutdownHandle};
use super::surroundings::LazyAttributes;
use super::{Driver, Ended, Mode, Options, RunError};
use crate::journal::{Journal, JournalError};
use crate::lookup::Lookup;
use crate::observer::{Event, Observer};
use crate::outlook::Outlook;
use crate::prepare::Prepared;
use crate::report::Report;
use crate::state_dir::StateDir;
use crate::worker::Workers;

impl Prepared<'_> {
    /// Carries the run out, once.
    ///
    /// # Errors
    /// If the state directory or the journal cannot be used. Failures of providers are in the report.
    pub fn execute(
        &self,
        options: &Options,
        stop: &ShutdownHandle,
        observer: &mut dyn Observer,
    ) -> Result<Report, RunError> {
        match self.drive(options, None, None, stop, observer)? {
            Held::Ended(report) => Ok(*report),
            // Only a run that holds a state can be superseded.
            Held::Superseded(_) => Ok(Report::default()),
        }
    }

    /// Brings everything to its declared state and holds it.
    ///
    /// The run ends if a stop is requested, if `hold` has reached its goal, or if another graph is declared.
    ///
    /// # Errors
    /// If the state directory or the journal cannot be used. Failures of providers are in the report, which
    /// contains the resources that are out of sync at the end.
    pub fn hold(
        &self,
        options: &Options,
        hold: Hold<'_>,
        stop: &ShutdownHandle,
        observer: &mut dyn Observer,
    ) -> Result<Held, RunError> {
        self.drive(options, Some(hold), None, stop, observer)
    }

    /// Replaces the running graph. Unchanged resources keep their state and are not checked for the replacement.
    ///
    /// # Errors
    /// The same as [`hold`](Prepared::hold).
    pub fn take_over(
        &self,
        takeover: ResumePlan,
        options: &Options,
        hold: Hold<'_>,
        stop: &ShutdownHandle,
        observer: &mut dyn Observer,
    ) -> Result<Held, RunError> {
        self.drive(options, Some(hold), Some(takeover), stop, observer)
    }

    fn drive(
        &self,
        options: &Options,
        hold: Option<Hold<'_>>,
        before: Option<ResumePlan>,
        stop: &ShutdownHandle,
        observer: &mut dyn Observer,
    ) -> Result<Held, RunError> {
        let is_first = before.is_none();
        // An edit does not end a run whose state directory became unusable: the former graph hands its lock over.
        let taken = match (&options.state_dir, options.mode) {
            (Some(state_dir), Mode::Apply) if is_first => Some(state_dir.hold()?),
            (Some(state_dir), Mode::Noop) if is_first => {
                state_dir.verify()?;
                None
            }
            _ => None,
        };
        let lookup = Lookup::new(&self.catalog.resources, &self.providers, self.registry);
        let outlook = Outlook::new(self, &lookup, options.mode);
        let outlook = match options.mode == Mode::Noop && hold.is_none() {
            true => outlook.predicting(),
            false => outlook,
        };
        let lazy = LazyAttributes::new(self);
        let mut board = RunState::new(self, &lookup, options);
        let (parts, opened, mut kept) = match before {
            Some(ResumePlan { parts, opened, kept }) => (parts, opened, kept),
            None => (SuspendedParts::first(), Arc::new(OpenProviders::new(self.registry.len())), Kept::default()),
        };
        let SuspendedParts {
            lock: carried_lock,
            machine: old,
            watching,
            board: carried,
            journal,
            refused,
            wakes,
            calls,
            timed,
            sender,
            receiver,
            start,
        } = parts;
        let mut lock = taken.or(carried_lock);
        // A journal from the previous graph may contain refreshes that could not be written yet.
        let journal = match (journal, &options.state_dir) {
            (None, Some(state_dir)) => opened_journal(state_dir, options, observer)?,
            (journal, _) => journal,
        };
        if hold.is_some() {
            board.holds(carried, &calls, &mut kept);
        }
        let calls = calls.renumbered(&kept);
        let generation = calls.generation();
        let now = Timestamp(start.elapsed().as_millis() as u64);
        stop.listen(Some(sender.clone()));
        let mail = LogSender(sender.clone());
        let window = hold.as_ref().and_then(|hold| hold.window);
        let state_dir = options.state_dir.as_ref().map(StateDir::path);
        let owed = owed(&lookup, journal.as_ref(), &self.graph);
        let held = thread::scope(|scope| {
            let mut hold = hold;
            let mut holder = hold
                .as_mut()
                .map(|hold| ReconcileLoop::begin(self, hold.borrowed(), &sender, watching, &kept, state_dir, now));
            // A semaphore that a call of a former graph holds keeps its number.
            let mut numbers = SemaphoreIds::held(calls.semaphores());
            let semaphores = self.semaphores(&mut numbers);
            let machine = match &holder {
                Some(holder) => {
                    let mut unwatched = holder.listening.silent();
                    // Kept vertices that wait for their watch continue to wait.
                    unwatched.retain(|vertex| !kept.is_kept(*vertex));
                    // A resource that replaces the target of a running change waits for that change.
                    unwatched.extend(calls.former().filter_map(|(provider, name)| lookup.named(*provider, name)));
                    // A resource that such a change refreshes also waits for it.
                    unwatched.extend(calls.changing().flat_map(|first| owed_for(&lookup, journal.as_ref(), first)));
                    let succession = Swap { before: old, kept: &kept, unwatched, semaphores };
                    self.holding_machine(options.mode, succession, &owed, now)
                }
                None => {
                    let (graph, vertices) = (self.graph.clone(), self.vertices(options.mode));
                    Machine::new(graph, vertices, &owed).with_semaphores(semaphores)
                }
            };
            for vertex in self.graph.vertices().filter(|vertex| kept.is_kept(*vertex)) {
                if let Some(settlement) = machine.settlement(vertex) {
                    outlook.settled(vertex, settlement);
                }
            }
            let refused = refused.into_iter().filter_map(|old| kept.new_of(old)).collect();
            let wakes = wakes.into_iter().filter_map(|(at, old)| Some((at, kept.new_of(old)?))).collect();
            if let Some(holder) = &mut holder {
                holder.listening.begin(self, options.mode, &sender, stop);
            }
            // Running calls of former graphs count.
            let jobs = options.jobs.max(1).saturating_sub(calls.len());
            let driver = Driver {
                prepared: self,
                lookup: &lookup,
                outlook: &outlook,
                opened: &opened,
                lazy: &lazy,
                shelves: ReadCaches::new(self.registry.len(), self.catalog.resources.len()),
                options,
                stop,
                mail: &mail,
                sender,
                receiver,
                workers: Workers::new(scope, jobs),
                machine,
                board,
                holder,
                journal,
                observer,
                start,
                now,
                wakes,
                calls,
                landed_at: Timestamp::default(),
                numbers,
                timed,
                seen_requests: 0,
                journal_failure: None,
                unrecorded: FxHashMap::default(),
                refused,
                fatal: None,
                items: Vec::new(),
                done: Vec::new(),
                held_back: Vec::new(),
            };
            let ended = driver.run(is_first);
            let parts = match ended {
                Ended::Report(report) => return Ok(Held::Ended(report)),
                Ended::Replaced(parts) => SuspendedParts { lock: lock.take(), ..*parts },
            };
            let handover = Box::new(SuspendedRun { parts, opened: Arc::clone(&opened) });
            match hold {
                Some(hold) => succeeded(handover, generation, hold.declared),
                None => Ok(Held::Superseded(handover)),
            }
        });
        stop.listen(None);
        if let Some(window) = window {
            window.attach(None);
        }
        held
    }
}

/// Opens the journal of a run. A dry run needs none, and only reports a journal that it cannot read.
///
/// # Errors
/// If the journal cannot be read and the run makes changes.
fn opened_journal(
    state_dir: &StateDir,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Option<Journal>, JournalError> {
    match Journal::open(state_dir.path(), options.durability) {
        Err(error) if options.mode == Mode::Noop => {
            let message = &eco_format!("{}. Refreshes that earlier runs owe are not shown", described(&error));
            observer.event(Event::Log { level: Level::Warning, type_name: "journal", name: "", message });
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

/// Holds the next graphs until all calls of generation `generation` have ended.
///
/// The calls borrow from the graph, so that the graph must stay until then.
fn succeeded(
    mut handover: Box<SuspendedRun>,
    generation: Generation,
    declared: &mut dyn ManifestSource,
) -> Result<Held, RunError> {
    while handover.parts.calls.has_of(generation) {
        match declared.run_next(handover)? {
            Held::Superseded(next) => handover = next,
            ended @ Held::Ended(_) => return Ok(ended),
        }
    }
    Ok(Held::Superseded(handover))
}

/// End of a run that held a state.
#[derive(Debug)]
pub enum Held {
    /// The run has ended.
    Ended(Box<Report>),
    /// Another graph is declared: its driver takes over from this handover.
    Superseded(Box<SuspendedRun>),
}
