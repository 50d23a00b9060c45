//! The files that a run was made from, and what they were when they were read.

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use indexmap::IndexMap;

/// What was written so shortly before a look may be written again without the time of it showing that: the clock of file
/// systems is a coarse one.
const COARSE: Duration = Duration::from_millis(20);

/// The files that were read, or were to be read.
#[derive(Debug, Default)]
pub(crate) struct Noted(RefCell<IndexMap<PathBuf, Option<Stamp>>>);

/// What tells one content of a file from another.
#[derive(Debug)]
struct Stamp {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Another content could have the same stamp.
    is_fresh: bool,
}

impl Stamp {
    /// The stamp of what is at a path, if anything is.
    fn of(path: &Path) -> Option<Stamp> {
        let found = std::fs::metadata(path).ok()?;
        let is_fresh = found.modified().is_ok_and(|modified| {
            let now = SystemTime::now();
            let apart = now.duration_since(modified).or_else(|_| modified.duration_since(now));
            apart.unwrap_or_default() < COARSE
        });
        Some(Stamp {
            place: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
            is_fresh,
        })
    }

    fn id(&self) -> impl PartialEq + use<> {
        (self.place, self.size, self.modified, self.changed)
    }
}

impl Noted {
    /// A file is about to be read.
    pub(super) fn note(&self, path: &Path) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.0.borrow_mut().entry(path).or_insert_with_key(|path| Stamp::of(path));
    }

    /// The files that are there.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.0.borrow().keys().filter(|path| path.is_file()).cloned().collect()
    }

    /// Whether a file may be another one by now than it was right before it was read.
    pub(crate) fn is_touched(&self) -> bool {
        self.0.borrow().values().flatten().any(|stamp| stamp.is_fresh) || self.has_changed()
    }

    /// Whether a file is known to be another one.
    pub(crate) fn has_changed(&self) -> bool {
        self.0.borrow().iter().any(|(path, stamp)| Stamp::of(path).map(|now| now.id()) != stamp.as_ref().map(Stamp::id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_touched_when_it_is_written_replaced_removed_or_made() {
        let place = tempfile::tempdir().unwrap();
        let (file, other) = (place.path().join("file"), place.path().join("other"));
        let settled = |path: &Path| {
            std::thread::sleep(COARSE * 2);
            let noted = Noted::default();
            noted.note(path);
            assert!(!noted.is_touched());
            noted
        };
        let noted = settled(&file);
        std::fs::write(&file, "one").unwrap();
        assert!(noted.is_touched(), "made");
        let noted = settled(&file);
        assert_eq!(noted.files(), [file.as_path()]);
        std::fs::write(&file, "two").unwrap();
        assert!(noted.is_touched(), "written");
        std::fs::write(&other, "two").unwrap();
        let noted = settled(&file);
        std::fs::rename(&other, &file).unwrap();
        assert!(noted.is_touched(), "replaced");
        let noted = settled(&file);
        std::fs::remove_file(&file).unwrap();
        assert!(noted.is_touched(), "removed");
        std::fs::write(&file, "one").unwrap();
        let noted = Noted::default();
        noted.note(&file);
        assert!(noted.is_touched(), "it may have been written again in the same tick of the clock");
    }
}
