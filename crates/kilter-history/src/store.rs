//! The database: opening, versions and settings.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::batch::ResourceNumbers;
use crate::error::HistoryError;

/// Name of the database in the directory of the history.
pub const FILE_NAME: &str = "history.db";

/// Version of the tables.
pub(crate) const VERSION: i64 = 1;

/// Size of the pages of a new database in bytes.
const PAGE_BYTES: u32 = 16 << 10;

/// Size of the write-ahead log in bytes at which SQLite moves its pages to the database.
const MAX_LOG_BYTES: u32 = 16 << 20;

/// Time to wait for another process that writes.
const BUSY: Duration = Duration::from_secs(5);

/// History of a machine.
pub struct History {
    pub(crate) db: Connection,
    pub(crate) path: PathBuf,
    /// Numbers of resources that this process has used, by type and title.
    pub(crate) resources: ResourceNumbers,
    /// False if the last transaction was not committed: these numbers may not be stored.
    pub(crate) is_committed: bool,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "History({})", self.path.display())
    }
}

impl History {
    /// Opens the history of a directory for writing. It creates the directory with mode 0700 and the database with
    /// mode 0600.
    ///
    /// # Errors
    /// If it cannot be created or written, is damaged, or belongs to a newer kilter.
    pub fn open(directory: &Path) -> Result<History, HistoryError> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        created.map_err(|source| HistoryError::Directory { path: directory.to_owned(), source })?;
        let path = directory.join(FILE_NAME);
        create_private(&path)?;
        if let Ok(found) = std::fs::symlink_metadata(&path) {
            is_file(&path, &found)?;
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let history = History::connected(path, flags)?;
        history.prepare().map_err(|error| history.error(&error))?;
        history.has_known_version()?;
        Ok(history)
    }

    /// Opens the history of a directory for reading; none if it does not exist.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or belongs to a newer kilter.
    pub fn read(directory: &Path) -> Result<Option<History>, HistoryError> {
        let path = directory.join(FILE_NAME);
        match std::fs::symlink_metadata(&path) {
            Ok(found) => is_file(&path, &found)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(HistoryError::ReadOnly { path, why: error.to_string() }),
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let history = match History::connected(path.clone(), flags).and_then(History::readable) {
            // A full disk or a read-only file system has no place for the index of the write-ahead log.
            Err(HistoryError::ReadOnly { .. } | HistoryError::Other { .. }) => {
                let text = path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
                let uri = PathBuf::from(format!("file:{text}?immutable=1"));
                let history = History::connected(uri, flags | OpenFlags::SQLITE_OPEN_URI)?;
                History { path, ..history }
            }
            opened => opened?,
        };
        match history.has_known_version()? {
            // A run was cut off before the first transaction.
            0 => Ok(None),
            _ => Ok(Some(history)),
        }
    }

    /// Returns the history if a query succeeds.
    fn readable(self) -> Result<History, HistoryError> {
        match self.version() {
            Ok(_) => Ok(self),
            Err(error) => Err(self.error(&error)),
        }
    }

    fn connected(path: PathBuf, flags: OpenFlags) -> Result<History, HistoryError> {
        let opened = Connection::open_with_flags(&path, flags).and_then(|db| {
            db.busy_timeout(BUSY)?;
            // The file may have been changed by other programs.
            db.pragma_update(None, "cell_size_check", true)?;
            db.pragma_update(None, "trusted_schema", false)?;
            Ok(db)
        });
        let db = opened.map_err(|error| HistoryError::new(&path, &error))?;
        Ok(History { db, path, resources: ResourceNumbers::default(), is_committed: true })
    }

    /// Sets the journal mode, and creates the tables of a new database.
    fn prepare(&self) -> rusqlite::Result<()> {
        // Of a new database. Large pages need fewer system calls for a run that changes thousands of resources.
        self.db.pragma_update(None, "page_size", PAGE_BYTES)?;
        self.db.pragma_update(None, "journal_mode", "WAL")?;
        // With `NORMAL`, a power failure could lose the last transactions.
        self.db.pragma_update(None, "synchronous", "FULL")?;
        self.db.pragma_update(None, "wal_autocheckpoint", MAX_LOG_BYTES / PAGE_BYTES)?;
        // The numbers of resources come from this program. The check would cost a lookup for each event.
        self.db.pragma_update(None, "foreign_keys", false)?;
        if self.version()? == 0 {
            // Another process may create the tables at the same time.
            self.db.execute_batch("BEGIN IMMEDIATE")?;
            let created = match self.version()? {
                0 => self.db.execute_batch(include_str!("schema.sql")),
                _ => Ok(()),
            };
            self.db.execute_batch(if created.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
            created?;
        }
        Ok(())
    }

    fn version(&self) -> rusqlite::Result<i64> {
        self.db.query_row("PRAGMA user_version", [], |row| row.get(0))
    }

    fn has_known_version(&self) -> Result<i64, HistoryError> {
        let found = self.version().map_err(|error| self.error(&error))?;
        match found > VERSION {
            true => Err(HistoryError::Newer { path: self.path.clone(), found, known: VERSION }),
            false => Ok(found),
        }
    }

    pub(crate) fn error(&self, error: &rusqlite::Error) -> HistoryError {
        HistoryError::new(&self.path, error)
    }

    /// Writes a whole copy of the database to a new file, also while others write.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn copy(&self, to: &Path) -> Result<(), HistoryError> {
        let copied = self.db.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
        copied.map(drop).map_err(|error| HistoryError::new(to, &error))
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the database in bytes, without the part that waits in the write-ahead log.
    pub fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |found| found.len())
    }
}

/// Creates an empty file of mode 0600, which SQLite takes as a new database. Its other files get the same mode.
fn create_private(path: &Path) -> Result<(), HistoryError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            Err(HistoryError::Full { path: path.to_owned() })
        }
        Err(error) => Err(HistoryError::ReadOnly { path: path.to_owned(), why: error.to_string() }),
    }
}

/// Refuses a pipe, which would block, and anything else that is no file.
fn is_file(path: &Path, found: &std::fs::Metadata) -> Result<(), HistoryError> {
    match found.is_file() {
        true => Ok(()),
        false => Err(HistoryError::ReadOnly { path: path.to_owned(), why: "it is not a regular file".to_owned() }),
    }
}
