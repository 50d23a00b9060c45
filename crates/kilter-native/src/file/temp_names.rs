//! Names of temporary files, and removal of temporary files that a killed run has left.
//!
//! A name identifies the process: `.kilter.<pid>-<start>-<space>-<number>`, all hexadecimal. `start` is the start
//! time of the process. `space` identifies the boot and the PID namespace of `pid`. In its own space kilter knows if
//! the process still runs. It removes files of other spaces when they are a day old. Such files come from a
//! container that shares the directory, from another host on a network file system, or from an earlier boot.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::error::FileError;
use super::kind::Kind;
use super::open::LIST;
use super::opened_path::{each_name, open_seen};

const PREFIX: &str = ".kilter.";
const DAY: i64 = 24 * 60 * 60;

static NEXT: AtomicU64 = AtomicU64::new(0);
static SELF: LazyLock<Maker> = LazyLock::new(Maker::this);

/// Process that made a temporary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Maker {
    pid: u32,
    start: u64,
    space: u64,
}

/// Returns a new name for a temporary file.
pub(super) fn temporary_name() -> String {
    static BEGINNING: LazyLock<String> = LazyLock::new(|| format!("{PREFIX}{}-", SELF.text()));
    static RANDOM: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    // Random, so that other users cannot predict the name. O_EXCL would detect a collision.
    let mut random = RANDOM.hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
    let mut name = String::with_capacity(BEGINNING.len() + 16);
    name.push_str(&BEGINNING);
    for _ in 0..16 {
        random = random.rotate_left(4);
        name.push(char::from(b"0123456789abcdef"[(random & 0xf) as usize]));
    }
    name
}

/// Returns true if [`temporary_name`] can have made a name.
pub(super) fn is_temporary(name: &[u8]) -> bool {
    maker(name).is_some()
}

fn maker(name: &[u8]) -> Option<Maker> {
    let (text, last) = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?.rsplit_once('-')?;
    let is_number = last.len() == 16 && u64::from_str_radix(last, 16).is_ok();
    Maker::parse(text).filter(|_| is_number)
}

/// Removes temporary files of ended processes from a directory. Ignores failures.
pub(super) fn clean(directory: &OwnedFd) {
    drop(remove(directory, &is_dead, false));
}

/// Removes temporary files of ended processes from a directory. With `noop`, only lists them. Returns their names.
pub(super) fn remove(
    directory: &OwnedFd,
    is_dead: &dyn Fn(Maker, &Stat) -> bool,
    noop: bool,
) -> Vec<(Vec<u8>, Result<(), Errno>)> {
    let Ok(fresh) = openat(directory, c".", LIST | OFlags::CLOEXEC, Mode::empty()) else { return Vec::new() };
    let mut dead = Vec::new();
    let mut removed = Vec::new();
    let _ = each_name(&fresh, &mut |name| {
        if let Some(maker) = maker(name) {
            dead.push((name.to_vec(), maker));
        }
    });
    for (name, maker) in dead {
        let Ok(stat) = statat(directory, &name[..], AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if !is_judged(&stat) || !is_dead(maker, &stat) {
            continue;
        }
        let result = match Kind::of(&stat) {
            _ if noop => Ok(()),
            Kind::Directory => remove_private(directory, &name, &stat),
            _ => unlinkat(directory, &name[..], AtFlags::empty()),
        };
        // Another process may have removed it first.
        if result != Err(Errno::NOENT) {
            removed.push((name, result));
        }
    }
    removed
}

/// Removes a private directory, which may contain an empty directory. Keeps other content.
fn remove_private(directory: &OwnedFd, name: &[u8], stat: &Stat) -> Result<(), Errno> {
    let opened = open_seen(directory, name, "", stat, LIST).map_err(|error| match error {
        FileError::Io { errno, .. } => errno,
        _ => Errno::NOENT,
    })?;
    let mut inside = Vec::new();
    let _ = each_name(&opened, &mut |name| inside.push(name.to_vec()));
    if let [only] = &inside[..] {
        let _ = unlinkat(&opened, &only[..], AtFlags::REMOVEDIR);
    }
    unlinkat(directory, name, AtFlags::REMOVEDIR)
}

/// Returns true if kilter can have made a temporary file and its process may still use it.
pub(super) fn is_in_use(name: &[u8], stat: &Stat) -> bool {
    let possible = match Kind::of(stat) {
        Kind::File | Kind::Link => true,
        Kind::Directory => stat.st_mode & 0o777 == 0o700,
        _ => false,
    };
    possible && maker(name).is_some_and(|maker| !is_dead(maker, stat))
}

/// Returns true if this process may remove the file when its maker has ended.
fn is_judged(stat: &Stat) -> bool {
    let own = rustix::process::geteuid();
    match Kind::of(stat) {
        // The owner is set before the rename, so a leftover may belong to the final owner. Only root may remove such
        // a file.
        Kind::File | Kind::Link => own.is_root() || stat.st_uid == own.as_raw(),
        Kind::Directory => stat.st_uid == own.as_raw() && stat.st_mode & 0o777 == 0o700,
        _ => false,
    }
}

/// Returns true if the process has certainly ended, or if it belongs to another boot, container or host and the file
/// is a day old.
pub(super) fn is_dead(maker: Maker, stat: &Stat) -> bool {
    if maker.space == SELF.space && maker.space != 0 {
        return started(maker.pid) != Some(maker.start);
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    now.saturating_sub(stat.st_mtime) > DAY
}

impl Maker {
    /// Returns this process.
    pub(super) fn of_this_process() -> Maker {
        *SELF
    }

    /// Returns the part of a temporary name that identifies the process.
    pub(super) fn text(self) -> String {
        format!("{:x}-{:x}-{:x}", self.pid, self.start, self.space)
    }

    /// Parses that part.
    pub(super) fn parse(text: &str) -> Option<Maker> {
        let mut parts = text.split('-');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (pid, start, space) = (number()?, number()?, number()?);
        parts.next().is_none().then_some(Maker { pid: u32::try_from(pid).ok()?, start, space })
    }

    /// Returns true if the process has ended. The caller knows that the process could only run in this PID
    /// namespace, because it held a lock that this process holds now.
    pub(super) fn is_gone(self) -> bool {
        self != *SELF && (self.space != SELF.space || self.space == 0 || started(self.pid) != Some(self.start))
    }

    fn this() -> Maker {
        let pid = std::process::id();
        let space = || {
            let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
            let pids = std::fs::read_link("/proc/self/ns/pid").ok()?;
            let mut hasher = rustc_hash::FxHasher::default();
            std::hash::Hash::hash(&(boot, pids), &mut hasher);
            Some(std::hash::Hasher::finish(&hasher) & 0xffff_ffff)
        };
        match (started(pid), space()) {
            (Some(start), Some(space)) => Maker { pid, start, space },
            _ => Maker { pid, start: 0, space: 0 },
        }
    }
}

/// Returns the start time of a process in ticks since the boot (field 22 of /proc/PID/stat).
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field, the command, may contain any character, also blanks and parentheses.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_name_has_its_process() {
        let name = temporary_name();
        assert_eq!(maker(name.as_bytes()), Some(*SELF), "{name}");
        assert_ne!(name, temporary_name());
        assert_eq!(SELF.pid, std::process::id());
        assert_ne!(SELF.start, 0);
    }

    #[test]
    fn other_names_are_not_temporary() {
        for name in [".kilter.", ".kilter.conf", ".kilter.1-2-3", "x.kilter.1-2-3-0000000000000004", ".kilter.1-2-3-4"]
        {
            assert!(!is_temporary(name.as_bytes()), "{name}");
        }
    }
}
