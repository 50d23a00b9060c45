//! The trust rule: files that may decide what kilter does.
//!
//! A manifest, a plan, a script or a fact that another user can change gives that user kilter's rights.
//! [`TrustPolicy`] alone decides which of them kilter uses. [`TrustPolicy::open`] walks a path component by
//! component, holds each directory open, checks it, and returns the descriptor of the checked file, [`TrustedFile`].
//!
//! # The rule for root
//! - Each directory on the way, each symbolic link and the file itself belong to a *trusted user*: root, or a user
//!   added by [`TrustPolicy::with_user`].
//! - No other user can write to them: not by the bits of the mode, and not by an access control list. Group 0 counts
//!   as root.
//! - A directory that others can write to is accepted on the way if it is sticky (`/tmp`) and the entry in it
//!   belongs to a trusted user. The kernel lets no other user rename or remove that entry. A file there must have no
//!   second hard link, because other users can link files of root under names of their choice. A directory that
//!   kilter lists is never accepted if others can write to it.
//! - Every file at or below a path added by [`TrustPolicy::with_path`] is accepted, whatever its owner.
//!
//! # The rule for other users
//! A user who names a file decides for herself, so group-writable checkouts and files of colleagues work. kilter
//! refuses only an entry of a third user in a directory that everybody can write to, as the kernel's
//! `protected_symlinks` does.
//!
//! # Paths and descriptors
//! kilter reads text from the checked descriptor. It starts a program by the path that it checked directly before
//! ([`crate::Invocation::trust`]), because a script finds its other files relative to its path. Only trusted users
//! can change the target of a checked path.

mod walk;

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, getxattr, openat};
use rustix::io::Errno;

use crate::acl;
use walk::Walk;

const STICKY: u32 = 0o1000;
const GROUP_WRITE: u32 = 0o020;
const OTHER_WRITE: u32 = 0o002;

/// Maximum size of an access control list in bytes.
const MAX_ACL_BYTES: usize = 64 << 10;

/// The owner that the kernel shows for users who do not exist in a user namespace (`/proc/sys/kernel/overflowuid`).
const OVERFLOW: u32 = 65534;

/// The users and paths that may decide what kilter does.
#[derive(Clone, Debug)]
pub struct TrustPolicy(Arc<Rule>);

#[derive(Clone, Debug)]
struct Rule {
    /// User whose rule applies.
    level: TrustedUser,
    /// Users whose files are accepted.
    users: Vec<u32>,
    /// Device and inode of each path that is accepted with all below it.
    paths: Vec<(u64, u64)>,
}

/// User whose rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrustedUser {
    Root,
    User,
    /// Every file is accepted.
    Any,
}

impl TrustPolicy {
    /// Returns the rule for a process with this effective user id.
    pub fn of(uid: u32) -> TrustPolicy {
        let users = if uid == 0 { vec![0] } else { vec![0, uid] };
        let level = if uid == 0 { TrustedUser::Root } else { TrustedUser::User };
        TrustPolicy(Arc::new(Rule { level, users, paths: Vec::new() }))
    }

    /// Creates a policy that accepts every file, for callers whose user named the file.
    pub fn any() -> TrustPolicy {
        TrustPolicy(Arc::new(Rule { level: TrustedUser::Any, users: Vec::new(), paths: Vec::new() }))
    }

    /// Returns the rule for root.
    pub fn root() -> TrustPolicy {
        TrustPolicy::of(0)
    }

    /// Returns the rule for this process.
    pub fn current() -> TrustPolicy {
        TrustPolicy::of(rustix::process::geteuid().as_raw())
    }

    /// Adds a trusted user.
    #[must_use]
    pub fn with_user(mut self, uid: u32) -> TrustPolicy {
        Arc::make_mut(&mut self.0).users.push(uid);
        self
    }

    /// Accepts all files at or below a path, whatever their owner.
    ///
    /// # Errors
    /// If the path does not exist.
    pub fn with_path(mut self, path: &Path) -> io::Result<TrustPolicy> {
        let found = std::fs::metadata(path)?;
        Arc::make_mut(&mut self.0).paths.push((found.dev(), found.ino()));
        Ok(self)
    }

    /// Opens a path, if no other user can change its target or the way to it.
    ///
    /// A directory itself is checked as a directory on the way: see [`TrustPolicy::directory`].
    ///
    /// # Errors
    /// If it cannot be examined, or another user can change it.
    pub fn open(&self, path: &Path) -> Result<TrustedFile, Distrust> {
        Walk::new(&self.0).run(path)
    }

    /// Opens a directory whose entries kilter uses: no other user can add any.
    ///
    /// # Errors
    /// If it is no directory, cannot be examined, or another user can change it.
    pub fn directory(&self, path: &Path) -> Result<TrustedFile, Distrust> {
        Walk::new(&self.0).listed().run(path)
    }

    /// Reads a regular file, or a pipe that this process inherited, of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`TrustPolicy::open`], or if it is another kind of file, is longer or cannot be read.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Distrust> {
        let file = self.open(path)?;
        file.read(limit).map_err(|source| Distrust::Io { path: path.to_owned(), source })
    }
}

/// A file or directory that no other user can change.
#[derive(Debug)]
pub struct TrustedFile {
    /// The directory that holds it.
    parent: Arc<OwnedFd>,
    name: Vec<u8>,
    metadata: Metadata,
    /// True if it is a descriptor of this process below `/proc/self/fd`.
    is_inherited: bool,
}

impl TrustedFile {
    /// Returns the metadata of the checked file.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns true if it is a descriptor that this process inherited, such as `/dev/stdin`.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Opens the checked file to read it. A FIFO waits for its writer.
    ///
    /// # Errors
    /// If it cannot be opened, or has been replaced since the check.
    pub fn open(&self) -> io::Result<File> {
        let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, !self.is_inherited);
        flags.set(OFlags::NONBLOCK, self.metadata.is_file());
        let file = File::from(openat(&*self.parent, &self.name[..], flags, Mode::empty())?);
        let now = file.metadata()?;
        if (now.dev(), now.ino()) != (self.metadata.dev(), self.metadata.ino()) {
            return Err(Errno::STALE.into());
        }
        Ok(file)
    }

    /// Reads the checked file.
    ///
    /// # Errors
    /// If it is a directory, a FIFO or a device, is longer than `limit` bytes, or cannot be read.
    pub fn read(&self, limit: u64) -> io::Result<Vec<u8>> {
        if self.metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !self.metadata.is_file() && !self.is_inherited {
            return Err(io::Error::other("it is not a regular file"));
        }
        let capacity = usize::try_from(self.metadata.len().min(limit) + 1).unwrap_or(0);
        let mut bytes = Vec::with_capacity(capacity);
        self.open()?.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {limit} bytes")));
        }
        Ok(bytes)
    }
}

/// Another user who can change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changer {
    /// The user it belongs to, with its mode.
    Owner(u32, u32),
    /// Everybody, by this mode.
    Everybody(u32),
    /// A group, by this mode.
    Group(u32, u32),
    /// Users or groups that its access control list names.
    Listed,
    /// The creator of one of several hard links, in a directory that others can write to.
    Linked(u64),
    /// The user who mounted a file system there.
    Mounted,
    /// A third user, whose entry is in a directory that everybody can write to.
    Intruder(u32),
}

/// Prints a predicate for the file's name, or for *it*.
impl fmt::Display for Changer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Changer::Owner(uid, mode) => write!(f, "belongs to user {uid} (mode {mode:04o})"),
            Changer::Everybody(mode) => write!(f, "can be written by everybody (mode {mode:04o})"),
            Changer::Group(gid, mode) => write!(f, "can be written by group {gid} (mode {mode:04o})"),
            Changer::Listed => write!(f, "can be written by users or groups of its access control list"),
            Changer::Linked(links) => {
                write!(f, "has {links} hard links and is in a directory that others can write to")
            }
            Changer::Mounted => write!(f, "is a file system of a user (FUSE) in a directory that others can write to"),
            Changer::Intruder(uid) => write!(f, "belongs to user {uid}, in a directory that everybody can write to"),
        }
    }
}

/// The reason not to use a file.
#[derive(Debug)]
pub enum Distrust {
    /// The file, or a directory on the way, cannot be examined or read.
    Io {
        /// The path as given.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another user can change the file, or the target of its path.
    Changeable {
        /// The path as given.
        path: PathBuf,
        /// The component that another user can change.
        component: PathBuf,
        /// The user.
        by: Changer,
    },
}

impl Distrust {
    /// Returns true if the path does not exist.
    pub fn is_missing(&self) -> bool {
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        matches!(self, Distrust::Io { source, .. } if kinds.contains(&source.kind()))
    }

    /// Returns the command that makes the component root's, if there is one.
    fn remedy(component: &Path, by: Changer) -> Option<String> {
        let component = component.display();
        Some(match by {
            Changer::Owner(..) => format!("chown -h root {component}"),
            Changer::Everybody(mode) if mode & GROUP_WRITE != 0 => format!("chmod go-w {component}"),
            Changer::Everybody(_) => format!("chmod o-w {component}"),
            Changer::Group(..) => format!("chmod g-w {component}"),
            Changer::Listed => format!("setfacl -b {component}"),
            Changer::Linked(_) | Changer::Mounted | Changer::Intruder(_) => return None,
        })
    }
}

/// Prints one line: the user who can change a component, and the repair by an administrator.
impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, component, by) = match self {
            Distrust::Io { source, .. } => return write!(f, "{source}"),
            Distrust::Changeable { path, component, by } => (path, component, *by),
        };
        let who = if matches!(by, Changer::Intruder(_)) { "not used" } else { "not used by root" };
        match path == component {
            true => write!(f, "{who}: it {by}")?,
            false => write!(f, "{who}: {} {by}", component.display())?,
        }
        match Distrust::remedy(component, by) {
            Some(remedy) => write!(f, "; change that ({remedy}) or accept it (--trust {})", path.display()),
            None => write!(f, "; move it elsewhere, or accept it (--trust {})", path.display()),
        }
    }
}

impl std::error::Error for Distrust {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Distrust::Io { source, .. } => source.source(),
            Distrust::Changeable { .. } => None,
        }
    }
}

/// Returns true if a file belongs to the effective user of this process.
pub fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

impl Rule {
    fn trusts(&self, uid: u32) -> bool {
        self.users.contains(&uid) || is_outside(uid, "/proc/self/uid_map")
    }

    /// Returns the other users who can write to an open file or directory, if there are any.
    fn writers(&self, file: &OwnedFd, found: &Metadata) -> Option<Changer> {
        let mode = found.mode() & 0o7777;
        if !self.trusts(found.uid()) {
            return Some(Changer::Owner(found.uid(), mode));
        }
        if mode & OTHER_WRITE != 0 {
            return Some(Changer::Everybody(mode));
        }
        // The group bits of the mode are the mask of an access control list. Without them the list grants no write
        // access.
        if mode & GROUP_WRITE == 0 {
            return None;
        }
        let trusts = |named| match named {
            acl::Named::User(uid) => self.trusts(uid),
            acl::Named::Group(gid) => self.trusts_group(gid),
        };
        let by_group = || (!self.trusts_group(found.gid())).then(|| Changer::Group(found.gid(), mode));
        match access_list(file) {
            Ok(None) => by_group(),
            Ok(Some(list)) => match acl::writers(&list, trusts) {
                acl::Writers::None => None,
                acl::Writers::OwningGroup => by_group(),
                acl::Writers::Named => Some(Changer::Listed),
            },
            // A list that cannot be read may name any user.
            Err(_) => Some(Changer::Listed),
        }
    }

    fn trusts_group(&self, gid: u32) -> bool {
        gid == 0 || is_outside(gid, "/proc/self/gid_map")
    }
}

/// Reads the access control list of an open file, if it has one.
fn access_list(file: &OwnedFd) -> Result<Option<Vec<u8>>, Errno> {
    // A descriptor with O_PATH has no extended attributes of its own.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut buffer = vec![0; MAX_ACL_BYTES];
    match getxattr(&*path, acl::ACL, &mut buffer[..]) {
        Ok(length) => {
            buffer.truncate(length);
            Ok(Some(buffer))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns true if the number stands for all users, or groups, outside this user namespace, whose map is `map`. No
/// user of the namespace can act as one of them.
fn is_outside(id: u32, map: &str) -> bool {
    id == OVERFLOW && std::fs::read_to_string(map).is_ok_and(|map| !maps(&map, id))
}

/// Returns true if a line `FIRST OUTSIDE COUNT` of a user namespace's map covers a number.
fn maps(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(id)))
    })
}

/// Returns true if writes to the file change its content for a reader. False for `/dev/null`.
fn has_content(found: &Metadata) -> bool {
    !found.file_type().is_char_device()
}

fn is_sticky(found: &Metadata) -> bool {
    found.mode() & STICKY != 0
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmapped_users_are_outside_user_namespace() {
        assert!(maps("         0          0 4294967295\n", OVERFLOW));
        assert!(!maps("         0       1000          1\n", OVERFLOW));
        assert!(maps("0 1000 1\n1 100000 65536\n", OVERFLOW));
        assert!(!maps("", OVERFLOW));
    }
}
