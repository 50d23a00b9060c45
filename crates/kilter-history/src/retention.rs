//! Removal of old events. The begin and the end of each run stay as its summary.

use rusqlite::params;
use serde_json::json;

use crate::error::HistoryError;
use crate::event::{EventKind, NewEvent, RunId};
use crate::link::hexadecimal;
use crate::store::History;
use crate::verify::kept_digest;

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
    /// Removes events and saved states that are too old or too many. It keeps the begin and the end of each run.
    ///
    /// The removal is an event with a digest of the events that stay, so that a verification covers them.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn prune(&mut self, now: i64, limits: Retention) -> Result<Removed, HistoryError> {
        let through = self.last_to_remove(limits).map_err(|error| self.error(&error))?;
        let Some(through) = through else { return Ok(Removed::default()) };
        let mut batch = self.batch()?;
        let remove = || {
            let events = batch
                .transaction
                .execute("DELETE FROM event WHERE id <= ?1 AND kind NOT IN ('run', 'end', 'pruned')", [through])?;
            batch.transaction.execute("UPDATE link SET pruned = 1 WHERE last <= ?1 AND pruned = 0", [through])?;
            // A state that was saved again later has the later time.
            let states = batch.transaction.execute(
                "DELETE FROM state WHERE at < coalesce((SELECT at FROM event WHERE id > ?1 ORDER BY id LIMIT 1), ?2)",
                params![through, now],
            )?;
            let kept = kept_digest(&batch.transaction, through)?;
            Ok((Removed { events: events as u64, states: states as u64 }, kept))
        };
        let (removed, kept) = remove().map_err(|error: rusqlite::Error| batch.error(&error))?;
        // The last events may be among the removed ones.
        batch.continues = false;
        let body = json!({
            "through": through,
            "events": removed.events,
            "states": removed.states,
            "kept": hexadecimal(&kept),
        });
        batch.add(RunId(0), &NewEvent { at: now, kind: EventKind::Pruned, resource: None, body: &body.to_string() })?;
        batch.commit()?;
        let shrunk = self.db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
        shrunk.map_err(|error| self.error(&error))?;
        Ok(removed)
    }

    /// Returns the last event that the limits remove: the last one of a link.
    fn last_to_remove(&self, limits: Retention) -> rusqlite::Result<Option<i64>> {
        let number =
            |sql: &str, bound: &[&dyn rusqlite::ToSql]| self.db.query_row(sql, bound, |row| row.get::<_, i64>(0));
        let last_pruned = number("SELECT coalesce(max(last), 0) FROM link WHERE pruned = 1", &[])?;
        let size = self.size();
        // Nearly always the oldest event is new enough.
        let oldest = "SELECT coalesce((SELECT at FROM event WHERE id > ?1 ORDER BY id LIMIT 1), 9223372036854775807)";
        if size <= limits.max_bytes && number(oldest, &[&last_pruned])? >= limits.before {
            return Ok(None);
        }
        let by_age = number(
            "SELECT coalesce(max(last), 0) FROM link
             WHERE last < coalesce((SELECT min(id) FROM event WHERE at >= ?1 AND id > ?2), 9223372036854775807)",
            &[&limits.before, &last_pruned],
        )?;
        let by_size = if size <= limits.max_bytes {
            0
        } else {
            // The share of the events that stay leaves a fifth of the limit free.
            let kept = limits.max_bytes as f64 * 0.8 / size as f64;
            number(
                "SELECT coalesce(max(last), 0) FROM link WHERE last <=
                 (SELECT min(id) + cast((max(id) - min(id)) * ?1 AS INTEGER) FROM event WHERE id > ?2)",
                &[&(1.0 - kept), &last_pruned],
            )?
        };
        Ok(Some(by_age.max(by_size)).filter(|through| *through > last_pruned))
    }
}
