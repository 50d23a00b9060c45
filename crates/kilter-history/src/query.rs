//! Reading the history.

use std::ops::ControlFlow;

use rusqlite::{OptionalExtension as _, Row, params};

use crate::error::HistoryError;
use crate::event::{EventId, EventKind, HistoryEvent, RunId};
use crate::store::History;

/// Order of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The oldest first.
    Ascending,
    /// The newest first.
    #[default]
    Descending,
}

/// Part of the history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// Only events at this time or later, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Only events before this time, in milliseconds since 1970.
    pub until: Option<i64>,
    /// Only events after this one.
    pub after: Option<EventId>,
    /// Order of the events.
    pub order: Order,
}

impl Selection {
    fn bounds(&self) -> [i64; 3] {
        [self.after.map_or(0, |event| event.0), self.since.unwrap_or(i64::MIN), self.until.unwrap_or(i64::MAX)]
    }

    fn word(&self) -> &'static str {
        match self.order {
            Order::Ascending => "ASC",
            Order::Descending => "DESC",
        }
    }
}

/// Run with its first and its last event.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Number of the run.
    pub id: RunId,
    /// HistoryEvent that begins it.
    pub begin: HistoryEvent,
    /// HistoryEvent that ends it; none if it is under way or was cut off.
    pub end: Option<HistoryEvent>,
}

/// Columns of an event, for [`event`].
const COLUMNS: &str = "event.id, event.run, event.at, event.kind, resource.type, resource.title, event.body";

/// Tables of an event, for [`event`].
const TABLES: &str = "event LEFT JOIN resource ON resource.id = event.resource";

fn event(row: &Row<'_>) -> rusqlite::Result<HistoryEvent> {
    let kind: String = row.get(3)?;
    let kind = EventKind::of(&kind).ok_or(rusqlite::Error::InvalidQuery)?;
    let resource: Option<String> = row.get(4)?;
    let resource = resource.map(|type_name| Ok::<_, rusqlite::Error>((type_name, row.get(5)?))).transpose()?;
    let body = row.get_ref(6)?.as_str()?;
    let body = serde_json::from_str(body).map_err(|_| rusqlite::Error::InvalidQuery)?;
    Ok(HistoryEvent { id: EventId(row.get(0)?), run: RunId(row.get(1)?), at: row.get(2)?, kind, resource, body })
}

impl History {
    /// Calls `visit` for the runs of a selection, until it breaks.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn runs(
        &self,
        selection: &Selection,
        visit: &mut dyn FnMut(RunRecord) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        let sql = format!(
            "SELECT {COLUMNS}, run.ended FROM run JOIN event ON event.id = run.id
             LEFT JOIN resource ON resource.id = event.resource
             WHERE run.id > ?1 AND event.at >= ?2 AND event.at < ?3 ORDER BY run.id {}",
            selection.word()
        );
        let [after, since, until] = selection.bounds();
        self.visited(&sql, params![after, since, until], &mut |row| {
            let begin = event(row)?;
            let ended: Option<i64> = row.get(7)?;
            let end = ended.map(|id| self.event_at(id)).transpose()?.flatten();
            Ok(visit(RunRecord { id: begin.run, begin, end }))
        })
    }

    /// Returns a run.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn run(&self, id: RunId) -> Result<Option<RunRecord>, HistoryError> {
        let find = || {
            let mut statement = self.db.prepare_cached("SELECT ended FROM run WHERE id = ?1")?;
            let Some(ended) = statement.query_row([id.0], |row| row.get::<_, Option<i64>>(0)).optional()? else {
                return Ok(None);
            };
            let Some(begin) = self.event_at(id.0)? else { return Ok(None) };
            Ok(Some(RunRecord { id, begin, end: ended.map(|id| self.event_at(id)).transpose()?.flatten() }))
        };
        find().map_err(|error: rusqlite::Error| self.error(&error))
    }

    fn event_at(&self, id: i64) -> rusqlite::Result<Option<HistoryEvent>> {
        let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE event.id = ?1");
        self.db.prepare_cached(&sql)?.query_row([id], event).optional()
    }

    /// Calls `visit` for the events of a run in order, until it breaks.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn events_of(
        &self,
        run: RunId,
        visit: &mut dyn FnMut(HistoryEvent) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {TABLES} WHERE event.run = ?1 AND event.id >= ?1
             AND event.id <= coalesce((SELECT ended FROM run WHERE id = ?1), 9223372036854775807) ORDER BY event.id"
        );
        self.visited(&sql, params![run.0], &mut |row| Ok(visit(event(row)?)))
    }

    /// Calls `visit` for the events of a selection, until it breaks.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn events(
        &self,
        selection: &Selection,
        visit: &mut dyn FnMut(HistoryEvent) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {TABLES} WHERE event.id > ?1 AND event.at >= ?2 AND event.at < ?3 ORDER BY event.id \
             {}",
            selection.word()
        );
        let [after, since, until] = selection.bounds();
        self.visited(&sql, params![after, since, until], &mut |row| Ok(visit(event(row)?)))
    }

    /// Returns the titles of the resources of a type with this title, or with this name on the system.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn titles(&self, type_name: &str, name: &str) -> Result<Vec<String>, HistoryError> {
        let find = || {
            let mut statement = self.db.prepare_cached(
                "SELECT title FROM resource WHERE type = ?1 AND title = ?2
                 UNION SELECT title FROM resource WHERE type = ?1 AND name = ?2 AND name <> title",
            )?;
            statement.query_map([type_name, name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()
        };
        find().map_err(|error| self.error(&error))
    }

    /// Returns the name on the system of a resource.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn name(&self, type_name: &str, title: &str) -> Result<Option<String>, HistoryError> {
        let find = || {
            let mut statement = self.db.prepare_cached("SELECT name FROM resource WHERE type = ?1 AND title = ?2")?;
            statement.query_row([type_name, title], |row| row.get(0)).optional()
        };
        find().map_err(|error| self.error(&error))
    }

    /// Calls `visit` for the events about a resource in a selection, until it breaks.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn timeline(
        &self,
        type_name: &str,
        title: &str,
        selection: &Selection,
        visit: &mut dyn FnMut(HistoryEvent) -> ControlFlow<()>,
    ) -> Result<(), HistoryError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {TABLES}
             WHERE event.resource = (SELECT id FROM resource WHERE type = ?4 AND title = ?5)
             AND event.id > ?1 AND event.at >= ?2 AND event.at < ?3 ORDER BY event.id {}",
            selection.word()
        );
        let [after, since, until] = selection.bounds();
        self.visited(&sql, params![after, since, until, type_name, title], &mut |row| Ok(visit(event(row)?)))
    }

    /// Returns the encrypted state with this digest; none if it was removed.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn state(&self, digest: &str) -> Result<Option<Vec<u8>>, HistoryError> {
        let found = self
            .db
            .prepare_cached("SELECT bytes FROM state WHERE digest = ?1")
            .and_then(|mut statement| statement.query_row([digest], |row| row.get(0)).optional());
        found.map_err(|error| self.error(&error))
    }

    /// Returns the number of the last event, or 0.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn last(&self) -> Result<EventId, HistoryError> {
        let found = self.db.query_row("SELECT coalesce(max(id), 0) FROM event", [], |row| row.get(0));
        found.map(EventId).map_err(|error| self.error(&error))
    }

    fn visited(
        &self,
        sql: &str,
        bound: &[&dyn rusqlite::ToSql],
        visit: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<ControlFlow<()>>,
    ) -> Result<(), HistoryError> {
        let mut read = || {
            let mut statement = self.db.prepare_cached(sql)?;
            let mut rows = statement.query(bound)?;
            while let Some(row) = rows.next()? {
                if visit(row)?.is_break() {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|error: rusqlite::Error| match error {
            rusqlite::Error::InvalidQuery => HistoryError::damaged(&self.path, "an event cannot be read"),
            error => self.error(&error),
        })
    }
}
