//! Which file systems are mounted where (proc_pid_mountinfo(5)).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

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

/// What is mounted, by place. Of several at one place the last covers the others.
pub(super) fn read(mountinfo: &[u8]) -> BTreeMap<PathBuf, Mount> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    lines.filter_map(parse).collect()
}

/// A file system that is mounted.
#[derive(Debug, PartialEq)]
pub(super) struct Mount {
    is_of_the_kernel: bool,
}

impl Mount {
    /// Whether there are files in it that somebody may change.
    pub(super) fn has_files(&self) -> bool {
        !self.is_of_the_kernel
    }
}

fn parse(line: &[u8]) -> Option<(PathBuf, Mount)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let at = fields.nth(4)?;
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(rest.next()?);
    Some((PathBuf::from(OsString::from_vec(plain(at))), Mount { is_of_the_kernel: OF_THE_KERNEL.contains(&&*kind) }))
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
        let told: Vec<(&str, bool)> =
            mounts.iter().map(|(at, mount)| (at.to_str().unwrap(), mount.has_files())).collect();
        assert_eq!(told, [("/", true), ("/a b\\", true), ("/proc", false)]);
    }

    #[test]
    fn of_two_mounts_at_one_place_the_last_counts() {
        let mounts = read(b"1 0 0:1 / /x rw - proc p rw\n2 1 0:2 / /x rw - ext4 e rw\n");
        assert!(mounts.len() == 1 && mounts.values().all(Mount::has_files));
    }
}
