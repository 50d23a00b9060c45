//! Insertion of many rows.

use rusqlite::Connection;
use rusqlite::types::ToSqlOutput;

/// Rows of one statement. Each statement opens the tables and searches its place in them once.
const ROWS: usize = 32;

/// Inserts a new row for each item into a table, given with its columns. SQLite numbers the rows. The caller ends the
/// transaction after an error: the rows before the wrong one stay.
///
/// With an explicit number, or without `OR FAIL`, SQLite would save each page first, to undo a part of the statement.
pub(crate) fn insert<'i, T, const COLUMNS: usize>(
    db: &Connection,
    table: &str,
    items: &'i [T],
    columns: impl Fn(&'i T) -> [ToSqlOutput<'i>; COLUMNS],
) -> rusqlite::Result<()> {
    let (many, others) = items.as_chunks::<ROWS>();
    let others = others.as_chunks::<1>().0;
    execute(db, table, many, &columns)?;
    execute(db, table, others, &columns)
}

/// Executes a statement of `N` rows for each chunk.
fn execute<'i, T, const COLUMNS: usize, const N: usize>(
    db: &Connection,
    table: &str,
    chunks: &'i [[T; N]],
    columns: &impl Fn(&'i T) -> [ToSqlOutput<'i>; COLUMNS],
) -> rusqlite::Result<()> {
    if chunks.is_empty() {
        return Ok(());
    }
    let row = format!("({})", ["?"; COLUMNS].join(", "));
    let sql = format!("INSERT OR FAIL INTO {table} VALUES {}", vec![row; N].join(", "));
    let mut statement = db.prepare_cached(&sql)?;
    for chunk in chunks {
        for (at, value) in chunk.iter().flat_map(columns).enumerate() {
            statement.raw_bind_parameter(at + 1, value)?;
        }
        statement.raw_execute()?;
    }
    Ok(())
}
