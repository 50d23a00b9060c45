//! A fresh file system.
//!
//! The cost of creating a file varies tenfold with the history of a file system. Floor and command are comparable
//! only on a file system without history.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Maximum size in bytes. Only written blocks occupy space.
const SIZE: u64 = 4 << 30;

/// A mounted ext4 file system in an image file. Dropping it unmounts it.
pub(crate) struct LoopbackFs {
    mounted: PathBuf,
}

impl LoopbackFs {
    /// Creates a file system below `scratch`; returns none if mounting is not allowed.
    pub(crate) fn new(scratch: &Path) -> Option<LoopbackFs> {
        let (image, mounted) = (scratch.join("image"), scratch.join("fresh"));
        std::fs::create_dir_all(&mounted).ok()?;
        std::fs::File::create(&image).and_then(|file| file.set_len(SIZE)).ok()?;
        let made = run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        let there = made && run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mounted));
        there.then_some(LoopbackFs { mounted })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mounted
    }
}

impl Drop for LoopbackFs {
    fn drop(&mut self) {
        run(Command::new("umount").arg(&self.mounted));
    }
}

fn run(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
