//! Walks a path, checking each component.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, fstatfs, openat, readlinkat};
use rustix::io::Errno;

use super::{Changer, Distrust, OTHER_WRITE, Rule, TrustedFile, TrustedUser, bytes, has_content, is_sticky};

const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Maximum number of symbolic links on the way, as in the kernel.
const MAX_LINKS: u32 = 40;

/// `PROC_SUPER_MAGIC` and `FUSE_SUPER_MAGIC` of `linux/magic.h`.
const PROC: u32 = 0x9fa0;
const FUSE: u32 = 0x6573_5546;

pub(super) struct Walk<'a> {
    rule: &'a Rule,
    /// True if kilter uses the entries of the last directory.
    is_listed: bool,
    links: u32,
    /// Number of components below an accepted path; none outside.
    accepted: Option<u32>,
    /// The first component that another user can change. Ignored below an accepted path.
    distrust: Option<(PathBuf, Changer)>,
}

/// An open directory on the way, or an entry of it.
struct OpenEntry {
    fd: Arc<OwnedFd>,
    metadata: Metadata,
    path: PathBuf,
}

impl OpenEntry {
    fn open(directory: Option<&OpenEntry>, name: &[u8], path: PathBuf, flags: OFlags) -> Result<OpenEntry, Errno> {
        let fd = match directory {
            Some(directory) => openat(&*directory.fd, name, flags, Mode::empty())?,
            None => openat(CWD, name, flags, Mode::empty())?,
        };
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(OpenEntry { fd: Arc::new(file.into()), metadata, path })
    }

    fn root() -> Result<OpenEntry, Errno> {
        OpenEntry::open(None, b"/", PathBuf::from("/"), PATH_ONLY | OFlags::DIRECTORY)
    }

    fn is_on(&self, file_system: u32) -> bool {
        // The type of the field is not the same on all architectures.
        fstatfs(&*self.fd).is_ok_and(|found| found.f_type as u32 == file_system)
    }
}

/// Reason why a walk ended early.
enum Stop {
    Errno(Errno),
    Distrust,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(rule: &'a Rule) -> Walk<'a> {
        Walk { rule, is_listed: false, links: 0, accepted: None, distrust: None }
    }

    /// Marks the last directory as one whose entries kilter uses.
    pub(super) fn listed(self) -> Walk<'a> {
        Walk { is_listed: true, ..self }
    }

    pub(super) fn run(mut self, path: &Path) -> Result<TrustedFile, Distrust> {
        let failed = |source: io::Error| Distrust::Io { path: path.to_owned(), source };
        let absolute = std::path::absolute(path).map_err(failed)?;
        let walked = self.walk(bytes(&absolute));
        match (walked, self.distrust.filter(|_| self.accepted.is_none())) {
            (Err(Stop::Errno(errno)), _) => Err(failed(errno.into())),
            (_, Some((component, by))) => {
                // The message shows the path as given if the path itself is the component.
                let component = if component == absolute { path.to_owned() } else { component };
                Err(Distrust::Changeable { path: path.to_owned(), component, by })
            }
            (Ok(file), None) => Ok(file),
            (Err(Stop::Distrust), None) => Err(failed(Errno::PERM.into())),
        }
    }

    fn walk(&mut self, path: &[u8]) -> Result<TrustedFile, Stop> {
        let mut at = OpenEntry::root()?;
        self.accepted = self.rule.accepts(&at.metadata).then_some(0);
        // Remaining components, the next one last.
        let mut todo = components(path);
        while let Some(name) = todo.pop() {
            if name == b".." {
                let path = at.path.parent().unwrap_or(&at.path).to_owned();
                at = OpenEntry::open(Some(&at), b"..", path, PATH_ONLY | OFlags::DIRECTORY)?;
                self.accepted = self.accepted.and_then(|depth| depth.checked_sub(1));
                continue;
            }
            let path = at.path.join(std::ffi::OsStr::from_bytes(&name));
            let entry = OpenEntry::open(Some(&at), &name, path, PATH_ONLY)?;
            let before = self.accepted;
            self.enter(&at, &entry)?;
            if entry.metadata.is_symlink() {
                self.links += 1;
                if self.links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                if todo.is_empty() && at.is_on(PROC) {
                    return inherited(&at, name);
                }
                let target = readlinkat(&*entry.fd, c"", Vec::new())?.into_bytes();
                if target.starts_with(b"/") {
                    if self.accepted.is_some() {
                        // Accepting the link includes accepting its target. The walk to the target is checked from
                        // the root.
                        self.distrust = None;
                    }
                    at = OpenEntry::root()?;
                    self.accepted = self.rule.accepts(&at.metadata).then_some(0);
                } else {
                    self.accepted = before;
                }
                todo.extend(components(&target));
                continue;
            }
            if todo.is_empty() && !entry.metadata.is_dir() {
                return self.finish(at.fd, name, entry);
            }
            at = entry;
        }
        self.finish(Arc::clone(&at.fd), b".".to_vec(), at)
    }

    /// Checks that only trusted users can change which entry a directory has under a name.
    fn enter(&mut self, directory: &OpenEntry, entry: &OpenEntry) -> Result<(), Stop> {
        if self.rule.accepts(&entry.metadata) {
            self.accepted = Some(0);
            return Ok(());
        }
        if let Some(depth) = self.accepted {
            self.accepted = Some(depth + 1);
            return Ok(());
        }
        let changer = match self.rule.level {
            TrustedUser::Root => self.rule.changer_of_entry(directory, entry),
            TrustedUser::User => self.rule.intruder(directory, entry),
            TrustedUser::Any => None,
        };
        self.found(changer)
    }

    /// Checks the end of the path.
    fn finish(&mut self, parent: Arc<OwnedFd>, name: Vec<u8>, entry: OpenEntry) -> Result<TrustedFile, Stop> {
        if self.is_listed && !entry.metadata.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        let is_used = if entry.metadata.is_dir() { self.is_listed } else { has_content(&entry.metadata) };
        if is_used && self.rule.level == TrustedUser::Root && self.accepted.is_none() {
            let by = self.rule.writers(&entry.fd, &entry.metadata);
            self.found(by.map(|by| (entry.path, by)))?;
        }
        Ok(TrustedFile { parent, name, metadata: entry.metadata, is_inherited: false })
    }

    fn found(&mut self, changer: Option<(PathBuf, Changer)>) -> Result<(), Stop> {
        let Some(changer) = changer else { return Ok(()) };
        self.distrust.get_or_insert(changer);
        // Only an accepted path further on can change the result.
        if self.rule.paths.is_empty() { Err(Stop::Distrust) } else { Ok(()) }
    }
}

impl Rule {
    fn accepts(&self, found: &Metadata) -> bool {
        self.paths.contains(&(found.dev(), found.ino()))
    }

    /// Returns an untrusted user who can replace an entry or change a link, if there is one.
    fn changer_of_entry(&self, directory: &OpenEntry, entry: &OpenEntry) -> Option<(PathBuf, Changer)> {
        let (found, is_link) = (&entry.metadata, entry.metadata.is_symlink());
        let owner = || Changer::Owner(found.uid(), found.mode() & 0o7777);
        if let Some(by) = self.writers(&directory.fd, &directory.metadata) {
            if matches!(by, Changer::Owner(..)) || !is_sticky(&directory.metadata) {
                return Some((directory.path.clone(), by));
            }
            let by = match () {
                () if !self.trusts(found.uid()) => owner(),
                () if found.nlink() > 1 && !found.is_dir() => Changer::Linked(found.nlink()),
                () if found.dev() != directory.metadata.dev() && entry.is_on(FUSE) => Changer::Mounted,
                () => return None,
            };
            return Some((entry.path.clone(), by));
        }
        (is_link && !self.trusts(found.uid())).then(|| (entry.path.clone(), owner()))
    }

    /// Returns a third user who owns an entry of a directory that everybody can write to.
    fn intruder(&self, directory: &OpenEntry, entry: &OpenEntry) -> Option<(PathBuf, Changer)> {
        let (found, uid) = (&directory.metadata, entry.metadata.uid());
        let is_intruder = found.mode() & OTHER_WRITE != 0 && uid != found.uid() && !self.trusts(uid);
        is_intruder.then(|| (entry.path.clone(), Changer::Intruder(uid)))
    }
}

/// Returns a descriptor of this process, which the caller of kilter opened.
fn inherited(directory: &OpenEntry, name: Vec<u8>) -> Result<TrustedFile, Stop> {
    let flags = PATH_ONLY.difference(OFlags::NOFOLLOW);
    let entry = OpenEntry::open(Some(directory), &name, directory.path.clone(), flags)?;
    Ok(TrustedFile { parent: Arc::clone(&directory.fd), name, metadata: entry.metadata, is_inherited: true })
}

/// Returns the components of a path, the first one last.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let mut parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
    parts.reverse();
    parts
}
