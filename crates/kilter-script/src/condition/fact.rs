//! What a condition asks of the machine.

use kilter_model::Value;

/// The machine that a condition is about.
pub trait Machine: Send + Sync {
    /// A fact by its top-level name.
    fn fact(&self, name: &str) -> Option<Value>;

    /// Whether a command is found in the path that providers run with.
    fn has_command(&self, name: &str) -> bool;
}

/// Facter's flat names, and where kilter has what they stand for.
const FLAT: [(&str, &str); 17] = [
    ("osfamily", "os.family"),
    ("operatingsystem", "os.name"),
    ("operatingsystemrelease", "os.release.full"),
    ("operatingsystemmajrelease", "os.release.major"),
    ("architecture", "os.architecture"),
    ("hardwaremodel", "os.hardware"),
    ("lsbdistid", "os.distro.id"),
    ("lsbdistcodename", "os.distro.codename"),
    ("lsbdistrelease", "os.distro.release.full"),
    ("lsbmajdistrelease", "os.distro.release.major"),
    ("hostname", "networking.hostname"),
    ("domain", "networking.domain"),
    ("fqdn", "networking.fqdn"),
    ("ipaddress", "networking.ip"),
    ("macaddress", "networking.mac"),
    ("processorcount", "processors.count"),
    ("selinux", "os.selinux.enabled"),
];

/// A fact by its path (`os.family`), or by a flat name of Facter's (`osfamily`) that the machine does not
/// have itself.
pub(super) fn lookup(machine: &dyn Machine, name: &str) -> Option<Value> {
    path(machine, name).or_else(|| {
        let (_, structured) = FLAT.iter().find(|(flat, _)| *flat == name)?;
        path(machine, structured)
    })
}

fn path(machine: &dyn Machine, name: &str) -> Option<Value> {
    let mut steps = name.split('.');
    let mut value = machine.fact(steps.next()?)?;
    for step in steps {
        value = value.as_hash()?.get(step)?.clone();
    }
    (!value.is_undef()).then_some(value)
}
