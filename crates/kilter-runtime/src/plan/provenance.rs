//! Provenance of a plan: the host and the time at which it was made, and an id that reveals a second apply.

use std::io;
use std::path::PathBuf;

use ring::hmac;
use serde_json::{Value as Json, json};

use crate::records;
use crate::sealing::random;
use crate::state_dir::StateDir;

/// File of the state directory that lists the applied plans.
const FILE: &str = "applied-plans";
/// Maximum number of plans in that file.
const MAX_LISTED: usize = 1000;
/// Number of characters of an id that messages show.
const SHOWN_DIGITS: usize = 8;
/// Number of bytes of an id.
const ID_BYTES: usize = 16;
/// Domain of the digest of a machine id, which is confidential itself (machine-id(5)).
const MACHINE: &[u8] = b"kilter plan machine";

/// Host and time at which a plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanProvenance {
    /// Random number, in hexadecimal digits.
    pub id: String,
    /// Name of the host.
    pub host: String,
    /// Digest of the host's machine id, if it has one.
    pub machine: Option<String>,
    /// Time as in RFC 3339.
    pub at: String,
}

impl PlanProvenance {
    /// Returns the provenance of a plan that is made on this host at this time.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(host: &str, at: String) -> io::Result<PlanProvenance> {
        let id = hexadecimal(&random::<ID_BYTES>()?);
        Ok(PlanProvenance { id, host: host.to_owned(), machine: this_machine(), at })
    }

    /// Returns the JSON object that [`PlanProvenance::read`] reads.
    pub fn json(&self) -> Json {
        json!({ "id": self.id, "host": self.host, "machine": self.machine, "at": self.at })
    }

    /// Reads a provenance; none if it does not have the form of [`PlanProvenance::json`].
    pub fn read(json: &Json) -> Option<PlanProvenance> {
        let text = |key: &str| Some(json.get(key)?.as_str()?.to_owned());
        let id = text("id").filter(|id| id.len() == 2 * ID_BYTES && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        Some(PlanProvenance { id: id?, host: text("host")?, machine: text("machine"), at: text("at")? })
    }

    /// Returns the beginning of the id.
    pub fn short_id(&self) -> &str {
        self.id.get(..SHOWN_DIGITS).unwrap_or(&self.id)
    }

    /// Returns true if the plan was made on a host with another machine id.
    pub fn is_of_another_machine(&self) -> bool {
        self.machine.is_some() && self.machine != this_machine()
    }

    /// Returns the time at which a run with this state directory carried the plan out completely. An unreadable
    /// list counts as empty.
    pub fn applied_at(&self, state_dir: &StateDir) -> Option<String> {
        let listed = listed(state_dir).unwrap_or_default();
        let line = listed.lines().rev().find_map(|line| line.strip_prefix(&*self.id));
        line.map(|at| at.trim().to_owned())
    }

    /// Records that the plan was carried out completely at this time.
    ///
    /// # Errors
    /// If the list cannot be written.
    pub fn record_applied(&self, state_dir: &StateDir, at: &str) -> io::Result<()> {
        let _lock = state_dir.hold().map_err(io::Error::other)?;
        let before = listed(state_dir)?;
        let mut lines: Vec<&str> = before.lines().filter(|line| !line.starts_with(&*self.id)).collect();
        let line = format!("{} {at}", self.id);
        lines.push(&line);
        let first = lines.len().saturating_sub(MAX_LISTED);
        let path = path(state_dir);
        records::write(&path, &(lines[first..].join("\n") + "\n"))?;
        records::sync_directory(&path)
    }
}

fn path(state_dir: &StateDir) -> PathBuf {
    state_dir.path().join(FILE)
}

/// Returns the lines of the list, each an id and a time.
fn listed(state_dir: &StateDir) -> io::Result<String> {
    match records::read(&path(state_dir)) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

fn this_machine() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?;
    let id = Some(id.trim()).filter(|id| id.len() == 32)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, id.as_bytes());
    Some(hexadecimal(&hmac::sign(&key, MACHINE).as_ref()[..ID_BYTES]))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provenance_is_read_as_it_was_written_and_lists_the_last_applied_plans() {
        let state = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(state.path().join("state"));
        let first = PlanProvenance::new("web1", "2026-01-02T03:04:05Z".into()).unwrap();
        assert_eq!(PlanProvenance::read(&first.json()), Some(first.clone()));
        assert!(!first.is_of_another_machine());
        assert_eq!(first.applied_at(&state_dir), None);
        first.record_applied(&state_dir, "one").unwrap();
        first.record_applied(&state_dir, "two").unwrap();
        assert_eq!(first.applied_at(&state_dir).as_deref(), Some("two"));
        let others: String = (0..MAX_LISTED).map(|at| format!("{at:032x} then\n")).collect();
        std::fs::write(path(&state_dir), others).unwrap();
        first.record_applied(&state_dir, "three").unwrap();
        assert_eq!(first.applied_at(&state_dir).as_deref(), Some("three"));
        assert_eq!(listed(&state_dir).unwrap().lines().count(), MAX_LISTED);
        let other = PlanProvenance { machine: Some("another".into()), ..first };
        assert!(other.is_of_another_machine());
        assert_eq!(PlanProvenance::read(&PlanProvenance { id: "../x".into(), ..other }.json()), None);
    }
}
