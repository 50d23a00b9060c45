//! Runs without changes that follow a run on record.
//!
//! Such a run needs no event: a file beside the database counts them. A machine that is checked every half hour would
//! otherwise write thousands of records in a year.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kilter_history::RunId;
use serde_json::{Map, Value as Json, json};

use super::{directory, milliseconds};

/// Name of the file.
const NAME: &str = "unchanged.json";

/// A run is on record at least this often, even if nothing changes.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Maximum size of the file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Counts of runs without changes.
pub(crate) struct Unchanged {
    path: PathBuf,
}

/// Runs without changes after a run on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeats {
    /// Number of runs.
    pub(crate) count: u64,
    /// End of the last one in milliseconds since 1970.
    pub(crate) last: i64,
}

impl Unchanged {
    /// Returns the counts of a state directory.
    pub(crate) fn of(state_dir: &Path) -> Unchanged {
        Unchanged { path: directory(state_dir).join(NAME) }
    }

    fn read(&self) -> Map<String, Json> {
        let bytes = crate::durable::read(&self.path, MAX_BYTES).ok().flatten();
        let json = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        match json {
            Some(Json::Object(all)) => all,
            _ => Map::new(),
        }
    }

    /// Writes the counts. They are no part of the chain, so that a lost write does not matter.
    fn write(&self, all: Map<String, Json>) {
        let new = self.path.with_extension("new");
        let _ = std::fs::remove_file(&new);
        use std::os::unix::fs::OpenOptionsExt as _;
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let text = Json::Object(all).to_string();
        if made.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())).is_ok() {
            let _ = std::fs::rename(&new, &self.path);
        }
    }

    /// Begins to count after a run on record.
    pub(crate) fn begins(&self, origin: &str, digest: &[u8], names: &[u8], run: RunId) {
        let mut all = self.read();
        let now = milliseconds(SystemTime::now());
        let digest = kilter_history::hexadecimal(digest);
        let names = kilter_history::hexadecimal(names);
        let counts = json!({ "digest": digest, "names": names, "run": run.0, "at": now, "count": 0, "last": now });
        all.insert(origin.to_owned(), counts);
        self.write(all);
    }

    /// Ends the count of these manifests.
    pub(super) fn forget(&self, origin: &str) {
        let mut all = self.read();
        if all.remove(origin).is_some() {
            self.write(all);
        }
    }

    /// Counts one more run, if the last record is recent and has the same declarations.
    pub(crate) fn is_repeated(&self, origin: &str, digest: &[u8]) -> bool {
        let mut all = self.read();
        let now = milliseconds(SystemTime::now());
        let digest = kilter_history::hexadecimal(digest);
        let interval = i64::try_from(INTERVAL.as_millis()).unwrap_or(i64::MAX);
        let Some(known) = all.get_mut(origin) else { return false };
        let is_same = known["digest"].as_str() == Some(&digest);
        let age = now - known["at"].as_i64().unwrap_or_default();
        if !is_same || !(0..interval).contains(&age) {
            return false;
        }
        known["count"] = (known["count"].as_u64().unwrap_or_default() + 1).into();
        known["last"] = now.into();
        self.write(all);
        true
    }

    /// Returns true if the last run of these manifests had these declarations.
    pub(crate) fn has_digest(&self, origin: &str, digest: &[u8]) -> bool {
        let digest = kilter_history::hexadecimal(digest);
        self.read().get(origin).is_some_and(|known| known["digest"].as_str() == Some(&digest))
    }

    /// Returns true if the last run of these manifests had resources with these names.
    pub(crate) fn has_names(&self, origin: &str, names: &[u8]) -> bool {
        let names = kilter_history::hexadecimal(names);
        self.read().get(origin).is_some_and(|known| known["names"].as_str() == Some(&names))
    }

    /// Returns the runs without changes before a new run, for its record.
    pub(super) fn before(&self, origin: &str) -> Option<Json> {
        let known = self.read().remove(origin)?;
        let is_some = known["count"].as_u64().is_some_and(|count| count > 0);
        is_some.then(|| json!({ "run": known["run"], "count": known["count"], "last": known["last"] }))
    }

    /// Returns the runs without changes after a run on record.
    pub(crate) fn after(&self, run: RunId) -> Option<Repeats> {
        let all = self.read();
        let known = all.values().find(|known| known["run"].as_i64() == Some(run.0))?;
        let repeats = Repeats { count: known["count"].as_u64()?, last: known["last"].as_i64()? };
        (repeats.count > 0).then_some(repeats)
    }
}
