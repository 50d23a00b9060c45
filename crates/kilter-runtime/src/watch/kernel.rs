//! The system calls.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, CWD, FileType, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::Why;

/// The number that the kernel gave to a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WatchId(pub(super) i32);

/// What a directory is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Nothing,
    /// Names that come and go: all that matters above a path.
    Names,
    /// Also content and attributes, of itself and of what is in it.
    Content,
}

/// Something that happened, as the kernel tells it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Happening<'a> {
    pub(super) watch: WatchId,
    pub(super) what: ReadFlags,
    pub(super) name: Option<&'a [u8]>,
}

/// A name came or went.
pub(super) const NAMES: ReadFlags =
    ReadFlags::CREATE.union(ReadFlags::DELETE).union(ReadFlags::MOVED_FROM).union(ReadFlags::MOVED_TO);

const NAMES_WATCH: WatchFlags = WatchFlags::CREATE.union(WatchFlags::DELETE).union(WatchFlags::MOVE);

/// Files that stay open when their name is gone are no longer the path that was asked for: EXCL_UNLINK.
const CONTENT_WATCH: WatchFlags =
    WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ATTRIB).union(WatchFlags::EXCL_UNLINK);

/// What is at a path, a symbolic link not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: FoundKind,
    /// Not everything that happens to it passes through the directory: it is mounted there, or a file
    /// with several names.
    pub(super) is_elsewhere: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundKind {
    Directory,
    Link,
    Other,
}

/// An inotify instance.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) inotify: Arc<OwnedFd>,
    /// How many watches are allowed.
    pub(super) limit: usize,
    /// Permissions do not matter to root, so those of directories above a path need no attention.
    pub(super) is_root: bool,
}

impl Kernel {
    pub(super) fn new(limit: usize) -> rustix::io::Result<Kernel> {
        let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?);
        Ok(Kernel { inotify, limit, is_root: rustix::process::geteuid().is_root() })
    }

    /// What takes happenings from the kernel: each read fills the buffer.
    pub(super) fn reader<'a>(&'a self, buffer: &'a mut [MaybeUninit<u8>]) -> Reader<'a, &'a OwnedFd> {
        Reader::new(&self.inotify, buffer)
    }

    /// Watches the directory that a path leads to, beside what it is watched for already.
    pub(super) fn watch_directory(&self, path: &[u8], level: Level) -> Result<WatchId, Refusal> {
        let mut flags = WatchFlags::ONLYDIR | NAMES_WATCH;
        if level == Level::Content {
            flags |= CONTENT_WATCH;
        } else if !self.is_root {
            flags |= WatchFlags::ATTRIB;
        }
        self.watch(path, flags)
    }

    /// Watches a file itself.
    pub(super) fn watch_file(&self, path: &[u8]) -> Result<WatchId, Refusal> {
        self.watch(path, WatchFlags::DONT_FOLLOW | CONTENT_WATCH)
    }

    fn watch(&self, path: &[u8], flags: WatchFlags) -> Result<WatchId, Refusal> {
        let watch = inotify::add_watch(&*self.inotify, named(path), flags | WatchFlags::MASK_ADD);
        watch.map(WatchId).map_err(|errno| Refusal::of(errno, path))
    }

    /// Ends a watch. Whether its end will be told as `IGNORED`.
    pub(super) fn unwatch(&self, watch: WatchId) -> bool {
        inotify::remove_watch(&*self.inotify, watch.0).is_ok()
    }

    /// What is at a path.
    pub(super) fn look(&self, path: &[u8]) -> Result<Found, Refusal> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = rustix::fs::statx(CWD, named(path), flags, StatxFlags::TYPE | StatxFlags::NLINK)
            .map_err(|errno| Refusal::of(errno, path))?;
        let kind = match FileType::from_raw_mode(u32::from(found.stx_mode)) {
            FileType::Directory => FoundKind::Directory,
            FileType::Symlink => FoundKind::Link,
            _ => FoundKind::Other,
        };
        let is_mounted = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
        let has_names = kind == FoundKind::Other && found.stx_nlink > 1;
        Ok(Found { kind, is_elsewhere: is_mounted || has_names })
    }
}

/// Why a path is not watched.
pub(super) enum Refusal {
    /// There is nothing; when something comes, that is told.
    Nothing,
    /// It cannot be watched.
    Never(Why),
}

impl Refusal {
    /// What stands in the way, if anything does.
    pub(super) fn why(self) -> Option<Why> {
        match self {
            Refusal::Nothing => None,
            Refusal::Never(why) => Some(why),
        }
    }

    fn of(errno: Errno, path: &[u8]) -> Refusal {
        let path = || PathBuf::from(OsStr::from_bytes(named(path)));
        Refusal::Never(match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => return Refusal::Nothing,
            Errno::NOSPC => Why::LimitOfUser,
            Errno::NOMEM => Why::Memory,
            Errno::ACCESS | Errno::PERM => Why::Denied(path()),
            other => Why::System { path: path(), why: other.to_string() },
        })
    }
}

/// The path to hand to the kernel.
pub(super) fn named(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"/" } else { path }
}
