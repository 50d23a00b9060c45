//! Facts and commands that conditions use.

use kilter_model::Value;

/// The machine on which a condition is evaluated.
pub trait ConditionFacts: Send + Sync {
    /// Returns a top-level fact by name.
    fn fact(&self, name: &str) -> Option<Value>;

    /// Returns true if the search path of providers contains a command.
    fn has_command(&self, name: &str) -> bool;
}

/// Facter's flat fact names, and kilter's paths for them.
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

/// Returns a fact by path (`os.family`), or by one of Facter's flat names (`osfamily`) if the machine has no
/// such fact.
pub(super) fn lookup(machine: &dyn ConditionFacts, name: &str) -> Option<Value> {
    path(machine, name).or_else(|| {
        let (_, structured) = FLAT.iter().find(|(flat, _)| *flat == name)?;
        path(machine, structured)
    })
}

fn path(machine: &dyn ConditionFacts, name: &str) -> Option<Value> {
    let mut steps = name.split('.');
    let mut value = machine.fact(steps.next()?)?;
    for step in steps {
        value = value.as_hash()?.get(step)?.clone();
    }
    (!value.is_undef()).then_some(value)
}
