//! Small files that other types rewrite as a whole, with some lines changed.
//!
//! A user with write access to their directory must not be able to read or change another file through them. So a
//! [`AtomicRewrite`] holds the directory open, reads the file without following links, and replaces exactly the file
//! it has read. It keeps its owner, mode and access list.

use std::rc::Rc;

use kilter_provider::{Context, Durability, Redactor};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags, Stat, fstat, fsync, ftruncate, statat};
use rustix::io::Errno;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome, Value};
use rustc_hash::FxHashMap;

use super::acl_policy::AclPolicy;
use super::backup::{Copies, Keeper};
use super::durable::PendingFsync;
use super::error::FileError;
use super::kind::Kind;
use super::look::{OpenedPath, look_at, open_seen};
use super::open::{self, Parent, READ};
use super::ownership::Ownership;
use super::stage::{Data, remove_only, stage};
use super::temporary_record::record;
use super::validate_cmd::{self, ReportedPart};
use super::{content, mode, temp_names};

/// Maximum size in bytes of a file, which is held in memory.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum number of rewrites of a file that another program keeps changing.
const MAX_ATTEMPTS: usize = 10;

/// The reason why a file could not be read or replaced.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct WholeError(#[from] Reason);

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} is not a regular file but a {}", kind.word())]
    NotRegular { path: String, kind: Kind },
    #[error("{0} is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge(String),
}

impl WholeError {
    /// Returns true if the path, or a directory above it, does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(&self.0, Reason::File(error) if error.is_missing())
    }

    /// Returns true if another program changed the file between the read and the replacement.
    pub(crate) fn is_changed(&self) -> bool {
        matches!(&self.0, Reason::File(FileError::Swapped(_) | FileError::Appeared(_)))
    }
}

impl From<FileError> for WholeError {
    fn from(error: FileError) -> WholeError {
        WholeError(error.into())
    }
}

/// Returns true if a path is valid for such a file: absolute, without `.`, `..` and `//`.
pub(crate) fn is_normal(path: &str) -> bool {
    open::is_normal(path)
}

/// Reads a file without the intention to change it. Follows a trusted link. Returns none if the file does not exist.
///
/// # Errors
/// If it is not a regular file, or the system refuses.
pub(crate) fn read(path: &str) -> Result<Option<Vec<u8>>, WholeError> {
    let path = normal(path)?;
    let fd = match open::open_source(path, READ) {
        Ok(fd) => fd,
        Err(error) if error.is_missing() => return Ok(None),
        Err(FileError::Io { path, errno, .. }) => return Err(FileError::io("read", path, errno).into()),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&fd).map_err(|errno| FileError::io("inspect", path, errno))?;
    Ok(Some(load(&fd, &stat, path)?))
}

/// Checks and copies that belong to a replacement.
pub(crate) struct Precautions<'a> {
    /// Commands that must accept the new content (`validate_cmd`).
    pub(crate) commands: &'a [&'a Value],
    /// Backups of the old content (`backup`).
    pub(crate) backups: &'a [&'a Value],
    /// True if the content holds a secret, so that the output of a command must not be shown.
    pub(crate) is_secret: bool,
}

impl Precautions<'_> {
    const NONE: Precautions<'static> = Precautions { commands: &[], backups: &[], is_secret: false };
}

/// A file that was read, for its replacement.
pub(crate) struct AtomicRewrite {
    parent: Rc<Parent>,
    path: String,
    old: Option<OpenedPath>,
    bytes: Vec<u8>,
}

impl AtomicRewrite {
    /// Reads a file, which may be missing.
    ///
    /// # Errors
    /// If it is not a regular file (links are not followed), or the system refuses.
    pub(crate) fn open(path: &str) -> Result<AtomicRewrite, WholeError> {
        let path = normal(path)?;
        let parent = Rc::new(open::open_parent(path)?);
        let leaf = open::split(path).1.as_bytes();
        let mut whole = AtomicRewrite { path: path.to_owned(), old: None, bytes: Vec::new(), parent };
        let Some(looked) = look_at(&whole.parent.fd, leaf, path)? else { return Ok(whole) };
        // Checked before the open, because opening a device can have effects.
        regular(&looked.stat, path)?;
        let fd = open_seen(&whole.parent.fd, leaf, path, &looked.stat, READ)?;
        whole.bytes = load(&fd, &looked.stat, path)?;
        whole.old = Some(looked);
        Ok(whole)
    }

    /// Returns true if the file exists.
    pub(crate) fn exists(&self) -> bool {
        self.old.is_some()
    }

    /// Returns the read bytes; empty for a missing file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replaces the file atomically with `bytes`. Returns the extended attributes that could not be kept.
    ///
    /// Owner, mode and access list are kept. A new file belongs to the caller and has the mode `new_mode`. A file
    /// that is a mount point, as `/etc/hosts` in containers, cannot be replaced by a rename. It is written in place.
    ///
    /// # Errors
    /// If the file has changed since the read, or the system refuses.
    pub(crate) fn replace(self, bytes: &[u8], new_mode: u32, cx: &Context<'_>) -> Result<Vec<String>, WholeError> {
        self.replace_checked(bytes, new_mode, &Precautions::NONE, cx)
    }

    /// Replaces the file as [`AtomicRewrite::replace`] does, after the commands have accepted the new content and the
    /// old content has its backups.
    ///
    /// # Errors
    /// If a command refuses the content, a backup fails, the file has changed since the read, or the system refuses.
    pub(crate) fn replace_checked(
        self,
        bytes: &[u8],
        new_mode: u32,
        precautions: &Precautions<'_>,
        cx: &Context<'_>,
    ) -> Result<Vec<String>, WholeError> {
        let (parent, leaf) = (&self.parent, open::split(&self.path).1.as_bytes());
        if parent.readable {
            temp_names::clean(&parent.fd);
        }
        if let Some(old) = &self.old {
            self.still_holds(old, leaf)?;
        }
        let wanted = match &self.old {
            Some(OpenedPath { stat, .. }) => {
                let (uid, gid, bits) = (Some(stat.st_uid), Some(stat.st_gid), Some(stat.st_mode & mode::ALL));
                Ownership { uid, gid, bits, ..Ownership::default() }
            }
            None => Ownership { bits: Some(new_mode), ..Ownership::default() },
        };
        let _recorded = record(cx.var_dir(), &parent.fd);
        let staged = stage(parent, leaf, &Data::Bytes(bytes), wanted, self.old.as_ref(), &AclPolicy::Keep)?;
        for command in precautions.commands {
            let is_secret = precautions.is_secret || command.holds_sensitive();
            let told = if is_secret { ReportedPart::Ending } else { ReportedPart::Output };
            validate_cmd::accept(cx, command, &staged.temporary.path(), &self.path, told)?;
        }
        let is_flushed = cx.durability() == Durability::Flushed;
        if is_flushed {
            fsync(&staged.fd).map_err(|errno| FileError::io("flush", &self.path, errno))?;
        }
        let Some(old) = &self.old else {
            staged.temporary.become_new(leaf)?;
            self.settle(is_flushed)?;
            return Ok(staged.not_kept.lost);
        };
        // Commands, writing and flushing take some time.
        self.still_holds(old, leaf)?;
        if !precautions.backups.is_empty() {
            self.back_up(old, leaf, precautions.backups, cx)?;
            self.still_holds(old, leaf)?;
        }
        match staged.temporary.replace_only(leaf, |stat| version(stat) == version(&old.stat)) {
            Ok(()) => self.settle(is_flushed)?,
            Err(FileError::Io { errno: Errno::BUSY, .. }) => {
                self.write_in_place(old, bytes, is_flushed)?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(staged.not_kept.lost)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// If the file has changed since the read, or the system refuses.
    pub(crate) fn remove(self, cx: &Context<'_>) -> Result<(), WholeError> {
        let Some(old) = &self.old else { return Ok(()) };
        let leaf = open::split(&self.path).1.as_bytes();
        self.still_holds(old, leaf)?;
        remove_only(&self.parent, leaf, |stat| version(stat) == version(&old.stat))?;
        Ok(self.settle(cx.durability() == Durability::Flushed)?)
    }

    /// Makes the backups of the old file. They are on disk when this returns.
    fn back_up(&self, old: &OpenedPath, leaf: &[u8], backups: &[&Value], cx: &Context<'_>) -> Result<(), FileError> {
        let (mut barrier, mut copies) = (PendingFsync::default(), Copies::default());
        let is_durable = cx.durability() == Durability::Flushed;
        let of = (&mut barrier, &mut copies);
        let mut keeper = Keeper::new(cx.var_dir(), of, is_durable, cx.interrupt(), 0);
        for backup in backups {
            keeper.keep(&self.parent, leaf, old, backup)?;
        }
        keeper.settle()?;
        barrier.wait()
    }

    /// Checks that the file is unchanged since the read: its version, and its content. Two writes can have the same
    /// time, because the clock of a file system ticks every few milliseconds.
    fn still_holds(&self, old: &OpenedPath, leaf: &[u8]) -> Result<(), FileError> {
        let swapped = || FileError::Swapped(self.path.clone());
        let now = match statat(&self.parent.fd, leaf, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Err(swapped()),
            now => now.map_err(|errno| FileError::io("inspect", &self.path, errno))?,
        };
        if version(&now) != version(&old.stat) {
            return Err(swapped());
        }
        let fd = open_seen(&self.parent.fd, leaf, &self.path, &old.stat, READ)?;
        match content::holds(fd.as_fd(), &self.bytes) {
            Ok(true) => Ok(()),
            Ok(false) => Err(swapped()),
            Err(errno) => Err(FileError::io("read", &self.path, errno)),
        }
    }

    fn write_in_place(&self, old: &OpenedPath, bytes: &[u8], is_flushed: bool) -> Result<(), FileError> {
        let leaf = open::split(&self.path).1.as_bytes();
        let flags = READ | OFlags::WRONLY;
        let fd = open_seen(&self.parent.fd, leaf, &self.path, &old.stat, flags)?;
        // Truncated last, so that a crash in between does not leave an empty file.
        let written = content::write(&fd, bytes).and_then(|()| ftruncate(&fd, bytes.len() as u64));
        let flushed = written.and_then(|()| if is_flushed { fsync(&fd) } else { Ok(()) });
        flushed.map_err(|errno| FileError::io("write", &self.path, errno))
    }

    /// Flushes the directory, so that the new name survives a crash.
    fn settle(&self, is_flushed: bool) -> Result<(), FileError> {
        match (is_flushed, self.parent.readable) {
            (false, _) => Ok(()),
            (true, true) => fsync(&self.parent.fd).map_err(|errno| FileError::io("flush", &self.parent.path, errno)),
            (true, false) => {
                rustix::fs::sync();
                Ok(())
            }
        }
    }
}

/// Returns the properties of a file that change with its content, its owner or its mode.
fn version(stat: &Stat) -> impl PartialEq + use<> {
    let (times, owner) = ((stat.st_mtime, stat.st_mtime_nsec), (stat.st_uid, stat.st_gid));
    (stat.st_dev, stat.st_ino, stat.st_size, times, stat.st_mode, owner)
}

/// The reason why a file was not rewritten.
pub(crate) enum RewriteError {
    Whole(WholeError),
    Text(EcoString),
}

impl From<WholeError> for RewriteError {
    fn from(error: WholeError) -> RewriteError {
        RewriteError::Whole(error)
    }
}

impl From<EcoString> for RewriteError {
    fn from(why: EcoString) -> RewriteError {
        RewriteError::Text(why)
    }
}

/// Repeats a rewrite as long as another program changes the file meanwhile, up to [`MAX_ATTEMPTS`].
pub(crate) fn rewritten<T>(mut attempt: impl FnMut() -> Result<T, RewriteError>) -> Result<T, EcoString> {
    let mut count = 1;
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(RewriteError::Whole(error)) if error.is_changed() && count < MAX_ATTEMPTS => count += 1,
            Err(RewriteError::Whole(error)) => return Err(eco_format!("{error}")),
            Err(RewriteError::Text(why)) => return Err(why),
        }
    }
}

/// Makes the changes of each file together. If that fails, makes each one alone, so that an invalid change does not make
/// the others fail. Returns an outcome without secrets for each change, in order.
pub(crate) fn change_files<'c>(
    cx: &Context<'_>,
    changes: &'c [Change<'_>],
    file: impl Fn(Option<&'c Attributes>) -> &'c str,
    change: impl Fn(&str, &[&'c Change<'_>]) -> Result<Vec<Outcome>, EcoString>,
) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::done(); changes.len()];
    let mut by_file: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (at, one) in changes.iter().enumerate() {
        by_file.entry(file(one.should)).or_default().push(at);
    }
    for (file, at) in by_file {
        let of_file: Vec<&Change<'_>> = at.iter().map(|&at| &changes[at]).collect();
        let made = match change(file, &of_file) {
            Ok(made) => made,
            Err(why) if at.len() == 1 || cx.interrupt().is_raised() => vec![Outcome::failed(why); at.len()],
            Err(_) => {
                let alone = of_file.iter().map(|one| change(file, &[*one]));
                alone.map(|made| made.map_or_else(Outcome::failed, |mut made| made.remove(0))).collect()
            }
        };
        for (at, outcome) in at.into_iter().zip(made) {
            outcomes[at] = outcome;
        }
    }
    let hidden = |(outcome, change): (Outcome, &Change<'_>)| match change.should {
        Some(should) => Redactor::of(should).outcome(outcome),
        None => outcome,
    };
    outcomes.into_iter().zip(changes).map(hidden).collect()
}

fn normal(path: &str) -> Result<&str, FileError> {
    let path = open::trim(path);
    if open::is_normal(path) { Ok(path) } else { Err(FileError::NotNormal(path.to_owned())) }
}

fn regular(stat: &Stat, path: &str) -> Result<(), Reason> {
    match Kind::of(stat) {
        Kind::File => Ok(()),
        kind => Err(Reason::NotRegular { path: path.to_owned(), kind }),
    }
}

fn load(fd: &OwnedFd, stat: &Stat, path: &str) -> Result<Vec<u8>, Reason> {
    regular(stat, path)?;
    if u64::try_from(stat.st_size).is_ok_and(|size| size > MAX_FILE_BYTES) {
        return Err(Reason::TooLarge(path.to_owned()));
    }
    let bytes = content::load(fd.as_fd(), MAX_FILE_BYTES + 1).map_err(|errno| FileError::io("read", path, errno))?;
    if bytes.len() as u64 > MAX_FILE_BYTES { Err(Reason::TooLarge(path.to_owned())) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests;
