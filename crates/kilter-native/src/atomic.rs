//! Files that are replaced as a whole.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use kilter_provider::Durability;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fchmod, fchown, fsync, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Puts `bytes` in the place of the content of `path`: a reader sees the old file or the new one.
///
/// Owner and mode are kept; a file that was not there belongs to the caller and has `mode`. A file
/// that is mounted by itself, as containers do with `/etc/hosts`, cannot be renamed over: it is
/// written in place.
///
/// # Errors
/// When the path is no regular file (symbolic links are not followed) or the system refuses.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32, durability: Durability) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let directory = openat(CWD, directory, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let old = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_file() => Some(stat),
        Ok(_) => return Err(io::Error::other("it is not a regular file")),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let (temporary, file) = create(&directory, name)?;
    let filled = (|| {
        if let Some(old) = &old {
            fchown(&file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)))?;
        }
        fchmod(&file, Mode::from_raw_mode(old.map_or(mode, |old| old.st_mode & 0o7777)))?;
        write_all(&file, bytes)?;
        if durability == Durability::Flushed {
            fsync(&file)?;
        }
        renameat(&directory, &temporary, &directory, name)
    })();
    if let Err(error) = filled {
        // What is told is why the write failed; a file left behind would only be litter.
        let _ = unlinkat(&directory, &temporary, AtFlags::empty());
        return if error == Errno::BUSY { in_place(&directory, name, bytes, durability) } else { Err(error.into()) };
    }
    if durability == Durability::Flushed {
        fsync(&directory)?;
    }
    Ok(())
}

/// A new file beside `name` that nobody else can read yet.
fn create(directory: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<(OsString, OwnedFd)> {
    loop {
        let mut temporary = OsString::from(".");
        temporary.push(name);
        temporary.push(format!(".kilter-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(directory, &temporary, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok((temporary, file)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn in_place(directory: &OwnedFd, name: &std::ffi::OsStr, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty())?;
    write_all(&file, bytes)?;
    if durability == Durability::Flushed {
        fsync(&file)?;
    }
    Ok(())
}
