//! Records the directories in which this process creates temporary files, so that a later process finds the files of
//! a killed one.
//!
//! `temporary/PID-START-SPACE` in the state directory contains the paths, each followed by a NUL. Its name is that
//! of the process's temporary files ([`temp_names`]). It exists only while there can be temporary files, or until the
//! end of a run that holds a state and [keeps](keep_temporary_record) it.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::open::{self, LIST};
use super::temp_names::{self, Maker};

const DIRECTORY: &str = "temporary";
/// Maximum size of a record that is read, in bytes.
const MAX_RECORD_BYTES: u64 = 16 << 20;
/// Maximum number of unused paths in a record before it is rewritten.
const MAX_STALE: usize = 256;

/// Records of this process.
static OPEN: Mutex<Option<OpenRecords>> = Mutex::new(None);

#[derive(Default)]
struct OpenRecords {
    by_state_dir: FxHashMap<PathBuf, TemporaryRecord>,
    /// State directories whose records stay while they are not in use.
    kept: FxHashSet<PathBuf>,
}

struct TemporaryRecord {
    file: File,
    /// Directories in use, with their number of users.
    used: FxHashMap<Vec<u8>, usize>,
    /// Number of written paths.
    written: usize,
}

/// Keeps a directory in the record until it is dropped.
#[derive(Debug)]
pub(crate) struct Recorded {
    state_dir: PathBuf,
    path: Vec<u8>,
}

/// Records a directory for temporary files. Without a state directory, or if the record cannot be written, the next
/// run that changes a file in the same directory finds them.
pub(crate) fn record(state_dir: Option<&Path>, directory: &OwnedFd) -> Option<Recorded> {
    let state_dir = state_dir?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).ok()?;
    let path = path.into_os_string().into_vec();
    let mut open = open();
    let records = &mut open.get_or_insert_default().by_state_dir;
    if !records.contains_key(state_dir) {
        records.insert(state_dir.to_owned(), TemporaryRecord::begin(state_dir).ok()?);
    }
    let record = records.get_mut(state_dir)?;
    record.add(&path).ok()?;
    Some(Recorded { state_dir: state_dir.to_owned(), path })
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let mut open = open();
        let Some(records) = open.as_mut() else { return };
        let Some(record) = records.by_state_dir.get_mut(&self.state_dir) else { return };
        if let Some(count) = record.used.get_mut(&self.path) {
            *count -= 1;
            if *count == 0 {
                record.used.remove(&self.path);
            }
        }
        if record.written > record.used.len() + MAX_STALE
            && let Ok(shorter) = record.again(&self.state_dir)
        {
            *record = shorter;
        }
        records.remove_unused(&self.state_dir);
    }
}

/// Keeps the record of a state directory until it is dropped, so that each repair need not create and remove it.
#[derive(Debug)]
pub struct KeptRecord {
    state_dir: PathBuf,
}

/// Keeps the record of a state directory, which the first temporary file creates.
pub fn keep_temporary_record(state_dir: &Path) -> KeptRecord {
    open().get_or_insert_default().kept.insert(state_dir.to_owned());
    KeptRecord { state_dir: state_dir.to_owned() }
}

impl Drop for KeptRecord {
    fn drop(&mut self) {
        let mut open = open();
        let Some(records) = open.as_mut() else { return };
        records.kept.remove(&self.state_dir);
        records.remove_unused(&self.state_dir);
    }
}

impl OpenRecords {
    /// Closes a record that is not in use, and removes its file unless it is kept.
    fn remove_unused(&mut self, state_dir: &Path) {
        if self.by_state_dir.get(state_dir).is_some_and(|record| !record.used.is_empty()) {
            return;
        }
        self.by_state_dir.remove(state_dir);
        if !self.kept.contains(state_dir) {
            let _ = std::fs::remove_file(file_of(state_dir));
            // Another process may have its own record.
            let _ = std::fs::remove_dir(state_dir.join(DIRECTORY));
        }
    }
}

impl TemporaryRecord {
    fn begin(state_dir: &Path) -> std::io::Result<TemporaryRecord> {
        let directory = state_dir.join(DIRECTORY);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(TemporaryRecord { file: create(&file_of(state_dir))?, used: FxHashMap::default(), written: 0 })
    }

    fn add(&mut self, path: &[u8]) -> std::io::Result<()> {
        if let Some(count) = self.used.get_mut(path) {
            *count += 1;
            return Ok(());
        }
        self.file.write_all(&[path, b"\0"].concat())?;
        self.written += 1;
        self.used.insert(path.to_vec(), 1);
        Ok(())
    }

    /// Rewrites the record with the directories in use.
    fn again(&self, state_dir: &Path) -> std::io::Result<TemporaryRecord> {
        let new = file_of(state_dir).with_extension("new");
        let mut file = create(&new)?;
        let text: Vec<u8> = self.used.keys().flat_map(|path| [path, &b"\0"[..]].concat()).collect();
        file.write_all(&text)?;
        std::fs::rename(&new, file_of(state_dir))?;
        Ok(TemporaryRecord { file, used: self.used.clone(), written: self.used.len() })
    }
}

fn open() -> MutexGuard<'static, Option<OpenRecords>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn create(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).custom_flags(flags).open(path)
}

fn file_of(state_dir: &Path) -> PathBuf {
    state_dir.join(DIRECTORY).join(Maker::of_this_process().text())
}

/// The result of [`clean_temporary_files`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanedFiles {
    /// Temporary files and directories that were removed, or would be.
    pub removed: Vec<PathBuf>,
    /// Files that could not be removed and directories that could not be searched, each with the reason.
    pub failed: Vec<(PathBuf, String)>,
}

/// Removes temporary files of killed processes: in the directories that they recorded in the state directory, in its
/// backups, and in `directories`. With `noop`, only lists them.
///
/// The caller holds the lock of the state directory, so that no other process with records there runs. In
/// `directories`, only files of certainly ended processes are removed. Files of another boot, container or host are
/// removed if they are a day old.
pub fn clean_temporary_files(state_dir: Option<&Path>, directories: &[PathBuf], noop: bool) -> CleanedFiles {
    let mut cleaned = CleanedFiles::default();
    if let Some(state_dir) = state_dir {
        for (path, maker) in records(state_dir) {
            clean_recorded(&path, maker, noop, &mut cleaned);
        }
        let backups = state_dir.join("backup");
        clean(&backups, &|maker, _| maker.is_gone(), noop, &mut cleaned);
        let directory = state_dir.join(DIRECTORY);
        if !noop && directory.is_dir() {
            let _ = std::fs::remove_dir(directory);
        }
    }
    for directory in directories {
        clean(directory, &|maker, stat| temp_names::is_dead(maker, stat), noop, &mut cleaned);
    }
    cleaned.removed.sort_unstable();
    cleaned.removed.dedup();
    cleaned
}

/// Returns the records of ended processes.
fn records(state_dir: &Path) -> Vec<(PathBuf, Maker)> {
    let Ok(entries) = std::fs::read_dir(state_dir.join(DIRECTORY)) else { return Vec::new() };
    let record = |path: PathBuf| {
        let maker = Maker::parse(path.file_stem()?.to_str()?)?;
        maker.is_gone().then_some((path, maker))
    };
    entries.filter_map(|entry| record(entry.ok()?.path())).collect()
}

fn clean_recorded(record: &Path, maker: Maker, noop: bool, cleaned: &mut CleanedFiles) {
    let mut bytes = Vec::new();
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(record);
    if let Err(error) = opened.and_then(|file| file.take(MAX_RECORD_BYTES).read_to_end(&mut bytes)) {
        cleaned.failed.push((record.to_owned(), error.to_string()));
        return;
    }
    let failed = cleaned.failed.len();
    let mut paths: Vec<&[u8]> = bytes.split(|byte| *byte == 0).filter(|path| path.starts_with(b"/")).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        clean(Path::new(OsStr::from_bytes(path)), &|found, _| found == maker, noop, cleaned);
    }
    // The next run retries files that could not be removed.
    if !noop && cleaned.failed.len() == failed {
        let _ = std::fs::remove_file(record);
    }
}

fn clean(directory: &Path, is_dead: &dyn Fn(Maker, &rustix::fs::Stat) -> bool, noop: bool, cleaned: &mut CleanedFiles) {
    let fd = match open_directory(directory) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return,
        Err(errno) => {
            cleaned.failed.push((directory.to_owned(), std::io::Error::from(errno).to_string()));
            return;
        }
    };
    for (name, removed) in temp_names::remove(&fd, is_dead, noop) {
        let path = directory.join(OsStr::from_bytes(&name));
        match removed {
            Ok(()) => cleaned.removed.push(path),
            Err(errno) => cleaned.failed.push((path, std::io::Error::from(errno).to_string())),
        }
    }
}

/// Opens a directory by its recorded path, without following links.
fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, LIST, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => match path.to_str().map(|path| open::open(path, LIST)) {
            Some(Ok(fd)) => Ok(fd),
            Some(Err(error)) if error.is_missing() => Err(Errno::NOENT),
            _ => Err(Errno::ACCESS),
        },
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(home: &Path, name: &str) -> (PathBuf, OwnedFd) {
        let path = std::fs::canonicalize(home).unwrap().join(name);
        std::fs::create_dir(&path).unwrap();
        let fd = open_directory(&path).unwrap();
        (path, fd)
    }

    #[test]
    fn directory_is_recorded_while_it_is_in_use() {
        let home = tempfile::tempdir().unwrap();
        let (_, one) = directory(home.path(), "one");
        let (_, two) = directory(home.path(), "two");
        let state = home.path().join("state");
        let read = || std::fs::read_to_string(file_of(&state)).unwrap_or_default();
        let first = record(Some(&state), &one);
        let again = record(Some(&state), &one);
        let other = record(Some(&state), &two);
        assert_eq!(read().matches('\0').count(), 2, "{}", read());
        drop(first);
        drop(other);
        assert!(read().contains("/one\0"));
        drop(again);
        assert!(!state.join(DIRECTORY).exists(), "a run that ends leaves no record");
    }

    #[test]
    fn record_of_many_directories_stays_short() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        let (_, kept) = directory(home.path(), "kept");
        let _kept = record(Some(&state), &kept);
        for number in 0..2 * MAX_STALE {
            let (_, fd) = directory(home.path(), &number.to_string());
            drop(record(Some(&state), &fd));
        }
        let text = std::fs::read_to_string(file_of(&state)).unwrap();
        assert!(text.matches('\0').count() <= MAX_STALE + 1 && text.contains("/kept\0"), "{}", text.len());
    }

    #[test]
    fn only_files_of_the_process_that_recorded_the_directory_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        let (path, _) = directory(home.path(), "d");
        let (dead, other) = ("1-0-1", "2-0-1");
        let file = |maker: &str| path.join(format!(".kilter.{maker}-0123456789abcdef"));
        for name in [file(dead), file(other), path.join(".kilter.conf"), path.join(".kilter.1-0-1-x")] {
            std::fs::write(name, "").unwrap();
        }
        std::os::unix::fs::symlink(home.path(), path.join(".kilter.1-0-1-00000000000000aa")).unwrap();
        std::fs::create_dir_all(state.join(DIRECTORY)).unwrap();
        let gone = home.path().join("gone");
        let recorded = format!("{}\0{}\0relative\0", path.display(), gone.display());
        std::fs::write(state.join(DIRECTORY).join(dead), recorded).unwrap();
        let listed = clean_temporary_files(Some(&state), &[], true);
        assert_eq!((listed.removed.len(), listed.failed.len()), (2, 0), "{listed:?}");
        assert!(file(dead).exists() && state.join(DIRECTORY).join(dead).exists());
        assert_eq!(clean_temporary_files(Some(&state), &[], false), listed);
        let mut left: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort_unstable();
        assert_eq!(left, [".kilter.1-0-1-x", ".kilter.2-0-1-0123456789abcdef", ".kilter.conf"]);
        assert!(!state.join(DIRECTORY).exists());
    }

    #[test]
    fn kept_record_stays_between_two_uses_and_ends_with_its_guard() {
        let home = tempfile::tempdir().unwrap();
        let (path, fd) = directory(home.path(), "d");
        let state = home.path().join("state");
        let kept = keep_temporary_record(&state);
        assert!(!state.exists());
        for _ in 0..2 {
            drop(record(Some(&state), &fd));
            let text = std::fs::read(file_of(&state)).unwrap();
            assert!(text.starts_with(path.as_os_str().as_bytes()));
        }
        drop(kept);
        assert!(!state.join(DIRECTORY).exists());
        drop(record(Some(&state), &fd));
        assert!(!state.join(DIRECTORY).exists());
    }

    #[test]
    fn file_of_a_living_process_stays_everywhere() {
        let home = tempfile::tempdir().unwrap();
        let (path, fd) = directory(home.path(), "d");
        let state = home.path().join("state");
        let recorded = record(Some(&state), &fd);
        std::fs::write(path.join(temp_names::temporary_name()), "").unwrap();
        let cleaned = clean_temporary_files(Some(&state), std::slice::from_ref(&path), false);
        assert_eq!(cleaned, CleanedFiles::default());
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        drop(recorded);
    }

    #[test]
    fn link_in_the_place_of_a_recorded_directory_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        let (path, _) = directory(home.path(), "victim");
        std::fs::write(path.join(".kilter.1-0-1-0123456789abcdef"), "").unwrap();
        let link = path.with_file_name("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::fs::create_dir_all(state.join(DIRECTORY)).unwrap();
        std::fs::write(state.join(DIRECTORY).join("1-0-1"), format!("{}\0", link.display())).unwrap();
        let cleaned = clean_temporary_files(Some(&state), &[], false);
        assert_eq!((cleaned.removed.len(), cleaned.failed.len()), (0, 1), "{cleaned:?}");
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
    }
}
