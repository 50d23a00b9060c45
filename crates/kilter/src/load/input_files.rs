//! Input files of a run, with fingerprints to detect edits.

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use indexmap::IndexMap;

/// Resolution of file system clocks: two writes within this time may leave the same modification time.
const COARSE: Duration = Duration::from_millis(20);

/// Files that were read, or were to be read.
#[derive(Debug, Default)]
pub(crate) struct InputFiles {
    files: RefCell<IndexMap<PathBuf, Option<Fingerprint>>>,
    /// Files that did not exist and are read when they exist.
    awaited: RefCell<Vec<PathBuf>>,
    /// Directories whose complete content counts.
    trees: RefCell<IndexMap<PathBuf, Vec<Fingerprint>>>,
}

/// Fingerprint of a file, which changes with its content.
#[derive(Debug)]
struct Fingerprint {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// True if another content could have the same fingerprint.
    is_fresh: bool,
}

impl Fingerprint {
    /// Returns the fingerprint of a path, if it exists.
    fn of(path: &Path) -> Option<Fingerprint> {
        let found = std::fs::metadata(path).ok()?;
        let is_fresh = found.modified().is_ok_and(|modified| {
            let now = SystemTime::now();
            let apart = now.duration_since(modified).or_else(|_| modified.duration_since(now));
            apart.unwrap_or_default() < COARSE
        });
        Some(Fingerprint {
            place: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            is_fresh,
        })
    }

    /// Returns the fingerprints of a directory's content, in the order of the paths. Unreadable entries have none.
    fn of_tree(path: &Path) -> Vec<Fingerprint> {
        let mut stamps: Vec<Fingerprint> = Fingerprint::of(path).into_iter().collect();
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut below: Vec<(PathBuf, bool)> =
            entries.filter_map(|entry| Some((entry.path(), entry.file_type().ok()?.is_dir()))).collect();
        below.sort_unstable();
        for (path, is_directory) in below {
            match is_directory {
                true => stamps.extend(Fingerprint::of_tree(&path)),
                false => stamps.extend(Fingerprint::of(&path)),
            }
        }
        stamps
    }

    fn id(&self) -> impl PartialEq + use<> {
        (self.place, self.size, self.modified, self.changed)
    }
}

impl InputFiles {
    /// Records a file that is about to be read.
    pub(super) fn note(&self, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.files.borrow_mut().entry(path).or_insert_with_key(|path| Fingerprint::of(path));
    }

    /// Records a file that does not exist and would be read if it existed.
    pub(crate) fn note_awaited(&self, path: &Path) {
        self.note(path);
        self.awaited.borrow_mut().push(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    }

    /// Records a directory whose content is about to be read.
    pub(super) fn note_tree(&self, path: &Path) {
        self.trees.borrow_mut().entry(path.to_owned()).or_insert_with_key(|path| Fingerprint::of_tree(path));
    }

    /// Returns the directories that are recorded with their content, missing ones included.
    pub(crate) fn trees(&self) -> Vec<PathBuf> {
        self.trees.borrow().keys().cloned().collect()
    }

    /// Returns the files to watch: the existing ones, and those that are read when they exist.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let awaited = self.awaited.borrow();
        self.files.borrow().keys().filter(|path| path.is_file() || awaited.contains(path)).cloned().collect()
    }

    /// Returns true if a file may have changed since just before it was read.
    pub(crate) fn may_have_changed(&self) -> bool {
        let is_fresh = |stamp: &Fingerprint| stamp.is_fresh;
        self.files.borrow().values().flatten().any(is_fresh)
            || self.trees.borrow().values().flatten().any(is_fresh)
            || self.has_changed()
    }

    /// Returns true if both records have the same unchanged files.
    pub(crate) fn is_of_same(&self, other: &InputFiles) -> bool {
        let is_same = |one: &Option<Fingerprint>, other: &Option<Fingerprint>| {
            one.as_ref().map(Fingerprint::id) == other.as_ref().map(Fingerprint::id)
        };
        let (files, others) = (self.files.borrow(), other.files.borrow());
        files.len() == others.len()
            && files.iter().all(|(path, stamp)| others.get(path).is_some_and(|other| is_same(stamp, other)))
    }

    /// Returns true if a file, or the content of a directory, has certainly changed.
    fn has_changed(&self) -> bool {
        let is_another_tree = |path: &PathBuf, stamps: &Vec<Fingerprint>| {
            !Fingerprint::of_tree(path).iter().map(Fingerprint::id).eq(stamps.iter().map(Fingerprint::id))
        };
        self.has_changed_file() || self.trees.borrow().iter().any(|(path, stamps)| is_another_tree(path, stamps))
    }

    /// Returns true if a file has certainly changed. The content of directories does not count.
    pub(crate) fn has_changed_file(&self) -> bool {
        let is_another = |path: &PathBuf, stamp: &Option<Fingerprint>| {
            Fingerprint::of(path).map(|now| now.id()) != stamp.as_ref().map(Fingerprint::id)
        };
        self.files.borrow().iter().any(|(path, stamp)| is_another(path, stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_change_is_detected() {
        let place = tempfile::tempdir().unwrap();
        let (file, other) = (place.path().join("file"), place.path().join("other"));
        // The modification time is old, as if the last write was a while ago.
        let settled = |path: &Path| {
            if let Ok(file) = std::fs::File::options().write(true).open(path) {
                file.set_modified(SystemTime::now() - COARSE * 2).unwrap();
            }
            let noted = InputFiles::default();
            noted.note(path);
            assert!(!noted.may_have_changed());
            noted
        };
        let noted = settled(&file);
        std::fs::write(&file, "one").unwrap();
        assert!(noted.may_have_changed(), "made");
        let noted = settled(&file);
        assert_eq!(noted.files(), [file.as_path()]);
        std::fs::write(&file, "two").unwrap();
        assert!(noted.may_have_changed(), "written");
        std::fs::write(&other, "two").unwrap();
        let noted = settled(&file);
        std::fs::rename(&other, &file).unwrap();
        assert!(noted.may_have_changed(), "replaced");
        let noted = settled(&file);
        std::fs::remove_file(&file).unwrap();
        assert!(noted.may_have_changed(), "removed");
        std::fs::write(&file, "one").unwrap();
        let noted = InputFiles::default();
        noted.note(&file);
        assert!(noted.may_have_changed(), "it may have been written again in the same tick of the clock");
    }
}
