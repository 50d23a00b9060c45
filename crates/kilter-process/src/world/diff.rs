//! Changes that were made in a sandbox.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::Top;

/// Maximum length in bytes of an overlayfs attribute, which holds a path.
const MAX_XATTR_BYTES: usize = 4096;

/// Adds a line for each file of a layer that differs from the file below it.
pub(super) fn of(top: &Top, is_noise: &dyn Fn(&str) -> bool, lines: &mut Vec<String>) -> io::Result<()> {
    let at = top.at.to_string_lossy();
    let prefix = if at == "/" { String::new() } else { at.into_owned() };
    let mut walk = DiffWalk {
        bottom: top.lower.as_fd(),
        namespace: if top.by_user { "user" } else { "trusted" },
        is_noise,
        lines,
    };
    walk.root(&top.upper, &prefix)
}

struct DiffWalk<'a> {
    bottom: BorrowedFd<'a>,
    /// Namespace of the overlayfs attributes.
    namespace: &'static str,
    is_noise: &'a dyn Fn(&str) -> bool,
    lines: &'a mut Vec<String>,
}

struct OverlayEntry<'a> {
    parent: BorrowedFd<'a>,
    name: &'a CStr,
    stat: Stat,
}

impl OverlayEntry<'_> {
    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    fn is_dir(&self) -> bool {
        self.kind() == FileType::Directory
    }

    /// Returns true for the marker that overlayfs puts in place of a removed file.
    fn is_whiteout(&self) -> bool {
        self.kind() == FileType::CharacterDevice && self.stat.st_rdev == 0
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Ok(openat(self.parent, self.name, flags, Mode::empty())?)
    }

    /// Returns kind, mode, owner and content.
    fn describe(&self) -> io::Result<String> {
        let Stat { st_mode, st_uid, st_gid, .. } = self.stat;
        let what = match self.kind() {
            FileType::Directory => "directory".to_owned(),
            FileType::Symlink => {
                format!("link to {}", readlinkat(self.parent, self.name, Vec::new())?.to_string_lossy())
            }
            FileType::RegularFile => format!("file of {} bytes, sum {:016x}", self.stat.st_size, sum(self.open()?)?),
            other => format!("{other:?} {}", self.stat.st_rdev),
        };
        Ok(format!("{:04o} {st_uid}:{st_gid} {what}", st_mode & 0o7777))
    }
}

fn entry<'a>(parent: BorrowedFd<'a>, name: &'a CStr) -> io::Result<Option<OverlayEntry<'a>>> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(OverlayEntry { parent, name, stat })),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns a checksum of the content. It is the same for the same bytes at any time.
fn sum(file: OwnedFd) -> io::Result<u64> {
    let (mut file, mut buffer) = (File::from(file), [0; 1 << 16]);
    let mut hasher = std::hash::DefaultHasher::new();
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.write(&buffer[..read]),
        }
    }
}

fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let entries = Dir::read_from(directory)?.map(|entry| Ok(entry?.file_name().to_owned()));
    let names: io::Result<Vec<CString>> = entries.collect();
    let mut names: Vec<CString> = names?.into_iter().filter(|name| !matches!(name.to_bytes(), b"." | b"..")).collect();
    names.sort_unstable();
    Ok(names)
}

impl DiffWalk<'_> {
    /// Compares the root of a layer. A change of it is a change of a directory like any other.
    fn root(&mut self, upper: &OwnedFd, prefix: &str) -> io::Result<()> {
        let (here, there) = (entry(upper.as_fd(), c".")?, entry(self.bottom, c".")?);
        if let (Some(here), Some(there)) = (here, there) {
            let (here, there) = (here.describe()?, there.describe()?);
            if here != there {
                self.line('~', if prefix.is_empty() { "/" } else { prefix }, &here);
            }
        }
        let bottom = self.bottom.try_clone_to_owned()?;
        self.directory(upper, Some(&bottom), prefix, false)
    }

    fn line(&mut self, sign: char, path: &str, what: &str) {
        // One line per file, also if a name contains line breaks.
        let line = format!("{sign} {} {}", path.escape_debug(), what.escape_debug());
        self.lines.push(format!("{}\n", line.trim_end()));
    }

    fn directory(&mut self, upper: &OwnedFd, lower: Option<&OwnedFd>, path: &str, hides: bool) -> io::Result<()> {
        let written = names(upper)?;
        for name in &written {
            let path = format!("{path}/{}", name.to_string_lossy());
            if !(self.is_noise)(&path) {
                self.one(upper, lower, name, &path)?;
            }
        }
        let Some(lower) = lower.filter(|_| hides) else { return Ok(()) };
        for name in names(lower)?.iter().filter(|name| !written.contains(name)) {
            let path = format!("{path}/{}", name.to_string_lossy());
            if !(self.is_noise)(&path) {
                self.line('-', &path, "");
            }
        }
        Ok(())
    }

    fn one(&mut self, upper: &OwnedFd, lower: Option<&OwnedFd>, name: &CStr, path: &str) -> io::Result<()> {
        let Some(here) = entry(upper.as_fd(), name)? else { return Ok(()) };
        let there = match lower {
            Some(lower) => entry(lower.as_fd(), name)?,
            None => None,
        };
        match (&here, &there) {
            (here, None) if here.is_whiteout() => {}
            (here, Some(_)) if here.is_whiteout() => self.line('-', path, ""),
            (here, there) => {
                let told = here.describe()?;
                match there {
                    None => self.line('+', path, &told),
                    Some(there) if there.describe()? != told => self.line('~', path, &told),
                    Some(_) => {}
                }
            }
        }
        if here.is_dir() { self.below(&here, there, lower, path) } else { Ok(()) }
    }

    /// Compares the content of a directory. The directory below has the same name, or is the origin of a moved
    /// directory, or does not exist.
    fn below(
        &mut self,
        here: &OverlayEntry<'_>,
        there: Option<OverlayEntry<'_>>,
        lower: Option<&OwnedFd>,
        path: &str,
    ) -> io::Result<()> {
        let opened = here.open()?;
        if let Some(from) = self.attribute(&opened, "redirect")? {
            self.line('>', path, &format!("moved from {from}"));
            let from = match (from.strip_prefix('/'), lower) {
                (Some(from), _) => directory(self.bottom, from),
                (None, Some(lower)) => directory(lower.as_fd(), &from),
                (None, None) => None,
            };
            return self.directory(&opened, from.as_ref(), path, false);
        }
        let beneath = there.filter(OverlayEntry::is_dir).map(|there| there.open()).transpose()?;
        let hides = self.attribute(&opened, "opaque")?.as_deref() == Some("y");
        self.directory(&opened, beneath.as_ref(), path, hides)
    }

    fn attribute(&self, directory: &OwnedFd, name: &str) -> io::Result<Option<String>> {
        let mut value = [0; MAX_XATTR_BYTES];
        match rustix::fs::fgetxattr(directory, format!("{}.overlay.{name}", self.namespace), &mut value) {
            Ok(length) => Ok(Some(String::from_utf8_lossy(&value[..length]).into_owned())),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn directory(from: BorrowedFd<'_>, path: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    openat(from, path, flags, Mode::empty()).ok()
}
