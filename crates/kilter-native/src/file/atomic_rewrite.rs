//! Small files that other types rewrite as a whole, with some lines changed.
//!
//! A user with write access to their directory must not be able to read or change another file through them. So a
//! [`AtomicRewrite`] holds the directory open, reads the file without following links, and replaces exactly the file
//! it has read. It keeps its owner, mode and access list.

use std::rc::Rc;

use kilter_provider::{Context, Durability};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags, Stat, fstat, fsync, ftruncate, statat};
use rustix::io::Errno;

use kilter_model::Value;

use super::acl_policy::AclPolicy;
use super::backup::{Copies, Keeper};
use super::durable::PendingFsync;
use super::error::FileError;
use super::kind::Kind;
use super::open::{self, Parent, READ};
use super::opened_path::{OpenedPath, look_at, open_seen};
use super::ownership::Ownership;
use super::stage::{Data, remove_only, stage};
use super::staging_dir::StagingDir;
use super::temporary_record::record;
use super::validate_cmd::{self, ReportedPart};
use super::{content, mode, temp_names};

pub(crate) use super::rewrites::{RewriteError, change_all, change_files, open_in_new_directory, rewritten};

/// Maximum size in bytes of a file, which is held in memory.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The reason why a file could not be read or replaced.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct AtomicRewriteError(#[from] Reason);

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} is not a regular file but a {}", kind.word())]
    NotRegular { path: String, kind: Kind },
    #[error("{0} does not belong to the user, nor to root")]
    Foreign(String),
    #[error("{path} has {links} names: it may be a file of another user")]
    Linked { path: String, links: String },
    #[error("{path} is larger than {limit} bytes")]
    TooLarge { path: String, limit: u64 },
}

impl AtomicRewriteError {
    /// Returns true if the path, or a directory above it, does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(&self.0, Reason::File(error) if error.is_missing())
    }

    /// Returns true if another program changed the file between the read and the replacement.
    pub(crate) fn is_changed(&self) -> bool {
        matches!(&self.0, Reason::File(FileError::Swapped(_) | FileError::Appeared(_)))
    }
}

impl From<FileError> for AtomicRewriteError {
    fn from(error: FileError) -> AtomicRewriteError {
        AtomicRewriteError(error.into())
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
pub(crate) fn read(path: &str) -> Result<Option<Vec<u8>>, AtomicRewriteError> {
    read_within(path, MAX_FILE_BYTES)
}

/// Reads a file as [`read`] does, up to a size in bytes.
///
/// # Errors
/// If the file is larger, it is not a regular file, or the system refuses.
pub(crate) fn read_within(path: &str, limit: u64) -> Result<Option<Vec<u8>>, AtomicRewriteError> {
    let path = open::normal(path)?;
    let fd = match open::open_source(path, READ) {
        Ok(fd) => fd,
        Err(error) if error.is_missing() => return Ok(None),
        Err(FileError::Io { path, errno, .. }) => return Err(FileError::io("read", path, errno).into()),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&fd).map_err(|errno| FileError::io("inspect", path, errno))?;
    Ok(Some(load(&fd, &stat, path, limit)?))
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

/// Owner of a file below a directory that the owner can change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOwner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl FileOwner {
    /// Returns true if the owner, or root, owns a file.
    fn owns(self, stat: &Stat) -> bool {
        stat.st_uid == self.uid || stat.st_uid == 0
    }

    fn with_mode(self, bits: u32) -> Ownership {
        Ownership { uid: Some(self.uid), gid: Some(self.gid), bits: Some(bits), ..Ownership::default() }
    }
}

/// Creates a directory of an owner with mode 0700, such as `~/.ssh`, unless it exists.
///
/// # Errors
/// If the directory above does not exist, or the system refuses.
pub(crate) fn create_private(path: &str, owner: FileOwner) -> Result<(), AtomicRewriteError> {
    let path = open::normal(path)?;
    let parent = Rc::new(open::open_parent(path)?);
    let leaf = open::split(path).1.as_bytes();
    if look_at(&parent.fd, leaf, path)?.is_some() {
        return Ok(());
    }
    let private = StagingDir::new(&parent, leaf)?;
    let made = private.make()?;
    match private.place(&made, owner.with_mode(0o700), &AclPolicy::NoForeign) {
        Ok(()) | Err(FileError::Appeared(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file that was read, for its replacement.
pub(crate) struct AtomicRewrite {
    parent: Rc<Parent>,
    path: String,
    /// Owner that the new file gets. Without one, it has that of the old file.
    owner: Option<FileOwner>,
    old: Option<OpenedPath>,
    bytes: Vec<u8>,
}

impl AtomicRewrite {
    /// Reads a file, which may be missing.
    ///
    /// # Errors
    /// If it is not a regular file (links are not followed), or the system refuses.
    pub(crate) fn open(path: &str) -> Result<AtomicRewrite, AtomicRewriteError> {
        AtomicRewrite::open_as(path, None, MAX_FILE_BYTES)
    }

    /// Reads a file, which may be missing, in a directory that its owner can change. The new file belongs to the owner
    /// and has mode 0600.
    ///
    /// # Errors
    /// If file or directory belong to another user, the file has several names or more than `limit` bytes, and for the
    /// reasons of [`AtomicRewrite::open`].
    pub(crate) fn open_owned(path: &str, owner: FileOwner, limit: u64) -> Result<AtomicRewrite, AtomicRewriteError> {
        AtomicRewrite::open_as(path, Some(owner), limit)
    }

    /// Reads a file as [`AtomicRewrite::open`] does. If a trusted link is in its place, reads and replaces the file that
    /// the link names, and keeps the link.
    ///
    /// # Errors
    /// If another user could have made the link, and for the reasons of [`AtomicRewrite::open`].
    pub(crate) fn open_followed(path: &str) -> Result<AtomicRewrite, AtomicRewriteError> {
        AtomicRewrite::open(&open::link_target(path)?)
    }

    fn open_as(path: &str, owner: Option<FileOwner>, limit: u64) -> Result<AtomicRewrite, AtomicRewriteError> {
        let path = open::normal(path)?;
        let parent = Rc::new(open::open_parent(path)?);
        if owner.is_some_and(|owner| !owner.owns(&parent.stat)) {
            return Err(Reason::Foreign(parent.path.clone()).into());
        }
        let leaf = open::split(path).1.as_bytes();
        let mut whole = AtomicRewrite { path: path.to_owned(), owner, old: None, bytes: Vec::new(), parent };
        let Some(looked) = look_at(&whole.parent.fd, leaf, path)? else { return Ok(whole) };
        // Checked before the open, because opening a device can have effects.
        regular(&looked.stat, path)?;
        if let Some(owner) = owner {
            // A hard link to a file that the owner may not read must not become a file of the owner.
            if !owner.owns(&looked.stat) {
                return Err(Reason::Foreign(path.to_owned()).into());
            }
            if looked.stat.st_nlink != 1 {
                return Err(Reason::Linked { path: path.to_owned(), links: looked.stat.st_nlink.to_string() }.into());
            }
        }
        let fd = open_seen(&whole.parent.fd, leaf, path, &looked.stat, READ)?;
        whole.bytes = load(&fd, &looked.stat, path, limit)?;
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
    pub(crate) fn replace(
        self,
        bytes: &[u8],
        new_mode: u32,
        cx: &Context<'_>,
    ) -> Result<Vec<String>, AtomicRewriteError> {
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
    ) -> Result<Vec<String>, AtomicRewriteError> {
        tracing::debug!(path = %self.path, bytes = bytes.len(), "replacing a file");
        let (parent, leaf) = (&self.parent, open::split(&self.path).1.as_bytes());
        if parent.readable {
            temp_names::clean(&parent.fd);
        }
        if let Some(old) = &self.old {
            self.still_holds(old, leaf)?;
        }
        let wanted = match (self.owner, &self.old) {
            (Some(owner), _) => owner.with_mode(0o600),
            (None, Some(OpenedPath { stat, .. })) => {
                let (uid, gid, bits) = (Some(stat.st_uid), Some(stat.st_gid), Some(stat.st_mode & mode::ALL));
                Ownership { uid, gid, bits, ..Ownership::default() }
            }
            (None, None) => Ownership { bits: Some(new_mode), ..Ownership::default() },
        };
        let _recorded = record(cx.var_dir(), &parent.fd);
        let policy = if self.old.is_some() { AclPolicy::Keep } else { AclPolicy::NoForeign };
        let staged = stage(parent, leaf, &Data::Bytes(bytes), wanted, self.old.as_ref(), &policy)?;
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
    pub(crate) fn remove(self, cx: &Context<'_>) -> Result<(), AtomicRewriteError> {
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

pub(super) fn not_regular(path: &str, kind: Kind) -> AtomicRewriteError {
    Reason::NotRegular { path: path.to_owned(), kind }.into()
}

fn regular(stat: &Stat, path: &str) -> Result<(), Reason> {
    match Kind::of(stat) {
        Kind::File => Ok(()),
        kind => Err(Reason::NotRegular { path: path.to_owned(), kind }),
    }
}

fn load(fd: &OwnedFd, stat: &Stat, path: &str, limit: u64) -> Result<Vec<u8>, Reason> {
    regular(stat, path)?;
    let too_large = || Reason::TooLarge { path: path.to_owned(), limit };
    if u64::try_from(stat.st_size).is_ok_and(|size| size > limit) {
        return Err(too_large());
    }
    let bytes = content::load(fd.as_fd(), limit + 1).map_err(|errno| FileError::io("read", path, errno))?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests;
