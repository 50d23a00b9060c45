//! Members of an archive, compared with the files below a directory and written there.
//!
//! The author of an archive must not be able to write outside of the directory, and a user who owns a directory below
//! it must not be able to redirect a member. So each parent is opened below the directory without links, and each file
//! is complete before it gets its name.

use std::io::{self, Read};

use ecow::{EcoString, eco_format};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, mkdirat, openat, readlinkat, renameat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::acl_policy::{AclPolicy, FinalOwnership, Xattrs};
use super::content;
use super::copy::Source;
use super::error::FileError;
use super::kind::Kind;
use super::open::{self, LIST, Parent, READ};
use super::opened_path::{OpenedPath, look_at};
use super::temp_names::temporary_name;
use super::{entry, ownership};

const CHUNK_BYTES: usize = 64 * 1024;

/// Content of a member.
pub(crate) enum ArchiveNode<'a> {
    Directory,
    File(&'a mut dyn Read),
    /// A symbolic link with this target.
    Link(&'a [u8]),
    /// The content of an earlier member.
    Copy(&'a [u8]),
}

/// A member of an archive.
pub(crate) struct Member<'a> {
    /// Path relative to the directory, without `.` and `..`.
    pub(crate) path: &'a [u8],
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) node: ArchiveNode<'a>,
}

/// Directory that an archive is unpacked to.
pub(crate) struct UnpackDirectory {
    root: Parent,
    /// Owner and group of all members; none for those of kilter.
    owner: Option<(u32, u32)>,
    /// The last parent, because the members of a directory follow each other.
    last: Option<(Vec<u8>, Parent)>,
}

impl UnpackDirectory {
    /// Opens the directory. Never follows a link in its place.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn open(path: &str, owner: Option<(u32, u32)>) -> Result<UnpackDirectory, EcoString> {
        let root = open::open_directory(path).map_err(text)?;
        Ok(UnpackDirectory { root, owner, last: None })
    }

    fn shown(&self, path: &[u8]) -> String {
        self.root.join(path)
    }

    /// Returns the directory that holds a member; none if it is missing or is no directory.
    fn parent(&mut self, below: &[u8]) -> Result<Option<&Parent>, FileError> {
        if self.last.as_ref().is_none_or(|(path, _)| path != below) {
            let shown = self.shown(below);
            match open::open_below(&self.root, below, &shown) {
                Ok(parent) => self.last = Some((below.to_vec(), parent)),
                Err(FileError::Io { errno: Errno::NOENT | Errno::NOTDIR | Errno::LOOP, .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(self.last.as_ref().map(|(_, parent)| parent))
    }

    /// Returns true if there is any file, directory or link at a path.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn has(&mut self, path: &[u8]) -> Result<bool, EcoString> {
        let shown = self.shown(path);
        let (below, leaf) = entry::split(path);
        let Some(parent) = self.parent(below).map_err(text)? else { return Ok(false) };
        Ok(look_at(&parent.fd, leaf, &shown).map_err(text)?.is_some())
    }

    /// Returns true if the member is installed.
    ///
    /// # Errors
    /// If the archive or the file cannot be read.
    pub(crate) fn holds(&mut self, member: &mut Member<'_>) -> Result<bool, EcoString> {
        let shown = self.shown(member.path);
        let owner = self.owner;
        let copied = match &member.node {
            ArchiveNode::Copy(path) => match self.open_member(path).map_err(text)? {
                Some(copied) => Some(copied),
                None => return Ok(false),
            },
            _ => None,
        };
        let (below, leaf) = entry::split(member.path);
        let Some(parent) = self.parent(below).map_err(text)? else { return Ok(false) };
        let Some(found) = look_at(&parent.fd, leaf, &shown).map_err(text)? else { return Ok(false) };
        if owner.is_some_and(|owner| owner != (found.stat.st_uid, found.stat.st_gid)) {
            return Ok(false);
        }
        let failed = |errno| text(FileError::io("read", &shown, errno));
        let mode = member.mode;
        let has_mode = found.stat.st_mode & 0o7777 == mode && !has_foreign_list(&found, mode).map_err(failed)?;
        match &mut member.node {
            ArchiveNode::Directory => Ok(found.kind == Kind::Directory && has_mode),
            ArchiveNode::Link(target) => {
                if found.kind != Kind::Link {
                    return Ok(false);
                }
                let is = readlinkat(&found.fd, c"", Vec::new()).map_err(failed)?;
                Ok(is.to_bytes() == *target)
            }
            ArchiveNode::File(_) | ArchiveNode::Copy(_) if found.kind != Kind::File || !has_mode => Ok(false),
            ArchiveNode::File(reader) => {
                if found.size() != member.size {
                    return Ok(false);
                }
                let file = openat(&parent.fd, leaf, READ, Mode::empty()).map_err(failed)?;
                is_same(&mut **reader, &mut std::fs::File::from(file)).map_err(|error| eco_format!("{shown}: {error}"))
            }
            ArchiveNode::Copy(_) => {
                let Some((copied, stat)) = copied else { return Ok(false) };
                if stat.st_size != found.stat.st_size {
                    return Ok(false);
                }
                let file = openat(&parent.fd, leaf, READ, Mode::empty()).map_err(failed)?;
                is_same(&mut std::fs::File::from(copied), &mut std::fs::File::from(file))
                    .map_err(|error| eco_format!("{shown}: {error}"))
            }
        }
    }

    /// Opens an installed regular file for reading.
    fn open_member(&mut self, path: &[u8]) -> Result<Option<(OwnedFd, Stat)>, FileError> {
        let shown = self.shown(path);
        let (below, leaf) = entry::split(path);
        let Some(parent) = self.parent(below)? else { return Ok(None) };
        let file = match openat(&parent.fd, leaf, READ, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(FileError::io("read", shown, errno)),
        };
        let stat = fstat(&file).map_err(|errno| FileError::io("inspect", shown, errno))?;
        Ok((Kind::of(&stat) == Kind::File).then_some((file, stat)))
    }

    /// Installs a member.
    ///
    /// # Errors
    /// If another kind of file is in the way, or the system refuses.
    pub(crate) fn install(&mut self, member: &mut Member<'_>) -> Result<(), EcoString> {
        self.write(member).map_err(text)
    }

    fn write(&mut self, member: &mut Member<'_>) -> Result<(), FileError> {
        let shown = self.shown(member.path);
        let (below, leaf) = entry::split(member.path);
        self.make_parents(below)?;
        let owner = self.owner;
        if let ArchiveNode::Directory = member.node {
            return self.make_directory(member.path, member.mode);
        }
        let mut copied = match &member.node {
            ArchiveNode::Copy(path) => {
                let missing = FileError::io("read", self.shown(path), Errno::NOENT);
                Some(std::fs::File::from(self.open_member(path)?.ok_or(missing)?.0))
            }
            _ => None,
        };
        let parent = self.parent(below)?.ok_or_else(|| FileError::io("open", &shown, Errno::NOTDIR))?;
        if look_at(&parent.fd, leaf, &shown)?.is_some_and(|found| found.kind == Kind::Directory) {
            return Err(FileError::NeedsForce { path: shown, is: Kind::Directory, what: "replace" });
        }
        let name = temporary_name();
        let written = match &mut member.node {
            ArchiveNode::Link(target) => make_link(parent, &name, target, owner),
            ArchiveNode::File(reader) => make_file(parent, &name, &mut **reader, member.mode, owner),
            ArchiveNode::Copy(_) => match copied.as_mut() {
                Some(file) => make_file(parent, &name, file, member.mode, owner),
                None => Ok(()),
            },
            ArchiveNode::Directory => Ok(()),
        };
        let named = written.and_then(|()| Ok(renameat(&parent.fd, &*name, &parent.fd, leaf)?));
        named.map_err(|error| {
            let _ = unlinkat(&parent.fd, &*name, AtFlags::empty());
            match Errno::from_io_error(&error) {
                Some(errno) => FileError::io("write", &shown, errno),
                None => FileError::Archive { path: shown.clone(), reason: error.to_string() },
            }
        })
    }

    /// Removes a member that is no directory, if it is there.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn remove_file(&mut self, path: &[u8]) -> Result<(), EcoString> {
        self.unlink(path, AtFlags::empty()).map_err(text)
    }

    /// Removes a directory, if it is there and empty.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn remove_empty_directory(&mut self, path: &[u8]) -> Result<(), EcoString> {
        self.last = None;
        self.unlink(path, AtFlags::REMOVEDIR).map_err(text)
    }

    fn unlink(&mut self, path: &[u8], flags: AtFlags) -> Result<(), FileError> {
        let shown = self.shown(path);
        let (below, leaf) = entry::split(path);
        let Some(parent) = self.parent(below)? else { return Ok(()) };
        match unlinkat(&parent.fd, leaf, flags) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(errno) => Err(FileError::io("remove", shown, errno)),
        }
    }

    /// Creates the missing directories above a member.
    fn make_parents(&mut self, below: &[u8]) -> Result<(), FileError> {
        if self.parent(below)?.is_some() {
            return Ok(());
        }
        let mut at = 0;
        while at < below.len() {
            at = below[at..].iter().position(|&byte| byte == b'/').map_or(below.len(), |found| at + found);
            if self.parent(&below[..at])?.is_none() {
                self.make_directory(&below[..at], 0o755)?;
            }
            at += 1;
        }
        Ok(())
    }

    fn make_directory(&mut self, path: &[u8], mode: u32) -> Result<(), FileError> {
        let shown = self.shown(path);
        let owner = self.owner;
        let (below, leaf) = entry::split(path);
        let parent = self.parent(below)?.ok_or_else(|| FileError::io("open", &shown, Errno::NOTDIR))?;
        let failed = |errno| FileError::io("create", &shown, errno);
        let is_new = match mkdirat(&parent.fd, leaf, Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(failed(errno)),
        };
        // Fails for another kind of file, and for a link.
        let made = openat(&parent.fd, leaf, LIST, Mode::empty()).map_err(failed)?;
        let found: OpenedPath = look_at(&parent.fd, leaf, &shown)?.ok_or_else(|| failed(Errno::NOENT))?;
        if let Some((uid, gid)) = owner.filter(|owner| *owner != (found.stat.st_uid, found.stat.st_gid)) {
            ownership::chown(&made, Some(uid), Some(gid)).map_err(failed)?;
        }
        let lists = Xattrs::open(&made);
        let removed = match is_new {
            true => lists.remove_inherited(Kind::Directory),
            false => {
                let (uid, gid) = owner.unwrap_or((found.stat.st_uid, found.stat.st_gid));
                let after = FinalOwnership::new(uid, gid, mode);
                let changes = AclPolicy::NoForeign.changes(&lists, Kind::Directory, after);
                changes.and_then(|changes| lists.apply_all(&changes))
            }
        };
        removed.and_then(|()| fchmod(&made, Mode::from_raw_mode(mode))).map_err(failed)
    }
}

fn make_link(parent: &Parent, name: &str, target: &[u8], owner: Option<(u32, u32)>) -> io::Result<()> {
    symlinkat(target, &parent.fd, name)?;
    if let Some((uid, gid)) = owner {
        let made = openat(&parent.fd, name, open::PATH_ONLY, Mode::empty())?;
        ownership::chown(&made, Some(uid), Some(gid))?;
    }
    Ok(())
}

fn make_file(
    parent: &Parent,
    name: &str,
    reader: &mut dyn Read,
    mode: u32,
    owner: Option<(u32, u32)>,
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&parent.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match reader.read(&mut chunk)? {
            0 => break,
            count => content::write(&file, &chunk[..count])?,
        }
    }
    if let Some((uid, gid)) = owner {
        fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Xattrs::open(&file).remove_inherited(Kind::File)?;
    Ok(fchmod(&file, Mode::from_raw_mode(mode))?)
}

/// Returns true if an access list of an installed member gives more than its mode.
fn has_foreign_list(found: &OpenedPath, mode: u32) -> Result<bool, Errno> {
    let after = FinalOwnership::new(found.stat.st_uid, found.stat.st_gid, mode);
    Ok(!AclPolicy::NoForeign.changes(&Xattrs::of(found), found.kind, after)?.is_empty())
}

/// Returns true if two readers have the same rest.
fn is_same(one: &mut dyn Read, other: &mut dyn Read) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    loop {
        let count = fill(one, &mut left)?;
        if fill(other, &mut right)? != count || left[..count] != right[..count] {
            return Ok(false);
        }
        if count == 0 {
            return Ok(true);
        }
    }
}

fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Opens a local archive. Its last component may be a trusted link. None if it does not exist.
///
/// # Errors
/// If it is no regular file, or cannot be read.
pub(crate) fn open_archive(path: &str) -> Result<Option<OwnedFd>, EcoString> {
    match Source::open_file(path) {
        Ok(source) => Ok(Some(source.fd)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(text(error)),
    }
}

/// Returns true if a path exists. Follows no link in its last component.
///
/// # Errors
/// If it cannot be examined.
pub(crate) fn exists(path: &str) -> Result<bool, EcoString> {
    super::opened_path::examine(path, false).map(|found| found.is_some()).map_err(text)
}

/// Returns the checksum of an open file: `{sha256}…`.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn checksum(
    file: &OwnedFd,
    expected: &str,
    interrupt: kilter_provider::Interrupt<'_>,
) -> Result<EcoString, EcoString> {
    content::checksum_of_file(method_of(expected), file.as_fd(), interrupt)
        .map_err(|errno| text(FileError::io("read", "the archive", errno)))
}

/// Returns the checksum of bytes by the method of `expected`: `{sha256}…`.
pub(crate) fn checksum_of(bytes: &[u8], expected: &str) -> EcoString {
    content::checksum_of(method_of(expected), bytes)
}

/// Returns the canonical text of a declared checksum; none if it is invalid.
pub(crate) fn canonical_checksum(text: &str) -> Option<EcoString> {
    super::spec::expected(text).map(|(_, expected)| expected)
}

/// Downloads an archive to a file without a name, in the file system of `directory`.
///
/// # Errors
/// If it does not arrive, or has another checksum.
pub(crate) fn download(
    cx: &kilter_provider::Context<'_>,
    url: &str,
    expected: Option<EcoString>,
    directory: &str,
) -> Result<OwnedFd, EcoString> {
    let method = method_of(expected.as_deref().unwrap_or_default());
    let parent = open::open_directory(directory).map_err(text)?;
    let download = super::download::Download { url, expected };
    download.source(&cx.with_var_dir(None), method, directory, &parent.fd).map(|source| source.fd).map_err(text)
}

/// Downloads a small file, as [`download`] does.
///
/// # Errors
/// If it does not arrive, has another checksum, or is larger than `limit` bytes.
pub(crate) fn download_bytes(
    cx: &kilter_provider::Context<'_>,
    url: &str,
    expected: Option<EcoString>,
    directory: &str,
    limit: u64,
) -> Result<Vec<u8>, EcoString> {
    let file = download(cx, url, expected, directory)?;
    let bytes = content::load(file.as_fd(), limit + 1).map_err(|errno| text(FileError::io("read", url, errno)))?;
    match bytes.len() as u64 > limit {
        true => Err(eco_format!("{url} has more than {limit} bytes")),
        false => Ok(bytes),
    }
}

fn method_of(expected: &str) -> super::spec::Checksum {
    super::spec::expected(expected).map_or(super::spec::Checksum::Sha256, |(method, _)| method)
}

fn text(error: FileError) -> EcoString {
    eco_format!("{error}")
}
