//! Opens paths without following untrusted links.
//!
//! Normally a single `openat2` refuses all symbolic links. Only if there is a link above the path, [`walk`] resolves
//! the components and decides on each link.

use kilter_process::acl::{self, ACL, Named, Writers};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat, fstat, getxattr, openat, openat2, readlinkat};
use rustix::io::Errno;

use super::error::FileError;
use super::kind::Kind;
use super::preserve;

/// Opens a path without reading it.
pub(super) const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Opens for reading, without blocking on a FIFO and without acquiring a terminal.
pub(super) const READ: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Opens a directory for listing and flushing.
pub(super) const LIST: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const STRICT: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);
const MAX_LINKS: usize = 40;

/// A directory for changes, all relative to its descriptor.
#[derive(Debug)]
pub(super) struct Parent {
    pub(super) fd: OwnedFd,
    /// Its path, for messages.
    pub(super) path: String,
    /// True if the descriptor supports listing and flushing.
    pub(super) readable: bool,
    pub(super) stat: Stat,
}

impl Parent {
    /// Creates a parent from an open directory.
    pub(super) fn of(fd: OwnedFd, path: &str, readable: bool) -> Result<Parent, FileError> {
        let stat = fstat(&fd).map_err(|errno| FileError::io("inspect", path, errno))?;
        Ok(Parent { fd, path: path.to_owned(), readable, stat })
    }

    /// Returns the path of an entry, for messages.
    pub(super) fn join(&self, leaf: &[u8]) -> String {
        let slash = if self.path.ends_with('/') { "" } else { "/" };
        format!("{}{slash}{}", self.path, String::from_utf8_lossy(leaf))
    }

    /// Returns true if another user can add entries.
    pub(super) fn is_shared(&self) -> bool {
        is_shared(self.fd.as_fd(), &self.stat)
    }
}

/// Splits a normal absolute path into its directory and its last component. The directory of `/` is `/`.
pub(super) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", "")) | None => ("/", "."),
        Some(("", leaf)) => ("/", leaf),
        Some((parent, leaf)) => (parent, leaf),
    }
}

/// Returns the path without trailing slashes.
pub(super) fn trim(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" if path.starts_with('/') => "/",
        trimmed => trimmed,
    }
}

/// Returns true if a path lies below a directory. Neither may have trailing slashes.
pub(super) fn is_within(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    path != directory && rest.is_some_and(|rest| directory == "/" || rest.starts_with('/'))
}

/// Returns true if the path is absolute and contains no empty, `.` or `..` components and no NUL.
pub(super) fn is_normal(path: &str) -> bool {
    let path = trim(path).as_bytes();
    let mut start = 1;
    path == b"/"
        || path.first() == Some(&b'/')
            && memchr::memchr2_iter(b'/', 0, path).skip(1).chain([path.len()]).all(|end| {
                let part = &path[std::mem::replace(&mut start, end + 1)..end];
                path.get(end) != Some(&0) && !matches!(part, b"" | b"." | b"..")
            })
}

/// Returns a path without a slash at its end.
///
/// # Errors
/// If it is not absolute, or contains `.`, `..` or `//`.
pub(super) fn normal(path: &str) -> Result<&str, FileError> {
    let path = trim(path);
    if is_normal(path) { Ok(path) } else { Err(FileError::NotNormal(path.to_owned())) }
}

/// Opens a path. Never follows a link in its last component.
pub(super) fn open(path: &str, flags: OFlags) -> Result<OwnedFd, FileError> {
    match openat2(CWD, path, flags, Mode::empty(), STRICT) {
        Ok(fd) => Ok(fd),
        // The path itself or a component above is a link, or the kernel has no openat2.
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => walk(path, flags),
        Err(errno) => Err(FileError::io("open", path, errno)),
    }
}

/// Opens the directory that contains a path. The directory itself may be a trusted link.
pub(super) fn open_parent(path: &str) -> Result<Parent, FileError> {
    let directory = split(path).0;
    let opened = open_listed(directory, |flags| open_followed(directory, "open", flags.difference(OFlags::NOFOLLOW)));
    opened.map_err(|error| match error {
        FileError::Io { errno: Errno::NOENT, path, .. } => FileError::NoParent(path),
        other => other,
    })
}

/// Opens a directory for changes below it. Never follows a link in its place.
pub(super) fn open_directory(path: &str) -> Result<Parent, FileError> {
    open_listed(path, |flags| open(path, flags))
}

/// Opens a directory. A user without permission to list a directory may still change its entries.
fn open_listed(path: &str, open: impl Fn(OFlags) -> Result<OwnedFd, FileError>) -> Result<Parent, FileError> {
    match open(LIST) {
        Ok(fd) => Parent::of(fd, path, true),
        Err(FileError::Io { errno: Errno::ACCESS, .. }) => {
            Parent::of(open(PATH_ONLY | OFlags::DIRECTORY)?, path, false)
        }
        Err(error) => Err(error),
    }
}

/// Opens the directory `below` an open directory. No link and no `..` leads out of it.
pub(super) fn open_below(root: &Parent, below: &[u8], what: &str) -> Result<Parent, FileError> {
    let resolve = STRICT | ResolveFlags::BENEATH;
    let below = if below.is_empty() { b"." } else { below };
    let fd = match openat2(&root.fd, below, LIST, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => descend(root.fd.as_fd(), below),
        other => other,
    };
    Parent::of(fd.map_err(|errno| FileError::io("open", what, errno))?, what, true)
}

fn descend(root: BorrowedFd<'_>, below: &[u8]) -> Result<OwnedFd, Errno> {
    let mut at = openat(root, c".", LIST, Mode::empty())?;
    for part in below.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        if part == b".." {
            return Err(Errno::XDEV);
        }
        at = openat(&at, part, LIST, Mode::empty())?;
    }
    Ok(at)
}

/// Opens a source. Its last component may be a trusted link.
pub(super) fn open_source(path: &str, flags: OFlags) -> Result<OwnedFd, FileError> {
    open_followed(path, "read the source", flags.difference(OFlags::NOFOLLOW))
}

/// Returns the path of the file that trusted links in the place of a path name. Without a link, returns the path.
///
/// # Errors
/// If another user could have made a link, there are too many links, or the system refuses.
pub(super) fn link_target(path: &str) -> Result<String, FileError> {
    let mut target = normal(path)?.to_owned();
    for _ in 0..MAX_LINKS {
        let parent = open_parent(&target)?;
        let leaf = split(&target).1.as_bytes();
        let failed = |errno| FileError::io("read the link", &target, errno);
        let link = match openat(&parent.fd, leaf, PATH_ONLY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(target),
            link => link.map_err(failed)?,
        };
        let stat = fstat(&link).map_err(failed)?;
        if Kind::of(&stat) != Kind::Link {
            return Ok(target);
        }
        if let Some(why) = distrust(&parent.fd, &stat).map_err(failed)? {
            return Err(FileError::UntrustedLink { link: parent.join(leaf), path: path.to_owned(), why });
        }
        let named = readlinkat(&link, c"", Vec::new()).map_err(failed)?;
        let named = named.to_str().map_err(|_| failed(Errno::ILSEQ))?;
        target = joined(&real_path(&parent.fd), named);
    }
    Err(FileError::io("read the link", path, Errno::LOOP))
}

/// Returns the path of an open directory.
fn real_path(directory: &OwnedFd) -> String {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(directory)));
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// Returns the path that a link in a directory names, without `.` and `..`.
fn joined(directory: &str, named: &str) -> String {
    let directory = if named.starts_with('/') { "" } else { directory };
    let mut parts: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(named.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn open_followed(path: &str, action: &'static str, flags: OFlags) -> Result<OwnedFd, FileError> {
    match openat2(CWD, path, flags, Mode::empty(), STRICT) {
        Ok(fd) => Ok(fd),
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM) => {
            Walk { path, links: 0 }.run(flags, true).map_err(|error| error_of(path, error))
        }
        Err(errno) => Err(FileError::io(action, path, errno)),
    }
}

fn walk(path: &str, flags: OFlags) -> Result<OwnedFd, FileError> {
    Walk { path, links: 0 }.run(flags, false).map_err(|error| error_of(path, error))
}

enum WalkError {
    Errno(Errno),
    Link(String, &'static str),
}

impl From<Errno> for WalkError {
    fn from(errno: Errno) -> WalkError {
        WalkError::Errno(errno)
    }
}

fn error_of(path: &str, error: WalkError) -> FileError {
    match error {
        WalkError::Errno(errno) => FileError::io("open", path, errno),
        WalkError::Link(link, why) => FileError::UntrustedLink { link, path: path.to_owned(), why },
    }
}

/// Resolves a path component by component, and holds each directory open.
struct Walk<'a> {
    path: &'a str,
    links: usize,
}

impl Walk<'_> {
    fn run(mut self, flags: OFlags, follow_last: bool) -> Result<OwnedFd, WalkError> {
        let root = || openat(CWD, c"/", PATH_ONLY | OFlags::DIRECTORY, Mode::empty());
        let mut at = root()?;
        // Remaining components, the next one last.
        let mut todo: Vec<Vec<u8>> = components(self.path.as_bytes());
        while let Some(part) = todo.pop() {
            let last = todo.is_empty();
            let fd = openat(&at, &part[..], PATH_ONLY, Mode::empty())?;
            let stat = fstat(&fd)?;
            if Kind::of(&stat) != Kind::Link || (last && !follow_last) {
                match last {
                    true => return reopen(&at, &part, fd, &stat, flags),
                    false => at = fd,
                }
                continue;
            }
            self.trust(&at, &part, &stat)?;
            let target = readlinkat(&fd, c"", Vec::new())?;
            if target.as_bytes().starts_with(b"/") {
                at = root()?;
            }
            todo.extend(components(target.as_bytes()));
        }
        // The path was `/`, or ended in a link to `/` or to `.`.
        Ok(openat(&at, c".", flags.difference(OFlags::NOFOLLOW), Mode::empty())?)
    }

    /// Accepts a link that only root or kilter's user can have created.
    fn trust(&mut self, directory: &OwnedFd, part: &[u8], link: &Stat) -> Result<(), WalkError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let Some(why) = distrust(directory, link)? else { return Ok(()) };
        let directory = real_path(directory);
        Err(WalkError::Link(format!("{}/{}", directory.trim_end_matches('/'), String::from_utf8_lossy(part)), why))
    }
}

/// Returns the reason why a user other than root and kilter's user could have made a link.
fn distrust(directory: &OwnedFd, link: &Stat) -> Result<Option<&'static str>, Errno> {
    if !is_own(link.st_uid) {
        return Ok(Some("it belongs neither to root nor to the user that kilter runs as"));
    }
    let is_shared = is_shared(directory.as_fd(), &fstat(directory)?);
    Ok(is_shared.then_some("other users can write to its directory"))
}

/// Opens an examined file with other flags, and checks that it is the same file.
fn reopen(at: &OwnedFd, part: &[u8], looked: OwnedFd, stat: &Stat, flags: OFlags) -> Result<OwnedFd, WalkError> {
    if flags == PATH_ONLY {
        return Ok(looked);
    }
    let fd = openat(at, part, flags | OFlags::NOFOLLOW, Mode::empty())?;
    let now = fstat(&fd)?;
    if (now.st_dev, now.st_ino) != (stat.st_dev, stat.st_ino) {
        return Err(Errno::STALE.into());
    }
    Ok(fd)
}

fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let mut parts: Vec<_> = parts.map(<[u8]>::to_vec).collect();
    parts.reverse();
    parts
}

/// Returns true if root or kilter's user owns a file.
pub(super) fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Returns true if users other than root and kilter's user can change a directory.
fn is_shared(directory: BorrowedFd<'_>, stat: &Stat) -> bool {
    let group_writes = stat.st_mode & 0o020 != 0;
    !is_own(stat.st_uid)
        || stat.st_mode & 0o002 != 0
        || (group_writes && (!is_own_group(stat.st_gid) || lists_others(directory)))
}

fn is_own_group(gid: u32) -> bool {
    gid == 0 || gid == rustix::process::getegid().as_raw()
}

/// Returns true if an access control list grants write access to others. If there is a list, the group bits are its
/// mask, and without them it grants none.
fn lists_others(directory: BorrowedFd<'_>) -> bool {
    // Some descriptors of directories do not support the call directly.
    let path = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&directory));
    match preserve::read(|buffer| getxattr(&*path, ACL, buffer)) {
        Ok(list) => {
            let is_trusted = |named| match named {
                Named::User(uid) => is_own(uid),
                Named::Group(gid) => is_own_group(gid),
            };
            acl::writers(&list, is_trusted) == Writers::Named
        }
        Err(Errno::NODATA | Errno::NOTSUP) => false,
        // If the list cannot be read, the directory is not trusted.
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_directory_and_name() {
        assert_eq!(split("/etc/motd"), ("/etc", "motd"));
        assert_eq!(split("/etc"), ("/", "etc"));
        assert_eq!(split("/"), ("/", "."));
    }

    #[test]
    fn trusted_links_lead_to_their_target() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, path(name)).unwrap();
        std::fs::create_dir(path("default")).unwrap();
        link("../conf", "default/relative");
        link(&path("default/relative"), "absolute");
        link("loop", "loop");
        for name in ["conf", "default/relative", "absolute"] {
            assert_eq!(link_target(&path(name)).unwrap(), path("conf"), "{name}");
        }
        assert!(matches!(link_target(&path("loop")), Err(FileError::Io { errno: Errno::LOOP, .. })));
        let shared = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path("default"), shared).unwrap();
        assert!(matches!(link_target(&path("absolute")), Err(FileError::UntrustedLink { .. })));
    }

    #[test]
    fn normal_paths_are_absolute_and_plain() {
        for good in ["/", "/etc", "/etc/", "/etc/a b"] {
            assert!(is_normal(good), "{good}");
        }
        for bad in ["", "etc", "/etc//motd", "/etc/../x", "/./x", "C:/x", "/a\0b"] {
            assert!(!is_normal(bad), "{bad}");
        }
    }
}
