//! Mounted file systems and their mount points (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::{SandboxError, paths};

/// Types of file systems that are interfaces to the kernel and contain no user's files.
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

/// Returns the mounts in the namespace of this thread, sorted by mount point. Nested mounts follow their parents.
pub(super) fn here() -> Result<Vec<Mount>, SandboxError> {
    let text = fs::read("/proc/thread-self/mountinfo").map_err(|source| SandboxError::Mounts { source })?;
    Ok(read(&text))
}

fn read(mountinfo: &[u8]) -> Vec<Mount> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    let mut mounts: Vec<Mount> = lines.filter_map(parse).collect();
    mounts.sort_by(|one, other| one.at.cmp(&other.at));
    mounts
}

/// A mounted file system.
#[derive(Debug, PartialEq)]
pub(super) struct Mount {
    number: u64,
    /// Mount point. Another mount may cover it.
    pub(super) at: PathBuf,
    kind: String,
}

impl Mount {
    /// Returns true if it contains files that users may change.
    pub(super) fn has_files(&self) -> bool {
        !OF_THE_KERNEL.contains(&self.kind.as_str())
    }

    /// Returns true if it contains terminals.
    pub(super) fn has_terminals(&self) -> bool {
        self.kind == "devpts"
    }

    /// Returns its root, if it is visible at its mount point. Another mount may cover it, or a directory above it,
    /// so that its path leads elsewhere.
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
    Some(Mount { number, at: PathBuf::from(OsString::from_vec(unescaped(at))), kind })
}

/// Decodes a field of proc_pid_mountinfo(5) or fstab(5), in which white space and backslashes are octal numbers such
/// as `\040`.
pub fn unescaped(field: &[u8]) -> Vec<u8> {
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
    fn mount_points_and_types_are_read_with_optional_fields() {
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
    fn mount_is_found_only_at_its_own_path() {
        let mounts = here().unwrap();
        let root = mounts.iter().find(|mount| mount.at.as_os_str() == "/" && mount.seen().is_some()).unwrap();
        let elsewhere = Mount { number: root.number, at: PathBuf::from("/proc"), kind: root.kind.clone() };
        assert!(elsewhere.seen().is_none());
        let nowhere = Mount { at: PathBuf::from("/there/is/nothing"), ..elsewhere };
        assert!(nowhere.seen().is_none());
    }
}
