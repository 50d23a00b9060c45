//! `virtual` and `is_virtual`.
//!
//! `virtual` is the innermost known layer: the container if there is one, otherwise the hypervisor, otherwise
//! `physical`.

use kilter_model::Value;

use crate::system::FactSource;

pub(super) fn virtual_kind(system: &FactSource) -> Option<Value> {
    let kind = container(system).or_else(|| hypervisor(system)).unwrap_or_else(|| "physical".to_owned());
    Some(Value::from(kind))
}

pub(super) fn is_virtual(system: &FactSource) -> Option<Value> {
    Some(Value::from(container(system).or_else(|| hypervisor(system)).is_some()))
}

/// Detects the container manager from the data that it leaves inside the container.
fn container(system: &FactSource) -> Option<String> {
    let told = system.line("/run/host/container-manager").or_else(|| system.line("/run/systemd/container"));
    if let Some(manager) = told.or_else(|| environment_of_init(system)) {
        return Some(manager.replace('-', "_"));
    }
    if let Some(manager) = by_cgroup(system) {
        return Some(manager.to_owned());
    }
    // Kernel threads are visible only outside of containers. A machine installed from a container image keeps
    // the files below.
    if system.line("/proc/2/comm").as_deref() == Some("kthreadd") {
        return None;
    }
    let files = [("/run/.containerenv", "podman"), ("/.dockerenv", "docker"), ("/dev/lxd/sock", "lxc")];
    files.into_iter().find(|(path, _)| system.has(path)).map(|(_, manager)| manager.to_owned())
}

/// Returns `container=` from the environment of the first process. Only root can read it.
fn environment_of_init(system: &FactSource) -> Option<String> {
    let environment = system.bytes("/proc/1/environ")?;
    let value = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"container="))?;
    let value = String::from_utf8_lossy(value).into_owned();
    (!value.is_empty()).then_some(value)
}

fn by_cgroup(system: &FactSource) -> Option<&'static str> {
    let text = system.text("/proc/1/cgroup")?;
    let paths = || text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let managers =
        [("kubepods", "kubernetes"), ("libpod-", "podman"), ("docker", "docker"), ("lxc", "lxc"), ("garden", "garden")];
    let named = |word: &str| paths().any(|path| path.split('/').any(|part| part.starts_with(word)));
    managers.into_iter().find(|(word, _)| named(word)).map(|(_, manager)| manager)
}

/// Detects the hypervisor from firmware, sysfs, clock sources or the processor flag.
fn hypervisor(system: &FactSource) -> Option<String> {
    let found = by_dmi(system)
        .or_else(|| by_device_tree(system))
        .or_else(|| by_xen(system))
        .or_else(|| by_clock(system))
        .or_else(|| by_flag(system));
    found.map(str::to_owned)
}

fn by_dmi(system: &FactSource) -> Option<&'static str> {
    const SIGNS: [(&str, &str); 17] = [
        ("Google Compute Engine", "gce"),
        ("KVM", "kvm"),
        ("OpenStack", "kvm"),
        ("RHEV Hypervisor", "kvm"),
        ("oVirt Node", "kvm"),
        ("Amazon EC2", "kvm"),
        ("DigitalOcean", "kvm"),
        ("Hetzner", "kvm"),
        ("QEMU", "kvm"),
        ("VMware", "vmware"),
        ("VMW", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("innotek GmbH", "virtualbox"),
        ("Parallels", "parallels"),
        ("HVM domU", "xenhvm"),
        ("Bochs", "bochs"),
        ("BHYVE", "bhyve"),
    ];
    let of = |name: &str| system.line(&format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    if of("sys_vendor") == "Microsoft Corporation" && of("product_name") == "Virtual Machine" {
        return Some("hyperv");
    }
    // EC2 machines without a hypervisor also have its name.
    if of("product_name").ends_with(".metal") {
        return None;
    }
    let told = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"].map(of);
    SIGNS.into_iter().find(|(sign, _)| told.iter().any(|text| text.contains(sign))).map(|(_, kind)| kind)
}

fn by_device_tree(system: &FactSource) -> Option<&'static str> {
    let compatible = system.line("/proc/device-tree/hypervisor/compatible")?;
    let kinds = [("linux,kvm", "kvm"), ("xen", "xenu"), ("vmware", "vmware")];
    kinds.into_iter().find(|(sign, _)| compatible.contains(sign)).map(|(_, kind)| kind)
}

fn by_xen(system: &FactSource) -> Option<&'static str> {
    if system.line("/sys/hypervisor/type")? != "xen" {
        return None;
    }
    let first_domain = system.text("/proc/xen/capabilities").is_some_and(|text| text.contains("control_d"));
    let is_hvm = system.line("/sys/hypervisor/guest_type").as_deref() == Some("HVM");
    // The first Xen domain is the machine itself.
    (!first_domain).then_some(if is_hvm { "xenhvm" } else { "xenu" })
}

fn by_clock(system: &FactSource) -> Option<&'static str> {
    let clocks = system.line("/sys/devices/system/clocksource/clocksource0/available_clocksource")?;
    let kinds = [("kvm-clock", "kvm"), ("hyperv_clocksource", "hyperv"), ("xen", "xenu")];
    kinds
        .into_iter()
        .find(|(sign, _)| clocks.split_whitespace().any(|clock| clock.starts_with(sign)))
        .map(|(_, kind)| kind)
}

fn by_flag(system: &FactSource) -> Option<&'static str> {
    let text = system.text("/proc/cpuinfo")?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags"))?;
    flags.split_whitespace().any(|flag| flag == "hypervisor").then_some("unknown_hypervisor")
}
