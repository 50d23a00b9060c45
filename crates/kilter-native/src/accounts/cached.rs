//! A file that is parsed once per version.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Identifies a version of a file; none if the file does not exist.
type Stamp = Option<(u64, u64, i64, i64, i64, i64)>;

pub(crate) struct Cached<T> {
    path: PathBuf,
    parse: fn(&str) -> T,
    slot: Mutex<Option<(Stamp, Arc<T>)>>,
}

impl<T> Cached<T> {
    pub(crate) fn new(path: PathBuf, parse: fn(&str) -> T) -> Cached<T> {
        Cached { path, parse, slot: Mutex::new(None) }
    }

    /// Returns the content. A missing file counts as empty.
    pub(crate) fn get(&self) -> io::Result<Arc<T>> {
        let mut slot = self.slot();
        let stamp = match std::fs::metadata(&self.path) {
            Ok(found) => stamp(&found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some((known, content)) = &*slot
            && *known == stamp
        {
            return Ok(content.clone());
        }
        let bytes = if stamp.is_some() { std::fs::read(&self.path)? } else { Vec::new() };
        let content = Arc::new((self.parse)(&String::from_utf8_lossy(&bytes)));
        *slot = Some((stamp, content.clone()));
        Ok(content)
    }

    pub(crate) fn forget(&self) {
        *self.slot() = None;
    }

    fn slot(&self) -> MutexGuard<'_, Option<(Stamp, Arc<T>)>> {
        // A panic cannot leave a partial value in the slot.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(found: &Metadata) -> Stamp {
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static PARSED: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn account_file_is_parsed_once_per_version() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let cached = Cached::new(path.clone(), |text| {
            PARSED.fetch_add(1, Ordering::Relaxed);
            text.to_owned()
        });
        assert_eq!(*cached.get().unwrap(), "");
        std::fs::write(&path, "one").unwrap();
        for _ in 0..5 {
            assert_eq!(*cached.get().unwrap(), "one");
        }
        assert_eq!(PARSED.load(Ordering::Relaxed), 2);
        std::fs::write(&path, "three").unwrap();
        assert_eq!(*cached.get().unwrap(), "three");
    }
}
