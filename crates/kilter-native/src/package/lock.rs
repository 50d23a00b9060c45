//! The locks of dpkg and apt, and the programs that hold them.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::process::{Flock, FlockType, fcntl_getlk};

/// Lock of programs that call dpkg, and the lock of dpkg itself.
pub(super) const DPKG: &[&str] = &["var/lib/dpkg/lock-frontend", "var/lib/dpkg/lock"];

/// Lock of the package lists of apt.
pub(super) const LISTS: &[&str] = &["var/lib/apt/lists/lock"];

/// Returns the program that holds one of these locks: `apt-get (process 123)`. None if no program holds it, or if the
/// caller may not examine the lock.
pub(super) fn holder(root: &Path, locks: &[&str]) -> Option<String> {
    locks.iter().find_map(|lock| {
        let file = File::open(root.join(lock)).ok()?;
        let question = Flock::from(FlockType::WriteLock);
        let pid = fcntl_getlk(file.as_fd(), &question).ok()??.pid?;
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_pid())).unwrap_or_default();
        let name = name.trim();
        let name = if name.is_empty() { "a program" } else { name };
        Some(format!("{name} (process {})", pid.as_raw_pid()))
    })
}
