//! Manifests of a run: files, or the versions of a source.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use kilter_provider::Registry;
use kilter_runtime::{SourceFailure, SourceVersion};

use crate::cli::{ManifestArgs, RunArgs};
use crate::commands::pulled::fetch;
use crate::exit::Exit;
use crate::load::{self, ErrorFormat, Input, InputFiles, Loaded};
use crate::output::BufferedLines;
use crate::pull::{Pull, PulledVersion, StoreKind, first_delay};
use crate::render::status::holding_source;
use crate::session::Session;
use crate::{output, signals};

/// Warning about a manifest with errors.
pub(crate) const PREVIOUS_IS_USED: &str = "kilter uses the previous manifest until this one is corrected";

/// Manifests of a run.
pub(super) struct RunManifests<'a> {
    args: &'a RunArgs,
    session: &'a Session,
    /// State directory with the resources that are collected while the world cannot be reached.
    fallback: Option<&'a Path>,
    registry: &'a Registry,
    /// Source of the manifests, if they are not files, and the time until its first fetch.
    pull: Option<&'a (Pull, Duration)>,
    /// Failure of the source that was reported last.
    failure: Mutex<Option<SourceFailure>>,
}

/// Manifests that a run holds at its start.
pub(super) struct FirstRead {
    pub(super) loaded: Loaded,
    /// Version of the source.
    pub(super) version: Option<PulledVersion>,
    /// Errors of the newest version, if an older one is held.
    pub(super) wrong: Option<BufferedLines>,
}

/// Opens the source of a run, with at least one version, and returns it with the time until the first fetch. Without a
/// source, the manifests must be files.
///
/// # Errors
/// If there is no version or no file; reported.
pub(super) fn open(args: &RunArgs, session: &Session) -> Result<Option<(Pull, Duration)>, Exit> {
    let kind = if args.noop { StoreKind::Temporary } else { StoreKind::Stored };
    let Some(pull) = Pull::open(&args.source, session, kind)? else {
        let is_read_again = !args.input.received;
        return if is_read_again { are_files(&args.input.manifests).map(|()| None) } else { Ok(None) };
    };
    let interval = args.fetches.interval;
    if let Some(version) = pull.current() {
        if !session.global.quiet {
            output::line(format_args!("using {}, which is stored", pull.shown(&version)));
        }
        let splay = args.fetches.splay.unwrap_or(interval / 10);
        return Ok(Some((pull, first_delay(session.host(), splay))));
    }
    fetch(&pull, session)?;
    Ok(Some((pull, interval)))
}

/// Verifies that the manifests are files, because the run reads them repeatedly.
fn are_files(manifests: &[PathBuf]) -> Result<(), Exit> {
    if manifests.is_empty() {
        return Err(output::fail("`kilter run` needs a manifest"));
    }
    for path in manifests {
        let hint = "write it to a file, which is read again whenever it is edited";
        if path.as_os_str() == "-" {
            return Err(output::fail_with("`kilter run` does not read the standard input", [hint]));
        }
        // The reader reports missing files.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let path = path.display();
            return Err(output::fail_with(format_args!("`kilter run` needs files, but {path} is not a file"), [hint]));
        }
    }
    Ok(())
}

impl<'a> RunManifests<'a> {
    pub(super) fn new(
        args: &'a RunArgs,
        session: &'a Session,
        fallback: Option<&'a Path>,
        registry: &'a Registry,
        pull: Option<&'a (Pull, Duration)>,
    ) -> RunManifests<'a> {
        RunManifests { args, session, fallback, registry, pull, failure: Mutex::default() }
    }

    fn pull(&self) -> Option<&'a Pull> {
        self.pull.map(|(pull, _)| pull)
    }

    /// Starts the thread that fetches at intervals, until the sender of `stop` is dropped.
    pub(super) fn start_fetches<'scope>(&self, scope: &'scope Scope<'scope, 'a>, stop: Receiver<()>)
    where
        'a: 'scope,
    {
        let Some((pull, first)) = self.pull else { return };
        let (mut wait, interval) = (*first, self.args.fetches.interval);
        let fetch = move || {
            while stop.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                // A panic has printed its own message. The run continues with the last version.
                let _ = catch_unwind(AssertUnwindSafe(|| pull.fetch()));
                wait = interval;
            }
        };
        if let Err(error) = std::thread::Builder::new().name("fetch".into()).spawn_scoped(scope, fetch) {
            output::warning(format_args!("cannot start the thread that fetches the manifests: {error}"));
        }
    }

    /// Reads the newest version.
    ///
    /// # Errors
    /// If it has errors; reported.
    pub(super) fn load(&self, noted: &InputFiles) -> Result<(Loaded, Option<PulledVersion>), Exit> {
        let Some(pull) = self.pull() else { return Ok((self.load_files(&self.args.input, noted)?, None)) };
        noted.note_awaited(&pull.marker());
        match pull.current() {
            Some(version) => self.load_version(pull, version, noted),
            None => Err(output::fail(format_args!("there is no version of {}", pull.name()))),
        }
    }

    fn load_version(
        &self,
        pull: &Pull,
        version: PulledVersion,
        noted: &InputFiles,
    ) -> Result<(Loaded, Option<PulledVersion>), Exit> {
        let manifests = pull.manifests(&version).map_err(output::fail)?;
        let input = ManifestArgs { manifests, ..self.args.input.clone() };
        Ok((self.load_files(&input, noted)?, Some(version)))
    }

    fn load_files(&self, args: &ManifestArgs, noted: &InputFiles) -> Result<Loaded, Exit> {
        let input = Input::Held { args, noted, fallback: self.fallback };
        load::load(self.session, input, ErrorFormat::People, self.registry)
    }

    /// Reads the manifests at the start. If the newest version has errors, it reads the last one without errors.
    ///
    /// # Errors
    /// If there is no version without errors; reported.
    pub(super) fn first(&self, noted: &InputFiles) -> Result<FirstRead, Exit> {
        let Some((pull, good)) = self.pull().and_then(|pull| Some((pull, pull.fallback()?))) else {
            let (loaded, version) = self.load(noted)?;
            return Ok(FirstRead { loaded, version, wrong: None });
        };
        let (loaded, said) = output::buffered(|| self.load(noted));
        said.lines.iter().for_each(output::line);
        if loaded.is_err() && signals::exit().is_none() {
            output::warning(PREVIOUS_IS_USED);
            let at = good.at;
            let (loaded, version) = self.load_version(pull, good, noted)?;
            return Ok(FirstRead { loaded: Loaded { read_at: at, ..loaded }, version, wrong: Some(said) });
        }
        loaded.map(|(loaded, version)| FirstRead { loaded, version, wrong: None })
    }

    /// Records that the manifests of a version are valid.
    pub(super) fn mark_good(&self, version: Option<&PulledVersion>) {
        if let (Some(pull), Some(version)) = (self.pull(), version) {
            pull.mark_good(version);
        }
    }

    /// Takes up a version whose manifests are valid, in place of the held one.
    pub(super) fn take_up(&self, held: &mut Option<PulledVersion>, version: Option<PulledVersion>) {
        if let (Some(pull), Some(version), false) = (self.pull(), &version, self.session.global.quiet)
            && held.as_ref() != Some(version)
        {
            output::line(format_args!("using {}", pull.shown(version)));
        }
        self.mark_good(version.as_ref());
        *held = version;
        self.report_failure(held.as_ref());
    }

    /// Reports a failure of the source, or its end.
    pub(super) fn report_failure(&self, held: Option<&PulledVersion>) {
        let Some(source) = self.source(held) else { return };
        let mut reported = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &source.failure {
            Some(_) if source.failure != *reported => output::warning(holding_source(&source)),
            None if reported.is_some() => output::line(format_args!("{} can be used again", source.source)),
            _ => {}
        }
        *reported = source.failure;
    }

    /// Returns the source of the held version.
    pub(super) fn source(&self, held: Option<&PulledVersion>) -> Option<SourceVersion> {
        Some(self.pull()?.describe(held?))
    }
}
