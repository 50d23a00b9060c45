//! Where a path leads that another process names.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// How many links a path may lead through, as in the kernel.
const LINKS: usize = 40;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To something that is there.
    There { path: PathBuf, is_directory: bool },
    /// To a name that is free, in a directory that is there.
    Free { path: PathBuf },
    /// To a pipe, a socket or a file without a name.
    Nameless,
}

/// What a path begins at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    WorkingDirectory,
    Descriptor(i32),
}

/// What becomes of a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Followed,
    Itself,
}

/// The eyes of a process: its root, its directories, its descriptors.
pub(super) struct View {
    number: u32,
    /// Its root, as kilter sees it.
    root: PathBuf,
}

impl View {
    /// Of a thread. None if it may not be looked into.
    pub(super) fn of(number: u32) -> Option<View> {
        let root = std::fs::read_link(format!("/proc/{number}/root")).ok()?;
        Some(View { number, root })
    }

    /// Where a path leads, as kilter would name it. None if it leads nowhere, or that cannot be found out.
    pub(super) fn lead(&self, base: Base, path: &Path, last: Last) -> Option<Place> {
        let mut at = PathBuf::from("/");
        let mut rest = Vec::new();
        if path.is_relative() {
            match self.opened(base)? {
                Place::There { path, .. } => at = path.strip_prefix(&self.root).ok().map(|inside| at.join(inside))?,
                Place::Free { .. } | Place::Nameless => return None,
            }
        }
        push(&mut rest, path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(self.meant(&at, &name));
            if rest.is_empty() && last == Last::Itself {
                at = next;
                break;
            }
            match std::fs::read_link(self.seen(&next)) {
                Ok(target) => {
                    links += 1;
                    if links > LINKS {
                        return None;
                    }
                    let target = if is_of_process(&next) { self.inside(target)? } else { Some(target) };
                    let Some(target) = target else { return Some(Place::Nameless) };
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    push(&mut rest, &target);
                }
                Err(error) if error.kind() == ErrorKind::NotFound && rest.is_empty() => {
                    return Some(Place::Free { path: self.named(&next) });
                }
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => at = next,
                Err(_) => return None,
            }
        }
        match std::fs::symlink_metadata(self.seen(&at)) {
            Ok(found) => Some(Place::There { path: self.named(&at), is_directory: found.is_dir() }),
            Err(error) if error.kind() == ErrorKind::NotFound => Some(Place::Free { path: self.named(&at) }),
            Err(_) => None,
        }
    }

    /// What a descriptor, or the working directory, is.
    pub(super) fn opened(&self, base: Base) -> Option<Place> {
        let link = match base {
            Base::WorkingDirectory => format!("/proc/{}/cwd", self.number),
            Base::Descriptor(descriptor) => format!("/proc/{}/fd/{descriptor}", self.number),
        };
        let path = std::fs::read_link(link).ok()?;
        let is_named = has_name(&path);
        Some(if is_named { Place::There { path, is_directory: false } } else { Place::Nameless })
    }

    /// `self` in `/proc` is the other process.
    fn meant(&self, at: &Path, name: &OsStr) -> OsString {
        match (at.as_os_str().as_encoded_bytes(), name.as_encoded_bytes()) {
            (b"/proc", b"self") => self.number.to_string().into(),
            (b"/proc", b"thread-self") => format!("{0}/task/{0}", self.number).into(),
            _ => name.to_owned(),
        }
    }

    /// What a link of `/proc/PID` says is what kilter would name it; none where it names nothing.
    fn inside(&self, target: PathBuf) -> Option<Option<PathBuf>> {
        if !has_name(&target) {
            return Some(None);
        }
        target.strip_prefix(&self.root).ok().map(|inside| Some(Path::new("/").join(inside)))
    }

    /// The way to a file through the eyes of the process.
    fn seen(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.number));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A path of the process as kilter would name it.
    fn named(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Whether a link of a descriptor names a file: not `pipe:[7]`, nor a file in memory.
fn has_name(path: &Path) -> bool {
    path.is_absolute() && !path.as_os_str().as_encoded_bytes().starts_with(b"/memfd:")
}

/// Whether a path is that of a link that the kernel makes of what a process has open.
fn is_of_process(path: &Path) -> bool {
    let mut names = path.components().skip(1).map(Component::as_os_str);
    names.next() == Some(OsStr::new("proc"))
        && names.next().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

/// Puts the parts of a path on the stack of those that are still to be walked.
fn push(rest: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    rest.extend(parts);
}
