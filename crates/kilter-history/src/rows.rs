//! Insertion of many rows.

use rusqlite::Connection;
use rusqlite::types::ToSqlOutput;

/// Rows of one statement. Each statement opens the tables and searches its place in them once.
const ROWS: usize = 32;

/// Inserts a row for each item. `insert` and `end` are the texts before and after the rows of the statement.
pub(crate) fn insert<'i, T, const COLUMNS: usize>(
    db: &Connection,
    (insert, end): (&str, &str),
    items: &'i [T],
    columns: impl Fn(&'i T) -> [ToSqlOutput<'i>; COLUMNS],
) -> rusqlite::Result<()> {
    let (many, others) = items.as_chunks::<ROWS>();
    let others = others.as_chunks::<1>().0;
    execute(db, (insert, end), many, &columns)?;
    execute(db, (insert, end), others, &columns)
}

/// Executes a statement of `N` rows for each chunk.
fn execute<'i, T, const COLUMNS: usize, const N: usize>(
    db: &Connection,
    (insert, end): (&str, &str),
    chunks: &'i [[T; N]],
    columns: &impl Fn(&'i T) -> [ToSqlOutput<'i>; COLUMNS],
) -> rusqlite::Result<()> {
    if chunks.is_empty() {
        return Ok(());
    }
    let row = format!("({})", ["?"; COLUMNS].join(", "));
    let mut statement = db.prepare_cached(&format!("{insert} {} {end}", vec![row; N].join(", ")))?;
    for chunk in chunks {
        for (at, value) in chunk.iter().flat_map(columns).enumerate() {
            statement.raw_bind_parameter(at + 1, value)?;
        }
        statement.raw_execute()?;
    }
    Ok(())
}
