//! Removal of old events. The begin and the end of each run stay as its summary.

use rusqlite::params;
use serde_json::json;

use crate::error::HistoryError;
use crate::event::{EventKind, NewEvent, RunId};
use crate::store::History;

/// Limits of the history.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Events before this time are removed, in milliseconds since 1970.
    pub before: i64,
    /// Maximum size of the database in bytes. The oldest events are removed until their share of it is small enough.
    pub max_bytes: u64,
}

/// Result of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Number of removed events.
    pub events: u64,
    /// Number of removed saved states.
    pub states: u64,
}

impl History {
    /// Removes events and saved states that are too old or too many. It keeps the begin and the end of each run, and the events of runs that have not
    /// ended. The removal itself is an event of the run `run`.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn prune(&mut self, now: i64, limits: Retention) -> Result<Removed, HistoryError> {
        let through = self.last_to_remove(limits).map_err(|error| self.error(&error))?;
        let Some(through) = through else { return Ok(Removed::default()) };
        let mut batch = self.batch()?;
        let remove = || {
            let events = batch.transaction.execute(
                "DELETE FROM event WHERE id <= ?1 AND kind NOT IN ('run', 'end', 'pruned')
                 AND run NOT IN (SELECT id FROM run WHERE ended IS NULL AND id > ?1)",
                [through],
            )?;
            batch.transaction.execute("UPDATE link SET pruned = 1 WHERE last <= ?1 AND pruned = 0", [through])?;
            let states = batch.transaction.execute(
                "DELETE FROM state WHERE at < (SELECT at FROM event WHERE id >= ?1 ORDER BY id LIMIT 1)",
                params![through],
            )?;
            Ok(Removed { events: events as u64, states: states as u64 })
        };
        let removed = remove().map_err(|error: rusqlite::Error| batch.error(&error))?;
        let body = json!({ "through": through, "events": removed.events, "states": removed.states });
        batch.add(RunId(0), &NewEvent { at: now, kind: EventKind::Pruned, resource: None, body: &body })?;
        batch.commit()?;
        self.db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").map_err(|error| self.error(&error))?;
        Ok(removed)
    }

    /// Returns the last event that the limits remove: the last one of a link.
    fn last_to_remove(&self, limits: Retention) -> rusqlite::Result<Option<i64>> {
        let by_age: i64 = self.db.query_row(
            "SELECT coalesce(max(link.last), 0) FROM link
             WHERE last < coalesce((SELECT min(id) FROM event WHERE at >= ?1), 0)",
            [limits.before],
            |row| row.get(0),
        )?;
        let size = self.size();
        let by_size: i64 = if size <= limits.max_bytes {
            0
        } else {
            // The share of the events that stay leaves a fifth of the limit free.
            let kept = limits.max_bytes as f64 * 0.8 / size as f64;
            self.db.query_row(
                "SELECT coalesce(max(last), 0) FROM link
                 WHERE last <= (SELECT min(id) + cast((max(id) - min(id)) * ?1 AS INTEGER) FROM event)",
                [1.0 - kept],
                |row| row.get(0),
            )?
        };
        let through = by_age.max(by_size);
        let last_pruned: i64 =
            self.db.query_row("SELECT coalesce(max(last), 0) FROM link WHERE pruned = 1", [], |row| row.get(0))?;
        Ok(Some(through).filter(|through| *through > last_pruned))
    }
}
