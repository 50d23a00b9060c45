//! `disks` and `partitions`: block devices in sysfs.

use kilter_model::Value;

use super::{count, parts, readable};
use crate::system::FactSource;

/// Sector size in sysfs, in bytes, independent of the device.
const SECTOR: u64 = 512;

pub(super) fn disks(system: &FactSource) -> Option<Value> {
    let names = system.names("/sys/block").into_iter().filter(|name| is_disk(name));
    by_name(names.filter_map(|name| {
        let of = |part: &str| system.line(&format!("/sys/block/{name}/{part}"));
        let size = size(system, &format!("/sys/block/{name}/size"))?;
        let kind = of("queue/rotational").map(|turns| if turns == "1" { "hdd" } else { "ssd" });
        let disk = parts([
            ("model", of("device/model").map(Value::from)),
            ("serial", of("device/serial").or_else(|| of("serial")).map(Value::from)),
            ("size", Some(readable(size))),
            ("size_bytes", Some(count(size))),
            ("type", kind.map(Value::from)),
            ("vendor", of("device/vendor").map(Value::from)),
            ("wwn", of("device/wwid").or_else(|| of("wwid")).map(Value::from)),
        ])?;
        Some((name, disk))
    }))
}

pub(super) fn partitions(system: &FactSource) -> Option<Value> {
    let mounts = super::mountpoints::mounted_devices(system);
    let disks = system.names("/sys/block").into_iter().filter(|name| is_disk(name));
    let found = disks.flat_map(|disk| {
        let below = system.names(&format!("/sys/block/{disk}"));
        let partitions: Vec<String> = below
            .into_iter()
            .filter(|name| system.has(&format!("/sys/block/{disk}/{name}/partition")))
            .map(|name| format!("{disk}/{name}"))
            .collect();
        // An unpartitioned disk counts as its own partition.
        if partitions.is_empty() { vec![disk] } else { partitions }
    });
    by_name(found.filter_map(|path| {
        let device = format!("/dev/{}", path.rsplit('/').next()?);
        let size = size(system, &format!("/sys/block/{path}/size"))?;
        let mount = mounts.iter().find(|mount| mount.device == device);
        let partition = parts([
            ("filesystem", mount.map(|mount| Value::from(mount.filesystem.as_str()))),
            ("mount", mount.map(|mount| Value::from(mount.path.as_str()))),
            ("size", Some(readable(size))),
            ("size_bytes", Some(count(size))),
        ])?;
        Some((device, partition))
    }))
}

/// Returns true for disks. Loop devices, RAM disks and similar devices are not disks.
fn is_disk(name: &str) -> bool {
    !["loop", "ram", "zram", "fd", "sr", "nbd"].iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the size in bytes. None for a device without a medium.
fn size(system: &FactSource, path: &str) -> Option<u64> {
    let sectors = u64::try_from(system.number(path)?).ok()?;
    (sectors > 0).then(|| sectors.saturating_mul(SECTOR))
}

fn by_name(entries: impl Iterator<Item = (String, Value)>) -> Option<Value> {
    let entries: Vec<(String, Value)> = entries.collect();
    (!entries.is_empty()).then(|| Value::hash(entries))
}
