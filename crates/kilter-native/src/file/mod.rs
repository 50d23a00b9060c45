//! The type `file`: files, directories and links with their content, owner, group and mode.
//!
//! A check ([`observe`]) uses a single descriptor. It costs four system calls for a file in sync: `openat2`,
//! `fstat`, `read`, `close`. It costs another one if an access control list can grant more than its mode
//! ([`acl_policy`]). A change ([`apply`], [`root`], [`tree_apply`]) processes a complete batch. It writes contents
//! under temporary names ([`stage`]), flushes them together ([`durable`]) and renames them. All paths are opened by
//! [`open`], which follows no symbolic link of another user. [`tree_diff`] compares the content of a directory.

mod acl_entry;
mod acl_policy;
mod apply;
pub(crate) mod atomic_rewrite;
mod backup;
mod basis;
mod content;
mod copy;
mod declared;
pub(crate) mod directory;
mod download;
mod durable;
mod entry;
mod error;
mod fragments;
mod kind;
pub(crate) mod lone;
mod mode;
mod observe;
mod open;
mod opened_path;
mod ownership;
mod parents;
mod parts;
mod predict;
pub(crate) mod preflight;
mod preserve;
mod remove;
mod restore;
mod rewrites;
mod root;
mod schema;
mod secret;
mod spec;
mod stage;
mod staging_dir;
mod temp_names;
pub(crate) mod temporary_record;
pub(crate) mod tidy;
mod time;
mod tree_apply;
mod tree_diff;
mod tree_removals;
pub(crate) mod unpack;
mod validate_cmd;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Difference, Outcome, State, Unknown, Value};
use kilter_provider::{
    AutoEdge, Batch, Context, Declaration, Declared, Effect, Explain, Footprint, Found, Insync, Mode, Placement,
    Predict, Provider, ProviderError, Query, ReadOne, Redactor, Relations, Revert, Scheduling, Scope, Session,
    SideEffects, ValidationError, Wanted, Watch, WatchSource, get_each, redacted_outcome,
};
use rustc_hash::FxHashSet;

use crate::accounts::{Accounts, Ids, System};
use crate::value_text::texts;
use error::FileError;
use spec::{Checksum, Spec};

/// Returns the change of a text as a unified diff; none if it is too large to show.
pub(crate) fn text_diff(path: &str, is: &str, should: &str) -> Option<EcoString> {
    content::diff(path, is.as_bytes(), should.as_bytes())
}

/// Returns the problems of `path`, `backup` and `validate_cmd` of a resource that edits a file.
pub(crate) fn edit_problems(should: &Attributes) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    if let Some(path) = should.text("path").filter(|path| !open::is_normal(path)) {
        problems.push(declared::not_normal("path", path));
    }
    problems.extend(declared::backup_suffix(should));
    if let Some(command) = should.get("validate_cmd") {
        declared::command_words(command, &mut problems);
    }
    problems
}

/// Provides the type `file`.
pub struct FileProvider {
    accounts: Ids,
    touched: durable::Touched,
    cleaned: Mutex<FxHashSet<(u64, u64)>>,
}

impl FileProvider {
    /// Creates a provider for this machine.
    pub fn new() -> FileProvider {
        FileProvider::sharing(Arc::new(Accounts::new(System::real())))
    }

    /// Creates a provider that shares accounts with other providers.
    pub(crate) fn sharing(accounts: Arc<Accounts>) -> FileProvider {
        FileProvider { accounts: Ids::new(accounts), touched: durable::Touched::default(), cleaned: Mutex::default() }
    }
}

impl Default for FileProvider {
    fn default() -> FileProvider {
        FileProvider::new()
    }
}

impl FileProvider {
    /// Returns the state of a declared file.
    fn state_of(
        &self,
        cx: &Context<'_>,
        name: &EcoString,
        path: &str,
        should: &Attributes,
    ) -> Result<State, FileError> {
        let is_made = should.get("fragments").is_some();
        let effective = match fragments::put_together(cx, name, should) {
            Ok(Err(because)) => {
                let mut state = observe::declared(cx, &self.accounts, name, path, should)?;
                state.unknown.push(Unknown { attribute: "content".into(), because: because.into() });
                return Ok(state);
            }
            Ok(Ok(effective)) => Ok(effective),
            // In a plan, an earlier resource may create the fragments.
            Err(error) if error.is_missing() && fragments::may_come(cx, name, should) => {
                let mut state = observe::declared(cx, &self.accounts, name, path, should)?;
                if state.exists {
                    let later = Difference::new("content", Value::Undef, Value::Undef);
                    state.drift.push(later.saying("changes to fragments that do not exist yet"));
                }
                return Ok(state);
            }
            Err(error) => Err(error),
        }?;
        let mut state = observe::declared(cx, &self.accounts, name, path, &effective)?;
        if is_made {
            fragments::compare(&mut state, &effective);
        }
        let is_wanted = should.text("ensure") != Some("absent");
        // In a plan, an earlier resource may create the file.
        let is_certain = !cx.is_noop() || !cx.preview_context().may_change_before(name);
        if !state.exists
            && state.unknown.is_empty()
            && is_certain
            && is_wanted
            && should.get_bool("create") == Some(false)
        {
            return Err(FileError::NotCreated(path.to_owned()));
        }
        Ok(state)
    }
}

/// Returns the content of a new file as a diff.
fn introduction(is: &State, should: &Attributes) -> Option<EcoString> {
    let content = should.get("content").filter(|content| !content.holds_sensitive())?;
    content::introduction(open::trim(&is.name), content.as_bytes()?)
}

/// Returns true if the change makes a new file: none exists, or one of another kind.
fn is_new(is: &State, should: &Attributes) -> bool {
    let kind = should.text("ensure").filter(|kind| matches!(*kind, "file" | "directory" | "link"));
    !is.exists || kind.is_some_and(|kind| is.attributes.text("ensure") != Some(kind))
}

impl Provider for FileProvider {
    crate::builtin::describe!(
        "file",
        "posix",
        schema::schema,
        [read_one, session, scheduling, relations, predict, explain, watch, revert]
    );

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        get_each(self, cx, query, || {
            let why = "listing all files is not supported; name the files: kilter get file /etc/motd";
            Err(ProviderError::new(why))
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            let preview = |change| match preflight::failure(cx, &self.accounts, change) {
                Some(error) => Outcome::failed(eco_format!("{error}")),
                None => Outcome::done(),
            };
            return changes.iter().map(|change| sealed(change, preview(change))).collect();
        }
        self.accounts.expire();
        let around =
            apply::BatchContext { cx, accounts: &self.accounts, touched: &self.touched, cleaned: &self.cleaned };
        let mut batch = apply::FileBatch::new(around, changes.len());
        for (index, change) in changes.iter().enumerate() {
            let effective = |should| fragments::put_together(cx, change.name, should);
            match change.should.map(effective).transpose() {
                Ok(should) => {
                    // Effects are used only in plans, which change nothing.
                    let should = should.and_then(Result::ok);
                    if should.as_deref().is_some_and(|should| should.get_bool("parents") == Some(true))
                        && !change.is.exists
                    {
                        parents::make(&mut batch, index, open::trim(change.name));
                    }
                    batch.change(index, &Change { should: should.as_deref(), ..*change });
                }
                Err(error) => batch.fail(index, &error),
            }
        }
        let outcomes = batch.finish();
        if cx.durability() == kilter_provider::Durability::Flushed {
            self.touched.flush_ahead(changes.len());
        }
        outcomes.into_iter().zip(changes).map(|(outcome, change)| sealed(change, outcome)).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        let (should, deferred, problem) = parts::as_content(should, deferred);
        let problems = declared::validate(name, &should, &deferred).into_iter().chain(problem);
        problems.map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            parts::put_together(should);
            declared::canonicalize(should);
        }
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        match attribute {
            "ensure" => ensure_insync(is, should),
            "mode" => mode_insync(is, should),
            "content" => content_insync(is, should),
            "acl" if should.text("acl") == Some("keep") => Insync::Same,
            "target" if should.get_bool("replace") == Some(false) && !is_new(is, should) => Insync::Same,
            _ => Insync::Default,
        }
    }
}

impl ReadOne for FileProvider {
    fn get_one(&self, cx: &Context<'_>, wanted: Wanted<'_>) -> Result<State, ProviderError> {
        let path = open::trim(wanted.name);
        let state = match wanted.should {
            _ if !open::is_normal(path) => Err(FileError::NotNormal(path.to_owned())),
            Some(should) => self.state_of(cx, wanted.name, path, should),
            None => observe::whole(cx, &self.accounts, wanted.name, path),
        };
        let state = state.map(|state| match wanted.should {
            Some(should) => keeping_absent_list(state, should),
            None => state,
        });
        state.map_err(|error| match wanted.should {
            Some(should) => ProviderError::new(Redactor::of(should).redact(eco_format!("{error}"))),
            None => ProviderError::new(eco_format!("{error}")),
        })
    }
}

impl Session for FileProvider {
    fn flush(&self, _: &Context<'_>) -> Result<(), ProviderError> {
        self.touched.flush().map_err(|errno| {
            ProviderError::new(eco_format!("the changed files may not survive a crash: flushing them failed: {errno}"))
        })
    }
}

impl Scheduling for FileProvider {
    fn placement(&self, should: &Attributes) -> Placement {
        let long = should.iter().any(|(name, value)| match name.as_str() {
            "recurse" | "purge" | "force" => value.as_bool() == Some(true),
            "source" | "fragments" | "validate_cmd" => !value.is_undef(),
            _ => false,
        });
        let waits = || {
            should.text("owner").is_some_and(|owner| self.accounts.user_may_wait(owner))
                || should.text("group").is_some_and(|group| self.accounts.group_may_wait(group))
        };
        if long || waits() { Placement::Worker } else { Placement::Inline }
    }

    /// Returns the placement of a change. A backup reads the old content, which can be large.
    fn set_placement(&self, should: &Attributes) -> Placement {
        let keeps = should.get("backup").is_some_and(|backup| !backup.is_undef() && backup.as_bool() != Some(false));
        if keeps { Placement::Worker } else { self.placement(should) }
    }

    fn batch_size(&self) -> Batch {
        Batch::Whole
    }
}

impl Relations for FileProvider {
    fn identities(&self, name: &str, _: &Attributes, say: &mut dyn FnMut(&str)) {
        let trimmed = open::trim(name);
        if trimmed != name {
            say(trimmed);
        }
    }

    fn conflicts(&self, name: &str, should: &Attributes, declared: Declared<'_>) -> Vec<ValidationError> {
        declared::conflicts(name, should, declared)
    }

    fn names_are_paths(&self) -> bool {
        true
    }

    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        declared::auto_edges(name, should, add);
    }
}

impl Predict for FileProvider {
    fn basis(&self, cx: &Context<'_>, wanted: Wanted<'_>, found: &Found) -> Option<Value> {
        basis::basis(cx, wanted.name, wanted.should?, found)
    }

    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, cx: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        Some(predict::effects(cx, &self.accounts, change))
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        predict::footprint(name, should, say);
    }
}

impl Explain for FileProvider {
    /// Shows contents as checksums, because they are too long for a line and may be confidential.
    fn message(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        (attribute == "content").then(|| content_message(is, should)).flatten()
    }

    fn diff(&self, attribute: &str, is: &State, should: &Attributes) -> Option<EcoString> {
        if should.get_bool("show_diff") == Some(false) {
            return None;
        }
        if attribute != "content" {
            return None;
        }
        if is_new(is, should) {
            return introduction(is, should);
        }
        let (is_content, content) = (is.attributes.get("content")?, should.get("content")?);
        if is_content.holds_sensitive() || content.holds_sensitive() {
            return None;
        }
        content::diff(open::trim(&is.name), is_content.as_bytes()?, content.as_bytes()?)
    }
}

impl Watch for FileProvider {
    /// Returns the watches for the path, its tree if that is declared, its source and its fragments.
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        let below = ["recurse", "purge"].iter().any(|word| should.get_bool(word) == Some(true));
        let scope = if below { Scope::Tree } else { Scope::This };
        let source = spec::source_path(should).map(|source| (source, scope));
        let paths = std::iter::once((name, scope)).chain(source);
        let paths = paths.map(|(path, scope)| WatchSource::Path { path: PathBuf::from(path), scope });
        let fragments = texts(should.get("fragments")).into_iter();
        let fragment = |path: EcoString| WatchSource::Path { path: open::trim(&path).into(), scope: Scope::Entries };
        let polled = Spec::of(should).download.filter(|download| download.expected.is_none());
        let polled = polled.map(|_| WatchSource::Poll(kilter_provider::POLL));
        paths.chain(fragments.map(fragment)).chain(polled).collect()
    }

    /// Returns true if other declarations affect this resource: those of its source, and of files below it.
    fn depends_on_catalog(&self, should: &Attributes) -> bool {
        spec::source_path(should).is_some()
            || ["recurse", "purge"].iter().any(|word| should.get_bool(word) == Some(true))
    }
}

impl Revert for FileProvider {
    fn revert_state(&self, should: &Attributes, is: &State) -> Result<Attributes, EcoString> {
        restore::revert_state(should, is)
    }
}

/// Redacts the secrets in an outcome. Most outcomes have no messages.
fn sealed(change: &Change<'_>, outcome: Outcome) -> Outcome {
    let has_messages = outcome.failure.is_some() || !outcome.notes.is_empty();
    if has_messages { redacted_outcome(change, outcome) } else { outcome }
}

/// Adds `acl: keep` to the state of a missing file that declares it: the change of a new file sets no access list.
fn keeping_absent_list(mut state: State, should: &Attributes) -> State {
    if !state.exists && should.text("acl") == Some("keep") {
        state.attributes.push("acl", "keep");
    }
    state
}

fn ensure_insync(is: &State, should: &Attributes) -> Insync {
    match should.text("ensure") {
        Some("present") if is.exists => Insync::Same,
        Some(ensure) => match is.attributes.text("kind") {
            Some(kind) if is.attributes.text("ensure") == Some("present") => {
                Insync::Differs(Some(eco_format!("{kind} → {ensure}")))
            }
            _ => Insync::Default,
        },
        None => Insync::Default,
    }
}

/// Compares modes. A symbolic mode is in sync if it changes no bits.
fn mode_insync(is: &State, should: &Attributes) -> Insync {
    let (found, declared) = (is.attributes.text("mode"), should.text("mode"));
    if is_new(is, should) {
        return if found == declared { Insync::Same } else { Insync::Differs(None) };
    }
    let recurse = should.get_bool("recurse") == Some(true);
    if found == declared && !recurse {
        return Insync::Same;
    }
    // Links have no mode. With a source, the provider itself reports differences of modes.
    let ensure = is.attributes.text("ensure");
    if ensure == Some("link") || spec::source_path(should).is_some() {
        return Insync::Same;
    }
    let Some(current) = found.and_then(mode::octal) else { return Insync::Default };
    let kind = if ensure == Some("directory") { kind::Kind::Directory } else { kind::Kind::File };
    let spec = Spec::of(should);
    let declared_of = |attribute| should.get(attribute).filter(|value| !value.is_undef());
    let moves = ["owner", "group"]
        .into_iter()
        .any(|attribute| declared_of(attribute).is_some_and(|declared| is.attributes.get(attribute) != Some(declared)));
    let base = if moves { mode::disarmed(current, kind) } else { current };
    match spec.bits(base, kind) {
        Some(bits) if bits == current => Insync::Same,
        Some(bits) if declared.is_some_and(|declared| mode::text(bits) != declared) => Insync::Differs(Some(
            eco_format!("{} → {} ({})", mode::text(current), mode::text(bits), declared.unwrap_or_default()),
        )),
        _ => Insync::Default,
    }
}

fn content_insync(is: &State, should: &Attributes) -> Insync {
    if should.get_bool("replace") == Some(false) && !is_new(is, should) {
        return Insync::Same;
    }
    let Some(wanted) = should.get("content") else { return Insync::Default };
    let is_same = match wanted.holds_sensitive() {
        // The present content is reported only if it equals the declared value.
        true => is.attributes.get("content") == Some(wanted),
        false => {
            let found = is.attributes.get("content").map(Value::unwrap_sensitive);
            found.is_some_and(|found| found.as_bytes() == wanted.as_bytes())
        }
    };
    if is_same { Insync::Same } else { Insync::Differs(None) }
}

/// Returns the checksums of a content that is out of sync.
fn content_message(is: &State, should: &Attributes) -> Option<EcoString> {
    let wanted = should.get("content")?;
    let found = is.attributes.get("content").map(Value::unwrap_sensitive);
    if wanted.holds_sensitive() {
        return Some("another content (not shown: it is sensitive)".into());
    }
    let old = match (is.attributes.text("checksum_value"), found.and_then(Value::as_bytes)) {
        (Some(checksum), _) => EcoString::from(content::brief(checksum)),
        (None, Some(bytes)) => EcoString::from(content::brief(&content::checksum_of(Checksum::Sha256, bytes))),
        (None, None) => match is.attributes.get("size").and_then(Value::as_integer) {
            Some(size) => eco_format!("{{size}}{size}"),
            None => "nothing".into(),
        },
    };
    let checksum = Spec::of(should).checksum;
    let new = content::checksum_of(checksum, wanted.as_bytes().unwrap_or_default());
    let why = unshown(is, should, found.and_then(Value::as_bytes), wanted.as_bytes().unwrap_or_default());
    let why = why.map(|why| eco_format!(" (not shown: {why})")).unwrap_or_default();
    Some(eco_format!("{old} → {}{why}", content::brief(&new)))
}

/// Returns the reason why there is no diff in addition to the checksums.
fn unshown(is: &State, should: &Attributes, found: Option<&[u8]>, wanted: &[u8]) -> Option<EcoString> {
    if should.get_bool("show_diff") == Some(false) {
        return Some("`show_diff` is false".into());
    }
    let why = match (is_new(is, should), found) {
        (true, _) => content::unintroduced(wanted),
        // The present content was too large to load.
        (false, None) => Some(content::DiffOmitted::Large(content::MAX_DIFF_BYTES)),
        (false, Some(found)) => content::unshown(found).or(content::unshown(wanted)),
    };
    why.map(|why| eco_format!("{why}"))
}
