//! The type `host`: entries of `/etc/hosts`.

mod table;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Feature, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    AutoEdge, Context, Direction, Effect, Footprint, Insync, Match, Mode, PathState, Placement, Predict, Provider,
    ProviderError, Query, Redactor, Relations, Scheduling, Scope, SideEffects, ValidationError, Wanted, Watch,
    WatchSource,
};
use rustc_hash::FxHashMap;

use crate::file::atomic_rewrite::{self, AtomicRewrite, RewriteError};
use table::{HostEntry, HostsTable};

const TARGET: &str = "/etc/hosts";

const DESC: &str = "\
Entries of the hosts file: addresses of host names that need no name server.

```yaml
resources:
  host[db.example.org]:
    ip: 10.0.0.7
    host_aliases: [db, database]
    comment: the old one
  host[gone.example.org]:
    ensure: absent
```

kilter keeps all other lines byte for byte. It replaces the file as a whole and keeps its owner, mode and access \
list. The file must be a regular file. \
If several lines begin with the same name, as often with `localhost`, the resource is the first line; `ensure: \
absent` removes all of them.";

/// Provides the type `host`.
pub struct HostProvider {
    root: PathBuf,
    /// Held from the read of a file to its write.
    turn: Mutex<()>,
}

impl Default for HostProvider {
    fn default() -> HostProvider {
        HostProvider::new("/")
    }
}

impl HostProvider {
    /// Creates a provider for the files below `root`.
    pub fn new(root: impl Into<PathBuf>) -> HostProvider {
        HostProvider { root: root.into(), turn: Mutex::new(()) }
    }

    fn path(&self, target: &str) -> String {
        self.root.join(target.trim_start_matches('/')).to_string_lossy().into_owned()
    }

    fn read(&self, target: &str) -> Result<HostsTable, ProviderError> {
        match atomic_rewrite::read(&self.path(target)) {
            Ok(bytes) => Ok(HostsTable::parse(&bytes.unwrap_or_default())),
            Err(error) => Err(ProviderError::new(error.to_string())),
        }
    }

    /// Makes the changes to a file.
    fn change(&self, cx: &Context<'_>, target: &str, changes: &[&Change<'_>]) -> Result<Vec<Outcome>, EcoString> {
        atomic_rewrite::rewritten(|| self.attempt(cx, target, changes))
    }

    fn attempt(&self, cx: &Context<'_>, target: &str, changes: &[&Change<'_>]) -> Result<Vec<Outcome>, RewriteError> {
        let path = self.path(target);
        let file = AtomicRewrite::open(&path)?;
        let mut table = HostsTable::parse(file.bytes());
        for change in changes {
            match change.should {
                Some(should) if should.text("ensure") != Some("absent") => {
                    let entry = merged(&table, change.name, should)?;
                    table.put(entry);
                }
                _ => table.remove(change.name),
            }
        }
        let lost = file.replace(&table.bytes(), 0o644, cx)?;
        let mut outcomes = vec![Outcome::done(); changes.len()];
        if let Some(first) = outcomes.first_mut().filter(|_| !lost.is_empty()) {
            first.notes.push(eco_format!("{path}: could not keep {}", lost.join(", ")));
        }
        Ok(outcomes)
    }
}

fn schema() -> TypeSchema {
    TypeSchema::new("host", DESC)
        .attribute("ensure", "Enum[present, absent]", Behaviour::Property, "State of the entry: `present`, `absent`.")
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Host name, the first name on its line: `db.example.org`.")
        .attribute(
            "ip",
            "String[1]",
            Behaviour::Property,
            "Address, IPv4 or IPv6: `10.0.0.7`, `2001:db8::7`. Required unless `ensure` is `absent`. \
             kilter compares addresses by value, not by notation.",
        )
        .attribute(
            "host_aliases",
            "Array[String[1]]",
            Behaviour::Property,
            "Further names of the host: `[db, database]`; `[]` for none. Their order does not matter.",
        )
        .attribute(
            "comment",
            "String",
            Behaviour::Property,
            "Text after the `#` on the line: `the old one`; `\"\"` removes it.",
        )
        .attribute("target", "String[1]", Behaviour::Parameter, "Hosts file: `/etc/hosts`, or another absolute path.")
        .default(TARGET)
        .features(&[Feature::CustomInsync, Feature::SimpleGetFilter])
}

fn target_of(should: Option<&Attributes>) -> &str {
    should.and_then(|should| should.text("target")).unwrap_or(TARGET)
}

fn hidden(wanted: &Wanted<'_>, error: ProviderError) -> ProviderError {
    match wanted.should {
        Some(should) => Redactor::of(should).error(error),
        None => error,
    }
}

fn state(entry: &HostEntry) -> State {
    let mut attributes = Attributes::new();
    attributes.push("ensure", "present");
    attributes.push("name", entry.name.clone());
    attributes.push("ip", entry.ip.clone());
    attributes.push("host_aliases", Value::strings(entry.aliases.iter().cloned()));
    if !entry.comment.is_empty() {
        attributes.push("comment", entry.comment.clone());
    }
    State::present(entry.name.clone(), attributes)
}

/// Returns the present entry with the declared attributes.
fn merged(table: &HostsTable, name: &EcoString, should: &Attributes) -> Result<HostEntry, EcoString> {
    let mut entry = table.find(name).cloned().unwrap_or_default();
    entry.name = name.clone();
    if let Some(ip) = should.text("ip") {
        entry.ip = ip.into();
    }
    if let Some(aliases) = should.get("host_aliases") {
        entry.aliases = aliases.as_list().iter().filter_map(Value::as_str).map(EcoString::from).collect();
    }
    if let Some(comment) = should.text("comment") {
        entry.comment = comment.trim().into();
    }
    // Values from other resources have not been validated before.
    match problems(name, &entry).into_iter().next() {
        Some(problem) => Err(problem.to_string().into()),
        None => Ok(entry),
    }
}

fn problems(name: &str, entry: &HostEntry) -> Vec<ValidationError> {
    let mut problems = Vec::new();
    for (attribute, host) in
        std::iter::once(("name", name)).chain(entry.aliases.iter().map(|a| ("host_aliases", a.as_str())))
    {
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
            problems.push(ValidationError::with(
                attribute,
                format!("`{host}` is not a host name: it is empty or contains white space or `#`"),
            ));
        }
    }
    if address(&entry.ip).is_none() {
        let problem = ValidationError::with("ip", format!("`{}` is not an address", entry.ip));
        problems.push(problem.hint("write IPv4 as 10.0.0.7 and IPv6 as 2001:db8::7"));
    }
    if entry.comment.contains(char::is_control) {
        problems.push(ValidationError::with("comment", "a comment has one line"));
    }
    problems
}

/// Parses an address and an optional IPv6 zone.
fn address(text: &str) -> Option<(IpAddr, &str)> {
    let (address, zone) = text.split_once('%').unwrap_or((text, ""));
    let fits = !zone.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#');
    address.parse().ok().filter(|_| fits).map(|address| (address, zone))
}

fn sorted(value: Option<&Value>) -> Vec<&str> {
    let mut texts: Vec<&str> = value.map(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str).collect();
    texts.sort_unstable();
    texts
}

impl Provider for HostProvider {
    crate::builtin::describe!("host", "hosts", schema, [scheduling, relations, predict, watch]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let wanted = match query {
            Query::All => return Ok(self.read(TARGET)?.entries().into_iter().map(state).collect()),
            Query::Named(wanted) => wanted,
        };
        let mut tables = FxHashMap::default();
        let mut states = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let target = target_of(wanted.should);
            if !tables.contains_key(target) {
                let read = self.read(target);
                tables.insert(target, read.map_err(|error| hidden(wanted, error))?);
            }
            states.push(tables[target].find(wanted.name).map_or_else(|| State::absent(wanted.name.clone()), state));
        }
        Ok(states)
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        if mode == Mode::Preview {
            return changes.iter().map(|_| Outcome::done()).collect();
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        atomic_rewrite::change_files(cx, changes, target_of, |target, changes| self.change(cx, target, changes))
    }

    fn validate(&self, name: &str, should: &Attributes, deferred: &[&str]) -> Vec<ValidationError> {
        let mut found = Vec::new();
        let entry = HostEntry {
            ip: should.text("ip").unwrap_or("::").into(),
            name: name.into(),
            aliases: sorted(should.get("host_aliases")).into_iter().map(EcoString::from).collect(),
            comment: should.text("comment").unwrap_or_default().into(),
        };
        found.extend(problems(name, &entry));
        let is_present = should.text("ensure") != Some("absent");
        if is_present && should.get("ip").is_none() && !deferred.contains(&"ip") {
            found.push(ValidationError::with("ip", "an entry needs an address").hint("add `ip`, or `ensure: absent`"));
        }
        if !atomic_rewrite::is_normal(target_of(Some(should))) {
            found.push(ValidationError::with("target", "the file needs an absolute path without `.`, `..` and `//`"));
        }
        let seal = Redactor::of(should);
        found.into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        let same = match attribute {
            "ip" => {
                let [is, should] =
                    [&is.attributes, should].map(|attributes| address(attributes.text("ip").unwrap_or("")));
                is.is_some() && is == should
            }
            "host_aliases" => sorted(is.attributes.get(attribute)) == sorted(should.get(attribute)),
            "comment" => is.attributes.text(attribute).unwrap_or("") == should.text(attribute).unwrap_or("").trim(),
            _ => return Insync::Default,
        };
        if same { Insync::Same } else { Insync::Differs(None) }
    }
}

impl Scheduling for HostProvider {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }

    fn set_placement(&self, _: &Attributes) -> Placement {
        Placement::Worker
    }
}

impl Relations for HostProvider {
    fn auto_edges(&self, _: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        let name = target_of(Some(should));
        add(AutoEdge { type_name: "file", name, by: Match::PathOrAncestor, direction: Direction::Before });
    }
}

impl Predict for HostProvider {
    fn effects(&self, _: &Context<'_>, change: &Change<'_>) -> Option<Vec<Effect>> {
        Some(vec![Effect::Path { path: target_of(change.should).into(), node: PathState::Unknown }])
    }

    fn footprint(&self, _: &str, should: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        say(Footprint::Writes { path: target_of(Some(should)), is_whole: false });
    }

    fn side_effects(&self, should: &Attributes) -> SideEffects {
        if target_of(Some(should)) == TARGET { SideEffects::Own } else { SideEffects::Anything }
    }
}

impl Watch for HostProvider {
    /// Returns the watch for the file that contains the entry.
    fn watches(&self, _: &str, should: &Attributes) -> Vec<WatchSource> {
        vec![WatchSource::Path { path: should.text("target").unwrap_or(TARGET).into(), scope: Scope::This }]
    }
}

#[cfg(test)]
mod tests;
