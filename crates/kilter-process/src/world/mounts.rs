//! Which file systems are mounted where (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::{WorldError, paths};

/// File systems without files of anybody's: windows to the kernel.
const OF_THE_KERNEL: [&str; 21] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devtmpfs",
    "devpts",
    "mqueue",
    "securityfs",
    "debugfs",
    "tracefs",
    "bpf",
    "pstore",
    "configfs",
    "fusectl",
    "hugetlbfs",
    "binfmt_misc",
    "autofs",
    "efivarfs",
    "nsfs",
    "rpc_pipefs",
    "selinuxfs",
];

/// What is mounted in the namespace of this thread, in the order of places: what is mounted below another is behind it.
pub(super) fn here() -> Result<Vec<Mount>, WorldError> {
    let text = fs::read("/proc/thread-self/mountinfo").map_err(|source| WorldError::Mounts { source })?;
    Ok(read(&text))
}

fn read(mountinfo: &[u8]) -> Vec<Mount> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    let mut mounts: Vec<Mount> = lines.filter_map(parse).collect();
    mounts.sort_by(|one, other| one.at.cmp(&other.at));
    mounts
}

/// A file system that is mounted.
#[derive(Debug, PartialEq)]
pub(super) struct Mount {
    number: u64,
    /// Where it is, or would be if nothing covered it.
    pub(super) at: PathBuf,
    kind: String,
}

impl Mount {
    /// Whether there are files in it that somebody may change.
    pub(super) fn has_files(&self) -> bool {
        !OF_THE_KERNEL.contains(&self.kind.as_str())
    }

    /// Whether it is where terminals are.
    pub(super) fn has_terminals(&self) -> bool {
        self.kind == "devpts"
    }

    /// Its root, if that is what is seen at its place: another mount may cover it, or a directory above it, and then anything may be
    /// at the end of its path.
    pub(super) fn seen(&self) -> Option<OwnedFd> {
        let place = paths::place(&self.at).ok()?;
        (paths::mount_of(&place) == Some(self.number)).then_some(place)
    }
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let at = fields.nth(3)?;
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(rest.next()?).into_owned();
    Some(Mount { number, at: PathBuf::from(OsString::from_vec(plain(at))), kind })
}

/// A path as it is: blanks, line breaks and backslashes are written as octal numbers.
fn plain(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let octal = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
        let byte = octal.and_then(|octal| u8::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok());
        at += if byte.is_some() { 4 } else { 1 };
        bytes.push(byte.unwrap_or(field[at - 1]));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_kinds_are_read_whatever_stands_between_them() {
        let text = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                     23 22 0:5 / /proc rw - proc proc rw\n\
                     24 22 0:6 / /a\\040b\\134 rw master:2 propagate_from:1 - tmpfs tmpfs rw\n\
                     half a line\n";
        let mounts = read(text);
        let told: Vec<(u64, &str, bool)> =
            mounts.iter().map(|mount| (mount.number, mount.at.to_str().unwrap(), mount.has_files())).collect();
        assert_eq!(told, [(22, "/", true), (24, "/a b\\", true), (23, "/proc", false)]);
    }

    #[test]
    fn a_mount_is_seen_at_its_place_alone() {
        let mounts = here().unwrap();
        let root = mounts.iter().find(|mount| mount.at.as_os_str() == "/" && mount.seen().is_some()).unwrap();
        let elsewhere = Mount { number: root.number, at: PathBuf::from("/proc"), kind: root.kind.clone() };
        assert!(elsewhere.seen().is_none());
        let nowhere = Mount { at: PathBuf::from("/there/is/nothing"), ..elsewhere };
        assert!(nowhere.seen().is_none());
    }
}
