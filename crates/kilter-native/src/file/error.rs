//! Errors of reading or changing a path.

use rustix::io::Errno;

use super::kind::Kind;

/// The reason why a path could not be read or changed.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum FileError {
    /// A system call failed.
    #[error("cannot {action} {path}: {}", explain(*errno))]
    Io {
        action: &'static str,
        path: String,
        /// Error of the system.
        errno: Errno,
    },
    /// The directory of the path does not exist.
    #[error("there is no directory {0}: declare it too, `file[{0}]: {{ ensure: directory }}`")]
    NoParent(String),
    /// Another user may have planted a symbolic link above the path.
    #[error("will not follow the symbolic link {link}, a parent of {path}: {why}")]
    UntrustedLink {
        link: String,
        /// The path that leads through it.
        path: String,
        /// The reason for the suspicion.
        why: &'static str,
    },
    /// The existing file may be replaced or removed only with `force`.
    #[error("{path} is a {is}: `force: true` allows to {what} it")]
    NeedsForce {
        path: String,
        is: Kind,
        /// The refused action.
        what: &'static str,
    },
    /// The file does not exist and must not be created.
    #[error("{0} does not exist, and `create` is false")]
    NotCreated(String),
    /// An account does not exist.
    #[error("the {kind} `{name}` does not exist")]
    NoAccount {
        /// `user` or `group`.
        kind: &'static str,
        name: String,
    },
    /// An invalid entry of `acl`.
    #[error("`{0}` is not an entry of an access list")]
    AclEntry(String),
    /// The file has further names, which a change of owner or mode would affect.
    #[error("{path} has {links} hard links: {why}")]
    Shared {
        path: String,
        /// Number of names of the file.
        links: String,
        /// The reason for the danger.
        why: &'static str,
    },
    /// Another process created the path before kilter did.
    #[error("{0} appeared while it was being created")]
    Appeared(String),
    /// Another process replaced the path during the change.
    #[error("{0} was replaced by another program meanwhile")]
    Swapped(String),
    /// The run has no state directory for backups.
    #[error("backup: there is no directory for {0}; give a suffix, such as `.orig`, or `false`")]
    NoBackupDir(String),
    /// The content is too large for a backup.
    #[error(
        "backup: {path} has {size} bytes, and the maximum for a file of its owner is {limit}; give a suffix, such as \
         `.orig`, or `false`"
    )]
    BackupTooLarge {
        path: String,
        /// Its size in bytes.
        size: u64,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The files of other users are too large for one change.
    #[error(
        "backup: {path} ({size} bytes) stays: a change backs up at most {limit} bytes of files that other users can \
         write, each at least 4 KiB; apply again for the next ones, or set `backup: false`"
    )]
    BackupsTooLarge {
        path: String,
        /// Its size in bytes.
        size: u64,
        /// Maximum size in bytes of all files.
        limit: u64,
    },
    /// The name of the backup is in use.
    #[error("the backup {0} exists already")]
    BackupExists(String),
    /// A source of a kind that cannot be copied here.
    #[error("the source {path} is a {is}: {hint}")]
    Source {
        /// The source.
        path: String,
        is: Kind,
        /// Hint for the repair.
        hint: &'static str,
    },
    /// A directory is needed, and no links are followed.
    #[error("{path} is a {is}: `recurse` needs a directory")]
    NotDirectory { path: String, is: Kind },
    /// A copy would contain itself.
    #[error("{path} lies within its source {source_path}, by way of a link: the copy would hold itself")]
    Entangled {
        /// The copy.
        path: String,
        /// The source.
        source_path: String,
    },
    /// `validate_cmd` refused the new content.
    #[error("validate_cmd refused the new content of {path}: {why}")]
    Refused {
        path: String,
        /// Message of the command.
        why: String,
    },
    /// Directories are nested too deeply.
    #[error("{0}: directories are nested more than {MAX_DEPTH} deep")]
    TooDeep(String),
    /// A tree extends to another file system or a mount point, which is not changed.
    #[error("{0} is mounted there or lies on another file system; it is not removed")]
    OtherFileSystem(String),
    /// A content did not arrive.
    #[error("cannot download {url}: {reason}")]
    Download { url: String, reason: String },
    /// A member of an archive cannot be read.
    #[error("cannot unpack {path}: {reason}")]
    Archive { path: String, reason: String },
    /// The path is not absolute or not normal.
    #[error("`{0}` is not an absolute path without `.`, `..` and `//`")]
    NotNormal(String),
}

/// Maximum depth of trees. Each level holds a descriptor.
pub(super) const MAX_DEPTH: usize = 100;

impl FileError {
    /// Creates the error of a failed system call.
    pub(super) fn io(action: &'static str, path: impl Into<String>, errno: Errno) -> FileError {
        FileError::Io { action, path: path.into(), errno }
    }

    /// Returns true if the path, or a directory above it, does not exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, FileError::Io { errno: Errno::NOENT | Errno::NOTDIR, .. } | FileError::NoParent(_))
    }
}

fn explain(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match errno {
        Errno::CANCELED => "interrupted".to_owned(),
        Errno::BUSY => format!("{text} (is it a mount point?)"),
        Errno::ROFS => format!("{text} (the file system is mounted read-only)"),
        _ => text.to_owned(),
    }
}
