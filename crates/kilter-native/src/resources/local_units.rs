//! Services of the administrator: their unit files lie in `/etc/systemd/system`, where no package puts files.

use std::fs;
use std::path::Path;

use ecow::EcoString;

use crate::accounts::System;

const DIRECTORY: &str = "/etc/systemd/system";

/// A service of the administrator.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LocalUnit {
    /// Name without `.service`.
    pub(super) name: EcoString,
    /// Other names of the service.
    pub(super) aliases: Vec<EcoString>,
}

/// Returns the services of the administrator, without those of kilter: the unit of this process, and the services of
/// its timers.
pub(super) fn find(system: &System) -> Vec<LocalUnit> {
    let own = fs::read_to_string(system.path("/proc/self/cgroup")).unwrap_or_default();
    let is_own = |name: &str| {
        let unit = format!("{name}.service");
        name == "kilter" || own.lines().any(|line| line.split('/').any(|part| part == unit))
    };
    let (mut units, mut links) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(system.path(DIRECTORY)).into_iter().flatten().flatten() {
        let file = entry.file_name();
        // Templates are no services.
        let name = file.to_str().and_then(|name| name.strip_suffix(".service")).filter(|name| !name.contains('@'));
        let Some(name) = name.map(EcoString::from) else { continue };
        match fs::read_link(entry.path()) {
            Ok(target) => links.push((name, target)),
            Err(_) => {
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                if is_file && !is_own(&name) && !is_timed(&entry.path()) {
                    units.push(LocalUnit { name, aliases: Vec::new() });
                }
            }
        }
    }
    for (alias, target) in links {
        let target = target.file_name().and_then(|name| name.to_str()?.strip_suffix(".service"));
        if let Some(unit) = units.iter_mut().find(|unit| Some(unit.name.as_str()) == target) {
            unit.aliases.push(alias);
        }
    }
    units
}

/// Returns true if a unit has a file of the administrator.
pub(super) fn is_local(system: &System, unit: &str) -> bool {
    unit.ends_with(".service") && Path::new(&system.path(DIRECTORY)).join(unit).exists()
}

/// Returns true if kilter has written the file for a timer.
fn is_timed(path: &Path) -> bool {
    use std::io::Read as _;
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    read.is_ok() && start.starts_with(crate::systemd_timer::HEADER.as_bytes())
}
