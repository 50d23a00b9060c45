//! Manifests from a source: a git repository, or a directory that other programs fill.
//!
//! Each version is complete before it is used. The last one stays while the source cannot be reached or offers a
//! version that must not be used (docs/reference/pull.md).

mod checkout;
mod directory;
mod git;
mod options;
mod source;
mod splay;
mod store;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use ecow::EcoString;
use kilter_process::trust::TrustPolicy;
use kilter_runtime::{SourceFailure, SourceVersion};
use serde_json::{Value as Json, json};

use crate::cli::SourceArgs;
use crate::execute::fail_text;
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, signals};
pub(crate) use checkout::Checkout;
use git::GitCopy;
use source::PullSource;
pub(crate) use splay::first_delay;
pub(crate) use store::PulledVersion;
use store::{KnownVersions, PullStore};

/// Name of the directory with the files of a version.
const TREE: &str = "tree";
/// Name of the file about a version, beside that directory.
const ABOUT: &str = "version.json";

/// Reason why a fetch has no usable version.
#[derive(Debug)]
struct FetchError {
    why: String,
    /// True if the source offers a version that must not be used. Otherwise it cannot be reached or read.
    is_rejected: bool,
}

impl FetchError {
    fn rejected(why: String) -> FetchError {
        FetchError { why, is_rejected: true }
    }

    fn unavailable(why: String) -> FetchError {
        FetchError { why, is_rejected: false }
    }
}

/// Place of the versions of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// The state directory.
    Stored,
    /// A temporary directory, for a command that leaves no traces.
    Temporary,
}

/// Source of the manifests of a command, with its versions.
#[derive(Debug)]
pub(crate) struct Pull {
    /// The source as it was written.
    from: String,
    origin: VersionOrigin,
    paths: Vec<PathBuf>,
    max_bytes: u64,
    trust: TrustPolicy,
    store: PullStore,
    progress: Mutex<PullProgress>,
}

/// Kind of the source, with what its fetches need.
#[derive(Debug)]
enum VersionOrigin {
    Git { copy: GitCopy, reference: String, signers: Option<Signers>, may_rewind: bool },
    Directory(PathBuf),
}

/// File with the keys whose signatures count.
#[derive(Debug)]
struct Signers {
    /// Path in the command line.
    given: PathBuf,
    /// Copy that only this user can change.
    copy: PathBuf,
}

/// State of the fetches.
#[derive(Clone, Debug)]
struct PullProgress {
    known: KnownVersions,
    /// Last version that was accepted, even if its files are gone or its key is no longer known. The next commit must
    /// descend from it.
    last: Option<EcoString>,
    seen: SystemTime,
    failure: Option<SourceFailure>,
}

/// Returns the first digits of a version.
fn short(version: &str) -> &str {
    version.get(..12).unwrap_or(version)
}

impl Pull {
    /// Opens the source of a command line, if there is one. It fetches nothing.
    ///
    /// # Errors
    /// If an option or the state directory cannot be used; reported.
    pub(crate) fn open(args: &SourceArgs, session: &Session, kind: StoreKind) -> Result<Option<Pull>, Exit> {
        let Some(from) = &args.from else { return Ok(None) };
        options::refuse_others(session)?;
        let source = PullSource::parse(from).map_err(|(why, hint)| output::fail_with(why, [hint]))?;
        let paths = args.paths.iter().map(|path| options::relative(path)).collect::<Result<Vec<_>, Exit>>()?;
        let key = match &source {
            PullSource::Git { .. } => format!("{from} {}", args.reference),
            PullSource::Directory(path) => path.display().to_string(),
        };
        let state_dir = session.state_dir()?;
        let store = match kind {
            StoreKind::Stored => PullStore::open(&state_dir, &key),
            StoreKind::Temporary => PullStore::temporary(),
        };
        let store = store.map_err(|error| output::fail(fail_text(&error)))?;
        let max_bytes = args.max_size << 20;
        let origin = match source {
            PullSource::Directory(path) => {
                options::refuse_git_options(args)?;
                VersionOrigin::Directory(path)
            }
            PullSource::Git { url, protocol } => {
                options::git_origin(args, (url, protocol), session, &store, max_bytes)?
            }
        };
        let known = store.read().map_err(output::fail)?;
        let last = store::read_known(&PullStore::place(&state_dir, &key)).map_err(output::fail)?.current;
        let last = last.map(|version| version.id);
        let seen = store.seen().or(known.current.as_ref().map(|version| version.at)).unwrap_or(SystemTime::UNIX_EPOCH);
        let progress = Mutex::new(PullProgress { known, last, seen, failure: None });
        let trust = session.trust.clone();
        let pull = Pull { from: from.clone(), origin, paths, max_bytes, trust, store, progress };
        pull.forget_unsigned();
        pull.use_good();
        pull.store.touch();
        Ok(Some(pull))
    }

    fn progress(&self) -> MutexGuard<'_, PullProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets stored versions without a valid signature: the keys may have changed since they were fetched.
    fn forget_unsigned(&self) {
        let VersionOrigin::Git { copy, reference, signers: Some(signers), .. } = &self.origin else { return };
        let mut progress = self.progress();
        let KnownVersions { current, good } = &mut progress.known;
        for known in [current, good] {
            let Some(version) = known else { continue };
            let name = format!("refs/tags/{}", reference.trim_start_matches("refs/tags/"));
            let verified = match copy.has(&version.object) {
                true => copy.verify(&version.object, &version.id, &name, &signers.copy),
                false => Err(FetchError::unavailable("its history is no longer stored".into())),
            };
            if let Err(error) = verified {
                let short = version.short();
                output::warning(format_args!("the stored commit {short} is not used: {}", error.why));
                *known = None;
            }
        }
    }

    /// Uses the last version without errors if the files or the signature of the newest one are missing.
    fn use_good(&self) {
        let KnownVersions { current, good } = &mut self.progress().known;
        if current.is_none() {
            current.clone_from(good);
        }
    }

    /// Returns the newest usable version.
    pub(crate) fn current(&self) -> Option<PulledVersion> {
        self.progress().known.current.clone()
    }

    /// Returns the newest version with valid manifests, if it is not the newest one.
    pub(crate) fn fallback(&self) -> Option<PulledVersion> {
        let progress = self.progress();
        progress.known.good.clone().filter(|good| progress.known.current.as_ref() != Some(good))
    }

    /// Returns the failure of the last fetch.
    pub(crate) fn failure(&self) -> Option<SourceFailure> {
        self.progress().failure.clone()
    }

    /// Returns the file that changes when the manifests must be read again.
    pub(crate) fn marker(&self) -> PathBuf {
        self.store.marker()
    }

    /// Records that the manifests of a version are valid.
    pub(crate) fn mark_good(&self, version: &PulledVersion) {
        let mut progress = self.progress();
        if progress.known.good.as_ref() != Some(version) {
            progress.known.good = Some(version.clone());
            if let Err(error) = self.store.write(&progress.known) {
                output::warning(error.why);
            }
        }
    }

    /// Returns what `kilter status` shows about the source of a run that holds a version.
    pub(crate) fn describe(&self, held: &PulledVersion) -> SourceVersion {
        let progress = self.progress();
        let newest = progress.known.current.as_ref().unwrap_or(held);
        SourceVersion {
            source: self.name().into(),
            held: held.id.clone(),
            newest: newest.id.clone(),
            seen: progress.seen,
            failure: progress.failure.clone(),
        }
    }

    /// Returns the source with its branch or tag, for messages.
    pub(crate) fn name(&self) -> String {
        match &self.origin {
            VersionOrigin::Git { reference, .. } => format!("{reference} in {}", self.from),
            VersionOrigin::Directory(path) => path.display().to_string(),
        }
    }

    /// Returns a version for messages.
    pub(crate) fn shown(&self, version: &PulledVersion) -> String {
        match &self.origin {
            VersionOrigin::Git { .. } => format!("commit {} of {}", version.short(), self.name()),
            VersionOrigin::Directory(_) => format!("version {} of {}", version.short(), self.name()),
        }
    }

    /// Fetches the newest version. If there is none that may be used, the last one stays.
    pub(crate) fn fetch(&self) {
        let before = self.progress().clone();
        let fetched = self.newer(before.known.current.as_ref());
        // The end of the run has cancelled the fetch.
        if signals::raised().load(std::sync::atomic::Ordering::Acquire) {
            return;
        }
        let mut progress = self.progress();
        let fetched = fetched.and_then(|newer| {
            if let Some(version) = newer {
                let last = Some(version.id.clone());
                let known = KnownVersions { current: Some(version), ..progress.known.clone() };
                self.store.write(&known)?;
                (progress.known, progress.last) = (known, last);
            }
            Ok(())
        });
        progress.failure = match fetched {
            Ok(()) => {
                progress.seen = SystemTime::now();
                self.store.record_seen(progress.seen);
                None
            }
            Err(FetchError { why, is_rejected }) => Some(SourceFailure { why: why.into(), is_rejected }),
        };
        if progress.known.current != before.known.current || progress.failure != before.failure {
            self.store.touch();
        }
    }

    /// Returns the version that the source offers, if it is another one and may be used.
    fn newer(&self, current: Option<&PulledVersion>) -> Result<Option<PulledVersion>, FetchError> {
        let current = current.filter(|version| self.store.tree(&version.id).is_dir());
        match &self.origin {
            VersionOrigin::Git { .. } => self.newer_commit(current),
            VersionOrigin::Directory(path) => self.newer_directory(path, current),
        }
    }

    fn newer_commit(&self, current: Option<&PulledVersion>) -> Result<Option<PulledVersion>, FetchError> {
        let VersionOrigin::Git { copy, reference, signers, may_rewind } = &self.origin else { return Ok(None) };
        let (object, name) = copy.ask(reference)?;
        let last = self.progress().last.clone();
        if current.is_some_and(|current| current.object == object && last.as_ref() == Some(&current.id)) {
            return Ok(None);
        }
        copy.prepare(&object)?;
        let (object, commit) = copy.fetch(&name)?;
        let refuse = |error: FetchError| FetchError {
            why: match error.is_rejected {
                true => format!("commit {} is not used: {}", short(&commit), error.why),
                false => error.why,
            },
            ..error
        };
        if let Some(signers) = signers {
            let by = |error: FetchError| match error.is_rejected {
                true => FetchError::rejected(format!("{} (--signed-by {})", error.why, signers.given.display())),
                false => error,
            };
            copy.verify(&object, &commit, &name, &signers.copy).map_err(by).map_err(refuse)?;
        }
        if let Some(last) = last.filter(|_| !may_rewind)
            && !copy.descends(&commit, &last)?
        {
            return Err(refuse(FetchError::rejected(format!(
                "it does not descend from {}, because {reference} was rewritten or went back (--allow-rewind accepts \
                 it)",
                short(&last)
            ))));
        }
        copy.check_size(&commit).map_err(refuse)?;
        let about = json!({"from": self.from, "ref": reference, "commit": commit});
        self.add(&commit, &about, |tree, index| copy.check_out(&commit, tree, index))?;
        copy.keep(&commit)?;
        Ok(Some(PulledVersion { id: commit.as_str().into(), object: object.into(), at: SystemTime::now() }))
    }

    fn newer_directory(
        &self,
        path: &Path,
        current: Option<&PulledVersion>,
    ) -> Result<Option<PulledVersion>, FetchError> {
        let sums = directory::sums(path, &self.trust)?;
        if current.is_some_and(|current| current.id == sums.digest) {
            return Ok(None);
        }
        let about = json!({"from": path.display().to_string(), "version": sums.digest});
        self.add(&sums.digest, &about, |tree, _| directory::copy(&sums, path, tree, &self.trust, self.max_bytes))?;
        let id = sums.digest.as_str();
        Ok(Some(PulledVersion { id: id.into(), object: id.into(), at: SystemTime::now() }))
    }

    /// Adds a version to the store, which keeps the last ones.
    fn add(
        &self,
        version: &str,
        about: &Json,
        fill: impl FnOnce(&Path, &Path) -> Result<(), FetchError>,
    ) -> Result<(), FetchError> {
        let KnownVersions { current, good } = self.progress().known.clone();
        let kept: Vec<&str> = current.iter().chain(&good).map(|version| version.id.as_str()).collect();
        self.store.add(version, about, &kept, fill)
    }

    /// Returns the manifests of a version, in the order of the command line. Those of a directory are in the order of
    /// their names.
    ///
    /// # Errors
    /// If there are none, or a path leads out of the version.
    pub(crate) fn manifests(&self, version: &PulledVersion) -> Result<Vec<PathBuf>, String> {
        let tree = self.store.tree(&version.id);
        let mut manifests = Vec::new();
        for path in &self.paths {
            let full = tree.join(path);
            let missing = |error: std::io::Error| {
                let (shown, path) = (self.shown(version), path.display());
                format!("{shown} has no usable {path} (--path): {error}")
            };
            let found = std::fs::canonicalize(&full).map_err(missing)?;
            checkout::refuse_outside(&tree, &found)?;
            if !found.is_dir() {
                manifests.push(full);
                continue;
            }
            let is_manifest =
                |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
            let entries = std::fs::read_dir(&full).map_err(missing)?.flatten().map(|entry| entry.path());
            let mut files: Vec<PathBuf> = entries.filter(|path| is_manifest(path) && path.is_file()).collect();
            if files.is_empty() {
                return Err(format!("{} in {} has no manifest *.yaml", path.display(), self.shown(version)));
            }
            files.sort_unstable();
            manifests.append(&mut files);
        }
        Ok(manifests)
    }
}
