//! Whether a program may be run by root, or a file be believed: whether somebody else can change it.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const STICKY: u32 = 0o1000;

/// Who else than root can change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changer {
    /// The user it belongs to.
    Owner(u32),
    /// Everybody, by this mode.
    Everybody(u32),
    /// A group, by this mode.
    Group(u32, u32),
}

impl Changer {
    /// Who else than root can change a file; none if nobody can.
    pub fn of(metadata: &Metadata) -> Option<Changer> {
        let mode = metadata.mode() & 0o7777;
        match metadata.uid() {
            0 if mode & 0o002 != 0 => Some(Changer::Everybody(mode)),
            0 if mode & 0o020 != 0 && metadata.gid() != 0 => Some(Changer::Group(metadata.gid(), mode)),
            0 => None,
            owner => Some(Changer::Owner(owner)),
        }
    }
}

/// As what is said of the file: after its name, or after *it*.
impl fmt::Display for Changer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Changer::Owner(uid) => write!(f, "belongs to user {uid}"),
            Changer::Everybody(mode) => write!(f, "can be written by everybody (mode {mode:04o})"),
            Changer::Group(gid, mode) => write!(f, "can be written by group {gid} (mode {mode:04o})"),
        }
    }
}

/// Whether a file belongs to whom this process makes files as.
pub fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Why root cannot trust what is in a directory.
#[derive(Debug)]
pub enum Distrust {
    /// It cannot be resolved.
    Unresolved(io::Error),
    /// It, or one above it, cannot be read.
    Unread(io::Error),
    /// Somebody else can change it, or one above it, or rename that.
    Changeable {
        /// Which of them.
        directory: PathBuf,
        /// How many levels above the one that was asked about.
        above: usize,
        /// Who can.
        by: Changer,
    },
}

/// Checks a directory and all above it: who can rename one of them can replace the files.
///
/// # Errors
/// When somebody else than root can change one of them, or that cannot be told.
pub fn directory(path: &Path) -> Result<(), Distrust> {
    let real = path.canonicalize().map_err(Distrust::Unresolved)?;
    for (above, directory) in real.ancestors().enumerate() {
        let metadata = directory.metadata().map_err(Distrust::Unread)?;
        // In a sticky directory others can add names, but cannot take those of root. Of the directory itself,
        // added names are what matters.
        let is_sticky = above > 0 && metadata.uid() == 0 && metadata.mode() & STICKY != 0;
        if let Some(by) = Changer::of(&metadata).filter(|_| !is_sticky) {
            return Err(Distrust::Changeable { directory: directory.to_owned(), above, by });
        }
    }
    Ok(())
}
