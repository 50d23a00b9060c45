//! A run that dies at any byte of its journal: the next run makes every pending refresh, and no other.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use kilter_model::{
    Attributes, Behaviour, Catalog, Change, Feature, Outcome, Relation, RelationKind, Resource, ResourceRef, SourceId,
    Span, State, TypeSchema, Value,
};
use kilter_provider::{
    Batch, Capabilities, Context, Durability, Mode as Setting, Placement, Provider, ProviderError, Query, Refresh,
    Registry, Scheduling, Strictness, Wanted,
};
use kilter_runtime::{
    Event, Hold, ManifestSource, Mode, NullObserver, Observer, Options, Prepared, Reload, ReloadNotifier, Report,
    ShutdownHandle, StateDir, plan_of,
};

/// Declared resources, in this order.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "r", "s", "stuck", "t", "u"];

/// Notify edges: one target with several sources, one chain of two refreshes, and one target at the end.
const NOTIFIES: [(&str, &str); 7] =
    [("a", "stuck"), ("a", "r"), ("b", "r"), ("r", "s"), ("c", "s"), ("d", "u"), ("s", "t")];

/// Further edges, so that the journal has pending and completed refreshes in turn.
const BEFORE: [(&str, &str); 2] = [("r", "c"), ("s", "d")];

/// A system with a log of its calls, each at its own tick.
#[derive(Clone, Debug, Default)]
struct LoggedSystem {
    tick: u64,
    values: BTreeMap<String, Value>,
    changed: BTreeMap<String, u64>,
    refreshed: BTreeMap<String, u64>,
    /// Resource whose refresh fails.
    stuck: Option<&'static str>,
}

impl LoggedSystem {
    fn next(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Returns the notify edges whose target was not refreshed since the last change of the source.
    fn unserved(&self) -> Vec<(&str, &str)> {
        let served = |(first, second): &(&str, &str)| {
            let changed = self.changed.get(*first).copied().unwrap_or(0);
            self.refreshed.get(*second).copied().unwrap_or(0) >= changed
        };
        NOTIFIES.into_iter().filter(|edge| !served(edge)).collect()
    }
}

/// Length of the journal's first line, `kilter journal 2 LENGTH`.
const HEADER_BYTES: usize = 34;

/// The bytes up to `cut`, of a file whose first line covers `covered` bytes. No bytes are no file.
fn cut_off(bytes: &[u8], cut: usize, covered: usize) -> Vec<u8> {
    if cut == 0 {
        return Vec::new();
    }
    let header = format!("kilter journal 2 {covered:016x}\n");
    [header.as_bytes(), &bytes[HEADER_BYTES..cut]].concat()
}

/// The journal at a moment, and which file it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Written {
    file: u64,
    bytes: Vec<u8>,
}

impl Written {
    fn at(path: &Path) -> Written {
        let Ok(metadata) = std::fs::metadata(path) else { return Written::default() };
        Written { file: metadata.ino(), bytes: std::fs::read(path).unwrap() }
    }

    /// Returns the end of the last record that must be on disk before its change starts.
    fn reliable(&self) -> usize {
        let (mut at, mut end) = (0, HEADER_BYTES.min(self.bytes.len()));
        for line in self.bytes.split_inclusive(|byte| *byte == b'\n') {
            at += line.len();
            if line.windows(5).any(|part| part == b"\"owe\"") {
                end = at;
            }
        }
        end
    }
}

/// A provider whose resources live in a system in memory, and that notes the journal before and after each step.
struct Things {
    schema: TypeSchema,
    system: Mutex<LoggedSystem>,
    /// Path of the journal, if the provider records it.
    journal: Option<PathBuf>,
    noted: Mutex<Vec<(LoggedSystem, Written)>>,
}

impl Things {
    fn new(system: LoggedSystem, journal: Option<PathBuf>) -> Arc<Things> {
        let schema = TypeSchema::new("thing", "A thing in memory.")
            .attribute("name", "String", Behaviour::Namevar, "Its name.")
            .attribute("value", "Any", Behaviour::Property, "What it holds.")
            .features(&[Feature::Refresh, Feature::SimpleGetFilter]);
        Arc::new(Things { schema, system: Mutex::new(system), journal, noted: Mutex::default() })
    }

    fn system(&self) -> MutexGuard<'_, LoggedSystem> {
        self.system.lock().unwrap()
    }

    fn note(&self) {
        if let Some(journal) = &self.journal {
            self.noted.lock().unwrap().push((self.system().clone(), Written::at(journal)));
        }
    }

    fn set_one(&self, change: &Change<'_>) -> Outcome {
        self.note();
        let value = change.should.unwrap().get("value").cloned().unwrap();
        let mut system = self.system();
        let tick = system.next();
        system.values.insert(change.name.to_string(), value);
        system.changed.insert(change.name.to_string(), tick);
        drop(system);
        self.note();
        Outcome::done()
    }

    fn run(self: &Arc<Things>, state: &Path, value: u32) -> Report {
        let registry = Registry::new([Arc::clone(self) as Arc<dyn Provider>]).unwrap();
        let report = plan(&registry, value)
            .execute(&options(state), &ShutdownHandle::new().unwrap(), &mut NullObserver)
            .unwrap();
        self.note();
        report
    }

    /// Runs with one value, and with another one after all resources are in sync. Returns the records of the first.
    fn hold(self: &Arc<Things>, state: &Path, values: [u32; 2]) -> usize {
        let registry = Registry::new([Arc::clone(self) as Arc<dyn Provider>]).unwrap();
        let [first, second] = values.map(|value| plan(&registry, value));
        let (options, stop) = (options(state), ShutdownHandle::new().unwrap());
        let manifest = state.join("manifest");
        let mut edited =
            Edited { manifest: manifest.clone(), next: Some(second), things: Arc::clone(self), of_first: 0 };
        let mut editor = Editor { manifest: &manifest, stop: &stop, is_edited: false };
        first.hold(&options, hold(&mut edited), &stop, &mut editor).unwrap();
        assert!(edited.next.is_none(), "it was edited");
        self.note();
        edited.of_first
    }
}

impl Provider for Things {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { scheduling: Some(self), refresh: Some(self), ..Capabilities::default() }
    }

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let Query::Named(wanted) = query else { return Err(ProviderError::new("name them")) };
        let system = self.system();
        let state = |wanted: &Wanted<'_>| {
            let value = system.values.get(wanted.name.as_str())?;
            Some(State::present(wanted.name.clone(), [("value", value.clone())].into_iter().collect()))
        };
        Ok(wanted.iter().filter_map(state).collect())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Setting) -> Vec<Outcome> {
        changes.iter().map(|change| self.set_one(change)).collect()
    }
}

impl Scheduling for Things {
    fn placement(&self, _: &Attributes) -> Placement {
        Placement::Inline
    }

    fn batch_size(&self) -> Batch {
        Batch::One
    }
}

impl Refresh for Things {
    fn refresh(&self, _: &Context<'_>, wanted: Wanted<'_>) -> Outcome {
        self.note();
        let mut system = self.system();
        if system.stuck == Some(wanted.name.as_str()) {
            return Outcome::failed("as asked");
        }
        let tick = system.next();
        system.refreshed.insert(wanted.name.to_string(), tick);
        // For what it notifies itself this is a change.
        system.changed.insert(wanted.name.to_string(), tick);
        drop(system);
        self.note();
        Outcome::done()
    }
}

fn plan(registry: &Registry, value: u32) -> Prepared {
    let catalog = Catalog { relations: relations(), ..Catalog::of(resources(value)) };
    plan_of(catalog, registry, &Context::empty()).unwrap_or_else(|rejected| panic!("{rejected:?}"))
}

fn options(state: &Path) -> Options {
    // What is not on the disk yet is cut off by the test.
    let (durability, strictness) = (Durability::Unflushed, Strictness::Warning);
    Options { mode: Mode::Apply, jobs: 1, durability, strictness, state_dir: Some(StateDir::new(state)) }
}

fn hold(declared: &mut Edited) -> Hold<'_> {
    Hold {
        converged: None,
        until_converged: false,
        longest: None,
        declared,
        watchdog_interval: None,
        paused: None,
        status_handle: None,
        status_socket: None,
    }
}

/// A manifest that says something else as soon as it is written.
struct Edited {
    manifest: PathBuf,
    next: Option<Prepared>,
    things: Arc<Things>,
    /// Number of records before the edit.
    of_first: usize,
}

impl ManifestSource for Edited {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.manifest.clone()]
    }

    fn may_have_changed(&mut self) -> bool {
        false
    }

    fn begin_reading(&mut self, ring: ReloadNotifier) {
        drop(ring);
    }

    fn read(&mut self) -> Reload {
        let Some(next) = self.next.take() else { return Reload::Same };
        self.of_first = self.things.noted.lock().unwrap().len();
        Reload::Other(next.into())
    }
}

/// Edits the manifest when all is as declared, or ends the run.
struct Editor<'a> {
    manifest: &'a Path,
    stop: &'a ShutdownHandle,
    is_edited: bool,
}

impl Observer for Editor<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Reloading => self.is_edited = true,
            Event::Quiet(_) if self.is_edited => self.stop.request(),
            Event::Quiet(_) => std::fs::write(self.manifest, "").unwrap(),
            _ => {}
        }
    }

    fn before_changes(&mut self, _: &[kilter_runtime::PendingChange<'_>]) -> Result<(), ecow::EcoString> {
        Ok(())
    }
}

fn resources(value: u32) -> Vec<Resource> {
    let span = Span::new(SourceId(0), 0, 0);
    let of = |name: &&str| {
        // Those that hear of others hold what they held.
        let value = if NOTIFIES.iter().any(|(_, second)| second == name) { 0 } else { value };
        let attributes: Attributes = [("value", Value::from(i64::from(value)))].into_iter().collect();
        let reference = ResourceRef::new("thing", *name);
        Resource { reference, name: (*name).into(), attributes, particulars: None, span }
    };
    NAMES.iter().map(of).collect()
}

fn relations() -> Vec<Relation> {
    let at = |name: &str| NAMES.iter().position(|known| *known == name).unwrap() as u32;
    let span = Span::new(SourceId(0), 0, 0);
    let relation =
        |kind| move |(first, second): &(&str, &str)| Relation { first: at(first), second: at(second), kind, span };
    NOTIFIES
        .iter()
        .map(relation(RelationKind::Notify))
        .chain(BEFORE.iter().map(relation(RelationKind::Before)))
        .collect()
}

fn state_dir() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700)).tempdir().unwrap()
}

/// Returns the pending refreshes according to the complete lines of a journal, without kilter's own reader.
fn owed(bytes: &[u8]) -> BTreeSet<(String, String)> {
    let text = std::str::from_utf8(bytes).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut owed = BTreeSet::new();
    for line in whole.lines().skip(1) {
        let record: serde_json::Value = serde_json::from_str(&line[9..]).unwrap();
        let (word, pairs) = record.as_object().unwrap().iter().next().unwrap();
        for pair in pairs.as_array().unwrap() {
            let name =
                |at: usize| pair[at].as_str().unwrap().trim_start_matches("thing[").trim_end_matches(']').to_owned();
            if word == "owe" {
                owed.insert((name(0), name(1)))
            } else {
                owed.remove(&(name(0), name(1)))
            };
        }
    }
    owed
}

/// The run behind a crash, with the journal that the crash left.
fn recover(system: &LoggedSystem, journal: &[u8], value: u32) {
    let state = state_dir();
    if !journal.is_empty() {
        std::fs::write(state.path().join("journal"), journal).unwrap();
    }
    let owed = owed(journal);
    let before = LoggedSystem { stuck: None, ..system.clone() };
    let things = Things::new(before.clone(), None);
    let report = things.run(state.path(), value);
    let what = || format!("after {:?} of the journal {:?}", before, String::from_utf8_lossy(journal));
    assert!(!report.has_failures() && report.owed.is_empty(), "{:?} {}", report.owed, what());
    let after = things.system().clone();
    assert_eq!(after.unserved(), [], "{}", what());
    let did = |of: &BTreeMap<String, u64>, name: &str| of.get(name).is_some_and(|tick| *tick > before.tick);
    for name in NAMES {
        let is_told = NOTIFIES.iter().any(|(first, second)| *second == name && did(&after.changed, first));
        let is_owed = owed.iter().any(|(_, second)| second == name);
        assert_eq!(
            did(&after.refreshed, name),
            is_told || is_owed,
            "{name} is refreshed when somebody asks for it, {}",
            what()
        );
    }
    // Nothing is left to be done.
    let report = things.run(state.path(), value);
    assert_eq!(
        (report.counts.in_sync, report.counts.total, things.system().tick),
        (NAMES.len(), NAMES.len(), after.tick)
    );
}

/// Lets a run die wherever it writes its journal; returns at how many places that was.
fn die_everywhere(noted: &[(LoggedSystem, Written)], value: u32) -> usize {
    let mut deaths = BTreeSet::new();
    for pair in noted.windows(2) {
        let [(system, old), (next, new)] = pair else { continue };
        assert!(system.tick == next.tick || old == new, "the journal is written between two steps");
        let first = old.reliable();
        // What was written since then may be lost with its length.
        let mut left: Vec<Vec<u8>> = (first..=old.bytes.len()).map(|cut| cut_off(&old.bytes, cut, first)).collect();
        let records = |of: &Written| of.bytes.get(HEADER_BYTES..).unwrap_or_default().to_vec();
        let begins = match new.file == old.file {
            true if records(new).starts_with(&records(old)) => old.bytes.len(),
            // Another file takes the place of one that still owes something when its first record is whole.
            false if !owed(&old.bytes).is_empty() => {
                HEADER_BYTES + records(new).iter().position(|byte| *byte == b'\n').unwrap() + 1
            }
            // One that owed nothing was emptied, or did not count.
            _ => HEADER_BYTES,
        };
        // The length is written behind the record.
        let lengths = new.bytes.len().min(begins)..=new.bytes.len();
        left.extend(lengths.map(|cut| cut_off(&new.bytes, cut, begins)));
        left.push(new.bytes.clone());
        for journal in left {
            if deaths.insert((system.tick, journal.clone())) {
                recover(system, &journal, value);
            }
        }
    }
    deaths.len()
}

#[test]
fn a_run_that_dies_at_any_byte_of_its_journal_owes_the_next_one_just_the_refreshes_that_were_not_made() {
    for stuck in [None, Some("stuck"), Some("s")] {
        let state = state_dir();
        let values = NAMES.iter().map(|name| ((*name).to_owned(), Value::from(0))).collect();
        let things =
            Things::new(LoggedSystem { stuck, values, ..LoggedSystem::default() }, Some(state.path().join("journal")));
        let mut places = 0;
        // The second run begins with what the first one still owes.
        for value in [1, 2] {
            things.noted.lock().unwrap().clear();
            things.note();
            let report = things.run(state.path(), value);
            assert_eq!((report.counts.failed > 0, report.owed.is_empty()), (stuck.is_some(), stuck.is_none()));
            let noted = std::mem::take(&mut *things.noted.lock().unwrap());
            let (system, written) = noted.last().unwrap();
            // What was tried in vain may have changed something: a refresh too many is owed for it.
            let counts = |(first, _): &(String, String)| stuck != Some(first.as_str());
            let unserved = system.unserved().into_iter().map(|(first, second)| (first.to_owned(), second.to_owned()));
            let owed: BTreeSet<_> = owed(&written.bytes).into_iter().filter(counts).collect();
            assert_eq!(owed, unserved.collect(), "what has succeeded is recorded");
            places += die_everywhere(&noted, value);
        }
        assert!(places > 300, "only {places} places to die at");
        println!("{stuck:?}: {places} places");
    }
}

#[test]
fn crash_of_continuous_run_around_an_edit_keeps_exactly_the_pending_refreshes() {
    let state = state_dir();
    let values = NAMES.iter().map(|name| ((*name).to_owned(), Value::from(0))).collect();
    let things = Things::new(LoggedSystem { values, ..LoggedSystem::default() }, Some(state.path().join("journal")));
    things.note();
    let of_first = things.hold(state.path(), [1, 2]);
    let noted = std::mem::take(&mut *things.noted.lock().unwrap());
    let (system, written) = noted.last().unwrap();
    assert_eq!((system.unserved(), owed(&written.bytes)), (Vec::new(), BTreeSet::new()));
    // What dies before the edit may be begun anew behind it.
    let before = [1, 2].map(|value| die_everywhere(&noted[..of_first], value));
    let behind = die_everywhere(&noted[of_first - 1..], 2);
    assert!(before[0] > 100 && behind > 100, "only {before:?} and {behind} places to die at");
}
