//! Execution of a prepared run: signals, output during the run, exit code.

use std::time::Duration;

use kilter_model::Outcome;
use kilter_provider::{Durability, Level};
use kilter_runtime::{Lock, Mode, Options, Prepared, Report, ResourceReport, RunError, StateDir, Status};

use crate::cli::ReportFormat;
use crate::execute::{executed, fail_text};
use crate::exit::Exit;
use crate::loan::CommandLock;
use crate::recorder::{OnFailure, RecordedObserver, Recorder};
use crate::render::progress::{OutputSelection, Progress};
use crate::render::{json, report};
use crate::session::Session;
use crate::{loan, output, pauses, signals};

/// Settings for the execution and output of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecOptions {
    /// Mode of the run.
    pub(crate) mode: Mode,
    /// Format of the report.
    pub(crate) format: ReportFormat,
    /// Maximum number of concurrent calls that may block.
    pub(crate) jobs: usize,
    /// Durability of changes after a crash.
    pub(crate) durability: Durability,
    /// Meaning of its exit code.
    pub(crate) exits: ExitCodeMode,
    /// True if it makes changes although the state directory is paused.
    pub(crate) even_if_paused: bool,
    /// Maximum time to wait for another command that holds the lock.
    pub(crate) lock_timeout: Duration,
    /// Reaction to a history that cannot be written.
    pub(crate) on_unrecorded: OnFailure,
}

/// Meaning of the exit code of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCodeMode {
    /// Success or failure of the run.
    Plain,
    /// Changes and failures separately, as in Puppet.
    Detailed,
    /// State at the end: in sync or not, as far as is known.
    Standing,
}

impl ExecOptions {
    /// Returns the settings of a command that changes single resources, one after the other.
    pub(crate) fn one_by_one(mode: Mode, format: ReportFormat, even_if_paused: bool) -> ExecOptions {
        ExecOptions {
            mode,
            format,
            jobs: 1,
            durability: Durability::Flushed,
            exits: ExitCodeMode::Plain,
            even_if_paused,
            lock_timeout: Duration::ZERO,
            on_unrecorded: OnFailure::End,
        }
    }

    /// Executes `prepared` with output, and returns the exit code.
    pub(crate) fn carry_out(self, prepared: &Prepared, session: &Session) -> Exit {
        match self.report(prepared, session) {
            Ok(report) => {
                let exit = self.conclude(&report, session);
                // The process ends: the system frees its memory faster than destructors.
                std::mem::forget(report);
                exit
            }
            Err(exit) => exit,
        }
    }

    /// Takes the lock of a run with changes, and removes temporary files that killed runs left behind.
    ///
    /// # Errors
    /// If another run holds it, or the state directory cannot be used; reported.
    pub(crate) fn lock(self, session: &Session) -> Result<Option<Lock>, Exit> {
        self.locked(session, |state_dir| {
            let lock = state_dir.hold().map_err(|error| fail(error.into()))?;
            let failure = lock.failure();
            Ok((lock, failure))
        })
    }

    /// Takes the lock of a command with changes. A `kilter run` that holds it lends it, unless it declares resources of
    /// `prepared` differently.
    ///
    /// # Errors
    /// As [`lock`](Self::lock); reported.
    pub(crate) fn lock_or_borrow(
        self,
        prepared: Option<&Prepared>,
        session: &Session,
    ) -> Result<Option<CommandLock>, Exit> {
        self.locked(session, |state_dir| {
            let lock = loan::lock(state_dir, prepared, session.command(), self.lock_timeout)?;
            let failure = lock.failure();
            Ok((lock, failure))
        })
    }

    fn locked<T>(
        self,
        session: &Session,
        lock: impl FnOnce(&StateDir) -> Result<(T, Option<String>), Exit>,
    ) -> Result<Option<T>, Exit> {
        match self.mode {
            Mode::Noop => Ok(None),
            Mode::Apply => {
                let state_dir = StateDir::new(session.state_dir()?);
                let (lock, failure) = lock(&state_dir)?;
                if let Some(why) = failure {
                    let why =
                        format_args!("{why}: another run may start at the same time if the state directory is removed");
                    output::warning(why);
                }
                // `kilter clean` reports files that cannot be removed.
                kilter_native::clean_temporary_files(Some(state_dir.path()), &[], false);
                Ok(Some(lock))
            }
        }
    }

    /// Refuses changes while the state directory is paused.
    ///
    /// The caller holds the lock: a pause may have been added before it was taken.
    ///
    /// # Errors
    /// If it is paused, or if the pauses cannot be read; reported.
    pub(crate) fn refuse_if_paused(self, session: &Session) -> Result<(), Exit> {
        if self.mode == Mode::Noop || self.even_if_paused { Ok(()) } else { pauses::refuse(&session.state_dir()?) }
    }

    /// Shows the report, writes the requested ones, and returns the exit code.
    pub(crate) fn conclude(self, report: &Report, session: &Session) -> Exit {
        self.conclude_with(self.show(report, session), report, session)
    }

    /// Writes the requested reports after output that ended with `shown`, and returns the exit code.
    pub(crate) fn conclude_with(self, shown: Exit, report: &Report, session: &Session) -> Exit {
        let written = session.reports().map_or(Ok(()), |reports| reports.write(report, self.mode, session));
        match (written.err().unwrap_or(shown), self.exit(report)) {
            // Exit code 1 would mean that the system is unchanged.
            (Exit::NotStarted, Exit::Done | Exit::Changed) if self.mode == Mode::Apply => Exit::Failed,
            (Exit::NotStarted, exit) if self.mode == Mode::Apply => exit,
            (Exit::NotStarted, _) => Exit::NotStarted,
            (_, exit) => exit,
        }
    }

    /// Executes `prepared`.
    ///
    /// # Errors
    /// If it could not start; reported.
    pub(crate) fn report(self, prepared: &Prepared, session: &Session) -> Result<Report, Exit> {
        self.report_as(self.shown(session), prepared, session)
    }

    /// Executes `prepared` with this output during the run.
    ///
    /// # Errors
    /// If it could not start; reported.
    pub(crate) fn report_as(
        self,
        shown: OutputSelection,
        prepared: &Prepared,
        session: &Session,
    ) -> Result<Report, Exit> {
        let _lock = self.lock_or_borrow(Some(prepared), session)?;
        self.refuse_if_paused(session)?;
        self.execute(shown, prepared, Some(StateDir::new(session.state_dir()?)), session)
    }

    /// Performs a step of a command that reports it itself, in the lock of the command, and returns the outcome.
    ///
    /// # Errors
    /// If it could not start, such as during a pause; reported.
    pub(crate) fn step(self, prepared: &Prepared, session: &Session) -> Result<Outcome, Exit> {
        self.report_as(self.shown_in_step(session), prepared, session).map(outcome_of)
    }

    /// Performs an action that runs beside other runs with this state directory: it holds no lock and keeps no journal.
    ///
    /// # Errors
    /// If it could not start, such as during a pause; reported.
    pub(crate) fn action(self, prepared: &Prepared, session: &Session) -> Result<Outcome, Exit> {
        let state_dir = session.state_dir_if_any().filter(|_| !self.even_if_paused);
        state_dir.as_deref().map_or(Ok(()), pauses::refuse)?;
        self.execute(self.shown_in_step(session), prepared, None, session).map(outcome_of)
    }

    fn execute(
        self,
        shown: OutputSelection,
        prepared: &Prepared,
        state_dir: Option<StateDir>,
        session: &Session,
    ) -> Result<Report, Exit> {
        let options = Options {
            mode: self.mode,
            jobs: self.jobs,
            durability: self.durability,
            strictness: session.global.strict.into(),
            state_dir,
        };
        let mut progress = Progress::new(shown, prepared.resources().len());
        let mut recorder = Recorder::of(session, prepared, self.mode, self.on_unrecorded);
        let mut recorded = RecordedObserver { recorder: recorder.as_mut(), shown: &mut progress };
        let mut result = match session.reports() {
            Some(reports) => reports.traced(&mut recorded, |traced| executed(prepared, &options, traced)),
            None => executed(prepared, &options, &mut recorded),
        };
        progress.clear();
        if let (Ok(report), Some(recorder)) = (&mut result, &mut recorder) {
            recorder.finish(report);
        }
        result.map_err(fail)
    }

    pub(crate) fn shown(self, session: &Session) -> OutputSelection {
        let log = match (session.global.quiet, session.global.verbose) {
            (true, _) => Level::Warning,
            (_, true) => Level::Debug,
            _ => Level::Notice,
        };
        let resources = self.mode == Mode::Apply && self.format == ReportFormat::Human && !session.global.quiet;
        OutputSelection { resources, log, quiet: session.global.quiet }
    }

    /// Returns the output during a step of a command that reports it itself: warnings of providers.
    fn shown_in_step(self, session: &Session) -> OutputSelection {
        let log = if session.global.verbose { Level::Debug } else { Level::Warning };
        OutputSelection { resources: false, log, quiet: session.global.quiet }
    }

    fn show(self, finished: &Report, session: &Session) -> Exit {
        let noop = self.mode == Mode::Noop;
        if self.format == ReportFormat::Json {
            return output::data(&format!("{:#}\n", json::report(finished, noop)));
        }
        let left: Vec<&ResourceReport> = match (self.mode, session.global.quiet) {
            (Mode::Apply, false) => Vec::new(),
            (Mode::Noop, false) => finished.resources.iter().collect(),
            (_, true) => finished.resources.iter().filter(|r| r.status == Status::Failed).collect(),
        };
        let mut text: String = left.into_iter().map(|each| report::resource(each, noop)).collect();
        if !session.global.quiet || finished.has_failures() {
            text += &report::summary(finished, noop);
        }
        if text.is_empty() { Exit::Done } else { output::data(&text) }
    }

    fn exit(self, report: &Report) -> Exit {
        let counts = &report.counts;
        let is_detailed = self.exits == ExitCodeMode::Detailed && self.mode == Mode::Apply;
        let changed = is_detailed && counts.changed + counts.refreshed > 0;
        let is_standing = self.exits == ExitCodeMode::Standing;
        match report.has_failures() || is_standing && counts.interrupted > 0 {
            _ if report.interrupted => signals::exit().unwrap_or(Exit::Interrupted),
            true if changed => Exit::ChangedAndFailed,
            true => Exit::Failed,
            false if counts.pending() > 0 && (is_standing || self.mode == Mode::Noop) => Exit::Pending,
            false if changed => Exit::Changed,
            false => Exit::Done,
        }
    }
}

/// Returns the outcome of a run as a whole.
fn outcome_of(report: Report) -> Outcome {
    let is_unreached = report.resources.iter().any(|one| one.status == Status::Interrupted);
    let failure = report.resources.iter().find_map(|one| one.failure.clone());
    let failure = failure
        .or_else(|| is_unreached.then(|| "not started: the run was interrupted".into()))
        .or(report.journal)
        .or_else(|| report.unflushed.first().cloned());
    let document = report.resources.iter().find_map(|one| one.document.clone());
    let notes = report.resources.into_iter().flat_map(|one| one.notes).collect();
    Outcome { failure, notes, document, ..Outcome::done() }
}

/// Reports an error with its causes.
pub(crate) fn fail(error: RunError) -> Exit {
    output::fail(fail_text(&error))
}
