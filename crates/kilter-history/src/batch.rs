//! A transaction that adds events.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use rustc_hash::FxHashMap;

use crate::error::HistoryError;
use crate::event::{EventId, EventKind, NewEvent, ResourceKey, RunId};
use crate::link::{DIGEST, Digest, EventColumns, Link};
use crate::rows;
use crate::store::History;

/// Maximum number of resources whose numbers stay in memory between two transactions.
const MAX_KNOWN: usize = 8192;

/// Transaction that adds events and one link of the chain. Without [`HistoryBatch::commit`] it adds nothing.
pub struct HistoryBatch<'a> {
    pub(crate) transaction: Transaction<'a>,
    pub(crate) db: &'a Connection,
    resources: &'a mut ResourceNumbers,
    is_committed: &'a mut bool,
    path: &'a std::path::Path,
    link: Option<Link>,
    last: i64,
    /// True if SQLite gives the next event the number after `last`. It does not after the removal of the last events.
    pub(crate) continues: bool,
}

/// Numbers of resources by type and title.
#[derive(Default)]
pub(crate) struct ResourceNumbers {
    numbers: FxHashMap<String, i64>,
    /// Key of the last search.
    key: String,
}

impl ResourceNumbers {
    fn get(&mut self, resource: ResourceKey<'_>) -> Option<i64> {
        self.key.clear();
        // No type name contains this character.
        self.key.extend([resource.type_name, "[", resource.title]);
        self.numbers.get(&self.key).copied()
    }

    /// Adds the resource of the last search.
    fn add(&mut self, number: i64) {
        // The copy has no spare capacity.
        self.numbers.insert(self.key.clone(), number);
    }
}

impl History {
    /// Begins a transaction. It waits for another process that writes.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn batch(&mut self) -> Result<HistoryBatch<'_>, HistoryError> {
        let is_stored = std::mem::replace(&mut self.is_committed, false);
        if !is_stored || self.resources.numbers.len() > MAX_KNOWN {
            self.resources = ResourceNumbers::default();
        }
        let History { db, path, resources, is_committed } = self;
        let db: &Connection = db;
        let begin = || {
            // The history is borrowed mutably, so that there is one transaction at a time.
            let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
            let (last, digest) = head(db)?;
            let newest: Option<i64> =
                db.prepare_cached("SELECT max(id) FROM event")?.query_row([], |row| row.get(0))?;
            Ok((transaction, last, digest, newest.unwrap_or_default() == last))
        };
        let begun = begin().map_err(|error| HistoryError::new(path, &error));
        let (transaction, last, digest, continues) = begun?;
        Ok(HistoryBatch {
            transaction,
            db,
            resources,
            is_committed,
            path,
            link: Some(Link::after(&digest)),
            last,
            continues,
        })
    }
}

/// Returns the last event and the digest of the last link.
pub(crate) fn head(db: &rusqlite::Connection) -> rusqlite::Result<(i64, Digest)> {
    let mut statement = db.prepare_cached("SELECT last, digest FROM link ORDER BY last DESC LIMIT 1")?;
    let found = statement.query_row([], |row| Ok((row.get(0)?, row.get::<_, [u8; DIGEST]>(1)?))).optional()?;
    Ok(found.unwrap_or((0, [0; DIGEST])))
}

/// Returns the columns of an event without its number.
fn columns<'e>((event, resource): &'e (EventColumns<'_>, Option<i64>)) -> [ToSqlOutput<'e>; 5] {
    let resource = resource.map_or(ToSqlOutput::Borrowed(ValueRef::Null), ToSqlOutput::from);
    [event.run.into(), event.at.into(), event.kind.into(), resource, event.body.into()]
}

impl HistoryBatch<'_> {
    /// Adds the event that begins a run.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn begin_run(&mut self, at: i64, body: &serde_json::Value) -> Result<RunId, HistoryError> {
        let run = RunId(self.last + 1);
        self.add(run, &NewEvent { at, kind: EventKind::Run, resource: None, body: &body.to_string() })?;
        let inserted = self.transaction.prepare_cached("INSERT INTO run (id, ended) VALUES (?1, NULL)");
        inserted.and_then(|mut statement| statement.execute([run.0])).map_err(|error| self.error(&error))?;
        Ok(run)
    }

    /// Adds the event that ends a run.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn end_run(&mut self, run: RunId, at: i64, body: &serde_json::Value) -> Result<(), HistoryError> {
        let end = self.add(run, &NewEvent { at, kind: EventKind::End, resource: None, body: &body.to_string() })?;
        let updated = self.transaction.prepare_cached("UPDATE run SET ended = ?2 WHERE id = ?1");
        let updated = updated.and_then(|mut statement| statement.execute([run.0, end.0]));
        updated.map(drop).map_err(|error| self.error(&error))
    }

    /// Adds an event of a run.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn add(&mut self, run: RunId, event: &NewEvent<'_>) -> Result<EventId, HistoryError> {
        self.add_all(run, std::slice::from_ref(event))?;
        Ok(EventId(self.last))
    }

    /// Adds events of a run.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn add_all(&mut self, run: RunId, events: &[NewEvent<'_>]) -> Result<(), HistoryError> {
        let mut added = Vec::with_capacity(events.len());
        for event in events {
            let number = event.resource.map(|resource| self.resource(resource)).transpose()?;
            let resource = event.resource.map_or(("", ""), |resource| (resource.type_name, resource.title));
            self.last += 1;
            let (id, kind) = (self.last, event.kind.word());
            let columns = EventColumns { id, run: run.0, at: event.at, kind, resource, body: event.body };
            self.link.get_or_insert_with(|| Link::after(&[0; DIGEST])).add(&columns);
            added.push((columns, number));
        }
        self.insert(&added).map_err(|error| self.error(&error))?;
        match self.db.last_insert_rowid() {
            id if id == self.last || added.is_empty() => Ok(()),
            id => {
                let why = format!("the event {} was stored as {id}", self.last);
                Err(HistoryError::Other { path: self.path.to_owned(), why })
            }
        }
    }

    /// Inserts events with their resources.
    fn insert(&mut self, events: &[(EventColumns<'_>, Option<i64>)]) -> rusqlite::Result<()> {
        let mut rest = events;
        if let (false, Some((first, others))) = (self.continues, events.split_first()) {
            let mut insert = self.transaction.prepare_cached(
                "INSERT INTO event (id, run, at, kind, resource, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?;
            let [run, at, kind, resource, body] = columns(first);
            insert.execute(params![first.0.id, run, at, kind, resource, body])?;
            (self.continues, rest) = (true, others);
        }
        rows::insert(self.db, "event (run, at, kind, resource, body)", rest, columns)
    }

    /// Stores the encrypted state of a resource under the digest of its content. An equal one is stored once.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn keep_state(&mut self, digest: &str, at: i64, bytes: &[u8]) -> Result<(), HistoryError> {
        let kept = self.transaction.prepare_cached(
            "INSERT INTO state (digest, at, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (digest) DO UPDATE SET at = ?2",
        );
        let kept = kept.and_then(|mut statement| statement.execute(params![digest, at, bytes]));
        kept.map(drop).map_err(|error| self.error(&error))
    }

    /// Returns the number of a resource, which it creates if needed.
    pub(crate) fn resource(&mut self, key: ResourceKey<'_>) -> Result<i64, HistoryError> {
        if let Some(id) = self.resources.get(key) {
            return Ok(id);
        }
        let id = self.found_or_made(key).map_err(|error| self.error(&error))?;
        self.resources.add(id);
        Ok(id)
    }

    fn found_or_made(&mut self, key: ResourceKey<'_>) -> rusqlite::Result<i64> {
        let mut add = self
            .transaction
            .prepare_cached("INSERT INTO resource (type, title, name) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?;
        if add.execute([key.type_name, key.title, key.name])? > 0 {
            return Ok(self.transaction.last_insert_rowid());
        }
        let known = self.transaction.prepare_cached("SELECT id FROM resource WHERE type = ?1 AND title = ?2");
        known?.query_row([key.type_name, key.title], |row| row.get(0))
    }

    /// Creates the first resources of the history. Returns false if there are some already.
    pub(crate) fn add_first_resources<'k>(
        &mut self,
        keys: impl Iterator<Item = ResourceKey<'k>>,
    ) -> rusqlite::Result<bool> {
        if self.transaction.prepare_cached("SELECT 1 FROM resource")?.exists([])? {
            return Ok(false);
        }
        let keys: Vec<ResourceKey<'_>> = keys.collect();
        rows::insert(self.db, "resource (type, title, name)", &keys, |key| {
            [key.type_name.into(), key.title.into(), key.name.into()]
        })?;
        // The numbers of an empty table begin with 1.
        for (id, key) in (1..).zip(keys) {
            if self.resources.get(key).is_none() {
                self.resources.add(id);
            }
        }
        Ok(true)
    }

    pub(crate) fn error(&self, error: &rusqlite::Error) -> HistoryError {
        HistoryError::new(self.path, error)
    }

    /// Writes the transaction. It is durable when this returns.
    ///
    /// # Errors
    /// If the database cannot be written. Nothing was added then.
    pub fn commit(mut self) -> Result<(), HistoryError> {
        let digest = self.link.take().map(Link::digest).unwrap_or_default();
        let HistoryBatch { transaction, is_committed, path, last, .. } = self;
        let linked = || {
            transaction
                .prepare_cached("INSERT OR IGNORE INTO link (last, digest) VALUES (?1, ?2)")?
                .execute(params![last, digest])?;
            transaction.commit()
        };
        linked().map_err(|error| HistoryError::new(path, &error))?;
        *is_committed = true;
        Ok(())
    }
}
