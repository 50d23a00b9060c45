//! The temporary directory of a confined child.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Gid, Uid};

use crate::identity::Identity;

/// A directory of the child's own, mode 0700, which is removed with all that is in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Below the directory for such things, or where every machine has one.
    pub(crate) fn new(identity: Option<&Identity>) -> io::Result<Scratch> {
        // The directory of kilter's own user need not be open to another one.
        let own = identity.is_none().then(std::env::temp_dir);
        let places = own.into_iter().chain(["/tmp", "/var/tmp", "/run"].map(PathBuf::from));
        let mut refusal = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match Scratch::beneath(&place, identity) {
                Ok(scratch) => return Ok(scratch),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    fn beneath(place: &Path, identity: Option<&Identity>) -> io::Result<Scratch> {
        // A name that somebody else has taken is passed over; one that is made is kilter's own.
        for _ in 0..100 {
            let path = place.join(name());
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let scratch = Scratch { path };
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

impl Drop for Scratch {
    fn drop(&mut self) {
        // It holds nothing of value. What cannot be removed (a descendant still writes there) is for whoever
        // tidies the place up.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    format!("kilter-{}-{count}-{nanos:08x}", std::process::id())
}
