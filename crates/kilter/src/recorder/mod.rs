//! Recording of a run in the history.
//!
//! A [`Recorder`] is the observer between a run and its output. It opens the history at the first event that is worth
//! a record, so that a run without changes reads and writes at most one small file ([`unchanged`]).

mod body;
mod declarations;
mod observer;
mod origin;
mod owed;
mod processes;
mod queue;
mod released;
mod states;
mod unchanged;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use ecow::{EcoString, eco_format};
use kilter_history::{EventKind, History, HistoryBatch, HistoryError, NewEvent, Retention, RunId};
use kilter_model::ResourceRef;
use kilter_provider::Level;
use kilter_runtime::{Event, Mode, Prepared, Report, ResourceReport, SealingKey, StateDir, Status};
use rustc_hash::FxHashSet;
use serde_core::Serialize;
use serde_json::{Value as Json, json};

use crate::early_processes::EarlyProcesses;
use crate::output;
use crate::run_inputs::{ManifestLines, RunInputs};
use crate::session::Session;
use body::{OutcomeBody, json_text};
use declarations::Intents;
pub(crate) use declarations::{CatalogDigests, names_digest, stays};
pub(crate) use observer::RecordedObserver;
use origin::RunOrigin;
use processes::RecordedProcesses;
use queue::{QueuedEvent, key};
pub(crate) use released::kept_text;
use released::name_released;
pub(crate) use unchanged::Unchanged;

/// Directory of the history in the state directory.
const DIRECTORY: &str = "history";

/// Maximum number of events in memory. It is larger than a batch of changes, so that the transaction with the states
/// before the next batch writes them too.
const MAX_QUEUED: usize = 2000;

/// Time between two transactions, while a run waits for calls.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);

/// Time between two removals of old events, while a state is held.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Events of runs that ended before this time are removed.
const MAX_AGE: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Size of the database at which the oldest events are removed.
const MAX_BYTES: u64 = 512 << 20;

/// Returns the directory of the history of a state directory.
pub(crate) fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join(DIRECTORY)
}

/// Returns a time in milliseconds since 1970.
pub(crate) fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the begin of a run that another command than a run of resources records.
pub(crate) fn header(session: &Session, command: &str, subject: &str) -> Json {
    let mut header = origin::header(&RunOrigin::of(session));
    header["command"] = command.into();
    header["subject"] = subject.into();
    header
}

/// Resources, by type and name.
type ResourceNames = FxHashSet<(EcoString, EcoString)>;

/// Reaction to a history that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The run ends before its next change.
    End,
    /// The run continues. A machine that is held must be repaired even if its disk is full.
    Continue,
}

/// Records a run.
pub(crate) struct Recorder {
    state_dir: PathBuf,
    on_failure: OnFailure,
    origin: RunOrigin,
    inputs: RunInputs,
    lines: ManifestLines,
    prepared: Prepared,
    open: Option<OpenRun>,
    queue: Vec<QueuedEvent>,
    /// Space in which the body of an event is written.
    body: Vec<u8>,
    processes: RecordedProcesses,
    early_processes: EarlyProcesses,
    /// Resources without a success: their declarations are not in effect yet.
    unsettled: ResourceNames,
    flushed_at: Instant,
    /// First failure to write, which has been reported.
    failure: Option<EcoString>,
    /// Number of events that were not written.
    lost: usize,
    /// Resources whose changes repaired a drift.
    corrected: FxHashSet<ResourceRef>,
    pruned_at: Instant,
    /// True if the declarations are on record, or were compared with those on record.
    is_known: bool,
    /// Resources whose declarations this run has undone.
    undone: Vec<(EcoString, EcoString)>,
    /// Number of repairs of a drift.
    repairs: usize,
    /// True if the missing key was reported.
    is_warned: bool,
    /// Time of the last saved states. Each batch of changes has a time of its own.
    saved_at: i64,
}

/// Run that the history contains.
struct OpenRun {
    history: History,
    id: RunId,
    intents: Intents,
    key: Option<SealingKey>,
}

impl Recorder {
    /// Returns the recorder of a run; none if this run is not recorded.
    pub(crate) fn of(session: &Session, prepared: &Prepared, mode: Mode, on_failure: OnFailure) -> Option<Recorder> {
        let is_recorded = mode == Mode::Apply && !session.global.without_history && !session.record.is_recorded();
        let state_dir = session.state_dir_if_any().filter(|_| is_recorded)?;
        Some(Recorder {
            state_dir,
            on_failure,
            origin: RunOrigin::of(session),
            inputs: session.inputs(),
            lines: ManifestLines::default(),
            prepared: prepared.clone(),
            open: None,
            queue: Vec::new(),
            body: Vec::new(),
            processes: RecordedProcesses::default(),
            early_processes: session.early_processes.clone(),
            unsettled: FxHashSet::default(),
            flushed_at: Instant::now(),
            failure: None,
            lost: 0,
            corrected: FxHashSet::default(),
            pruned_at: Instant::now(),
            is_known: false,
            undone: Vec::new(),
            repairs: 0,
            is_warned: false,
            saved_at: 0,
        })
    }

    /// Takes a new declaration of a run that holds a state.
    pub(crate) fn declares(&mut self, prepared: &Prepared, inputs: RunInputs) {
        (self.prepared, self.inputs, self.lines) = (prepared.clone(), inputs, ManifestLines::default());
        let Some(run) = &mut self.open else {
            if let Err(error) = self.opened().map(drop) {
                self.fails(&error);
            }
            return;
        };
        let manifests = self.inputs.manifests();
        let recorded = declarations::record(&mut run.history, run.id, &self.prepared, run.key.as_ref(), &manifests);
        match recorded {
            Ok(intents) => {
                name_released(&intents.released);
                run.intents = intents;
            }
            Err(error) => self.fails(&error),
        }
    }

    /// Ends the record of the run. It adds the corrected resources to the report.
    pub(crate) fn finish(&mut self, report: &mut Report) {
        // Without earlier declarations, drift looks like an edit.
        let is_known = self.failure.is_none() && !self.prepared.origin().is_empty();
        report.corrected = is_known.then(|| std::mem::take(&mut self.corrected));
        if self.open.is_none() && self.queue.is_empty() && !self.is_worth_a_record(report) {
            return;
        }
        let body = body::end(report, self.repairs);
        let undone = std::mem::take(&mut self.undone);
        let mut restored = declarations::restored(&self.prepared);
        restored.retain(|id| !self.unsettled.contains(id));
        let result = self.written(|batch, id, origin, unsettled| {
            for (type_name, title) in &undone {
                batch.unsettle(key(type_name, title))?;
            }
            for (type_name, title) in &restored {
                batch.release(key(type_name, title))?;
            }
            if !origin.is_empty() {
                batch.settle(origin, unsettled.iter().map(|(type_name, title)| key(type_name, title)))?;
            }
            batch.end_run(id, milliseconds(SystemTime::now()), &body)
        });
        if let Err(error) = result {
            return self.fails(&error);
        }
        if self.lost > 0 {
            output::warning(format_args!("the history lacks {} events of this run", self.lost));
        }
        if !report.interrupted && !report.has_failures() {
            self.remember_unchanged();
        }
        self.prune();
    }

    /// Returns true for a run without changes, unless the last run with these declarations is on record, had no
    /// failures either, and is recent.
    fn is_worth_a_record(&self, report: &Report) -> bool {
        if report.interrupted || report.has_failures() {
            return true;
        }
        let origin = self.prepared.origin();
        let key = self.existing_key();
        if origin.is_empty() || key.is_none() && declarations::has_secrets(&self.prepared) {
            return !origin.is_empty();
        }
        let digest = declarations::digest(&self.prepared, key.as_ref());
        !Unchanged::of(&self.state_dir).is_repeated(origin, &digest)
    }

    fn remember_unchanged(&self) {
        let Some(run) = &self.open else { return };
        if self.prepared.origin().is_empty() {
            return;
        }
        let names = names_digest(self.prepared.resources());
        Unchanged::of(&self.state_dir).begins(self.prepared.origin(), &run.intents.digest, &names, run.id);
    }

    /// Removes old events. A failure only delays that.
    fn prune(&mut self) {
        self.pruned_at = Instant::now();
        self.processes.forget();
        let Some(run) = &mut self.open else { return };
        let now = SystemTime::now();
        let limits = Retention { before: milliseconds(now - MAX_AGE), max_bytes: MAX_BYTES };
        let _ = run.history.prune(milliseconds(now), limits);
    }

    fn existing_key(&self) -> Option<SealingKey> {
        SealingKey::of(&self.state_dir).ok()
    }

    /// Opens the history, and writes that the run begins.
    fn opened(&mut self) -> Result<&mut OpenRun, HistoryError> {
        if self.open.is_none() {
            let unusable = |why: String| HistoryError::Other { path: directory(&self.state_dir), why };
            // An action takes no lock, which would verify it.
            StateDir::new(&self.state_dir).prepare().map_err(|error| unusable(error.to_string()))?;
            // The directory at the path may belong to another run meanwhile.
            let is_own = self.on_failure == OnFailure::End || StateDir::new(&self.state_dir).hold().is_ok();
            if !is_own {
                return Err(unusable("the state directory was replaced".to_owned()));
            }
            let mut history = History::open(&directory(&self.state_dir))?;
            let mut key = self.existing_key();
            let is_first = history.catalog_digest(self.prepared.origin())?.is_none();
            if key.is_none() && is_first && declarations::has_secrets(&self.prepared) {
                // Without a key, an edit of a secret is not noticed. A lost key is not replaced here.
                key = SealingKey::made(&self.state_dir).ok();
            }
            let mut header = origin::header(&self.origin);
            let manifests = self.inputs.manifests();
            if manifests.as_array().is_some_and(|all| !all.is_empty()) {
                header["manifests"] = manifests.clone();
            }
            if let Some(subject) = &self.inputs.subject {
                header["subject"] = subject.as_str().into();
            }
            if let Some(plan) = &self.inputs.plan {
                header["plan"] = plan.as_str().into();
            }
            if let Some(before) = Unchanged::of(&self.state_dir).before(self.prepared.origin()) {
                header["unchanged_before"] = before;
            }
            // Until this run ends well, no run repeats it.
            Unchanged::of(&self.state_dir).forget(self.prepared.origin());
            if !self.inputs.facts.is_null() {
                header["facts"] = self.inputs.facts.clone();
            }
            let at = header["started"].as_i64().unwrap_or_default();
            let mut batch = history.batch()?;
            let id = batch.begin_run(at, &header)?;
            batch.commit()?;
            let intents = declarations::record(&mut history, id, &self.prepared, key.as_ref(), &manifests)?;
            // Other commands name them before the run.
            if self.origin.command == "run" {
                name_released(&intents.released);
            }
            self.open = Some(OpenRun { history, id, intents, key });
        }
        Ok(self.open.as_mut().expect("it was opened above"))
    }

    /// Writes the queued events, and those that `add` adds, in one transaction.
    fn written(
        &mut self,
        add: impl FnOnce(&mut HistoryBatch<'_>, RunId, &str, &ResourceNames) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        self.flushed_at = Instant::now();
        self.opened()?;
        let queue = std::mem::take(&mut self.queue);
        let run = self.open.as_mut().expect("it was opened above");
        let write = || {
            let mut batch = run.history.batch()?;
            let events: Vec<NewEvent<'_>> = queue.iter().map(QueuedEvent::as_new).collect();
            batch.add_all(run.id, &events)?;
            add(&mut batch, run.id, self.prepared.origin(), &self.unsettled)?;
            batch.commit()
        };
        let written = write();
        if written.is_err() {
            self.queue = queue;
        }
        written
    }

    fn flush(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        match self.written(|_, _, _, _| Ok(())) {
            Ok(()) => self.works(),
            Err(error) => self.fails(&error),
        }
    }

    /// Records new declarations of a machine that is in sync: what changes afterwards is drift.
    fn begin_if_new(&mut self) {
        let origin = self.prepared.origin();
        if self.open.is_some() || self.is_known || origin.is_empty() {
            return;
        }
        self.is_known = true;
        let digest = declarations::digest(&self.prepared, self.existing_key().as_ref());
        if Unchanged::of(&self.state_dir).has_digest(origin, &digest) {
            return;
        }
        if let Err(error) = self.opened().map(drop) {
            self.fails(&error);
        }
    }

    /// Records that all resources are in their declared states, except those without a success.
    fn settle(&mut self) {
        if self.open.as_ref().is_none_or(|run| run.intents.is_empty()) || self.prepared.origin().is_empty() {
            return;
        }
        let settled = self.written(|batch, _, origin, unsettled| {
            batch.settle(origin, unsettled.iter().map(|(type_name, title)| key(type_name, title)))
        });
        match (settled, &mut self.open) {
            (Ok(()), Some(run)) => run.intents.settle_all(&self.unsettled),
            (Ok(()), None) => {}
            (Err(error), _) => self.fails(&error),
        }
    }

    fn works(&mut self) {
        if self.failure.take().is_some() {
            output::warning("the history can be written again");
        }
    }

    /// Reports the first of several failures.
    fn fails(&mut self, error: &HistoryError) {
        if self.queue.len() > MAX_QUEUED {
            self.lost += self.queue.len();
            self.queue.clear();
        }
        if self.failure.is_none() {
            output::warning(format_args!("this run is not recorded: {error}"));
        }
        self.failure = Some(eco_format!("{error}"));
    }

    fn queue(&mut self, kind: EventKind, reference: Option<&ResourceRef>, body: &impl Serialize) {
        let resource = reference.map(|one| (one.type_name.text().clone(), one.title.text().clone()));
        let body = json_text(&mut self.body, body);
        self.queue.push(QueuedEvent { at: milliseconds(SystemTime::now()), kind, resource, body });
        if self.queue.len() >= MAX_QUEUED {
            self.flush();
        }
    }

    /// Returns true for the repair of a drift, false for another change, and none if that is not known.
    fn settled(&mut self, report: &ResourceReport) -> Option<bool> {
        let id = (report.reference.type_name.text().clone(), report.reference.title.text().clone());
        match report.status {
            Status::InSync => {
                self.unsettled.remove(&id);
                return None;
            }
            Status::Changed | Status::Refreshed => {
                // Most runs have none.
                if !self.unsettled.is_empty() {
                    self.unsettled.remove(&id);
                }
            }
            _ => _ = self.unsettled.insert(id.clone()),
        }
        // The end of the run has the number of resources that it did not reach.
        if report.status == Status::Interrupted && report.failure.is_none() && report.differences.is_empty() {
            return None;
        }
        // Whether a change is intentional depends on the declarations before.
        let opened = self.opened().map(drop);
        if let Err(error) = opened {
            self.fails(&error);
        }
        let place = self.lines.place(&self.inputs, report.span);
        let compared = self.open.as_ref().filter(|_| !self.prepared.origin().is_empty());
        let edit = compared.map(|run| run.intents.edit(&id));
        let is_corrective =
            |attribute: &str| edit.is_some_and(|edit| edit.is_none_or(|edit| !edit.contains(attribute)));
        let mut outcome = OutcomeBody::new(report, place, &is_corrective);
        if report.refreshed && report.refreshed_by.is_empty() {
            outcome.owed_from = self.owed_from(&report.reference);
        }
        if report.status == Status::Changed && self.origin.command == "undo" {
            self.undone.push(id.clone());
        }
        if outcome.is_corrective == Some(true) {
            self.repairs += 1;
            self.corrected.insert(report.reference.clone());
        }
        if matches!(report.status, Status::Changed | Status::Refreshed)
            && let Some(run) = &mut self.open
        {
            run.intents.settle(&id);
        }
        let is_corrective = outcome.is_corrective.filter(|_| self.open.is_some());
        self.queue_early_processes(report.status);
        self.queue(EventKind::Outcome, Some(&report.reference), &outcome);
        self.queue_processes(report);
        is_corrective
    }
}

impl Recorder {
    /// Handles an event of the run. Returns true for the repair of a drift, and false for another change.
    pub(crate) fn event(&mut self, event: Event<'_>) -> Option<bool> {
        match event {
            Event::Settled(report) => return self.settled(report),
            Event::Log { level, type_name, name, message } if level >= Level::Notice => {
                let body = json!({ "level": level.word(), "type": type_name, "name": name, "message": message });
                self.queue(EventKind::Log, None, &body);
            }
            Event::Contested { reference, repairs, opponent, .. } => {
                let mut body = json!({ "level": "warning", "message": "contested", "repairs": repairs });
                if let Some(opponent) = opponent {
                    body["process"] = crate::render::json::process(opponent);
                }
                self.queue(EventKind::Log, Some(reference), &body);
            }
            Event::Idle if self.flushed_at.elapsed() > FLUSH_INTERVAL => self.flush(),
            Event::Flushed | Event::Reloading => self.flush(),
            Event::Quiet(counts) => {
                self.begin_if_new();
                // A resource that is in sync again sends no event.
                if counts.failed + counts.skipped + counts.unknown + counts.would_change == 0 {
                    self.unsettled.clear();
                }
                self.flush();
                self.settle();
                if self.pruned_at.elapsed() > PRUNE_INTERVAL {
                    self.prune();
                }
            }
            _ => {}
        }
        None
    }
}
