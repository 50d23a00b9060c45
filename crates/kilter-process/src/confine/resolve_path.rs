//! Resolves a path that another process uses.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// Maximum number of links in a path, as in the kernel.
const LINKS: usize = 40;

/// Target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResolvedPath {
    /// An existing file.
    There { path: PathBuf, is_directory: bool },
    /// A free name in an existing directory.
    Free { path: PathBuf },
    /// A pipe, a socket or a file without a name.
    Nameless,
}

/// Start of a relative path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    WorkingDirectory,
    Descriptor(i32),
}

/// Treatment of a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Followed,
    Itself,
}

/// File system as a process sees it: its root, its directories, its descriptors.
pub(super) struct ProcessView {
    number: u32,
    /// Root of the process, as a path of kilter.
    root: PathBuf,
}

impl ProcessView {
    /// Returns the view of a thread; none if kilter may not inspect it.
    pub(super) fn of(number: u32) -> Option<ProcessView> {
        let root = std::fs::read_link(format!("/proc/{number}/root")).ok()?;
        Some(ProcessView { number, root })
    }

    /// Returns the target of a path, as a path of kilter; none if there is no target or it cannot be resolved.
    pub(super) fn lead(&self, base: Base, path: &Path, last: Last) -> Option<ResolvedPath> {
        let mut at = PathBuf::from("/");
        let mut rest = Vec::new();
        if path.is_relative() {
            match self.opened(base)? {
                ResolvedPath::There { path, .. } => {
                    at = path.strip_prefix(&self.root).ok().map(|inside| at.join(inside))?
                }
                ResolvedPath::Free { .. } | ResolvedPath::Nameless => return None,
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
                    let Some(target) = target else { return Some(ResolvedPath::Nameless) };
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    push(&mut rest, &target);
                }
                Err(error) if error.kind() == ErrorKind::NotFound && rest.is_empty() => {
                    return Some(ResolvedPath::Free { path: self.named(&next) });
                }
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => at = next,
                Err(_) => return None,
            }
        }
        match std::fs::symlink_metadata(self.seen(&at)) {
            Ok(found) => Some(ResolvedPath::There { path: self.named(&at), is_directory: found.is_dir() }),
            Err(error) if error.kind() == ErrorKind::NotFound => Some(ResolvedPath::Free { path: self.named(&at) }),
            Err(_) => None,
        }
    }

    /// Returns the file of a descriptor, or the working directory.
    pub(super) fn opened(&self, base: Base) -> Option<ResolvedPath> {
        let link = match base {
            Base::WorkingDirectory => format!("/proc/{}/cwd", self.number),
            Base::Descriptor(descriptor) => format!("/proc/{}/fd/{descriptor}", self.number),
        };
        let path = std::fs::read_link(link).ok()?;
        let is_named = has_name(&path);
        Some(if is_named { ResolvedPath::There { path, is_directory: false } } else { ResolvedPath::Nameless })
    }

    /// Replaces `self` in `/proc` by the other process.
    fn meant(&self, at: &Path, name: &OsStr) -> OsString {
        match (at.as_os_str().as_encoded_bytes(), name.as_encoded_bytes()) {
            (b"/proc", b"self") => self.number.to_string().into(),
            (b"/proc", b"thread-self") => format!("{0}/task/{0}", self.number).into(),
            _ => name.to_owned(),
        }
    }

    /// Translates the target of a link in `/proc/PID`, a path of kilter, to a path of the process. Returns none if
    /// the process cannot reach it. The inner option is none if the target is not a path.
    fn inside(&self, target: PathBuf) -> Option<Option<PathBuf>> {
        if !has_name(&target) {
            return Some(None);
        }
        target.strip_prefix(&self.root).ok().map(|inside| Some(Path::new("/").join(inside)))
    }

    /// Returns a path of the process as a path that kilter can open, through `/proc/PID/root`.
    fn seen(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.number));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns a path of the process as a path of kilter.
    fn named(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Returns true if the link of a descriptor is a path, and not `pipe:[7]` or a file in memory.
fn has_name(path: &Path) -> bool {
    path.is_absolute() && !path.as_os_str().as_encoded_bytes().starts_with(b"/memfd:")
}

/// Returns true if the path is a link in `/proc/PID` that the kernel resolves to an open file of the process.
fn is_of_process(path: &Path) -> bool {
    let mut names = path.components().skip(1).map(Component::as_os_str);
    names.next() == Some(OsStr::new("proc"))
        && names.next().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

/// Pushes the components of a path on the stack of components to resolve.
fn push(rest: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    rest.extend(parts);
}
