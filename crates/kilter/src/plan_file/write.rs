//! Writing a plan, relative to an opened directory and through no link that another user could have made.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fsync, openat, readlinkat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::signals;

/// Maximum number of symbolic links on the way to a file.
const MAX_LINKS: usize = 40;
/// File system of `/proc` (statfs(2)): its links lead to open files, and only the kernel can follow them.
const PROC: u64 = 0x9fa0;

/// Writes a plan to a file of mode 0600, which it replaces, or to a device or a pipe.
///
/// # Errors
/// The reason of the failure.
pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    let target = PlanTarget::find(path)?;
    let io = |errno: Errno| io::Error::from(errno).to_string();
    match statat(&target.directory, &target.name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => target.replace(text).map_err(|error| error.to_string()),
        Err(errno) => Err(io(errno)),
        Ok(found) => match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => target.replace(text).map_err(|error| error.to_string()),
            FileType::Directory => Err("it is a directory".to_owned()),
            kind if kind == FileType::Symlink || is_own(found.st_uid) => {
                let follow = if kind == FileType::Symlink { OFlags::empty() } else { OFlags::NOFOLLOW };
                let flags = OFlags::WRONLY | OFlags::CLOEXEC | follow;
                // A pipe may never get a reader.
                signals::killable(|| {
                    let mut file = File::from(openat(&target.directory, &target.name, flags, Mode::empty())?);
                    file.write_all(text.as_bytes())
                })
                .map_err(|error| error.to_string())
            }
            _ => Err(format!("it is not a file, and belongs to the user with uid {}", found.st_uid)),
        },
    }
}

/// Returns true if a user is root, or the user that runs kilter.
fn is_own(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Place of a plan.
struct PlanTarget {
    directory: OwnedFd,
    /// Name in the directory. It is no link, except for links of `/proc`.
    name: PathBuf,
}

impl PlanTarget {
    /// Opens the directory of a path component by component. It refuses links that another user owns, or could have
    /// created.
    fn find(path: &Path) -> Result<PlanTarget, String> {
        let io = |errno: Errno| io::Error::from(errno).to_string();
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
                    return Ok(PlanTarget { directory: at, name });
                }
                _ => at = open(&at, &name).map_err(io)?,
            }
        }
        Err("it is a directory".to_owned())
    }

    /// Writes a temporary file in the same directory, and renames it when it is on disk.
    fn replace(&self, text: &str) -> io::Result<()> {
        let mut new = std::ffi::OsString::from(".");
        new.push(&self.name);
        new.push(format!(".{}.new", std::process::id()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.directory, &new, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
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
    let found = rustix::fs::fstat(directory).map_err(|errno| io::Error::from(errno).to_string())?;
    if !is_own(found.st_uid) || found.st_mode & 0o022 != 0 {
        return refused("in a directory in which other users can put links".to_owned());
    }
    Ok(())
}
