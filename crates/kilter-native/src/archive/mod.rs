//! The type `archive`: unpacked tar and zip archives.
//!
//! Every path is checked before a member is compared or written. The numbers and sizes of members are bounded. Devices,
//! FIFOs and links that leave the archive are errors.

mod members;
mod schema;
mod tarball;
mod zip;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_provider::{
    AutoEdge, Batch, Context, Durability, Effect, Footprint, Forecast, Insync, Interrupt, Match, Mode, POLL, PathState,
    Predict, Provider, ProviderError, Query, ReadOne, Redactor, Relations, Revert, RevertTo, Scheduling, Scope,
    SideEffects, ValidationError, Wanted, Watch, WatchSource, canonicalize_one, check, get_each, redacted_outcome,
};

use crate::accounts::{Accounts, System, number};
use crate::file::preflight::may_come;
use crate::file::unpack::{self, ArchiveNode, UnpackDirectory};
use crate::file::{FileProvider, directory};
use crate::state_files::StateFiles;
use members::TakeMember;
use schema::{DeclaredArchive, schema};

/// Maximum number of members that a difference lists.
const MAX_LISTED: usize = 3;
/// Kind of the state files that mark an unfinished change.
const STATE: &str = "archive";

/// Provides the type `archive`.
pub struct ArchiveProvider {
    accounts: Arc<Accounts>,
    files: FileProvider,
}

impl Default for ArchiveProvider {
    fn default() -> ArchiveProvider {
        ArchiveProvider::sharing(Arc::new(Accounts::new(System::real())))
    }
}

impl ArchiveProvider {
    pub(crate) fn sharing(accounts: Arc<Accounts>) -> ArchiveProvider {
        ArchiveProvider { files: FileProvider::sharing(Arc::clone(&accounts)), accounts }
    }

    /// Returns the numbers of the owner of all files; none if they belong to kilter.
    fn owner(&self, cx: &Context<'_>, declared: &DeclaredArchive<'_>) -> Result<Option<(u32, u32)>, EcoString> {
        let identity = self.accounts.identity(cx, declared.user, declared.group)?;
        Ok(identity.map(|identity| (identity.uid, identity.gid)))
    }

    fn read(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, EcoString> {
        let Some(should) = wanted.should else { return Err("an archive is checked only by its declaration".into()) };
        let declared = DeclaredArchive::of(wanted.name, should);
        let mut state = State::absent(wanted.name.clone());
        if declared.removes_files {
            let attributes = Attributes::from_iter([("ensure", "present"), ("path", wanted.name.as_str())]);
            let is_there = !self.unpacked(cx, &declared, true)?.files.is_empty();
            return Ok(if is_there { State::present(wanted.name.clone(), attributes) } else { state });
        }
        if declared.is_absent {
            let attributes = Attributes::from_iter([("ensure", "present"), ("path", wanted.name.as_str())]);
            let is_there = unpack::exists(declared.path)?;
            return Ok(if is_there { State::present(wanted.name.clone(), attributes) } else { state });
        }
        let is_unfinished = StateFiles::of(cx, STATE).read(declared.path)?.is_some();
        if is_unfinished {
            return Ok(state);
        }
        let present = |attributes: Attributes| State::present(wanted.name.clone(), attributes);
        let attributes = || Attributes::from_iter([("ensure", "present"), ("path", wanted.name.as_str())]);
        if let Some(creates) = declared.creates {
            return Ok(if unpack::exists(creates)? { present(attributes()) } else { state });
        }
        let Some(archive) = ArchiveProvider::open(&declared)? else { return Ok(state) };
        if self.checksum_problem(cx, &declared, &archive)?.is_some() || !unpack::exists(declared.extract_path)? {
            return Ok(state);
        }
        let mut tree = match self.owner(cx, &declared) {
            Ok(owner) => UnpackDirectory::open(declared.extract_path, owner)?,
            // An earlier resource may create the account. The change reports it.
            Err(_) => return Ok(state),
        };
        let mut differing = Vec::new();
        let (mut has_member, mut is_any_there) = (false, false);
        each(File::from(archive), declared.strip, cx.interrupt(), &mut |member| {
            match tree.holds(member)? {
                true => (has_member, is_any_there) = (true, true),
                false => {
                    is_any_there = is_any_there || tree.has(member.path)?;
                    if differing.len() <= MAX_LISTED {
                        differing.push(EcoString::from(String::from_utf8_lossy(member.path)));
                    }
                }
            }
            Ok(differing.len() <= MAX_LISTED || !is_any_there)
        })?;
        if !differing.is_empty() && !is_any_there {
            // The directory may belong to another resource.
            return Ok(state);
        }
        if differing.is_empty() || has_member {
            state = present(attributes());
        }
        if !differing.is_empty() {
            state.attributes.push("differing_files", Value::strings(differing));
        }
        Ok(state)
    }

    /// Returns the files below the directory that are as in the archive, and the directories of the archive. `is_first`
    /// ends after the first file.
    ///
    /// # Errors
    /// If the archive or a file cannot be read.
    fn unpacked(
        &self,
        cx: &Context<'_>,
        declared: &DeclaredArchive<'_>,
        is_first: bool,
    ) -> Result<UnpackedMembers, EcoString> {
        let mut unpacked = UnpackedMembers::default();
        if !unpack::exists(declared.extract_path)? {
            return Ok(unpacked);
        }
        let Some(archive) = ArchiveProvider::open(declared)? else { return Ok(unpacked) };
        if self.checksum_problem(cx, declared, &archive)?.is_some() {
            return Ok(unpacked);
        }
        let mut tree = UnpackDirectory::open(declared.extract_path, self.owner(cx, declared)?)?;
        each(File::from(archive), declared.strip, cx.interrupt(), &mut |member| {
            let above = member.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            unpacked.directories.extend(above.map(|(end, _)| member.path[..end].to_vec()));
            if matches!(member.node, ArchiveNode::Directory) {
                unpacked.directories.insert(member.path.to_vec());
            } else if tree.holds(member)? {
                unpacked.files.push(member.path.to_vec());
            }
            Ok(!is_first || unpacked.files.is_empty())
        })?;
        Ok(unpacked)
    }

    /// Opens the local archive; none if it does not exist.
    ///
    /// # Errors
    /// If it was downloaded without a checksum, and another user can have replaced it.
    fn open(declared: &DeclaredArchive<'_>) -> Result<Option<OwnedFd>, EcoString> {
        let Some(path) = declared.local() else { return Ok(None) };
        if declared.url().is_some() && declared.expected().is_none() {
            match TrustPolicy::current().open(Path::new(path)) {
                Err(Distrust::Changeable { component, by, .. }) => {
                    let component = component.display();
                    return Err(eco_format!(
                        "{path} may not be what the server sent: {component} {by}; declare `checksum`, or keep it \
                         elsewhere"
                    ));
                }
                Ok(_) | Err(Distrust::Io { .. }) => {}
            }
        }
        unpack::open_archive(path)
    }

    /// Returns the reason why an archive is not the declared one.
    fn checksum_problem(
        &self,
        cx: &Context<'_>,
        declared: &DeclaredArchive<'_>,
        archive: &OwnedFd,
    ) -> Result<Option<EcoString>, EcoString> {
        let Some(expected) = declared.expected() else { return Ok(None) };
        let found = unpack::checksum(archive, &expected, cx.interrupt())?;
        Ok((found != expected).then(|| eco_format!("the archive has the checksum {found}, and {expected} is declared")))
    }

    fn apply(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let should = change.should.ok_or("an archive is changed only by its declaration")?;
        let declared = DeclaredArchive::of(change.name, should);
        // Values from other resources have not been validated before.
        if let Some(problem) = declared.problems(&[]).pop() {
            return Err(problem.to_string().into());
        }
        if declared.removes_files {
            let unpacked = self.unpacked(cx, &declared, false)?;
            let mut tree = UnpackDirectory::open(declared.extract_path, None)?;
            unpacked.files.iter().try_for_each(|path| tree.remove_file(path))?;
            // The longest paths come first: a directory after those in it.
            unpacked.directories.iter().rev().try_for_each(|path| tree.remove_empty_directory(path))?;
            if declared.url().is_none() {
                return Ok(());
            }
        }
        if declared.is_absent {
            return match directory::find(declared.path)? {
                Some(found) if found.directory.is_some() => Err(eco_format!("{} is a directory", declared.path)),
                Some(_) => directory::remove(declared.path),
                None => Ok(()),
            };
        }
        if !unpack::exists(declared.extract_path)? {
            return Err(no_directory(declared.extract_path));
        }
        let owner = self.owner(cx, &declared)?;
        let archive = match (declared.url(), declared.local()) {
            (Some(url), None) => unpack::download(cx, url, declared.expected(), declared.extract_path)?,
            (url, local) => {
                let path = local.unwrap_or(declared.path);
                if let Some(url) = url {
                    self.keep(cx, url, &declared)?;
                }
                ArchiveProvider::open(&declared)?.ok_or_else(|| no_archive(path))?
            }
        };
        if let Some(problem) = self.checksum_problem(cx, &declared, &archive)? {
            return Err(problem);
        }
        let archive = File::from(archive);
        let again = archive.try_clone().map_err(|error| eco_format!("cannot read the archive: {error}"))?;
        // A bad archive changes nothing.
        each(again, declared.strip, cx.interrupt(), &mut |_| Ok(true))?;
        let marks = StateFiles::of(cx, STATE);
        if cx.var_dir().is_some() {
            marks.write(declared.path, b"unfinished\n")?;
        }
        let mut tree = UnpackDirectory::open(declared.extract_path, owner)?;
        each(archive, declared.strip, cx.interrupt(), &mut |member| tree.install(member).map(|()| true))?;
        if cx.durability() == Durability::Flushed {
            directory::flush(declared.extract_path)?;
        }
        marks.remove(declared.path)?;
        match declared.creates {
            Some(creates) if !unpack::exists(creates)? => {
                Err(eco_format!("the archive is unpacked, and {creates} does not exist: correct `creates`"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the reason why a change is certain to fail: a path is missing, and no other resource may create it.
    fn obstacle(cx: &Context<'_>, change: &Change<'_>) -> Option<EcoString> {
        let declared = DeclaredArchive::of(change.name, change.should?);
        if declared.is_absent || cx.preview_context().may_change_before(change.name) {
            return None;
        }
        let writes = |path: &Path| cx.preview_context().writer(change.name, &path.to_string_lossy()).is_some();
        let is_missing = |path: &&str| match cx.preview_context().node(change.name, path) {
            Forecast::Unchanged => {
                let is_there = unpack::exists(path) != Ok(false);
                !is_there && !may_come(cx, path) && !Path::new(path).ancestors().any(writes)
            }
            Forecast::Changed(state, _) => matches!(state, PathState::Absent),
            Forecast::Unknown(_) => false,
        };
        let local = declared.local().filter(|_| declared.url().is_none());
        let directory = Some(declared.extract_path).filter(is_missing).map(no_directory);
        directory.or_else(|| local.filter(is_missing).map(no_archive))
    }

    /// Brings a downloaded archive to its path.
    fn keep(&self, cx: &Context<'_>, url: &str, declared: &DeclaredArchive<'_>) -> Result<(), EcoString> {
        let mut should = Attributes::from_iter([("ensure", Value::from("file")), ("source", url.into())]);
        if let Some(expected) = declared.expected() {
            should.push("checksum", expected);
        }
        let mut name = EcoString::from(declared.path);
        let problems = canonicalize_one(&self.files, cx, &mut name, &mut should).err().unwrap_or_default();
        if let Some(problem) = problems.first() {
            return Err(problem.to_string().into());
        }
        let found = check(&self.files, cx, &[Wanted::new(&name, Some(&should))]).remove(0);
        let found = found.map_err(|error| error.message)?;
        if found.differences.is_empty() {
            return Ok(());
        }
        let change = Change::new(&name, &found.state, Some(&should), &found.differences);
        let outcome = self.files.set(cx, &[change], Mode::Apply).remove(0);
        outcome.failure.map_or(Ok(()), Err)
    }
}

fn no_directory(path: &str) -> EcoString {
    eco_format!("{path} does not exist: declare `file[{path}]` with `ensure: directory`")
}

fn no_archive(path: &str) -> EcoString {
    eco_format!("there is no archive {path}")
}

/// Paths of an archive, relative to the directory.
#[derive(Default)]
struct UnpackedMembers {
    files: Vec<Vec<u8>>,
    directories: BTreeSet<Vec<u8>>,
}

/// Passes each member of an archive to `take`, until it returns false. The first `strip` directories of each path are
/// dropped, and members without a further name are omitted.
///
/// # Errors
/// If the archive is damaged, exceeds a limit, or has a member that must not be unpacked.
fn each(file: File, strip: usize, interrupt: Interrupt<'_>, take: &mut TakeMember<'_>) -> Result<(), EcoString> {
    match zip::is_zip(&file) {
        true => zip::each(&file, strip, interrupt, take),
        false => tarball::each(file, strip, interrupt, take),
    }
}

impl Provider for ArchiveProvider {
    crate::builtin::describe!("archive", "tar", schema, [read_one, scheduling, relations, predict, watch, revert]);

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || Err(ProviderError::new("archives cannot be listed: declare one")))
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let one = |change: &Change<'_>| {
            let done = match mode {
                Mode::Preview => ArchiveProvider::obstacle(cx, change).map_or(Ok(()), Err),
                Mode::Apply => self.apply(cx, change),
            };
            redacted_outcome(change, done.map_or_else(Outcome::failed, |()| Outcome::done()))
        };
        changes.iter().map(one).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        let problems = DeclaredArchive::of(name, should).problems(deferred);
        problems.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, _: &Attributes) -> Insync {
        match is.attributes.get("differing_files") {
            Some(files) if attribute == "ensure" => {
                let names: Vec<&str> = files.as_list().iter().filter_map(Value::as_str).collect();
                let shown = names.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join(", ");
                let more = if names.len() > MAX_LISTED { " and more" } else { "" };
                Insync::Differs(Some(eco_format!("differing files: {shown}{more}")))
            }
            _ => Insync::Default,
        }
    }
}

impl ReadOne for ArchiveProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        self.read(cx, wanted).map_err(|reason| match wanted.should {
            Some(should) => Redactor::of(should).error(ProviderError::new(reason)),
            None => ProviderError::new(reason),
        })
    }
}

impl Scheduling for ArchiveProvider {
    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Relations for ArchiveProvider {
    /// Names the directory, or the path that the archive creates. Files below come after the archive.
    fn identities(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(&str)) {
        let declared = DeclaredArchive::of(name, should);
        let path = declared.creates.unwrap_or(declared.extract_path).trim_end_matches('/');
        // The archive itself comes before.
        let holds_archive = declared.local().is_some_and(|archive| Path::new(archive).starts_with(path));
        if !declared.is_absent && !path.is_empty() && !holds_archive {
            say(path);
        }
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let declared = DeclaredArchive::of(name, should);
        if declared.is_absent {
            return;
        }
        add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", declared.extract_path) });
        for path in [Some(declared.extract_path), declared.local()].into_iter().flatten() {
            add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("mount", path) });
            add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("vcsrepo", path) });
        }
        if let Some(path) = declared.local() {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", path) });
        }
        for (account, type_name) in [(declared.user, "user"), (declared.group, "group")] {
            let Some(account) = account else { continue };
            match number(account) {
                Some(number) => {
                    add(AutoEdge { by: Match::Number, ..AutoEdge::require(type_name, &number.to_string()) });
                }
                None => add(AutoEdge::require(type_name, account.as_str().unwrap_or_default())),
            }
        }
    }
}

impl Revert for ArchiveProvider {
    fn revert_to(&self) -> RevertTo {
        RevertTo::Values
    }

    fn revert_state(&self, _: &Attributes, _: &State) -> Result<Attributes, EcoString> {
        Err("the former content of its files is not saved".into())
    }

    fn revert_creation(&self, _: &State, removal: &mut Attributes) -> Result<(), EcoString> {
        if DeclaredArchive::of("", removal).local().is_none() {
            return Err("the archive is not kept (`cleanup`), so that its files are not known".into());
        }
        removal.set("remove_files", true);
        Ok(())
    }
}

impl Predict for ArchiveProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let declared = DeclaredArchive::of(change.name, change.should?);
        if declared.is_absent && !declared.removes_files {
            return Some(vec![Effect::Path { path: declared.path.into(), node: PathState::Absent }]);
        }
        let kept = declared.url().filter(|_| !declared.cleanup).map(|_| declared.path);
        let unknown = |path: &str| Effect::Path { path: path.into(), node: PathState::Unknown };
        Some(std::iter::once(declared.extract_path).chain(kept).map(unknown).collect())
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        let declared = DeclaredArchive::of(name, should);
        if declared.is_absent && !declared.removes_files {
            return say(Footprint::Writes { path: declared.path, is_whole: true });
        }
        say(Footprint::Writes { path: declared.extract_path, is_whole: false });
        match (declared.url(), declared.local()) {
            (Some(_), Some(path)) => say(Footprint::Writes { path, is_whole: false }),
            (None, Some(path)) => say(Footprint::Reads { path, below: false }),
            (_, None) => {}
        }
    }
}

impl Watch for ArchiveProvider {
    /// Returns the watches for the archive and the directory. With `creates`, that path alone is watched.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        let declared = DeclaredArchive::of(name, should);
        if declared.is_absent {
            return vec![WatchSource::Path { path: declared.path.into(), scope: Scope::This }];
        }
        let path = |path: &str, scope| WatchSource::Path { path: path.into(), scope };
        if let Some(creates) = declared.creates {
            return vec![path(creates, Scope::This)];
        }
        let archive = declared.local().map(|archive| path(archive, Scope::This));
        [path(declared.extract_path, Scope::Entries), WatchSource::Poll(POLL)].into_iter().chain(archive).collect()
    }
}

#[cfg(test)]
mod tests;
