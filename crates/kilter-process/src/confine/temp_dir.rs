//! Temporary directory of a confined child.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Gid, Uid};

use crate::identity::Identity;

/// Preferred parent if it has enough space: short-lived files in memory need not reach a disk.
const MEMORY: &str = "/dev/shm";

/// Minimum free space in bytes.
const ROOM: u64 = 256 << 20;

/// A private directory with mode 0700. Dropping this value removes the directory with its content.
#[derive(Debug)]
pub(crate) struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// Creates a directory in kilter's `TMPDIR`, in memory, or in a standard directory of the system.
    pub(crate) fn new(identity: Option<&Identity>) -> io::Result<TempDir> {
        // Another user may have no access to the `TMPDIR` of kilter's user.
        let own = if identity.is_none() { std::env::var_os("TMPDIR").map(PathBuf::from) } else { None };
        let memory = is_roomy(MEMORY).then(|| PathBuf::from(MEMORY));
        let places = own.into_iter().chain(memory).chain(["/tmp", "/var/tmp", "/run"].map(PathBuf::from));
        let mut refusal = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match TempDir::beneath(&place, identity) {
                Ok(scratch) => return Ok(scratch),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn beneath(place: &Path, identity: Option<&Identity>) -> io::Result<TempDir> {
        // A name that is already in use is skipped, so the directory is always kilter's own.
        for _ in 0..100 {
            let path = place.join(name());
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let scratch = TempDir { path };
                    if let Some(identity) = identity {
                        let (uid, gid) = (Uid::from_raw(identity.uid), Gid::from_raw(identity.gid));
                        rustix::fs::chown(&scratch.path, Some(uid), Some(gid))?;
                    }
                    return Ok(scratch);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // The directory contains no important data. If a descendant still writes there, the removal fails and the
        // system's cleanup of temporary files removes the rest.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn is_roomy(place: &str) -> bool {
    rustix::fs::statvfs(place).is_ok_and(|found| found.f_bavail.saturating_mul(found.f_frsize) >= ROOM)
}

fn name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    format!("kilter-{}-{count}-{nanos:08x}", std::process::id())
}
