//! Starts a driver from a prepared catalog and turns its result into a report.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use ecow::eco_format;
use kilter_engine::{HoldConfig, IdAllocator, Machine, ResourceId, Timestamp};
use kilter_provider::Level;
use rustc_hash::FxHashMap;

use super::Driver;
use super::call_context::CallEnvironment;
use super::calls::Calls;
use super::machine_config::SemaphoreIds;
use super::message::LogSender;
use super::open_providers::OpenProviders;
use super::pending_refreshes::{described, owed};
use super::read_cache::ReadCaches;
use super::reconcile_loop::{Hold, ReconcileLoop};
use super::run_state::RunState;
use super::shutdown::ShutdownHandle;
use crate::journal::{Journal, JournalError};
use crate::observer::{Event, Observer};
use crate::options::{Mode, Options, RunError};
use crate::prepare::Prepared;
use crate::preview_context::RunPreview;
use crate::run_report::Report;
use crate::state_dir::StateDir;
use crate::worker::Workers;

impl Prepared {
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
        drive(Arc::new(self.clone()), options, None, stop, observer)
    }

    /// Brings everything to its declared state and holds it, through all edits of the manifest.
    ///
    /// The run ends if a stop is requested, or if `hold` has reached its goal.
    ///
    /// # Errors
    /// If the state directory or the journal cannot be used. Failures of providers are in the report, which
    /// contains the resources that are out of sync at the end.
    pub fn hold(
        self,
        options: &Options,
        hold: Hold<'_>,
        stop: &ShutdownHandle,
        observer: &mut dyn Observer,
    ) -> Result<Report, RunError> {
        drive(Arc::new(self), options, Some(hold), stop, observer)
    }
}

fn drive(
    prepared: Arc<Prepared>,
    options: &Options,
    hold: Option<Hold<'_>>,
    stop: &ShutdownHandle,
    observer: &mut dyn Observer,
) -> Result<Report, RunError> {
    let _lock = match (&options.state_dir, options.mode) {
        (Some(state_dir), Mode::Apply) => Some(state_dir.hold()?),
        (Some(state_dir), Mode::Noop) => {
            state_dir.verify()?;
            None
        }
        _ => None,
    };
    let journal = match &options.state_dir {
        Some(state_dir) => opened_journal(state_dir, options, observer)?,
        None => None,
    };
    let preview_context = RunPreview::new(&prepared, options.mode);
    let is_plan = options.mode == Mode::Noop && hold.is_none();
    let preview_context = Arc::new(if is_plan { preview_context.predicting() } else { preview_context });
    let (count, providers) = (prepared.resources().len(), prepared.registry.len());
    let mut state = RunState::new(&prepared, options);
    let (sender, receiver) = channel();
    let (start, now) = (Instant::now(), Timestamp::default());
    stop.listen(Some(sender.clone()));
    let (mail, opened) = (LogSender(sender.clone()), OpenProviders::new(providers));
    let status_handle = hold.as_ref().and_then(|hold| hold.status_handle);
    let owed = owed(&prepared.lookup(), journal.as_ref(), &prepared.graph);
    let report = thread::scope(|scope| {
        let mut holder = hold.map(|hold| ReconcileLoop::begin(hold, &sender));
        let all: Vec<ResourceId> = prepared.graph.vertices().collect();
        if let Some(holder) = &mut holder {
            state.holds();
            holder.watch(&prepared, &all, options, &mut state.origins.tracker, &sender, now);
        }
        let mut numbers = SemaphoreIds::default();
        let semaphores = prepared.semaphores(&mut numbers, &all);
        let (graph, vertices) = (Arc::clone(&prepared.graph), prepared.vertices(options.mode));
        let machine = match &holder {
            Some(holder) => {
                let awaiting_watch = holder.provider_watches.silent();
                let holding = HoldConfig { awaiting_watch, ..prepared.holding(&all) };
                Machine::holding(graph, vertices, &owed, now, holding)
            }
            None => Machine::new(graph, vertices, &owed),
        };
        drop(all);
        if let Some(holder) = &mut holder {
            holder.provider_watches.begin(&prepared, options.mode, &sender, stop);
        }
        let driver = Driver {
            ids: IdAllocator::of_first(count),
            next: None,
            environment: CallEnvironment::new(&prepared, &preview_context, &opened, options, stop, &mail),
            preview_context,
            prepared,
            read_caches: ReadCaches::new(providers, count),
            options,
            stop,
            sender,
            receiver,
            workers: Workers::new(scope, options.jobs.max(1)),
            machine: machine.with_semaphores(semaphores),
            state,
            holder,
            journal,
            observer,
            start,
            now,
            wakes: Vec::new(),
            calls: Calls::default(),
            landed_at: Timestamp::default(),
            numbers,
            timed: Vec::new(),
            seen_requests: 0,
            journal_failure: None,
            unrecorded: FxHashMap::default(),
            refused: std::collections::BTreeSet::new(),
            fatal: None,
            items: Vec::new(),
            done: Vec::new(),
            held_back: Vec::new(),
        };
        driver.run()
    });
    stop.listen(None);
    if let Some(status_handle) = status_handle {
        status_handle.attach(None);
    }
    Ok(report)
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
