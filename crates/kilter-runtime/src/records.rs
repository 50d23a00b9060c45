//! Files of the state directory that keep something of a resource each: private, and old or new but never half.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The file of the resource of this reference, its name made of what is harmless in that, told apart by a hash.
pub(crate) fn path(directory: &Path, reference: &str) -> PathBuf {
    let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = reference.chars().map(harmless).take(80).collect();
    directory.join(format!("{name}-{:08x}", crc32fast::hash(reference.as_bytes())))
}

/// Whether a file of the directory is no record but one that was begun.
pub(crate) fn is_begun(path: &Path) -> bool {
    path.extension().is_some()
}

/// Reads a regular file of the state directory. A link is not followed, and a FIFO is not waited for.
///
/// # Errors
/// If it is no regular file, or cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file: move it away"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a record, mode 0600, in a directory that is made where there is none, mode 0700.
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

/// Removes a record, and what a run that was killed began to write of it.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_file(path.with_extension("new"));
    if fs::remove_file(path).is_ok() {
        let _ = sync_directory(path);
    }
}

/// Makes it durable which records there are beside this one.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}
