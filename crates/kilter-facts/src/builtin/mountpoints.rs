//! `mountpoints`.

use std::collections::BTreeMap;

use kilter_model::Value;

use super::{capacity, count, parts, readable};
use crate::system::FactSource;

/// A mounted file system: a line of `/proc/self/mountinfo` (proc(5)).
pub(super) struct Mount {
    /// Mount point.
    pub(super) path: String,
    /// Mounted device.
    pub(super) device: String,
    /// File system type: `ext4`.
    pub(super) filesystem: String,
    options: Vec<String>,
}

/// Network file systems. A query for their space could wait forever if the server does not answer.
const REMOTE: [&str; 12] =
    ["9p", "afs", "ceph", "cifs", "coda", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"];

/// Pseudo file systems of the kernel.
const VIEWS: [&str; 17] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "sysfs",
    "tracefs",
];

pub(super) fn mountpoints(system: &FactSource) -> Option<Value> {
    let mounts = system.text("/proc/self/mountinfo")?;
    // If several file systems are mounted on the same path, the last one is visible.
    let by_path: BTreeMap<String, Mount> = read(system, &mounts)
        .filter(|mount| !VIEWS.contains(&mount.filesystem.as_str()))
        .map(|mount| (mount.path.clone(), mount))
        .collect();
    (!by_path.is_empty())
        .then(|| Value::hash(by_path.into_iter().filter_map(|(path, mount)| Some((path, describe(system, mount)?)))))
}

/// Returns the mounted block devices.
pub(super) fn mounted_devices(system: &FactSource) -> Vec<Mount> {
    let mounts = system.text("/proc/self/mountinfo").unwrap_or_default();
    read(system, &mounts).filter(|mount| mount.device.starts_with("/dev/")).collect()
}

fn read<'a>(system: &'a FactSource, text: &'a str) -> impl Iterator<Item = Mount> + 'a {
    text.lines().filter_map(|line| mount(system, line))
}

fn mount(system: &FactSource, line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let front: Vec<&str> = front.split(' ').collect();
    let mut back = back.split(' ');
    let (number, path, options) = (*front.get(2)?, unescape(front.get(4)?), *front.get(5)?);
    let filesystem = back.next()?.to_owned();
    let mut device = unescape(back.next()?);
    if device == "/dev/root" {
        device = device_of(system, number).unwrap_or(device);
    }
    Some(Mount { path, device, filesystem, options: options.split(',').map(str::to_owned).collect() })
}

/// Returns the device name for a device number such as `254:0`.
fn device_of(system: &FactSource, number: &str) -> Option<String> {
    let uevent = system.text(&format!("/sys/dev/block/{number}/uevent"))?;
    let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="))?;
    Some(format!("/dev/{name}"))
}

/// Replaces the octal escapes for space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn describe(system: &FactSource, mount: Mount) -> Option<Value> {
    let remote = REMOTE.contains(&mount.filesystem.as_str()) || mount.filesystem.starts_with("fuse");
    let space = if remote { None } else { system.kernel().space(&system.path(&mount.path)) };
    let used = space.map(|space| space.size.saturating_sub(space.free));
    let shown = used.zip(space).map(|(used, space)| capacity(used, used.saturating_add(space.available)));
    parts([
        ("available", space.map(|space| readable(space.available))),
        ("available_bytes", space.map(|space| count(space.available))),
        ("capacity", shown),
        ("device", Some(Value::from(mount.device))),
        ("filesystem", Some(Value::from(mount.filesystem))),
        ("options", Some(Value::strings(mount.options))),
        ("size", space.map(|space| readable(space.size))),
        ("size_bytes", space.map(|space| count(space.size))),
        ("used", used.map(readable)),
        ("used_bytes", used.map(count)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_in_paths_are_read() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
        assert_eq!(unescape("/ends\\04"), "/ends\\04");
        assert_eq!(unescape("/münchen"), "/münchen");
    }
}
