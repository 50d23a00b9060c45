//! A file system that nobody has used yet.
//!
//! What it costs to make a file depends, tenfold, on what was made and removed on a file system
//! before. Floor and command are comparable where neither finds anything of that.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How large it may grow; only what is written takes room.
const SIZE: u64 = 4 << 30;

/// An ext4 file system in a file, mounted; taken down when dropped.
pub(crate) struct Fresh {
    mounted: PathBuf,
}

impl Fresh {
    /// A fresh file system below `scratch`; none where one may not be mounted.
    pub(crate) fn new(scratch: &Path) -> Option<Fresh> {
        let (image, mounted) = (scratch.join("image"), scratch.join("fresh"));
        std::fs::create_dir_all(&mounted).ok()?;
        std::fs::File::create(&image).and_then(|file| file.set_len(SIZE)).ok()?;
        let made = run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        let there = made && run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mounted));
        there.then_some(Fresh { mounted })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mounted
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        run(Command::new("umount").arg(&self.mounted));
    }
}

fn run(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
