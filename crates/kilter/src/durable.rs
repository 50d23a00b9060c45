//! Files of the state directory that are replaced as a whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Replaces a file of the state directory. After a crash it is the complete former or new file.
///
/// Only one process at a time may replace a file: the caller must hold the lock on the state directory.
///
/// # Errors
/// If it is not durable. It may be the former file or the new file.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| std::fs::rename(&new, path)) {
        // A partial file would only use space on a full disk.
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    // The rename is durable when the directory is.
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// Reads a file of the state directory, or `None` if there is none. No other user may own or write it, and it has
/// at most `max_bytes`.
///
/// # Errors
/// If it cannot be read, or not be trusted.
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file: move it away"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("another user owns or can write it: remove it"));
    }
    let mut bytes = Vec::new();
    if found.len() <= max_bytes {
        // It may grow meanwhile.
        file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    }
    if found.len().max(bytes.len() as u64) > max_bytes {
        return Err(io::Error::other(format!("it is larger than {} MiB", max_bytes >> 20)));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn replaced_file_is_whole_and_private() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        assert_eq!(read(&path, 10).unwrap(), None);
        // The leftover of a killed process must not matter.
        std::fs::write(place.path().join("file.new"), "half").unwrap();
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(read(&path, 3).unwrap().as_deref(), Some(&b"two"[..]));
        assert!(read(&path, 2).is_err());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn file_that_others_can_write_or_link_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let (path, link) = (place.path().join("file"), place.path().join("link"));
        replace(&path, b"one").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link, 10).is_err() && read(place.path(), 10).is_err());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o620)).unwrap();
        assert!(read(&path, 10).is_err());
    }
}
