//! System calls.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, CWD, FileType, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::WatchError;

/// Number of a watch, as the kernel assigned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WatchId(pub(super) i32);

/// Events for which a directory is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WatchLevel {
    Nothing,
    /// Names that appear and disappear. Sufficient for the directories above a path.
    Names,
    /// Also content and attributes, of the directory and of its entries.
    Content,
}

/// Event of the kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelEvent<'a> {
    pub(super) watch: WatchId,
    pub(super) what: ReadFlags,
    pub(super) name: Option<&'a [u8]>,
}

/// Events of names that appear and disappear.
pub(super) const NAMES: ReadFlags =
    ReadFlags::CREATE.union(ReadFlags::DELETE).union(ReadFlags::MOVED_FROM).union(ReadFlags::MOVED_TO);

const NAMES_WATCH: WatchFlags = WatchFlags::CREATE.union(WatchFlags::DELETE).union(WatchFlags::MOVE);

/// An open file without a name no longer belongs to the path: EXCL_UNLINK.
const CONTENT_WATCH: WatchFlags =
    WatchFlags::MODIFY.union(WatchFlags::CLOSE_WRITE).union(WatchFlags::ATTRIB).union(WatchFlags::EXCL_UNLINK);

/// Object at a path, without following a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundObject {
    pub(super) kind: FoundKind,
    /// True if some events bypass the directory: a mount point, or a file with several names.
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
    /// Maximum number of watches.
    pub(super) limit: usize,
    /// True for root. Permissions do not affect root, so that changes of the permissions of directories above a
    /// path do not matter.
    pub(super) is_root: bool,
}

impl Kernel {
    pub(super) fn new(limit: usize) -> rustix::io::Result<Kernel> {
        let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?);
        Ok(Kernel { inotify, limit, is_root: rustix::process::geteuid().is_root() })
    }

    /// Returns a reader of events; each read fills the buffer.
    pub(super) fn reader<'a>(&'a self, buffer: &'a mut [MaybeUninit<u8>]) -> Reader<'a, &'a OwnedFd> {
        Reader::new(&self.inotify, buffer)
    }

    /// Watches the directory at a path, in addition to the events for which it is watched already.
    pub(super) fn watch_directory(&self, path: &[u8], level: WatchLevel) -> Result<WatchId, Refusal> {
        let mut flags = WatchFlags::ONLYDIR | NAMES_WATCH;
        if level == WatchLevel::Content {
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

    /// Ends a watch. Returns true if the kernel will send `IGNORED` for it.
    pub(super) fn unwatch(&self, watch: WatchId) -> bool {
        inotify::remove_watch(&*self.inotify, watch.0).is_ok()
    }

    /// Returns the object at a path.
    pub(super) fn object_at(&self, path: &[u8]) -> Result<FoundObject, Refusal> {
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
        Ok(FoundObject { kind, is_elsewhere: is_mounted || has_names })
    }
}

/// Reason why a path is not watched.
pub(super) enum Refusal {
    /// The path does not exist; its creation is an event.
    Nothing,
    /// The path cannot be watched.
    Never(WatchError),
}

impl Refusal {
    /// Returns the obstacle, if there is one.
    pub(super) fn why(self) -> Option<WatchError> {
        match self {
            Refusal::Nothing => None,
            Refusal::Never(why) => Some(why),
        }
    }

    fn of(errno: Errno, path: &[u8]) -> Refusal {
        let path = || PathBuf::from(OsStr::from_bytes(named(path)));
        Refusal::Never(match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => return Refusal::Nothing,
            Errno::NOSPC => WatchError::LimitOfUser,
            Errno::NOMEM => WatchError::Memory,
            Errno::ACCESS | Errno::PERM => WatchError::Denied(path()),
            other => WatchError::System { path: path(), why: other.to_string() },
        })
    }
}

/// Returns the path for a system call.
pub(super) fn named(path: &[u8]) -> &[u8] {
    if path.is_empty() { b"/" } else { path }
}
