//! Verification of the chain.

use rusqlite::{Connection, params};
use serde_json::Value as Json;

use crate::error::HistoryError;
use crate::event::EventKind;
use crate::link::{DIGEST, Digest, EventColumns, Link, hexadecimal};
use crate::store::History;

/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 20;

/// Events between two numbers, with the columns of a [`EventColumns`].
const ROWS: &str =
    "SELECT event.id, event.run, event.at, event.kind, coalesce(type, ''), coalesce(title, ''), event.body
     FROM event LEFT JOIN resource ON resource.id = event.resource
     WHERE event.id > ?1 AND event.id <= ?2 ORDER BY event.id";

/// Returns the digest of the events up to a number that a removal has kept.
pub(crate) fn kept_digest(db: &Connection, through: i64) -> rusqlite::Result<Digest> {
    let mut link = Link::after(&[0; DIGEST]);
    let mut events = db.prepare(ROWS)?;
    let mut rows = events.query(params![0, through])?;
    while let Some(row) = rows.next()? {
        let text = |at: usize| row.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
        link.add(&EventColumns {
            id: row.get(0)?,
            run: row.get(1)?,
            at: row.get(2)?,
            kind: text(3)?,
            resource: (text(4)?, text(5)?),
            body: text(6)?,
        });
    }
    Ok(link.digest())
}

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Number of events that the chain covers.
    pub events: u64,
    /// Number of links.
    pub links: u64,
    /// Number of links whose events were removed because of their age or size.
    pub pruned: u64,
    /// Digest of the last link in hexadecimal; empty without events.
    pub head: String,
    /// True if the expected head is part of the chain, or none was given.
    pub has_expected: bool,
    /// Problems in order, at most 20.
    pub problems: Vec<String>,
}

impl History {
    /// Compares all events with the chain, and checks the pages of the database.
    ///
    /// `expected` is the head of an earlier verification, in hexadecimal. A history that was replaced as a whole does
    /// not contain it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn verify(&self, expected: Option<&str>) -> Result<Verification, HistoryError> {
        let mut result = Verification { has_expected: expected.is_none(), ..Verification::default() };
        self.check_pages(&mut result.problems).map_err(|error| self.error(&error))?;
        self.check_chain(expected, &mut result).map_err(|error| self.error(&error))?;
        result.problems.truncate(MAX_PROBLEMS);
        Ok(result)
    }

    fn check_pages(&self, problems: &mut Vec<String>) -> rusqlite::Result<()> {
        let mut statement = self.db.prepare("PRAGMA integrity_check(10)")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let found: String = row.get(0)?;
            if found != "ok" {
                problems.push(format!("the database: {found}"));
            }
        }
        Ok(())
    }

    fn check_chain(&self, expected: Option<&str>, result: &mut Verification) -> rusqlite::Result<()> {
        let mut links = self.db.prepare("SELECT last, digest, pruned FROM link ORDER BY last")?;
        let mut events = self.db.prepare(ROWS)?;
        let (mut first, mut before): (i64, Digest) = (0, [0; DIGEST]);
        let (mut last_pruned, mut removal): (i64, Option<Json>) = (0, None);
        let mut rows = links.query([])?;
        while let Some(row) = rows.next()? {
            let (last, digest, is_pruned): (i64, Digest, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
            result.links += 1;
            result.has_expected |= expected.is_some_and(|expected| hexadecimal(&digest).starts_with(expected));
            if is_pruned {
                result.pruned += 1;
                last_pruned = last;
            } else {
                let mut link = Link::after(&before);
                let mut next = first + 1;
                let mut covered = events.query(params![first, last])?;
                while let Some(row) = covered.next()? {
                    let text = |at: usize| row.get_ref(at)?.as_str().map_err(rusqlite::Error::from);
                    let id: i64 = row.get(0)?;
                    if id != next && result.problems.len() < MAX_PROBLEMS {
                        result.problems.push(format!("events {next} to {} are missing", id - 1));
                    }
                    next = id + 1;
                    if text(3)? == EventKind::Pruned.word() {
                        removal = serde_json::from_str(text(6)?).ok();
                    }
                    link.add(&EventColumns {
                        id,
                        run: row.get(1)?,
                        at: row.get(2)?,
                        kind: text(3)?,
                        resource: (text(4)?, text(5)?),
                        body: text(6)?,
                    });
                    result.events += 1;
                }
                if link.digest() != digest && result.problems.len() < MAX_PROBLEMS {
                    let events = if last == first + 1 {
                        format!("event {last} was")
                    } else {
                        format!("events {} to {last} were", first + 1)
                    };
                    result.problems.push(format!("{events} changed after the history was written"));
                }
            }
            (first, before) = (last, digest);
        }
        let later: i64 = self.db.query_row("SELECT count(*) FROM event WHERE id > ?1", [first], |row| row.get(0))?;
        if later > 0 {
            result.problems.push(format!("{later} events after event {first} are not part of the chain"));
        }
        if last_pruned > 0 {
            // Only an event of the chain may say that events were removed.
            let through = removal.as_ref().and_then(|removal| removal["through"].as_i64()).unwrap_or_default();
            let kept = removal.as_ref().and_then(|removal| removal["kept"].as_str());
            if through < last_pruned {
                result.problems.push(format!("events up to {last_pruned} are missing, and no removal is on record"));
            } else if kept != Some(&hexadecimal(&kept_digest(&self.db, through)?)) {
                result.problems.push(format!("events up to {through} were changed after the history was written"));
            }
        }
        if result.links > 0 {
            result.head = hexadecimal(&before);
        }
        Ok(())
    }
}
