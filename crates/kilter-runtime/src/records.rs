//! Files of the state directory with one record for each resource: private, and replaced atomically.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Returns the file for a reference: its harmless characters, and a hash that makes it unique.
pub(crate) fn path(directory: &Path, reference: &str) -> PathBuf {
    let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = reference.chars().map(harmless).take(80).collect();
    directory.join(format!("{name}-{:08x}", crc32fast::hash(reference.as_bytes())))
}

/// Returns true for a file that was not completely written.
pub(crate) fn is_partial(path: &Path) -> bool {
    path.extension().is_some()
}

/// Reads a regular file of the state directory. It follows no link and does not block on a FIFO.
///
/// # Errors
/// If it is not a regular file, or cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file: move it away"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a record with mode 0600. It creates a missing directory with mode 0700.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Removes a record, and the unfinished file of a killed run.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_file(path.with_extension("new"));
    if fs::remove_file(path).is_ok() {
        let _ = sync_directory(path);
    }
}

/// Flushes the directory of a record.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}
