//! Errors of the store.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Reason why the history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The directory cannot be created.
    #[error("cannot make the directory {path}: {source}")]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file is no database, or parts of it are damaged.
    #[error(
        "the history {path} is damaged: {why}; move it away with its files `-wal` and `-shm`: kilter begins a new one"
    )]
    Damaged {
        /// Path of the database.
        path: PathBuf,
        /// Message of SQLite.
        why: String,
    },
    /// A newer kilter has written the database.
    #[error("the history {path} has version {found}, and this kilter knows version {known}: use the newer kilter")]
    Newer {
        /// Path of the database.
        path: PathBuf,
        /// Version of the database.
        found: i64,
        /// Version of this program.
        known: i64,
    },
    /// The file system has no space left.
    #[error("no space is left for the history {path}")]
    Full {
        /// Path of the database.
        path: PathBuf,
    },
    /// The database cannot be written.
    #[error("the history {path} cannot be used: {why}")]
    ReadOnly {
        /// Path of the database.
        path: PathBuf,
        /// Message of SQLite.
        why: String,
    },
    /// Another process writes for longer than the timeout.
    #[error("another process has locked the history {path}")]
    Busy {
        /// Path of the database.
        path: PathBuf,
    },
    /// Another error of SQLite.
    #[error("cannot use the history {path}: {why}")]
    Other {
        /// Path of the database.
        path: PathBuf,
        /// Message of SQLite.
        why: String,
    },
}

impl HistoryError {
    /// Classifies an error of SQLite.
    pub(crate) fn new(path: &Path, error: &rusqlite::Error) -> HistoryError {
        let (path, why) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => HistoryError::Damaged { path, why },
            Some(ErrorCode::DiskFull) => HistoryError::Full { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                HistoryError::ReadOnly { path, why }
            }
            // SQLite maps an index into memory, for which a full disk has no place either.
            Some(ErrorCode::SystemIoFailure) => {
                HistoryError::Other { path, why: format!("{why}; its disk may be full") }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => HistoryError::Busy { path },
            _ => HistoryError::Other { path, why },
        }
    }

    /// Returns true if a part of the database has an impossible content.
    pub(crate) fn damaged(path: &Path, why: impl Into<String>) -> HistoryError {
        HistoryError::Damaged { path: path.to_owned(), why: why.into() }
    }
}
