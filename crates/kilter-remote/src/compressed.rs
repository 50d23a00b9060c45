//! Cache of compressed programs on the controller.
//!
//! The compression of a program takes longer than its transfer over a fast network, and each new host needs the same
//! bytes. A file of the cache is the SHA-256 of the compressed bytes in hexadecimal digits, a newline, and the bytes.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

use crate::session::random_word;

/// Maximum size of a file in bytes.
const MAX_SIZE: u64 = 256 << 20;

/// Length of the SHA-256 and the newline.
const HEADER: usize = 65;

/// Returns the SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(digest(&SHA256, bytes).as_ref())
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Directory with compressed programs. It may be missing.
#[derive(Clone, Debug)]
pub(crate) struct CompressedCache(PathBuf);

impl CompressedCache {
    pub(crate) fn new(directory: &Path) -> CompressedCache {
        CompressedCache(directory.to_owned())
    }

    /// Returns the stored bytes of a program; none if they are missing, damaged, or not of this user.
    pub(crate) fn read(&self, machine: &str, program: &str) -> Option<Vec<u8>> {
        let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file = File::options().read(true).custom_flags(no_links).open(self.path(machine, program)).ok()?;
        let found = file.metadata().ok()?;
        let is_own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
        if !found.is_file() || !is_own || found.len() > MAX_SIZE {
            return None;
        }
        let mut content = Vec::with_capacity(usize::try_from(found.len()).ok()?);
        file.take(MAX_SIZE).read_to_end(&mut content).ok()?;
        let (header, bytes) = content.split_at_checked(HEADER)?;
        (header.strip_suffix(b"\n")? == sha256(bytes).as_bytes()).then(|| bytes.to_vec())
    }

    /// Stores the bytes of a program in place of those of other programs for the same kind of machine.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub(crate) fn write(&self, machine: &str, program: &str, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let part = self.0.join(format!("part-{}", random_word()?));
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&part)?;
        let written = file.write_all(format!("{}\n", sha256(bytes)).as_bytes()).and_then(|()| file.write_all(bytes));
        let path = self.path(machine, program);
        if let Err(error) = written.and_then(|()| fs::rename(&part, &path)) {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        for entry in fs::read_dir(&self.0)?.flatten() {
            // A part without a name belongs to a killed command. A command that still writes one makes no use of it.
            let is_old = |name: &str| name.starts_with(&prefix(machine)) || name.starts_with("part-");
            if entry.file_name().to_str().is_some_and(is_old) && entry.path() != path {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn path(&self, machine: &str, program: &str) -> PathBuf {
        self.0.join(format!("{}{program}", prefix(machine)))
    }
}

fn prefix(machine: &str) -> String {
    format!("kilter-{machine}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_stored_once_for_each_kind_of_machine() {
        let place = tempfile::tempdir().unwrap();
        let cache = CompressedCache::new(&place.path().join("programs"));
        assert_eq!(cache.read("x86_64", "aa"), None);
        for (machine, program, bytes) in [("x86_64", "aa", "1"), ("aarch64", "cc", "2"), ("x86_64", "bb", "3")] {
            cache.write(machine, program, bytes.as_bytes()).unwrap();
        }
        assert_eq!(cache.read("x86_64", "aa"), None);
        assert_eq!(cache.read("x86_64", "bb").unwrap(), b"3");
        assert_eq!(cache.read("aarch64", "cc").unwrap(), b"2");
        assert_eq!(fs::read_dir(place.path().join("programs")).unwrap().count(), 2);
    }

    #[test]
    fn damaged_or_foreign_file_is_not_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let place = tempfile::tempdir().unwrap();
        let cache = CompressedCache::new(place.path());
        cache.write("x86_64", "aa", b"program").unwrap();
        let path = cache.path("x86_64", "aa");
        let whole = fs::read(&path).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[..10], b""] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.read("x86_64", "aa"), None);
        }
        fs::write(&path, &whole).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o622)).unwrap();
        assert_eq!(cache.read("x86_64", "aa"), None);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(cache.read("x86_64", "aa").unwrap(), b"program");
        fs::rename(&path, place.path().join("other")).unwrap();
        symlink("other", &path).unwrap();
        assert_eq!(cache.read("x86_64", "aa"), None);
    }
}
