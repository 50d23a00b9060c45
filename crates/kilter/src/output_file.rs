//! Writing a file that the command line names: a plan, a report or a first manifest. It is written relative to an opened directory and
//! through no link that another user could have made.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, accessat, fchmod, fsync, openat, readlinkat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use crate::signals;

/// Maximum number of symbolic links on the way to a file.
const MAX_LINKS: usize = 40;
/// File system of `/proc` (statfs(2)): its links lead to open files, and only the kernel can follow them.
const PROC: u64 = 0x9fa0;

/// Mode of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMode {
    /// For its owner only, also if it exists.
    Private,
    /// For its owner only, or the mode of the file that exists.
    KeptOrPrivate,
    /// Readable by all users, or the mode of the file that exists.
    KeptOrPublic,
}

/// Writes a file, which it replaces, or a device or a pipe.
///
/// # Errors
/// The reason of the failure.
pub(crate) fn write(path: &Path, text: &str, mode: FileMode) -> Result<(), String> {
    let target = OutputFile::find(path)?;
    let found = match target.kind()? {
        OutputKind::File(found) => found,
        OutputKind::Other(flags) => {
            // A pipe may never get a reader.
            return signals::killable(|| {
                let mut file = File::from(openat(&target.directory, &target.name, flags, Mode::empty())?);
                file.write_all(text.as_bytes())
            })
            .map_err(|error| error.to_string());
        }
    };
    let mode = match (mode, found) {
        (FileMode::KeptOrPrivate | FileMode::KeptOrPublic, Some(mode)) => mode,
        (FileMode::KeptOrPublic, None) => Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH,
        (FileMode::Private, _) | (FileMode::KeptOrPrivate, None) => Mode::RUSR | Mode::WUSR,
    };
    target.replace(text, mode).map_err(|error| error.to_string())
}

/// Creates a file that does not exist yet, readable by all users.
///
/// # Errors
/// The reason of the failure.
pub(crate) fn create(path: &Path, text: &str) -> Result<(), String> {
    let target = OutputFile::find(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let mut file = File::from(openat(&target.directory, &target.name, flags, mode).map_err(io)?);
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| {
        // A half-written manifest would declare less.
        let _ = unlinkat(&target.directory, &target.name, AtFlags::empty());
        error.to_string()
    })
}

/// Checks that a file can be written, as far as this is known before.
///
/// # Errors
/// The reason why not.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let target = OutputFile::find(path)?;
    match target.kind()? {
        OutputKind::Other(_) => Ok(()),
        OutputKind::File(_) => {
            let rights = Access::WRITE_OK | Access::EXEC_OK;
            accessat(&target.directory, ".", rights, AtFlags::EACCESS).map_err(io)
        }
    }
}

/// Returns true if two paths lead to the same file.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let found = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    found(one).is_some_and(|one| Some(one) == found(other))
}

fn io(errno: Errno) -> String {
    io::Error::from(errno).to_string()
}

/// Existing file at the place of an output.
enum OutputKind {
    /// No file, or a regular file: with its mode if root or the user that runs kilter owns it.
    File(Option<Mode>),
    /// A device or a pipe, with the flags that open it.
    Other(OFlags),
}

/// Returns true if a user is root, or the user that runs kilter.
fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Place of an output.
struct OutputFile {
    directory: OwnedFd,
    /// Name in the directory. It is no link, except for links of `/proc`.
    name: PathBuf,
}

impl OutputFile {
    /// Opens the directory of a path component by component. It refuses links that another user owns, or could have
    /// created.
    fn find(path: &Path) -> Result<OutputFile, String> {
        let open = |directory: &OwnedFd, name: &Path| openat(directory, name, DIRECTORY, Mode::empty());
        let mut at = openat(CWD, if path.is_absolute() { "/" } else { "." }, DIRECTORY, Mode::empty()).map_err(io)?;
        let mut left = parts(path);
        let mut links = 0;
        while let Some(name) = left.pop() {
            let is_last = left.is_empty();
            let found = statat(&at, &name, AtFlags::SYMLINK_NOFOLLOW);
            let is_link = found.as_ref().is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
            let is_proc = || rustix::fs::fstatfs(&at).is_ok_and(|found| found.f_type as u64 == PROC);
            match found {
                Ok(found) if is_link && !(is_last && is_proc()) => {
                    followed(&at, &name, found.st_uid)?;
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(io(Errno::LOOP));
                    }
                    let to = readlinkat(&at, &name, Vec::new()).map_err(io)?;
                    let to = Path::new(std::ffi::OsStr::from_bytes(to.to_bytes()));
                    if to.is_absolute() {
                        at = openat(CWD, "/", DIRECTORY, Mode::empty()).map_err(io)?;
                    }
                    left.extend(parts(to));
                }
                _ if is_last && !matches!(name.as_os_str().as_bytes(), b"." | b"..") => {
                    return Ok(OutputFile { directory: at, name });
                }
                _ => at = open(&at, &name).map_err(io)?,
            }
        }
        Err("it is a directory".to_owned())
    }

    /// Returns the kind of the existing file.
    fn kind(&self) -> Result<OutputKind, String> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(OutputKind::File(None)),
            Err(errno) => Err(io(errno)),
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => {
                    // Another user must not choose who reads the new file.
                    let mode = is_own(found.st_uid).then(|| Mode::from_raw_mode(found.st_mode & 0o777));
                    Ok(OutputKind::File(mode))
                }
                FileType::Directory => Err("it is a directory".to_owned()),
                kind if kind == FileType::Symlink || is_own(found.st_uid) => {
                    let follow = if kind == FileType::Symlink { OFlags::empty() } else { OFlags::NOFOLLOW };
                    Ok(OutputKind::Other(OFlags::WRONLY | OFlags::CLOEXEC | follow))
                }
                _ => Err(format!("it is not a file, and belongs to the user with uid {}", found.st_uid)),
            },
        }
    }

    /// Writes a temporary file in the same directory, and renames it when it is on disk.
    fn replace(&self, text: &str, mode: Mode) -> io::Result<()> {
        let mut new = std::ffi::OsString::from(".");
        new.push(&self.name);
        new.push(format!(".{}.new", std::process::id()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.directory, &new, flags, Mode::RUSR | Mode::WUSR)?);
        let moded = if mode == Mode::RUSR | Mode::WUSR { Ok(()) } else { fchmod(&file, mode).map_err(io::Error::from) };
        let written = moded.and_then(|()| file.write_all(text.as_bytes())).and_then(|()| file.sync_all());
        let named = written.and_then(|()| Ok(renameat(&self.directory, &new, &self.directory, &self.name)?));
        if named.is_err() {
            // The first error is reported.
            let _ = unlinkat(&self.directory, &new, AtFlags::empty());
        }
        named?;
        // A directory without read permission cannot be flushed.
        match openat(&self.directory, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(directory) => Ok(fsync(directory)?),
            Err(Errno::ACCESS) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Flags for opening the directories on the way.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Returns the components of a path in reverse order.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.rev().collect()
}

/// Refuses a link that another user owns, or that is in a directory in which others can create links.
fn followed(directory: &OwnedFd, name: &Path, owner: u32) -> Result<(), String> {
    let refused =
        |why: String| Err(format!("{} is a symbolic link {why}: name the file that is meant", name.display()));
    if !is_own(owner) {
        return refused(format!("of the user with uid {owner}"));
    }
    let found = rustix::fs::fstat(directory).map_err(io)?;
    if !is_own(found.st_uid) || found.st_mode & 0o022 != 0 {
        return refused("in a directory in which other users can put links".to_owned());
    }
    Ok(())
}
