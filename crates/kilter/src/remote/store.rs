//! Stored roll-outs: the directory `rollouts` in the state directory of this machine.
//!
//! A roll-out has two files. `7.jsonl` is its journal: the hosts, then a line for each start and each answer of a host.
//! Every line is flushed to the disk before the roll-out continues. `7.plan` holds the plans of the hosts, as `plan -o`
//! writes them. The controller locks the journal, so that the kernel ends the lock of a killed one.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kilter_runtime::StateDir;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde_json::{Value as Json, json};

use super::results::HostState;
use crate::durable;
use crate::exit::Exit;
use crate::output;
use crate::recorder::milliseconds;

/// Name of the directory in the state directory.
const DIRECTORY: &str = "rollouts";

/// Version of the journal.
const VERSION: u64 = 1;

/// First member of the journal.
const KEY: &str = "kilter_rollout";

/// Number of roll-outs that are kept.
const MAX_KEPT: usize = 20;

/// Maximum size of a journal in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum number of characters of the reason of a failure.
const MAX_REASON: usize = 500;

/// Number of attempts to lock a journal that another process reads at this moment.
const LOCK_ATTEMPTS: usize = 20;

/// Roll-outs of a state directory.
pub(super) struct RolloutStore {
    directory: PathBuf,
}

/// Host of a stored roll-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredHost {
    pub(super) name: String,
    pub(super) state: HostState,
    /// Reason of a failure.
    pub(super) reason: Option<String>,
}

/// Phase of a stored roll-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RolloutPhase {
    /// Its controller works.
    Running,
    /// Its controller has ended it.
    Ended,
    /// Its controller was killed.
    CutOff,
}

impl RolloutPhase {
    pub(super) fn word(self) -> &'static str {
        match self {
            RolloutPhase::Running => "running",
            RolloutPhase::Ended => "ended",
            RolloutPhase::CutOff => "cut_off",
        }
    }
}

/// Stored roll-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredRollout {
    pub(super) id: u64,
    /// Time of its begin in milliseconds since 1970.
    pub(super) at: i64,
    /// Working directory of its command.
    pub(super) directory: PathBuf,
    /// Words of its command line, without the name of the program and without variables.
    pub(super) words: Vec<String>,
    pub(super) phase: RolloutPhase,
    /// All hosts of the command, in their order.
    pub(super) hosts: Vec<StoredHost>,
}

impl StoredRollout {
    /// Returns the names of the hosts whose state fulfils a condition.
    pub(super) fn names(&self, is: fn(HostState) -> bool) -> Vec<String> {
        self.hosts.iter().filter(|host| is(host.state)).map(|host| host.name.clone()).collect()
    }
}

/// Journal of a roll-out, locked by this process.
pub(super) struct RolloutJournal {
    pub(super) id: u64,
    file: Mutex<File>,
    plan: PathBuf,
}

impl RolloutStore {
    /// Returns the roll-outs of a state directory.
    pub(super) fn of(state_dir: &Path) -> RolloutStore {
        RolloutStore { directory: state_dir.join(DIRECTORY) }
    }

    fn path(&self, id: u64, extension: &str) -> PathBuf {
        self.directory.join(format!("{id}.{extension}"))
    }

    /// Returns the path of the plans of a roll-out.
    pub(super) fn plan_path(&self, id: u64) -> PathBuf {
        self.path(id, "plan")
    }

    fn unusable(&self, error: &io::Error) -> Exit {
        output::fail(format_args!("cannot use {}: {error}", self.directory.display()))
    }

    /// Returns the numbers of the stored roll-outs, in their order.
    fn ids(&self) -> io::Result<Vec<u64>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            ids.extend(
                name.to_str().and_then(|name| name.strip_suffix(".jsonl")).and_then(|id| id.parse::<u64>().ok()),
            );
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Stores a new roll-out, and removes the oldest ones.
    ///
    /// # Errors
    /// If that is not possible; reported.
    pub(super) fn begin(&self, words: &[String], hosts: &[StoredHost], plans: &str) -> Result<RolloutJournal, Exit> {
        if let Some(state_dir) = self.directory.parent() {
            StateDir::new(state_dir).prepare().map_err(output::fail)?;
        }
        let begun = || -> io::Result<RolloutJournal> {
            match DirBuilder::new().mode(0o700).create(&self.directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let (id, file) = self.created()?;
            flock(&file, FlockOperation::LockExclusive)?;
            // The journal refers to the plan, so the plan comes first.
            durable::replace(&self.plan_path(id), plans.as_bytes())?;
            let journal = RolloutJournal { id, file: Mutex::new(file), plan: self.plan_path(id) };
            let hosts: Vec<Json> = hosts.iter().map(host_json).collect();
            let directory = std::env::current_dir().unwrap_or_default();
            journal.append(&json!({
                KEY: VERSION,
                "at": now(),
                "directory": directory.to_string_lossy(),
                "words": without_variables(words),
                "hosts": hosts,
            }))?;
            File::open(&self.directory)?.sync_all()?;
            Ok(journal)
        };
        let journal = begun().map_err(|error| self.unusable(&error))?;
        self.prune();
        Ok(journal)
    }

    fn created(&self) -> io::Result<(u64, File)> {
        loop {
            let id = self.ids()?.last().map_or(1, |last| last + 1);
            let mut options = OpenOptions::new();
            match options.append(true).create_new(true).mode(0o600).open(self.path(id, "jsonl")) {
                // Another controller was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|file| (id, file)),
            }
        }
    }

    /// Removes the oldest roll-outs, except those that run. A failure leaves them for the next time.
    fn prune(&self) {
        let ids = self.ids().unwrap_or_default();
        for id in &ids[..ids.len().saturating_sub(MAX_KEPT)] {
            if !self.is_running(*id) {
                let _ = std::fs::remove_file(self.plan_path(*id));
                let _ = std::fs::remove_file(self.path(*id, "jsonl"));
            }
        }
    }

    /// Returns true if a process has locked the journal.
    fn is_running(&self, id: u64) -> bool {
        let file = File::open(self.path(id, "jsonl"));
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK))
    }

    /// Returns all stored roll-outs, the newest first.
    ///
    /// # Errors
    /// If they cannot be read; reported.
    pub(super) fn list(&self) -> Result<Vec<StoredRollout>, Exit> {
        let ids = self.ids().map_err(|error| self.unusable(&error))?;
        // A damaged journal is reported, and the others are shown.
        Ok(ids.into_iter().rev().filter_map(|id| self.one(id).ok()).collect())
    }

    /// Returns a roll-out by its number, or the last one.
    ///
    /// # Errors
    /// If there is none, or it cannot be read; reported.
    pub(super) fn read(&self, word: &str) -> Result<StoredRollout, Exit> {
        let ids = self.ids().map_err(|error| self.unusable(&error))?;
        let id = match word {
            "last" => ids.last().copied(),
            word => word.parse().ok().filter(|id| ids.contains(id)),
        };
        match id {
            Some(id) => self.one(id),
            None => Err(output::fail_with(
                format_args!("there is no roll-out {word} in {}", self.directory.display()),
                ["write its number, or `last`; `kilter rollout list` lists the roll-outs"],
            )),
        }
    }

    fn one(&self, id: u64) -> Result<StoredRollout, Exit> {
        let path = self.path(id, "jsonl");
        let bytes = durable::read(&path, MAX_BYTES)
            .and_then(|bytes| bytes.ok_or_else(|| io::Error::other("it was removed meanwhile")));
        let bytes = bytes.map_err(|error| output::fail(format_args!("cannot use {}: {error}", path.display())))?;
        let stored = parsed(id, &String::from_utf8_lossy(&bytes), self.is_running(id));
        stored.ok_or_else(|| {
            let hint = "its hosts are unknown: remove it, and make a new plan of all hosts";
            output::fail_with(format_args!("{} is damaged, or of another version", path.display()), [hint])
        })
    }

    /// Locks the journal of a roll-out to continue it.
    ///
    /// # Errors
    /// If another process works on it; reported.
    pub(super) fn resume(&self, id: u64) -> Result<RolloutJournal, Exit> {
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let opened = OpenOptions::new().append(true).custom_flags(flags).open(self.path(id, "jsonl"));
        let file = opened.map_err(|error| self.unusable(&error))?;
        for _ in 0..LOCK_ATTEMPTS {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(RolloutJournal { id, file: Mutex::new(file), plan: self.plan_path(id) });
                }
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(self.unusable(&error.into())),
            }
        }
        Err(output::fail_with(
            format_args!("another kilter works on roll-out {id}"),
            [format!("`kilter rollout show {id}` shows its state")],
        ))
    }
}

impl RolloutJournal {
    /// Adds the state of a host.
    ///
    /// # Errors
    /// If it is not durable.
    pub(super) fn add(&self, name: &str, state: HostState, reason: Option<String>) -> io::Result<()> {
        let mut line = host_json(&StoredHost { name: name.to_owned(), state, reason });
        line["at"] = now().into();
        self.append(&line)
    }

    fn append(&self, line: &Json) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A killed process, or a full disk, may have left a part of a line.
        file.write_all(format!("\n{line}\n").as_bytes())?;
        file.sync_data()
    }

    /// Ends the roll-out. The plans are no longer needed if all hosts have applied them.
    pub(super) fn end(self, is_complete: bool) {
        let ended = self.append(&json!({ "at": now(), "end": true }));
        if let Err(error) = ended {
            output::warning(format_args!("cannot store the end of roll-out {}: {error}", self.id));
        }
        if is_complete {
            let _ = std::fs::remove_file(&self.plan);
        }
    }
}

fn now() -> i64 {
    milliseconds(SystemTime::now())
}

fn host_json(host: &StoredHost) -> Json {
    let mut json = json!({ "host": host.name, "state": host.state.word() });
    if let Some(reason) = &host.reason {
        json["reason"] = reason.chars().take(MAX_REASON).collect::<String>().into();
    }
    json
}

fn host_of(json: &Json) -> Option<StoredHost> {
    let state = HostState::of_word(json["state"].as_str()?)?;
    let reason = json["reason"].as_str().map(str::to_owned);
    Some(StoredHost { name: json["host"].as_str()?.to_owned(), state, reason })
}

/// Returns words without variables: plans contain these, and they may be confidential.
fn without_variables(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--var" {
            words.next();
        } else if !word.starts_with("--var=") {
            kept.push(word.clone());
        }
    }
    kept
}

/// Reads a journal; none if its first line is not complete.
fn parsed(id: u64, text: &str, is_running: bool) -> Option<StoredRollout> {
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let begin = lines.next().filter(|begin| begin[KEY].as_u64() == Some(VERSION))?;
    let words = begin["words"].as_array()?.iter().map(|word| word.as_str().map(str::to_owned));
    let mut rollout = StoredRollout {
        id,
        at: begin["at"].as_i64()?,
        directory: PathBuf::from(begin["directory"].as_str()?),
        words: words.collect::<Option<Vec<String>>>()?,
        phase: RolloutPhase::CutOff,
        hosts: begin["hosts"].as_array()?.iter().map(host_of).collect::<Option<Vec<StoredHost>>>()?,
    };
    let mut has_ended = false;
    for line in lines {
        has_ended = line["end"] == true;
        if let Some(found) = host_of(&line)
            && let Some(host) = rollout.hosts.iter_mut().find(|host| host.name == found.name)
        {
            *host = found;
        }
    }
    rollout.phase = match (is_running, has_ended) {
        (true, _) => RolloutPhase::Running,
        (false, true) => RolloutPhase::Ended,
        (false, false) => RolloutPhase::CutOff,
    };
    Some(rollout)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn host(name: &str, state: HostState) -> StoredHost {
        StoredHost { name: name.to_owned(), state, reason: None }
    }

    #[test]
    fn journal_of_a_killed_controller_shows_the_hosts_in_flight() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let store = RolloutStore::of(place.path());
        let hosts = ["a", "b", "c"].map(|name| host(name, HostState::Untouched));
        let words = ["--on", "a,b,c", "apply", "--var", "pw=x", "--var=pw=y", "site.yaml"].map(str::to_owned);
        let journal = store.begin(&words, &hosts, "plans").unwrap();
        journal.add("a", HostState::Started, None).unwrap();
        journal.add("a", HostState::Failed, Some("x".repeat(2 * MAX_REASON))).unwrap();
        journal.add("b", HostState::Started, None).unwrap();
        assert_eq!(store.read("1").unwrap().phase, RolloutPhase::Running);
        assert!(store.resume(1).is_err());
        drop(journal);
        // A line that a power cut left.
        let path = store.path(1, "jsonl");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\n{\"host\":\"c\",\"sta").unwrap();
        let stored = store.read("last").unwrap();
        assert_eq!((stored.id, stored.phase), (1, RolloutPhase::CutOff));
        assert_eq!(stored.words, ["--on", "a,b,c", "apply", "site.yaml"]);
        let states: Vec<HostState> = stored.hosts.iter().map(|host| host.state).collect();
        assert_eq!(states, [HostState::Failed, HostState::Started, HostState::Untouched]);
        assert_eq!(stored.hosts[0].reason.as_ref().map(String::len), Some(MAX_REASON));
        let journal = store.resume(1).unwrap();
        journal.add("b", HostState::Applied, None).unwrap();
        journal.end(false);
        let stored = store.read("1").unwrap();
        assert_eq!((stored.phase, stored.hosts[1].state), (RolloutPhase::Ended, HostState::Applied));
        for extension in ["jsonl", "plan"] {
            assert_eq!(std::fs::metadata(store.path(1, extension)).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn only_the_last_roll_outs_are_kept_and_numbers_are_not_reused() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let store = RolloutStore::of(place.path());
        let hosts = [host("a", HostState::Untouched)];
        let first = store.begin(&[], &hosts, "").unwrap();
        for _ in 0..MAX_KEPT + 2 {
            store.begin(&[], &hosts, "").unwrap().end(true);
        }
        // The first one runs, so it stays.
        let ids: Vec<u64> = store.ids().unwrap();
        assert_eq!((ids.len(), ids[0], *ids.last().unwrap()), (MAX_KEPT + 1, 1, MAX_KEPT as u64 + 3));
        assert!(!store.plan_path(23).exists() && store.plan_path(1).exists());
        first.end(false);
        store.begin(&[], &hosts, "").unwrap().end(true);
        assert!(!store.plan_path(1).exists());
        assert!(store.read("1").is_err() && store.read("x").is_err());
    }
}
