//! Installed packages that the system or other packages need.

use std::path::Path;

use ecow::EcoString;
use kilter_process::trust::TrustPolicy;
use kilter_provider::ProviderError;
use rustc_hash::{FxHashMap, FxHashSet};

use super::status::Database;

/// Maximum size of a list of files in bytes.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Beginnings of the names of packages for the boot, the disks, the network and the access from outside. They have the
/// priority `optional`.
const KEPT: &str = "grub shim- systemd-boot raspi-firmware firmware- intel-microcode amd64-microcode dracut cryptsetup \
                    lvm2 mdadm zfsutils btrfs-progs xfsprogs ifupdown network-manager netplan cloud-init \
                    openssh-server qemu-guest-agent kilter systemd-resolved wpasupplicant iwd \
                    connman";

/// Directories of the unit files of packages.
const UNITS: [&str; 2] = ["/usr/lib/systemd/system/", "/lib/systemd/system/"];

/// A package in dpkg's database.
#[derive(Default)]
struct DependencyRow {
    name: EcoString,
    architecture: EcoString,
    is_there: bool,
    /// True if it belongs to the system, or is on hold.
    is_kept: bool,
    /// Its relations to packages that it needs or recommends.
    needs: Vec<EcoString>,
    provides: Vec<EcoString>,
}

impl DependencyRow {
    fn add(&mut self, line: &[u8]) {
        let Some(at) = memchr::memchr(b':', line).filter(|at| *at <= "Architecture".len()) else { return };
        let value = || String::from_utf8_lossy(&line[at + 1..]).trim().to_owned();
        match &line[..at] {
            b"Package" => self.name = value().into(),
            b"Architecture" => self.architecture = value().into(),
            b"Status" => {
                let status = value();
                self.is_there = !["config-files", "not-installed"].iter().any(|state| status.ends_with(state));
                self.is_kept |= status.starts_with("hold ");
            }
            b"Essential" | b"Protected" | b"Important" => self.is_kept |= value() == "yes",
            b"Priority" => self.is_kept |= matches!(&*value(), "required" | "important" | "standard"),
            b"Section" => self.is_kept |= value().rsplit('/').next() == Some("kernel"),
            b"Depends" | b"Pre-Depends" | b"Recommends" => self.needs.extend(names(&value())),
            b"Provides" => self.provides.extend(names(&value())),
            _ => {}
        }
    }
}

/// Returns the names in relations such as `libc6 (>= 2.34), mta | exim4:any`.
fn names(relations: &str) -> Vec<EcoString> {
    let name = |one: &str| {
        let name = one.trim().split([' ', '(', ':', '[']).next().unwrap_or_default();
        (!name.is_empty()).then(|| name.into())
    };
    relations.split([',', '|']).filter_map(name).collect()
}

/// Finds the installed packages that have to stay, and returns their names without the architecture.
///
/// These are the packages of the system, those that are wanted by their name, by a virtual package or by a unit that
/// they contain, and all that they need or recommend.
pub(super) fn needed(
    database: &Database,
    trust: &TrustPolicy,
    is_wanted: &dyn Fn(&str) -> bool,
    is_wanted_unit: &dyn Fn(&str) -> bool,
) -> Result<FxHashSet<EcoString>, ProviderError> {
    let mut rows: FxHashMap<(EcoString, EcoString), DependencyRow> = FxHashMap::default();
    let mut row = DependencyRow::default();
    database.lines(&mut |line| match line.is_empty() {
        true => {
            let row = std::mem::take(&mut row);
            rows.insert((row.name.clone(), row.architecture.clone()), row);
        }
        false => row.add(line),
    })?;
    rows.retain(|_, row| row.is_there);
    let mut by_name: FxHashMap<&str, Vec<&DependencyRow>> = FxHashMap::default();
    for row in rows.values() {
        for name in row.provides.iter().chain([&row.name]) {
            by_name.entry(name).or_default().push(row);
        }
    }
    let is_root = |row: &DependencyRow| {
        row.is_kept
            || KEPT.split_ascii_whitespace().any(|kept| row.name.starts_with(kept))
            || is_wanted(&row.name)
            || is_wanted(&format!("{}:{}", row.name, row.architecture))
            || row.provides.iter().any(|name| is_wanted(name))
    };
    let mut needed = FxHashSet::default();
    let mut next: Vec<&str> = rows.values().filter(|row| is_root(row)).map(|row| row.name.as_str()).collect();
    close(&by_name, &mut needed, std::mem::take(&mut next));
    let has_unit = |row: &&DependencyRow| units(database, trust, row).iter().any(|unit| is_wanted_unit(unit));
    next.extend(rows.values().filter(|row| !needed.contains(&row.name)).filter(has_unit).map(|row| row.name.as_str()));
    close(&by_name, &mut needed, next);
    Ok(needed)
}

/// Adds packages, and all that they need.
fn close<'a>(
    by_name: &FxHashMap<&str, Vec<&'a DependencyRow>>,
    needed: &mut FxHashSet<EcoString>,
    mut next: Vec<&'a str>,
) {
    while let Some(name) = next.pop() {
        for row in by_name.get(name).into_iter().flatten() {
            if needed.insert(row.name.clone()) {
                next.extend(
                    by_name
                        .get(row.name.as_str())
                        .into_iter()
                        .flatten()
                        .flat_map(|row| &row.needs)
                        .map(EcoString::as_str),
                );
            }
        }
    }
}

/// Returns the units that a package contains.
fn units(database: &Database, trust: &TrustPolicy, row: &DependencyRow) -> Vec<String> {
    let list = |name: &str| trust.read(&database.info().join(name) as &Path, MAX_LIST_BYTES).ok();
    let bytes = list(&format!("{}.list", row.name));
    let bytes = bytes.or_else(|| list(&format!("{}:{}.list", row.name, row.architecture))).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let unit = |path: &str| UNITS.iter().find_map(|directory| path.strip_prefix(directory)).map(str::to_owned);
    text.lines().filter_map(unit).filter(|unit| !unit.contains('/')).collect()
}
