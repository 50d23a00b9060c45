//! Backups of replaced and removed files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ecow::EcoString;
use kilter_model::Value;
use kilter_provider::Interrupt;
use rustc_hash::FxHashMap;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags, fsync, linkat, statat};
use rustix::io::Errno;

use super::acl_policy::AclPolicy;
use super::content::{self, Hasher};
use super::copy::Source;
use super::durable::PendingFsync;
use super::error::FileError;
use super::kind::Kind;
use super::mode::{ALL, SET_ID};
use super::open::{LIST, Parent, READ, is_own};
use super::opened_path::{FoundEntry, OpenedPath, list, look_at, look_within, open_seen};
use super::ownership::Ownership;
use super::spec::Checksum;
use super::stage::{Data, Temporary, rename_new, stage};
use super::{mode, temp_names};

/// Maximum number of backups of a path with a suffix.
const MOST: usize = 10_000;
/// Maximum size in bytes of a file that is read for a backup.
const MAX_BACKUP_BYTES: u64 = 1 << 30;
/// Maximum size in bytes of a file that another user can write, also of all such files of a change. They may be
/// as large as the file system allows, and a backup of this size delays a run by less than a second.
const MAX_FOREIGN_BACKUP_BYTES: u64 = 16 << 20;
/// Minimum number of bytes that a file counts. It bounds the number of small files.
const MIN_FOREIGN_BACKUP_BYTES: u64 = 4 << 10;

/// Destination of backups.
pub(super) struct Keeper<'a> {
    /// State directory, if there is one.
    var_dir: Option<&'a Path>,
    /// Files that must be on disk before the originals may be removed.
    barrier: &'a mut PendingFsync,
    copies: &'a mut Copies,
    /// True if backups must survive a crash.
    durable: bool,
    /// Interrupts a long backup.
    interrupt: Interrupt<'a>,
    /// Index of the change.
    index: usize,
}

/// Copies in the state directory that wait for their names. A copy gets its name when it is on disk, and one flush
/// covers many copies.
#[derive(Default)]
pub(super) struct Copies {
    waiting: Vec<Copied>,
    written: PendingFsync,
    /// For each change, the number of bytes read from files that another user can write.
    foreign_bytes: FxHashMap<usize, u64>,
}

/// A copy with a temporary name, which is removed if the copy gets no other.
struct Copied {
    temporary: PathBuf,
    kept: PathBuf,
    size: u64,
    checksum: EcoString,
    /// Line of the index.
    line: String,
}

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.temporary);
    }
}

impl Copies {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl<'a> Keeper<'a> {
    pub(super) fn new(
        var_dir: Option<&'a Path>,
        (barrier, copies): (&'a mut PendingFsync, &'a mut Copies),
        durable: bool,
        interrupt: Interrupt<'a>,
        index: usize,
    ) -> Keeper<'a> {
        Keeper { var_dir, barrier, copies, durable, interrupt, index }
    }

    /// Backs up an entry as `backup` declares. The original stays in place, except a directory that gets a suffix.
    ///
    /// A copy in the state directory is complete after [`Keeper::settle`].
    pub(super) fn keep(
        &mut self,
        parent: &Rc<Parent>,
        leaf: &[u8],
        old: &OpenedPath,
        backup: &Value,
    ) -> Result<(), FileError> {
        match (backup.as_str(), old.kind) {
            (Some(suffix), Kind::File) => self.beside(parent, leaf, old, &[leaf, suffix.as_bytes()].concat()),
            (Some(suffix), Kind::Directory) => move_aside(parent, leaf, &[leaf, suffix.as_bytes()].concat()),
            (None, Kind::File) => self.store(&parent.fd, leaf, old, &parent.join(leaf)),
            (None, Kind::Directory) => self.store_tree(&parent.fd, leaf, old, &parent.join(leaf), 0),
            _ => Ok(()),
        }
    }

    /// Gives the old file a second name, which it keeps after its first name is reused.
    fn beside(&mut self, parent: &Rc<Parent>, leaf: &[u8], old: &OpenedPath, name: &[u8]) -> Result<(), FileError> {
        let path = parent.join(name);
        let failed = |errno| FileError::io("keep the backup", &path, errno);
        let temporary = Temporary::new(parent);
        match linkat(&parent.fd, leaf, &parent.fd, temporary.name(), AtFlags::empty()) {
            Ok(()) => {}
            // File systems without hard links, and systems that protect files of other users.
            Err(Errno::PERM | Errno::NOTSUP | Errno::MLINK) => return self.copy_beside(parent, leaf, old, name),
            Err(errno) => return Err(failed(errno)),
        }
        let linked = statat(&parent.fd, temporary.name(), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        if (linked.st_dev, linked.st_ino) != (old.stat.st_dev, old.stat.st_ino) {
            return Err(FileError::Swapped(parent.join(leaf)));
        }
        // Recent writes to the old file may be in memory only.
        if self.durable
            && let Ok(fd) = open_seen(&parent.fd, leaf, &path, &old.stat, READ)
        {
            self.barrier.add(parent.stat.st_dev, fd, path)?;
        }
        self.beside_as(temporary, parent, leaf, old, name)
    }

    fn copy_beside(
        &mut self,
        parent: &Rc<Parent>,
        leaf: &[u8],
        old: &OpenedPath,
        name: &[u8],
    ) -> Result<(), FileError> {
        let path = parent.join(leaf);
        self.reserve(&path, old)?;
        let source = Source::of(open_seen(&parent.fd, leaf, &path, &old.stat, READ)?, path)?;
        let wanted = Ownership {
            uid: Some(old.stat.st_uid),
            gid: Some(old.stat.st_gid),
            bits: Some(old.stat.st_mode & ALL & !SET_ID),
            ..Ownership::default()
        };
        let staged =
            stage(parent, leaf, &Data::Copy(&source, true, self.interrupt), wanted, Some(old), &AclPolicy::Keep)?;
        if self.durable {
            fsync(&staged.fd).map_err(|errno| FileError::io("flush", parent.join(name), errno))?;
        }
        self.beside_as(staged.temporary, parent, leaf, old, name)
    }

    /// Gives a backup the first free name, unless an equal backup exists.
    fn beside_as(
        &mut self,
        mut temporary: Temporary,
        parent: &Parent,
        leaf: &[u8],
        old: &OpenedPath,
        name: &[u8],
    ) -> Result<(), FileError> {
        for name in names(name) {
            match temporary.persist_as(&name) {
                Ok(()) => return self.note_directory(parent),
                Err(Errno::EXIST) if is_kept(parent, leaf, old, &name, self.interrupt)? => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(FileError::io("keep the backup", parent.join(&name), errno)),
            }
        }
        Err(FileError::BackupExists(parent.join(name)))
    }

    /// Adds a directory to the barrier, because the new name must be on disk before the original is removed.
    fn note_directory(&mut self, parent: &Parent) -> Result<(), FileError> {
        match parent.fd.try_clone() {
            Ok(fd) if self.durable && parent.readable => self.barrier.add(parent.stat.st_dev, fd, parent.path.clone()),
            _ => Ok(()),
        }
    }

    fn store_tree(
        &mut self,
        directory: &OwnedFd,
        leaf: &[u8],
        old: &OpenedPath,
        path: &str,
        depth: usize,
    ) -> Result<(), FileError> {
        if depth > super::error::MAX_DEPTH {
            return Err(FileError::TooDeep(path.to_owned()));
        }
        let opened = open_seen(directory, leaf, path, &old.stat, LIST)?;
        for name in list(&opened, path)? {
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            let entry = match look_within(&opened, &name, &path)? {
                FoundEntry::Here(entry) => entry,
                FoundEntry::Missing => continue,
                // A mounted directory will not be removed either.
                FoundEntry::Mounted => return Err(FileError::OtherFileSystem(path)),
            };
            match entry.kind {
                Kind::Directory => self.store_tree(&opened, &name, &entry, &path, depth + 1)?,
                Kind::File => self.store(&opened, &name, &entry, &path)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Copies a content to the state directory. Its name will be the checksum of the copied bytes.
    fn store(&mut self, directory: &OwnedFd, leaf: &[u8], old: &OpenedPath, path: &str) -> Result<(), FileError> {
        let var_dir = self.var_dir.ok_or_else(|| FileError::NoBackupDir(path.to_owned()))?;
        let limit = self.reserve(path, old)?;
        let fd = open_seen(directory, leaf, path, &old.stat, READ)?;
        let store = var_dir.join("backup");
        let failed = |error: std::io::Error| failed_at(&store, &error);
        DirBuilder::new().recursive(true).mode(0o700).create(&store).map_err(failed)?;
        let (temporary, file, checksum) = self.copy(&fd, path, &store, limit)?;
        let digits = checksum.trim_start_matches("{sha256}");
        let kept = store.join(&digits[..2]).join(digits);
        let line = line(digits, old, path);
        self.copies.waiting.push(Copied { temporary, kept, size: old.size(), checksum, line });
        if self.durable {
            let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
            self.copies.written.add(stat.st_dev, file.into(), path.to_owned())?;
        }
        Ok(())
    }

    /// Copies a content to a temporary file. Returns the file and its checksum.
    fn copy(
        &self,
        from: &OwnedFd,
        path: &str,
        store: &Path,
        limit: u64,
    ) -> Result<(PathBuf, File, EcoString), FileError> {
        let temporary = store.join(temp_names::temporary_name());
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
            let checksum = copy_at_most(limit, from, &mut file, self.interrupt)?;
            Ok((file, checksum))
        };
        match write() {
            Ok((file, checksum)) => Ok((temporary, file, checksum)),
            Err(error) => {
                let _ = std::fs::remove_file(&temporary);
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                Err(FileError::io("keep the backup of", path, errno))
            }
        }
    }

    /// Flushes the copies in the state directory, gives them their names, and adds lines about their origins.
    ///
    /// An existing file with the name of a copy is reused only if its content is equal.
    pub(super) fn settle(mut self) -> Result<(), FileError> {
        let copies = std::mem::take(&mut self.copies.waiting);
        std::mem::take(&mut self.copies.written).wait()?;
        let Some(var_dir) = self.var_dir.filter(|_| !copies.is_empty()) else { return Ok(()) };
        let mut lines = String::new();
        for copied in &copies {
            self.name(&copied.temporary, &copied.kept, copied.size, &copied.checksum)?;
            lines += &copied.line;
        }
        self.index(var_dir, &lines)
    }

    /// Renames a copy to its final name, unless an equal copy exists.
    fn name(&mut self, temporary: &Path, kept: &Path, size: u64, checksum: &str) -> Result<(), FileError> {
        let failed = |error: std::io::Error| failed_at(kept, &error);
        if let Some(file) = self.intact(kept, size, checksum) {
            return self.note(file.into(), kept);
        }
        let directory = kept.parent().unwrap_or(kept);
        let is_new = match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed(error)),
        };
        std::fs::rename(temporary, kept).map_err(failed)?;
        self.note(File::open(directory).map_err(failed)?.into(), directory)?;
        // New directories must be on disk too.
        for above in directory.ancestors().skip(1).take(if is_new { 2 } else { 0 }) {
            self.note(File::open(above).map_err(failed)?.into(), above)?;
        }
        Ok(())
    }

    /// Opens a copy of an earlier run if its content matches its name.
    fn intact(&self, kept: &Path, size: u64, checksum: &str) -> Option<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(kept).ok()?;
        let found = file.metadata().ok()?;
        let is_same =
            || content::checksum_of_file(Checksum::Sha256, file.as_fd(), self.interrupt).as_deref() == Ok(checksum);
        (found.is_file() && found.len() == size && is_same()).then_some(file)
    }

    fn index(&mut self, var_dir: &Path, line: &str) -> Result<(), FileError> {
        let path = var_dir.join("backup/index");
        let failed = |error: std::io::Error| failed_at(&path, &error);
        // Do not block on a FIFO.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(flags);
        let mut file = options.open(&path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(Errno::NXIO.into()));
        }
        file.write_all(line.as_bytes()).map_err(failed)?;
        self.note(file.into(), &path)
    }

    /// Returns the maximum number of bytes to read from a file, or refuses a file that is too large.
    fn reserve(&mut self, path: &str, old: &OpenedPath) -> Result<u64, FileError> {
        let is_foreign = is_foreign(old);
        let limit = if is_foreign { MAX_FOREIGN_BACKUP_BYTES } else { MAX_BACKUP_BYTES };
        let size = old.size();
        if size > limit {
            return Err(FileError::BackupTooLarge { path: path.to_owned(), size, limit });
        }
        if !is_foreign {
            return Ok(limit);
        }
        let used = self.copies.foreign_bytes.entry(self.index).or_default();
        let left = limit - *used;
        let counted = size.max(MIN_FOREIGN_BACKUP_BYTES);
        if counted > left {
            return Err(FileError::BackupsTooLarge { path: path.to_owned(), size, limit });
        }
        *used += counted;
        // The file may grow after it was counted.
        Ok(counted)
    }

    fn note(&mut self, file: OwnedFd, path: &Path) -> Result<(), FileError> {
        if !self.durable {
            return Ok(());
        }
        let path = path.display().to_string();
        let stat = rustix::fs::fstat(&file).map_err(|errno| FileError::io("inspect", &path, errno))?;
        self.barrier.add(stat.st_dev, file, path)
    }
}

/// Copies a content and returns its checksum.
///
/// # Errors
/// `FBIG` if it has more bytes than `limit`, because it may grow meanwhile.
fn copy_at_most(
    limit: u64,
    from: &OwnedFd,
    to: &mut impl Write,
    interrupt: Interrupt<'_>,
) -> Result<EcoString, std::io::Error> {
    let mut hasher = Hasher::of(Checksum::Sha256);
    let mut left = limit;
    let mut written: std::io::Result<()> = Ok(());
    content::each_chunk(from.as_fd(), &mut |chunk| {
        let rest = left.checked_sub(chunk.len() as u64).ok_or(Errno::FBIG);
        let go_on = rest.and_then(|rest| content::go_on(interrupt).map(|()| rest));
        written = go_on.map_err(Into::into).and_then(|rest| {
            left = rest;
            hasher.update(chunk);
            to.write_all(chunk)
        });
        written.is_ok()
    })?;
    written?;
    Ok(hasher.finish())
}

/// Returns true if users other than root and kilter's user can write a file.
fn is_foreign(old: &OpenedPath) -> bool {
    !is_own(old.stat.st_uid) || old.stat.st_mode & 0o022 != 0
}

/// Returns true if an entry is a backup with the content of the old file.
fn is_kept(
    parent: &Parent,
    leaf: &[u8],
    old: &OpenedPath,
    name: &[u8],
    interrupt: Interrupt<'_>,
) -> Result<bool, FileError> {
    let path = parent.join(name);
    let Some(kept) = look_at(&parent.fd, name, &path)? else { return Ok(false) };
    let of = |looked: &OpenedPath| (looked.kind, looked.stat.st_uid, looked.stat.st_gid, looked.stat.st_size);
    if of(&kept) != of(old) {
        return Ok(false);
    }
    if (kept.stat.st_dev, kept.stat.st_ino) == (old.stat.st_dev, old.stat.st_ino) {
        return Ok(true);
    }
    // A second backup is cheaper than reading files of any size.
    if old.size() > if is_foreign(old) { MAX_FOREIGN_BACKUP_BYTES } else { MAX_BACKUP_BYTES } {
        return Ok(false);
    }
    let kept = open_seen(&parent.fd, name, &path, &kept.stat, READ);
    let found = open_seen(&parent.fd, leaf, &parent.join(leaf), &old.stat, READ);
    // A file that cannot be compared gets a separate backup.
    let (Ok(kept), Ok(found)) = (kept, found) else { return Ok(false) };
    content::same(kept.as_fd(), found.as_fd(), old.size(), interrupt)
        .map_err(|errno| FileError::io("compare", path, errno))
}

/// Renames a directory as a whole to the first free backup name.
fn move_aside(parent: &Parent, leaf: &[u8], name: &[u8]) -> Result<(), FileError> {
    for name in names(name) {
        match rename_new(&parent.fd, leaf, &parent.fd, &name) {
            Ok(()) => return Ok(()),
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            Err(errno) => return Err(FileError::io("keep the backup", parent.join(&name), errno)),
        }
    }
    Err(FileError::BackupExists(parent.join(name)))
}

/// Returns the name of a backup, followed by numbered variants.
fn names(name: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let numbered = (1..MOST).map(move |number| [name, format!(".{number}").as_bytes()].concat());
    std::iter::once(name.to_vec()).chain(numbered)
}

/// Formats `time sha256 mode uid:gid size path`. The path comes last, with line breaks escaped.
fn line(digits: &str, old: &OpenedPath, path: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0));
    let path = path.replace('\\', "\\\\").replace('\n', "\\n");
    let (uid, gid, mode) = (old.stat.st_uid, old.stat.st_gid, mode::text(old.stat.st_mode));
    format!("{} {digits} {mode} {uid}:{gid} {} {path}\n", super::time::utc(now), old.size())
}

fn failed_at(path: &Path, error: &std::io::Error) -> FileError {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
    FileError::io("keep the backup", PathBuf::from(path).display().to_string(), errno)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn files_that_another_user_can_write_share_a_smaller_limit() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name).display().to_string();
        let parent = Rc::new(super::super::open::open_parent(&path("x")).unwrap());
        let never = AtomicBool::new(false);
        let mut barrier = PendingFsync::default();
        let mut copies = Copies::default();
        let mut reserve = |index: usize, name: &str, mode: u32, size: u64| {
            let file = File::create(path(name)).unwrap();
            file.set_len(size).unwrap();
            file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            let Ok(Some(old)) = look_at(&parent.fd, name.as_bytes(), &path(name)) else { panic!("{name} is there") };
            // Each entry of a tree has a keeper of its own.
            let kept = (&mut barrier, &mut copies);
            let mut keeper = Keeper::new(None, kept, false, Interrupt::new(&never, None), index);
            keeper.reserve(&path(name), &old)
        };
        let half = MAX_FOREIGN_BACKUP_BYTES / 2;
        let too_large = reserve(0, "foreign", 0o666, MAX_FOREIGN_BACKUP_BYTES + 1);
        assert!(matches!(too_large, Err(FileError::BackupTooLarge { .. })), "{too_large:?}");
        assert!(reserve(0, "half", 0o666, half).is_ok() && reserve(0, "rest", 0o666, half - 1).is_ok());
        let more = reserve(0, "more", 0o666, 1);
        assert!(matches!(more, Err(FileError::BackupsTooLarge { size: 1, .. })), "{more:?}");
        assert!(reserve(1, "other", 0o666, 2 * half).is_ok(), "another change");
        assert!(reserve(0, "own", 0o644, MAX_BACKUP_BYTES).is_ok());
        assert!(reserve(0, "large", 0o644, MAX_BACKUP_BYTES + 1).is_err());
        assert_eq!(reserve(3, "first", 0o666, half).unwrap(), half, "not the whole limit");
        // Empty files count as well.
        let most = MAX_FOREIGN_BACKUP_BYTES / MIN_FOREIGN_BACKUP_BYTES;
        assert!((0..most).all(|_| reserve(2, "empty", 0o666, 0).is_ok()) && reserve(2, "empty", 0o666, 0).is_err());
    }

    #[test]
    fn backup_may_be_as_large_as_the_limit() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x");
        std::fs::write(&path, "1234").unwrap();
        let from = OwnedFd::from(File::open(&path).unwrap());
        let never = AtomicBool::new(false);
        for (limit, is_copied) in [(3, false), (4, true), (5, true)] {
            let mut copied = Vec::new();
            let result = copy_at_most(limit, &from, &mut copied, Interrupt::new(&never, None));
            assert_eq!((result.is_ok(), copied == b"1234"), (is_copied, is_copied), "{limit}: {result:?}");
        }
    }
}
