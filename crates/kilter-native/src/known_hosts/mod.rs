//! The type `known_hosts`: public keys of SSH servers.

mod table;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Comparison, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    AutoEdge, Claim, Context, Direction, Effect, Footprint, Match, Mode, PathState, Predict, Provider, ProviderError,
    Query, Redactor, Relations, Scope, SideEffects, ValidationError, Wanted, Watch, WatchSource,
};
use rustc_hash::FxHashMap;

use crate::builtin::is_absent;
use crate::file::atomic_rewrite::{self, AtomicRewrite, RewriteError};
use crate::line_table::LineEntry;
use crate::ssh_key::key_line::{KINDS, is_key_of};
use crate::value_text::texts;
use table::{HostKey, KnownHosts, id};

const TARGET: &str = "/etc/ssh/ssh_known_hosts";

const DESC: &str = "\
Public keys of SSH servers, in `/etc/ssh/ssh_known_hosts`. ssh(1) trusts these servers without a question. Puppet's \
type is `sshkey`.

```yaml
resources:
  known_hosts[git.example.org]:
    type: ssh-ed25519
    key: AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh
    host_aliases: [git, 10.0.0.7]
  known_hosts[old.example.org]:
    ensure: absent
```

The host and the type identify a key: a host can have a key of each type. Write the type in the name, or declare \
`type`: `git.example.org@ssh-ed25519`. Without a type, `ensure: absent` removes all keys of the host.

kilter keeps all other lines byte for byte, and replaces the file once for all resources. It recognises hashed \
names (`HashKnownHosts`) and keeps them hashed; a list does not have them. It does not manage lines with a marker \
(`@cert-authority`, `@revoked`).

**Automatic edges.** The resource runs after declared files at and above the path of the file.";

fn schema() -> TypeSchema {
    TypeSchema::new("known_hosts", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State of the key: `present`, `absent`.")
        .default("present")
        .attribute(
            "name",
            "String[1]",
            Behaviour::Namevar,
            "Host, the first name on the line: `git.example.org`, `[git.example.org]:2222`. With a type: \
             `git.example.org@ssh-rsa`.",
        )
        .attribute(
            "type",
            &format!("Enum['{}']", KINDS.join("', '")),
            Behaviour::Property,
            "Type of the key: `ssh-ed25519`. Required for a new key whose name has no type.",
        )
        .attribute(
            "key",
            "String[1]",
            Behaviour::Property,
            "Key in base64: the third word of a line of ssh-keyscan(1). Required for a new key.",
        )
        .attribute(
            "host_aliases",
            "Array[String[1]]",
            Behaviour::Property,
            "Further names and addresses of the host: `[git, 10.0.0.7]`; `[]` for none. Their order does not matter.",
        )
        .compare(Comparison::Set)
        .attribute(
            "target",
            "String[1]",
            Behaviour::Parameter,
            "File: `/etc/ssh/ssh_known_hosts`, or another absolute path.",
        )
        .default(TARGET)
        .features(&[Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `known_hosts`.
pub struct KnownHostsProvider {
    root: PathBuf,
    /// Held from the read of a file to its write.
    turn: Mutex<()>,
}

impl Default for KnownHostsProvider {
    fn default() -> KnownHostsProvider {
        KnownHostsProvider::new("/")
    }
}

fn target_of(should: Option<&Attributes>) -> &str {
    should.and_then(|should| should.text("target")).unwrap_or(TARGET)
}

/// Splits a name into the host and the type, which may also be declared.
fn split<'n>(name: &'n str, should: Option<&'n Attributes>) -> (&'n str, Option<&'n str>) {
    match name.rsplit_once('@').filter(|(host, kind)| !host.is_empty() && KINDS.contains(kind)) {
        Some((host, kind)) => (host, Some(kind)),
        None => (name, should.and_then(|should| should.text("type"))),
    }
}

/// Returns the keys of a host, of one type or of all.
fn keys<'t>(table: &'t KnownHosts, host: &str, kind: Option<&str>) -> Vec<&'t HostKey> {
    let entries = table.entries().into_iter();
    entries.filter(|entry| entry.is_of(host) && kind.is_none_or(|kind| entry.kind == kind)).collect()
}

/// Returns the only key that a declaration means.
///
/// # Errors
/// If the host has several keys and no type is known.
fn found<'t>(table: &'t KnownHosts, name: &str, should: Option<&Attributes>) -> Result<Option<&'t HostKey>, EcoString> {
    let (host, kind) = split(name, should);
    match keys(table, host, kind)[..] {
        [] => Ok(None),
        [first, _, ..] if !should.is_some_and(is_absent) => Err(eco_format!(
            "{host} has several keys: write the type, such as {}, or declare `type`",
            id(host, &first.kind)
        )),
        [first, ..] => Ok(Some(first)),
    }
}

fn state(name: &EcoString, key: &HostKey) -> State {
    let mut attributes = Attributes::with_capacity(4);
    attributes.push("ensure", "present");
    attributes.push("type", key.kind.clone());
    attributes.push("key", key.key.clone());
    attributes.push("host_aliases", Value::strings(key.aliases.iter().cloned()));
    State::present(name.clone(), attributes)
}

fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    let (host, kind) = split(name, Some(should));
    let names = texts(should.get("host_aliases"));
    let is_host = |host: &str| {
        let is_plain = !host.contains(|c: char| c.is_whitespace() || c.is_control() || c == ',');
        is_plain && !host.is_empty() && !host.starts_with(['#', '@', '|'])
    };
    let hosts = std::iter::once(("name", host)).chain(names.iter().map(|alias| ("host_aliases", alias.as_str())));
    for (attribute, host) in hosts.filter(|(_, host)| !is_host(host)) {
        let message = eco_format!("`{host}` cannot be the name of a host");
        found.push(ValidationError::with(attribute, message).hint("a name has no blanks and commas: git.example.org"));
    }
    if let (Some(kind), Some(declared)) = (kind, should.text("type"))
        && kind != declared
    {
        let message = eco_format!("the name says {kind}, `type` says {declared}");
        found.push(ValidationError::with("type", message).hint("remove `type`"));
    }
    if let (Some(kind), Some(key)) = (kind, should.text("key"))
        && !is_key_of(kind, key)
    {
        let message = eco_format!("that is no key of the kind {kind}");
        found.push(ValidationError::with("key", message).hint("write the third word of a line of `ssh-keyscan HOST`"));
    }
    found
}

/// Returns the entry with the declared attributes, and those of the old entry.
///
/// # Errors
/// If an attribute is missing or invalid. Values from other resources have not been validated before.
fn merged(name: &str, old: Option<&HostKey>, should: &Attributes) -> Result<HostKey, EcoString> {
    if let Some(problem) = problems(name, should).into_iter().next() {
        return Err(problem.to_string().into());
    }
    let (host, kind) = split(name, Some(should));
    let mut entry = match (old, kind) {
        (Some(old), _) => old.clone(),
        (None, Some(kind)) => HostKey::new(host, kind),
        (None, None) => return Err("a new key needs `type` and `key`".into()),
    };
    if let Some(key) = should.text("key") {
        entry.key = key.into();
    }
    if let Some(aliases) = should.get("host_aliases").filter(|aliases| !aliases.is_undef()) {
        entry.aliases = texts(Some(aliases));
        // A line has only one hashed name.
        if entry.is_hashed() && !entry.aliases.is_empty() {
            let mut clear = HostKey::new(host, &entry.kind);
            (clear.aliases, clear.key) = (entry.aliases, entry.key);
            entry = clear;
        }
    }
    match is_key_of(&entry.kind, &entry.key) {
        true => Ok(entry),
        false if entry.key.is_empty() => Err("a new key needs `type` and `key`".into()),
        false => Err(eco_format!("key: that is no key of the kind {}", entry.kind)),
    }
}

impl KnownHostsProvider {
    /// Creates a provider for the files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> KnownHostsProvider {
        KnownHostsProvider { root: root.into(), turn: Mutex::new(()) }
    }

    fn path(&self, target: &str) -> String {
        self.root.join(target.trim_start_matches('/')).to_string_lossy().into_owned()
    }

    fn read(&self, target: &str) -> Result<KnownHosts, EcoString> {
        let bytes = atomic_rewrite::read(&self.path(target)).map_err(|error| eco_format!("{error}"))?;
        Ok(KnownHosts::parse(&bytes.unwrap_or_default()))
    }

    fn attempt(&self, cx: &Context<'_>, target: &str, changes: &[&Change<'_>]) -> Result<Vec<Outcome>, RewriteError> {
        let path = self.path(target);
        let file = match AtomicRewrite::open(&path) {
            Err(error) if error.is_missing() && changes.iter().all(|change| change.should.is_none_or(is_absent)) => {
                return Ok(vec![Outcome::done(); changes.len()]);
            }
            file => file?,
        };
        let mut table = KnownHosts::parse(file.bytes());
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            outcomes.push(change_key(&mut table, change).map_or_else(Outcome::failed, |()| Outcome::done()));
        }
        if table.bytes() != file.bytes() {
            let lost = file.replace(&table.bytes(), 0o644, cx)?;
            if let Some(first) = outcomes.first_mut().filter(|_| !lost.is_empty()) {
                first.notes.push(eco_format!("{path}: could not keep {}", lost.join(", ")));
            }
        }
        Ok(outcomes)
    }
}

fn change_key(table: &mut KnownHosts, change: &Change<'_>) -> Result<(), EcoString> {
    match change.should.filter(|should| !is_absent(should)) {
        Some(should) => {
            let old = found(table, change.name, Some(should))?;
            let (former, entry) = (old.map(|old| old.name().clone()), merged(change.name, old, should)?);
            if let Some(former) = former.filter(|former| former != entry.name()) {
                table.remove(&former);
            }
            table.put(entry);
        }
        None => {
            let (host, kind) = split(change.name, change.should);
            let names: Vec<EcoString> = keys(table, host, kind).into_iter().map(|key| key.name().clone()).collect();
            names.iter().for_each(|name| table.remove(name));
        }
    }
    Ok(())
}

impl Provider for KnownHostsProvider {
    crate::builtin::describe!("known_hosts", "known_hosts", schema, [relations, predict, watch]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let wanted = match query {
            Query::All => {
                let table = self.read(TARGET).map_err(ProviderError::new)?;
                let mut entries = table.entries();
                entries.retain(|entry| !entry.is_hashed());
                let mut times: FxHashMap<&str, usize> = FxHashMap::default();
                entries.iter().for_each(|entry| *times.entry(&entry.host).or_default() += 1);
                let name = |entry: &HostKey| match times[entry.host.as_str()] {
                    1 => entry.host.clone(),
                    _ => id(&entry.host, &entry.kind),
                };
                return Ok(entries.iter().map(|entry| state(&name(entry), entry)).collect());
            }
            Query::Named(wanted) => wanted,
        };
        let mut tables: FxHashMap<EcoString, Result<KnownHosts, EcoString>> = FxHashMap::default();
        let mut read = |one: &Wanted<'_>| -> Result<State, EcoString> {
            let table = tables.entry(target_of(one.should).into()).or_insert_with_key(|target| self.read(target));
            let found = found(table.as_ref().map_err(|why| why.clone())?, one.name, one.should)?;
            Ok(found.map_or_else(|| State::absent(one.name.clone()), |key| state(one.name, key)))
        };
        let mut states = Vec::with_capacity(wanted.len());
        for one in wanted {
            states.push(read(one).unwrap_or_else(|why| {
                let why = one.should.map_or(why.clone(), |should| Redactor::of(should).redact(why));
                State { unreadable: Some(why), ..State::absent(one.name.clone()) }
            }));
        }
        Ok(states)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            let preview = |change: &Change<'_>| match change.should.filter(|should| !is_absent(should)) {
                Some(should) if !change.is.exists => {
                    let made = merged(change.name, None, should);
                    Redactor::of(should).outcome(made.map_or_else(Outcome::failed, |_| Outcome::done()))
                }
                _ => Outcome::done(),
            };
            return changes.iter().map(preview).collect();
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        atomic_rewrite::change_files(cx, changes, target_of, |target, changes| {
            atomic_rewrite::rewritten(|| self.attempt(cx, target, changes))
        })
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let mut found = problems(name, should);
        if !atomic_rewrite::is_normal(target_of(Some(should))) {
            found.push(ValidationError::with("target", "the file needs an absolute path without `.`, `..` and `//`"));
        }
        let seal = Redactor::of(should);
        found.into_iter().map(|problem| seal.problem(problem)).collect()
    }
}

impl Relations for KnownHostsProvider {
    fn claims(&self, name: &str, should: &Attributes, say: &mut dyn FnMut(Claim<'_>)) {
        let ((host, kind), target) = (split(name, Some(should)), target_of(Some(should)));
        match kind {
            // It removes the keys of all types.
            None if is_absent(should) => say(Claim::whole(&format!("{target} {host}"))),
            kind => {
                say(Claim::part(&format!("{target} {host}")));
                kind.into_iter().for_each(|kind| say(Claim::whole(&format!("{target} {}", id(host, kind)))));
            }
        }
    }

    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let name = target_of(Some(should));
        add(AutoEdge { type_name: "file", name, by: Match::PathOrAncestor, direction: Direction::Before });
    }
}

impl Predict for KnownHostsProvider {
    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        Some(vec![Effect::Path { path: target_of(change.should).into(), node: PathState::Unknown }])
    }

    fn footprint(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: target_of(Some(should)), is_whole: false });
    }

    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }
}

impl Watch for KnownHostsProvider {
    fn watches(&self, _: &str, should: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Path { path: self.path(target_of(Some(should))).into(), scope: Scope::This }]
    }
}

#[cfg(test)]
mod tests;
