//! `kilter run`: brings the machine to the declared state, and holds it.

mod collected;
mod observer;
mod servers;
mod source;

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::Scope;
use std::time::{Duration, SystemTime};

use ecow::EcoString;
use indexmap::IndexMap;
use kilter_manifest::Source;
use kilter_model::Value;
use kilter_provider::Durability;
use kilter_runtime::{
    Hold, ManifestSource, Mode, Options, Outdated, Prepared, Reload, ReloadNotifier, Report, RunError, ShutdownHandle,
    SourceVersion, Stale, StateDir, StatusHandle,
};

use super::exec_options::{ExecOptions, ExitCodeMode, fail};
use crate::cli::{ReportFormat, RunArgs};
use crate::collected::Keeper;
use crate::execute::stop_of;
use crate::exit::Exit;
use crate::load::{self, InputFiles, Loaded, Received};
use crate::output::BufferedLines;
use crate::pull::PulledVersion;
use crate::recorder::{OnFailure, Recorder};
use crate::render::progress::{OutputSelection, Progress};
use crate::render::status;
use crate::reports::Reports;
use crate::run_inputs::RunInputs;
use crate::sd_notify::Manager;
use crate::server::Server;
use crate::session::Session;
use crate::status_server::StatusServer;
use crate::{output, providers, sd_notify, signals};
use collected::{SourceOfCollected, keep};
use observer::{Outside, TRIM_THRESHOLD, Watching};
use servers::{listen, status_server};
pub(crate) use source::PREVIOUS_IS_USED;
use source::{FirstRead, RunManifests};

/// Default time without activity until the run counts as converged.
const QUIET: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(args: &RunArgs, session: &Session) -> Exit {
    match hold(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn hold(args: &RunArgs, session: &Session) -> Result<Exit, Exit> {
    signals::listen()?;
    Reports::open(&args.reports, "run", &args.input.manifests, session)?;
    kilter_process::use_single_arena();
    if args.input.received {
        session.set_received(Received::read()?);
    }
    let status = args.converged_status_file.as_deref().map(status_file).transpose()?;
    let pull = source::open(args, session)?;
    let registry = providers::registry_with(session, args.jobs.given())?;
    let noted = InputFiles::default();
    let fallback = session.state_dir_if_any();
    let manifests = RunManifests::new(args, session, fallback.as_deref(), &registry, pull.as_ref());
    let mut first = manifests.first(&noted)?;
    let pass = pass(args);
    // The lock stays over all reloads, so that no other run can start in between.
    let _lock = pass.lock(session)?;
    let changing = fallback.as_deref().filter(|_| pass.mode == Mode::Apply);
    let _record = changing.map(kilter_native::keep_temporary_record);
    let keeper = fallback
        .clone()
        .filter(|_| pass.mode == Mode::Apply)
        .map(|state_dir| Keeper::new(state_dir, Arc::clone(&session.world)));
    keep(keeper.as_ref(), &mut first.loaded);
    let status_handle = Arc::new(StatusHandle::default());
    let server =
        Server::new().map_err(|error| output::fail(format_args!("cannot serve the state of this run: {error}")))?;
    let server = Arc::new(server);
    let status_server = status_server(pass, session, &server, &status_handle)?;
    let metrics = args.metrics.map(|at| listen(&server, at, &status_handle)).transpose()?;
    let manager = RefCell::new(Manager::default());
    let stop = Arc::new(stop_of(pass.mode).map_err(fail)?);
    signals::stop(&stop);
    let state_dir = StateDir::new(session.state_dir()?);
    let is_lost = Cell::default();
    let outside = Outside {
        status: status.as_ref(),
        status_server: status_server.as_ref(),
        manager: &manager,
        state_dir: &state_dir,
        is_lost: &is_lost,
        stop: &stop,
    };
    let options = Options {
        mode: pass.mode,
        jobs: pass.jobs,
        durability: pass.durability,
        strictness: session.global.strict.into(),
        state_dir: Some(state_dir.clone()),
    };
    let is_human = args.format == ReportFormat::Human;
    // Events are data, so that `--quiet` does not affect them.
    let shown = OutputSelection { resources: is_human && !session.global.quiet, ..pass.shown(session) };
    let status_handle = (status_server.is_some() || metrics.is_some()).then_some(&*status_handle);
    let keeping = RunSession {
        session,
        args,
        manifests: &manifests,
        options,
        shown,
        stop: &stop,
        status_handle,
        outside,
        keeper: keeper.as_ref(),
        stale: Cell::default(),
        recorder: RefCell::default(),
    };
    manifests.mark_good(first.version.as_ref());
    keeping.report_stale(SourceOfCollected::of(&first.loaded).stale(session.world.as_ref(), false));
    let report = keeping.until_the_end(first, noted).map_err(fail)?;
    let exit = conclude(&report, pass, session);
    Ok(if is_lost.get() { Exit::Failed } else { exit })
}

/// Parts of a run that stay the same over all reloads.
struct RunSession<'a, 'r> {
    session: &'a Session,
    args: &'a RunArgs,
    manifests: &'a RunManifests<'r>,
    options: Options,
    shown: OutputSelection,
    stop: &'a ShutdownHandle,
    status_handle: Option<&'a StatusHandle>,
    outside: Outside<'a>,
    /// Storage for collected resources. A run without changes has none.
    keeper: Option<&'a Keeper>,
    /// True if a report said that collected resources may be too old.
    stale: Cell<bool>,
    /// Recorder of the run; none if it is not recorded.
    recorder: RefCell<Option<Recorder>>,
}

/// Ends the programs of manifests when it is dropped.
struct EndsPrograms;

impl Drop for EndsPrograms {
    fn drop(&mut self) {
        signals::end_programs();
    }
}

/// Inputs of the declared state that is held.
struct HeldInputs {
    given: Vec<Source>,
    includes: IndexMap<(EcoString, EcoString), Source>,
    facts: IndexMap<EcoString, Value>,
    vars: Vec<(EcoString, Value)>,
    secrets: Vec<(serde_json::Value, Value)>,
    read_at: SystemTime,
    inputs: RunInputs,
}

impl HeldInputs {
    /// Separates the inputs from the prepared run.
    fn of(loaded: Loaded) -> (Prepared, HeldInputs) {
        let Loaded { prepared, given, includes, facts, vars, secrets, read_at, inputs, collected: _ } = loaded;
        (prepared, HeldInputs { given, includes, facts, vars, secrets, read_at, inputs })
    }

    /// Returns true if another read declares the same.
    fn is_same(&self, new: &Loaded) -> bool {
        self.given == new.given
            && self.includes == new.includes
            && self.vars == new.vars
            && self.facts == new.facts
            && self.secrets == new.secrets
    }
}

impl<'env, 'r> RunSession<'env, 'r> {
    /// Reports that collected resources may be too old, or no longer are.
    fn report_stale(&self, stale: Option<Stale>) {
        match (self.stale.replace(stale.is_some()), stale) {
            (false, Some(stale)) => output::warning(crate::render::status::holding_collected(&stale)),
            (true, None) => output::line("the resources that others export can be collected again"),
            _ => {}
        }
    }

    /// Holds the declared state over all edits until the end.
    fn until_the_end(&'env self, first: FirstRead, noted: InputFiles) -> Result<Report, RunError> {
        let (sender, stop) = channel();
        std::thread::scope(|scope| {
            // The thread ends with the sender.
            let _sender = sender;
            self.manifests.start_fetches(scope, stop);
            // A read that is still running at the end is of no use.
            let _ends = EndsPrograms;
            self.hold(scope, first, noted)
        })
    }

    fn hold<'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        first: FirstRead,
        noted: InputFiles,
    ) -> Result<Report, RunError>
    where
        'r: 'scope,
    {
        let args = self.args;
        let FirstRead { loaded, version, wrong } = first;
        let collected = SourceOfCollected::of(&loaded);
        let (prepared, held) = HeldInputs::of(loaded);
        self.session.set_inputs(held.inputs.clone());
        self.recorder.replace(Recorder::of(self.session, &prepared, self.options.mode, OnFailure::Continue));
        let mut declared =
            Manifests { keeping: self, scope, held, version, noted, read: None, wrong, same_at: None, collected };
        let paused = self.outside.status_server.and_then(StatusServer::paused);
        let socket = crate::paths::status_socket(self.outside.state_dir.path());
        let hold = Hold {
            converged: match args.converged_timeout {
                // A negative value means never, as in mgmt.
                Some(seconds) => u64::try_from(seconds).ok().map(Duration::from_secs),
                None => (args.converged_exit || self.outside.status.is_some()).then_some(QUIET),
            },
            until_converged: args.converged_exit,
            longest: args.max_runtime.map(Duration::from_secs),
            declared: &mut declared,
            watchdog_interval: sd_notify::watchdog(),
            paused: paused.as_ref(),
            status_handle: self.status_handle,
            // A run without a status server watches the path as well, to notice another run in its state directory.
            status_socket: Some(socket.as_path()).filter(|_| self.options.mode == Mode::Apply),
        };
        let progress = Progress::new(self.shown, prepared.resources().len());
        let mut watching = Watching {
            progress,
            prints_json: self.args.format == ReportFormat::Json,
            outside: self.outside,
            settled: 0,
            is_unflushed: false,
            recorder: &self.recorder,
        };
        let mut report = match self.session.reports() {
            Some(reports) => {
                reports.traced(&mut watching, |traced| prepared.hold(&self.options, hold, self.stop, traced))
            }
            None => prepared.hold(&self.options, hold, self.stop, &mut watching),
        };
        watching.progress.clear();
        // Another run writes to the state directory then.
        let is_lost = self.outside.is_lost.get();
        if let (Ok(report), Some(recorder), false) = (&mut report, &mut *self.recorder.borrow_mut(), is_lost) {
            recorder.finish(report);
        }
        report
    }
}

/// Frees a replaced graph on another thread. For many resources that takes longer than the replacement.
fn take_apart<'scope>(scope: &'scope Scope<'scope, '_>, former: Arc<Prepared>) {
    let named = || std::thread::Builder::new().name("former".into());
    if former.resources().len() < TRIM_THRESHOLD {
        // Without a thread it is freed here.
        drop(named().spawn_scoped(scope, move || drop(former)));
        return;
    }
    let and_give_back = move || {
        // The allocator returns the memory only after the thread has ended, because each thread keeps a cache.
        let taken_apart = named().spawn_scoped(scope, move || drop(former));
        drop(taken_apart.map(std::thread::ScopedJoinHandle::join));
        kilter_process::trim_heap();
    };
    drop(named().spawn_scoped(scope, and_give_back));
}

fn pass(args: &RunArgs) -> ExecOptions {
    ExecOptions {
        mode: if args.noop { Mode::Noop } else { Mode::Apply },
        format: args.format,
        jobs: args.jobs.count(),
        durability: if args.no_flush { Durability::Unflushed } else { Durability::Flushed },
        exits: ExitCodeMode::Standing,
        // A paused run starts, and waits.
        even_if_paused: true,
        lock_timeout: std::time::Duration::ZERO,
        on_unrecorded: OnFailure::End,
    }
}

/// Returns true if the declared state may change without an edit.
fn may_differ(args: &RunArgs, held: &HeldInputs, noted: &InputFiles) -> bool {
    let mut manifests = args.input.manifests.iter();
    let is_printed = |source: &Source| source.name.ends_with(load::OUTPUT);
    !held.facts.is_empty()
        || !noted.trees().is_empty()
        || manifests.any(|path| load::is_program(path))
        || held.given.iter().any(is_printed)
}

/// Manifests of a run, with their edits.
struct Manifests<'scope, 'env, 'r> {
    keeping: &'env RunSession<'env, 'r>,
    scope: &'scope Scope<'scope, 'env>,
    /// Inputs of the held state.
    held: HeldInputs,
    /// Version of the source that is held.
    version: Option<PulledVersion>,
    /// Files of the last read.
    noted: InputFiles,
    /// Channel for the result of the running read.
    read: Option<Receiver<ReadResult>>,
    /// Messages of the last read, if it found errors.
    wrong: Option<BufferedLines>,
    /// Time of the last read without a change.
    same_at: Option<SystemTime>,
    /// Source of the collected resources in the held graph.
    collected: SourceOfCollected,
}

/// Result of a read, with its messages.
struct ReadResult {
    noted: InputFiles,
    loaded: Result<(Loaded, Option<PulledVersion>), Exit>,
    said: BufferedLines,
}

/// Stack size in bytes of a thread that reads manifests, which may be nested. Usually the main thread has the same.
const STACK: usize = 8 << 20;

impl<'r: 'scope, 'scope> ManifestSource for Manifests<'scope, '_, 'r> {
    fn files(&self) -> Vec<PathBuf> {
        self.noted.files()
    }

    fn trees(&self) -> Vec<PathBuf> {
        let trees = self.noted.trees();
        if !trees.is_empty() {
            self.keeping.session.world.follow();
        }
        trees
    }

    fn may_have_changed(&mut self) -> bool {
        self.noted.may_have_changed()
    }

    fn begin_reading(&mut self, ring: ReloadNotifier) {
        let RunSession { manifests, keeper, .. } = *self.keeping;
        let (sender, receiver) = channel();
        self.read = Some(receiver);
        let read = move || {
            let noted = InputFiles::default();
            let prepare = || {
                let (mut loaded, version) = manifests.load(&noted)?;
                keep(keeper, &mut loaded);
                Ok((loaded, version))
            };
            let (loaded, said) = output::buffered(|| catch_unwind(AssertUnwindSafe(prepare)));
            match loaded {
                // A closed receiver means that the run has ended.
                Ok(loaded) => drop(sender.send(ReadResult { noted, loaded, said })),
                // The panic has printed its own message, and the run continues.
                Err(_) => said.lines.iter().for_each(output::line),
            }
            drop(ring);
        };
        let reader = std::thread::Builder::new().name("manifest".into()).stack_size(STACK);
        if let Err(error) = reader.spawn_scoped(self.scope, read) {
            output::warning(format_args!("cannot start the thread that reloads the manifest: {error}"));
        }
    }

    fn read(&mut self) -> Reload {
        // Without a thread, or after its panic, there is no result.
        let read = self.read.take().and_then(|read| read.recv().ok());
        let Some(ReadResult { noted, loaded, said }) = read else {
            let lines = vec!["it could not be read: there was no thread for it, or it met a defect".to_owned()];
            self.wrong = Some(BufferedLines { lines, errors: 1 });
            return Reload::Wrong;
        };
        let before = std::mem::replace(&mut self.noted, noted);
        let Ok((new, version)) = loaded else {
            self.tell_wrong(said, &before);
            self.keeping.manifests.report_failure(self.version.as_ref());
            self.keeping.report_stale(self.stale());
            return Reload::Wrong;
        };
        said.lines.iter().for_each(output::line);
        // The files are still being written. Exports are written as a whole, and an event of a later one causes another
        // read: a machine that exports without end does not delay the others.
        if self.noted.has_changed_file() {
            take_apart(self.scope, Arc::new(new.prepared));
            return Reload::Unsettled;
        }
        let was_wrong = self.wrong.take().is_some();
        self.keeping.manifests.take_up(&mut self.version, version);
        let collected = SourceOfCollected::of(&new);
        self.keeping.report_stale(collected.stale(self.keeping.session.world.as_ref(), false));
        self.collected = collected;
        if !self.held.is_same(&new) {
            let (prepared, held) = HeldInputs::of(new);
            if let Some(recorder) = &mut *self.keeping.recorder.borrow_mut() {
                recorder.declares(&prepared, held.inputs.clone());
            }
            (self.held, self.same_at) = (held, None);
            return Reload::Other(prepared.into());
        }
        self.same_at = Some(new.read_at);
        take_apart(self.scope, Arc::new(new.prepared));
        if was_wrong {
            output::line("the manifest is valid again, and unchanged");
        }
        Reload::Same
    }

    fn outdated(&self) -> Option<Outdated> {
        let BufferedLines { lines, errors } = self.wrong.as_ref()?;
        let plain = |line: &String| anstream::adapter::strip_str(line).to_string().into();
        Some(Outdated {
            held: self.same_at.unwrap_or(self.held.read_at),
            errors: (*errors).max(1),
            messages: lines.iter().map(plain).collect(),
        })
    }

    fn stale(&self) -> Option<Stale> {
        self.collected.stale(self.keeping.session.world.as_ref(), self.wrong.is_some())
    }

    fn source(&self) -> Option<SourceVersion> {
        self.keeping.manifests.source(self.version.as_ref())
    }

    fn reread_interval(&self) -> Option<Duration> {
        let args = self.keeping.args;
        let rereads = args.reread > 0 && may_differ(args, &self.held, &self.noted);
        rereads.then(|| Duration::from_secs(args.reread))
    }

    fn discard(&mut self, former: Arc<Prepared>) {
        take_apart(self.scope, former);
    }
}

impl Manifests<'_, '_, '_> {
    /// Reports the errors, unless the same errors of unchanged files were reported before.
    fn tell_wrong(&mut self, said: BufferedLines, before: &InputFiles) {
        let is_known = self.wrong.as_ref() == Some(&said) && self.noted.is_of_same(before);
        // A signal ends the read and the run.
        if !is_known && signals::exit().is_none() {
            said.lines.iter().for_each(output::line);
            output::warning(PREVIOUS_IS_USED);
        }
        self.wrong = Some(said);
    }
}

fn status_file(path: &Path) -> Result<File, Exit> {
    // Other users may write to the directory, and must not choose another file by a link.
    let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(no_links).open(path);
    opened.map_err(|error| output::fail(format_args!("cannot open the status file {}: {error}", path.display())))
}

/// Shows the resources out of sync at the end. After a signal, the signal determines the exit code.
fn conclude(report: &Report, pass: ExecOptions, session: &Session) -> Exit {
    let told = match pass.format {
        ReportFormat::Human => pass.conclude(report, session),
        ReportFormat::Json => {
            pass.conclude_with(output::data(&status::line(&status::ended(report, pass.mode))), report, session)
        }
    };
    signals::exit().unwrap_or(told)
}
