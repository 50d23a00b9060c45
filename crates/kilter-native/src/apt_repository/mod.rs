//! The type `apt_repository`: sources of packages for apt.

mod fields;
mod key;
mod schema;
mod stanza;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, State, Value};
use kilter_process::trust::TrustPolicy;
use kilter_provider::{
    AutoEdge, Context, Declaration, Effect, Footprint, Forecast, Insync, Level, Match, Mode, PathState, Predict,
    Provider, ProviderError, Query, Redactor, Relations, Scope, SideEffects, Suitability, ValidationError, Wanted,
    Watch, WatchSource, redacted_outcome,
};

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::file::atomic_rewrite::{self, AtomicRewrite};
use crate::file::{lone, unpack};
use crate::package::apt::{Apt, LISTS};
use crate::state_files::StateFiles;
use crate::tool;
use crate::value_text::texts;
use fields::{edited, flag, trimmed, words};
use schema::{FIELDS, RepositoryForm, SIGNED_BY, expected_checksum, options, schema};
use stanza::Stanza;

const SOURCES: &str = "/etc/apt/sources.list.d/";
const KEYRINGS: &str = "/etc/apt/keyrings/";
const FORMS: [key::KeyForm; 2] = [key::KeyForm::Armored, key::KeyForm::Binary];

/// Maximum size in bytes of a file of a repository, and of a keyring. Debian's keyring has 60 KB.
const MAX_BYTES: u64 = 4 << 20;

/// Kind of the state files that mark repositories whose package lists have not been updated since their change.
const STATE: &str = "apt_repository";

/// Returns the new content of a file from the old one.
type NewContent<'a> = dyn Fn(&[u8]) -> Result<Vec<u8>, EcoString> + 'a;

/// Provides the type `apt_repository`.
pub struct AptRepositoryProvider {
    system: System,
    trust: TrustPolicy,
    turn: Arc<Mutex<()>>,
}

impl AptRepositoryProvider {
    /// Creates a provider for the repositories of a system. Local files with keys must pass a trust rule.
    pub fn new(system: System, trust: TrustPolicy) -> AptRepositoryProvider {
        AptRepositoryProvider::sharing(system, trust, Arc::default())
    }

    /// Creates a provider that holds a lock during its changes.
    pub(crate) fn sharing(system: System, trust: TrustPolicy, turn: Arc<Mutex<()>>) -> AptRepositoryProvider {
        AptRepositoryProvider { system, trust, turn }
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, EcoString> {
        atomic_rewrite::read_within(&self.system.path(path), MAX_BYTES).map_err(|error| eco_format!("{error}"))
    }

    fn text(&self, path: &str) -> Result<Option<String>, EcoString> {
        let text = self.read(path)?.map(String::from_utf8).transpose();
        text.map_err(|_| eco_format!("{path} is no text"))
    }

    fn state(&self, cx: &Context<'_>, name: &EcoString, should: Option<&Attributes>) -> Result<State, EcoString> {
        let path = file_of(name);
        let is_unwanted = should.is_some_and(is_absent);
        let mut attributes = Attributes::from_iter([("ensure", "present".into()), ("name", name.clone())]);
        let Some(text) = self.text(&path)? else {
            return Ok(match is_unwanted && unpack::exists(&self.system.path(&rival(name)))? {
                true => State::present(name.clone(), attributes),
                false => State::absent(name.clone()),
            });
        };
        let stanza = match Stanza::parse(&text) {
            // A file of any form can be removed.
            Err(_) if is_unwanted => return Ok(State::present(name.clone(), attributes)),
            stanza => stanza.map_err(|why| eco_format!("{path}: {why}"))?,
        };
        for (attribute, field, form) in FIELDS {
            match (form, stanza.value(field)) {
                (RepositoryForm::List, Some(value)) => {
                    attributes.push(attribute, Value::strings(value.split_ascii_whitespace()))
                }
                (RepositoryForm::Flag, Some(value)) => {
                    flag(&value).into_iter().for_each(|flag| attributes.push(attribute, flag))
                }
                (RepositoryForm::Flag, None) if attribute == "enabled" => attributes.push(attribute, true),
                (RepositoryForm::Text, Some(value)) => attributes.push(attribute, value),
                (_, None) => {}
            }
        }
        let is_other = |name: &&&str| !FIELDS.iter().any(|(_, field, _)| field.eq_ignore_ascii_case(name));
        let others: Vec<(&str, Value)> = stanza
            .fields()
            .iter()
            .filter(is_other)
            .map(|name| (*name, Value::from(stanza.value(name).unwrap_or_default())))
            .collect();
        if !others.is_empty() {
            attributes.push("options", Value::hash(others));
        }
        stanza.comment().into_iter().for_each(|comment| attributes.push("comment", comment));
        let keyring = attributes.text("signed_by").filter(|path| is_own(name, path)).map(str::to_owned);
        let key = keyring.and_then(|path| String::from_utf8(self.read(&path).ok()??).ok());
        if let Some(key) = key.filter(|key| key::form(key.as_bytes()).is_ok()) {
            attributes.push("key", key);
        }
        attributes.push("updated", StateFiles::of(cx, STATE).read(name)?.is_none());
        Ok(State::present(name.clone(), attributes))
    }

    fn names(&self) -> Result<Vec<EcoString>, EcoString> {
        let path = self.system.path(SOURCES);
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| eco_format!("cannot read {path}: {error}"))?,
        };
        let name = |entry: std::fs::DirEntry| {
            let name = entry.file_name().to_str()?.strip_suffix(".sources").map(EcoString::from)?;
            Some(name).filter(|name| is_name(name))
        };
        let mut names: Vec<EcoString> = entries.filter_map(|entry| name(entry.ok()?)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the declared key, unless it is on a server.
    fn local_key(&self, should: &Attributes) -> Result<Option<Vec<u8>>, EcoString> {
        match (should.text("key"), should.text("key_source")) {
            (Some(text), _) => Ok(Some(format!("{}\n", text.trim()).into())),
            (None, Some(path)) if !kilter_fetch::is_url(path) => {
                let found = self.trust.read(Path::new(&self.system.path(path)), MAX_BYTES);
                found.map(Some).map_err(|why| eco_format!("cannot read {path}: {why}"))
            }
            _ => Ok(None),
        }
    }

    /// Returns the difference between the keyring and the declared key.
    fn key_difference(&self, is: &State, should: &Attributes) -> Result<Option<EcoString>, EcoString> {
        let path = is.attributes.text("signed_by").filter(|path| is_own(&is.name, path));
        let Some(path) = path else { return Ok(Some(eco_format!("{SIGNED_BY} does not name the keyring of kilter"))) };
        let Some(present) = self.read(path)? else { return Ok(Some(eco_format!("there is no {path}"))) };
        let is_same = match (expected_checksum(should), self.local_key(should)?) {
            (Some(expected), _) => unpack::checksum_of(&present, &expected) == expected,
            (None, Some(wanted)) => present == wanted,
            (None, None) => key::form(&present).is_ok(),
        };
        Ok((!is_same).then(|| eco_format!("{path} has another key")))
    }

    /// Returns the declared key and its form; none if no key is declared.
    fn key(
        &self,
        cx: &Context<'_>,
        name: &str,
        should: &Attributes,
    ) -> Result<Option<(key::KeyForm, Vec<u8>)>, EcoString> {
        let expected = expected_checksum(should);
        let bytes = match (self.local_key(should)?, should.text("key_source")) {
            (Some(bytes), _) => bytes,
            (None, None) => return Ok(None),
            (None, Some(url)) => {
                let is_wanted = |bytes: &Vec<u8>| {
                    expected.as_ref().is_none_or(|expected| unpack::checksum_of(bytes, expected) == *expected)
                };
                let present = FORMS.iter().find_map(|form| {
                    let bytes = self.read(&keyring(name, *form)).ok()??;
                    (key::form(&bytes) == Ok(*form) && is_wanted(&bytes)).then_some(bytes)
                });
                match present {
                    Some(bytes) => bytes,
                    None => unpack::download_bytes(cx, url, expected.clone(), &self.system.path(KEYRINGS), MAX_BYTES)?,
                }
            }
        };
        let from = should.text("key_source").unwrap_or("key");
        if let Some(expected) = expected.filter(|expected| unpack::checksum_of(&bytes, expected) != **expected) {
            return Err(eco_format!("{from} has another checksum than {expected}"));
        }
        let form = key::form(&bytes).map_err(|why| eco_format!("{from}: {why}"))?;
        Ok(Some((form, bytes)))
    }

    /// Writes or removes the files of a repository. Returns true if the package lists must be updated.
    fn place(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<bool, EcoString> {
        let name = change.name;
        let Some(should) = change.should.filter(|should| !is_absent(should)) else {
            return self.remove(cx, name).map(|()| false);
        };
        // Values from other resources have not been validated before.
        if let Some(problem) = schema::problems(should, &[]).pop() {
            return Err(problem.to_string().into());
        }
        self.check_rival(name)?;
        std::fs::create_dir_all(self.system.path(KEYRINGS))
            .map_err(|error| eco_format!("cannot create {KEYRINGS}: {error}"))?;
        let key = self.key(cx, name, should)?;
        let must_update = must_update(should);
        if must_update && cx.var_dir().is_some() {
            StateFiles::of(cx, STATE).write(name, b"not updated\n")?;
        }
        let ring = key.as_ref().map(|(form, _)| keyring(name, *form));
        if let (Some((_, bytes)), Some(ring)) = (&key, &ring) {
            self.rewrite(cx, ring, &|_| Ok(bytes.clone()))?;
        }
        self.rewrite(cx, &file_of(name), &|old| {
            let old = std::str::from_utf8(old).map_err(|_| eco_format!("{} is no text", file_of(name)))?;
            let stanza = Stanza::parse(old).map_err(|why| eco_format!("{}: {why}", file_of(name)))?;
            Ok(edited(&stanza, should, ring.as_deref()).into())
        })?;
        if let Some((form, _)) = key {
            let other = FORMS.into_iter().filter(|other| *other != form).map(|other| keyring(name, other));
            other.into_iter().try_for_each(|other| self.remove_file(cx, &other))?;
        }
        Ok(must_update)
    }

    /// Replaces a file by its new content, unless that is the old one.
    fn rewrite(&self, cx: &Context<'_>, path: &str, new: &NewContent<'_>) -> Result<(), EcoString> {
        atomic_rewrite::rewritten(|| {
            let file = AtomicRewrite::open(&self.system.path(path))?;
            let new = new(file.bytes())?;
            if !file.exists() || file.bytes() != new {
                file.replace(&new, 0o644, cx)?;
            }
            Ok(())
        })
    }

    fn remove_file(&self, cx: &Context<'_>, path: &str) -> Result<(), EcoString> {
        lone::remove(&self.system.path(path), cx).map_err(|error| eco_format!("{error}"))
    }

    /// Removes the files of a repository in both formats, and its keyring in kilter's place if they name it.
    fn remove(&self, cx: &Context<'_>, name: &str) -> Result<(), EcoString> {
        if !is_name(name) {
            return Err(eco_format!("`{name}` is no name of a repository"));
        }
        self.removed(name).iter().try_for_each(|path| self.remove_file(cx, path))?;
        StateFiles::of(cx, STATE).remove(name)
    }

    /// Returns the files that a removal removes, in this order. The files that name a keyring come last: an interrupted
    /// removal still finds them.
    fn removed(&self, name: &str) -> Vec<String> {
        let files = [file_of(name), rival(name)];
        let texts: Vec<String> = files.iter().filter_map(|path| self.text(path).ok().flatten()).collect();
        let rings = FORMS.map(|form| keyring(name, form)).into_iter();
        let rings = rings.filter(|ring| texts.iter().any(|text| is_keyring_of(text, ring)));
        let existing = |path: &String| unpack::exists(&self.system.path(path)).unwrap_or(true);
        rings.chain(files).filter(existing).collect()
    }

    /// Previews a change. A removal names its files.
    fn previewed(&self, cx: &Context<'_>, change: &Change<'_>) -> Outcome {
        if let Err(failure) = self.preview(cx, change) {
            return Outcome::failed(failure);
        }
        let is_removal = change.should.is_none_or(is_absent) && is_name(change.name);
        let files = if is_removal { self.removed(change.name) } else { Vec::new() };
        let notes = if files.is_empty() { Vec::new() } else { vec![eco_format!("removes {}", files.join(", "))] };
        Outcome { notes, ..Outcome::done() }
    }

    /// Checks that the repository is not declared in the one-line format too. apt would refuse all repositories if both
    /// have different keys.
    fn check_rival(&self, name: &str) -> Result<(), EcoString> {
        let rival = rival(name);
        match unpack::exists(&self.system.path(&rival))? {
            true => Err(eco_format!(
                "there is {rival} in the one-line format: remove it, or declare `file[{rival}]` with `ensure: absent`"
            )),
            false => Ok(()),
        }
    }

    fn change(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Vec<Outcome> {
        let apt = Apt { system: &self.system, cx };
        let placed: Vec<Result<bool, EcoString>> = changes.iter().map(|change| self.place(cx, change)).collect();
        let all = match placed.contains(&Ok(true)) {
            true => apt.update(),
            false => Ok(()),
        };
        let settled = |change: &Change<'_>| -> Result<(), EcoString> {
            if let Err(failed) = &all {
                // Other repositories may be the cause.
                let alone =
                    if failed.is_locked { None } else { Some(apt.update_of(&self.system.path(&file_of(change.name)))) };
                alone.unwrap_or_else(|| Err(failed.clone())).map_err(|failed| failed.message)?;
                let message = format!("the lists of other repositories stay as they are: {}", failed.message);
                cx.log(Level::Warning, "apt_repository", change.name, &message);
            }
            StateFiles::of(cx, STATE).remove(change.name)
        };
        let outcome = |(change, placed): (&Change<'_>, Result<bool, EcoString>)| {
            let done = placed.and_then(|must_update| if must_update { settled(change) } else { Ok(()) });
            done.map_or_else(Outcome::failed, |()| Outcome::done())
        };
        changes.iter().zip(placed).map(outcome).collect()
    }

    /// Returns the reason why a change is certain to fail.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let Some(should) = change.should.filter(|should| !is_absent(should)) else { return Ok(()) };
        let is_unchanged = |path: &str| matches!(cx.preview_context().node(change.name, path), Forecast::Unchanged);
        if cx.preview_context().may_change_before(change.name) {
            return Ok(());
        }
        if is_unchanged(&rival(change.name)) {
            self.check_rival(change.name)?;
        }
        match should.text("key_source").filter(|path| path.starts_with('/') && is_unchanged(path)) {
            Some(from) => match self.local_key(should)?.map(|bytes| key::form(&bytes)) {
                Some(Err(why)) => Err(eco_format!("{from}: {why}")),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }
}

fn file_of(name: &str) -> String {
    format!("{SOURCES}{name}.sources")
}

fn rival(name: &str) -> String {
    format!("{SOURCES}{name}.list")
}

fn keyring(name: &str, form: key::KeyForm) -> String {
    format!("{KEYRINGS}{name}.{}", form.extension())
}

/// Returns true if a file of either format names the keyring.
fn is_keyring_of(text: &str, ring: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let mut words = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || "[]=,:".contains(c)));
    words.any(|word| word == ring)
}

/// Returns true if kilter writes the key of the repository to this path.
fn is_own(name: &str, path: &str) -> bool {
    FORMS.iter().any(|form| keyring(name, *form) == path)
}

fn is_name(name: &str) -> bool {
    !name.starts_with(['.', '-'])
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn must_update(should: &Attributes) -> bool {
    should.get_bool("notify_update") != Some(false) && should.get_bool("enabled") != Some(false)
}

impl Provider for AptRepositoryProvider {
    crate::builtin::describe!("apt_repository", "deb822", schema, [relations, predict, watch]);

    fn suitable(&self) -> Suitability {
        tool::installed(&["apt-get"], None)
    }

    fn get(&self, cx: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let state = |name: &EcoString, should: Option<&Attributes>| {
            let unreadable = |why| State { unreadable: Some(why), ..State::absent(name.clone()) };
            self.state(cx, name, should).unwrap_or_else(unreadable)
        };
        Ok(match query {
            Query::All => {
                // Debian's own file has several stanzas.
                let names = self.names().map_err(ProviderError::new)?;
                names.iter().filter_map(|name| self.state(cx, name, None).ok()).collect()
            }
            Query::Named(wanted) => wanted.iter().map(|one: &Wanted<'_>| state(one.name, one.should)).collect(),
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes: Vec<Outcome> = match mode {
            Mode::Apply => self.change(cx, changes),
            Mode::Preview => changes.iter().map(|change| self.previewed(cx, change)).collect(),
        };
        outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, _: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        schema::problems(should, deferred).into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        resources.iter_mut().for_each(|one| schema::expand(one.should));
        vec![Vec::new(); resources.len()]
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let is_text = is.attributes.text(attribute).unwrap_or_default();
        let should_text = should.text(attribute).unwrap_or_default();
        let same = |is_same: bool| if is_same { Insync::Same } else { Insync::Differs(None) };
        match attribute {
            "ensure"
                if is.attributes.get_bool("updated") == Some(false) && must_update(should) && !is_absent(should) =>
            {
                Insync::Differs(Some("the package lists are not updated".into()))
            }
            "key" | "key_source" => match self.key_difference(is, should) {
                Ok(None) => Insync::Same,
                Ok(difference) => Insync::Differs(difference),
                Err(why) => Insync::Failed(why),
            },
            "signed_by" | "comment" => same(is_text == trimmed(should_text)),
            "options" => {
                let present = is.attributes.get("options").and_then(Value::as_hash);
                let value = |name: &str| {
                    let found = present?.iter().find(|(field, _)| field.eq_ignore_ascii_case(name));
                    found.and_then(|(_, value)| value.as_str())
                };
                same(
                    options(should)
                        .iter()
                        .all(|(name, wanted)| words(value(name).unwrap_or_default()) == words(wanted)),
                )
            }
            _ if should.get(attribute).is_some_and(|value| value.as_array().is_some()) => {
                same(texts(is.attributes.get(attribute)) == texts(should.get(attribute)))
            }
            _ => Insync::Default,
        }
    }
}

impl Relations for AptRepositoryProvider {
    fn auto_edges(&self, name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let path = file_of(name);
        add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", &path) });
        add(AutoEdge::require("file", &rival(name)));
        if is_absent(should) {
            return;
        }
        add(AutoEdge { by: Match::Ancestor, ..AutoEdge::require("file", &keyring(name, key::KeyForm::Armored)) });
        for path in ["signed_by", "key_source"].into_iter().filter_map(|attribute| should.text(attribute)) {
            if path.starts_with('/') {
                add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", path) });
            }
        }
        add(AutoEdge::require("package", "ca-certificates"));
    }
}

impl Predict for AptRepositoryProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        let rings = FORMS.map(|form| keyring(change.name, form));
        let removed = change.should.is_none_or(is_absent).then(|| rival(change.name));
        let paths = rings.into_iter().chain([file_of(change.name), LISTS.to_owned()]).chain(removed);
        Some(paths.map(|path| Effect::Path { path: path.into(), node: PathState::Unknown }).collect())
    }

    fn footprint(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: &file_of(name), is_whole: false });
        say(Footprint::Writes { path: LISTS, is_whole: false });
        if is_absent(should) {
            say(Footprint::Writes { path: &rival(name), is_whole: false });
        }
        FORMS.iter().for_each(|form| say(Footprint::Writes { path: &keyring(name, *form), is_whole: false }));
        if let Some(path) = should.text("key_source").filter(|path| path.starts_with('/')) {
            say(Footprint::Reads { path, below: false });
        }
    }
}

impl Watch for AptRepositoryProvider {
    fn watches(&self, name: &str, should: &Attributes) -> Vec<WatchSource> {
        let watch = |path: &str| WatchSource::Path { path: self.system.path(path).into(), scope: Scope::This };
        let is_key = should.get("key").is_some() || should.get("key_source").is_some();
        let rings = FORMS.iter().filter(|_| is_key).map(|form| watch(&keyring(name, *form)));
        let source = should.text("key_source").filter(|path| path.starts_with('/')).map(watch);
        let rival = is_absent(should).then(|| watch(&rival(name)));
        rings.chain([watch(&file_of(name))]).chain(source).chain(rival).collect()
    }
}

#[cfg(test)]
mod tests;
