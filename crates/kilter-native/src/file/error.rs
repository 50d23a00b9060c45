//! Why a path could not be read or changed.

use rustix::io::Errno;

use super::kind::Kind;

/// Why a path could not be read or changed.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum FileError {
    /// A system call failed.
    #[error("cannot {action} {path}: {}", explain(*errno))]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: String,
        /// Why it failed.
        errno: Errno,
    },
    /// A symbolic link above the path could have been planted by somebody else.
    #[error("will not follow the symbolic link {link}, a parent of {path}: {why}")]
    UntrustedLink {
        /// The link.
        link: String,
        /// The path on whose way it lies.
        path: String,
        /// What makes it suspicious.
        why: &'static str,
    },
    /// What is there is not given up without `force`.
    #[error("{path} is a {is}: `force: true` allows to {what} it")]
    NeedsForce {
        /// The path.
        path: String,
        /// What is there.
        is: Kind,
        /// What would happen to it.
        what: &'static str,
    },
    /// There is nothing, and nothing is to be created.
    #[error("there is no {0}, and `create` is false")]
    NotCreated(String),
    /// No such account.
    #[error("the {kind} `{name}` does not exist")]
    NoAccount {
        /// `user` or `group`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// An entry of `acl` that is none.
    #[error("`{0}` is not an entry of an access list")]
    AclEntry(String),
    /// The file has further names, which a change of owner or mode would reach.
    #[error("{path} has {links} hard links: {why}")]
    Shared {
        /// The path.
        path: String,
        /// How many names the file has.
        links: String,
        /// Why that is a danger.
        why: &'static str,
    },
    /// The path was created while kilter was about to.
    #[error("{0} appeared while it was being created")]
    Appeared(String),
    /// The path was replaced while kilter worked on it.
    #[error("{0} was replaced by something else meanwhile")]
    Swapped(String),
    /// Nothing is kept in this run.
    #[error("backup: there is no directory to keep {0} in; give a suffix, such as `.orig`, or `false`")]
    NoBackupDir(String),
    /// The content is too large to be kept.
    #[error(
        "backup: {path} has {size} bytes, and the state directory keeps contents of at most {limit}; give a suffix, such as `.orig`, or `false`"
    )]
    BackupTooLarge {
        /// The path.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The largest size in bytes.
        limit: u64,
    },
    /// The backup's place is taken.
    #[error("the backup {0} exists already")]
    BackupExists(String),
    /// The source is not of a kind that can be copied here.
    #[error("the source {path} is a {is}: {hint}")]
    Source {
        /// The source.
        path: String,
        /// What it is.
        is: Kind,
        /// How to mend it.
        hint: &'static str,
    },
    /// A copy would hold itself.
    #[error("{path} lies within its source {source_path}, by way of a link: the copy would hold itself")]
    Entangled {
        /// The copy.
        path: String,
        /// The source.
        source_path: String,
    },
    /// `validate_cmd` did not accept the new content.
    #[error("validate_cmd refused the new content of {path}: {why}")]
    Refused {
        /// The path.
        path: String,
        /// What the command said.
        why: String,
    },
    /// Directories are nested too deeply.
    #[error("{0}: directories are nested more than {MAX_DEPTH} deep")]
    TooDeep(String),
    /// A tree is not changed beyond its own file system, nor where something is mounted.
    #[error("{0} is mounted there or lies on another file system; it is not removed")]
    OtherFileSystem(String),
    /// The path is not absolute and normal.
    #[error("`{0}` is not an absolute path without `.`, `..` and `//`")]
    NotNormal(String),
}

/// How deep trees are followed: each level holds a descriptor.
pub(super) const MAX_DEPTH: usize = 100;

impl FileError {
    /// A failed system call.
    pub(super) fn io(action: &'static str, path: impl Into<String>, errno: Errno) -> FileError {
        FileError::Io { action, path: path.into(), errno }
    }

    /// Whether the path, or a directory above it, is not there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, FileError::Io { errno: Errno::NOENT | Errno::NOTDIR, .. })
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
