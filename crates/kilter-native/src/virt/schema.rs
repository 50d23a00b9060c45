//! Schema and validation of the type `virt`.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Feature, TypeSchema, Value};
use kilter_provider::{Redactor, ValidationError};

use super::definition::path_and_format;
use crate::file::atomic_rewrite::is_normal;
use crate::value_text::texts;

const DESC: &str = "\
Virtual machines of libvirt.

```yaml
resources:
  virt[web]:
    memory: 2048
    cpus: 2
    disks: [/var/lib/libvirt/images/web.qcow2]
    networks: [default]
    autostart: true
```

A changed definition applies from the next start of the machine; the plan says so. A refresh shuts a running machine \
down and starts it again. Devices and settings without an attribute stay as they are. If `disks` or `cdroms` change, \
their targets (`vda`, `vdb`) follow their order. A new machine also has a text console, and a VNC server on the \
loopback address. kilter creates and removes no images: declare them as [`virtual_disk`](virtual_disk.md).

**Automatic edges.** The machine comes after the declared packages and services of libvirt, and after disks, files and \
mounts at the paths of its `disks` and `cdroms` or above them.

**Limits.** A secret cannot be part of a definition. `kilter get` lists the machines of the default hypervisor only, \
without those whose names have other characters than letters, digits and `-_.+:@`.";

pub(super) fn schema() -> TypeSchema {
    let (property, parameter) = (Behaviour::Property, Behaviour::Parameter);
    TypeSchema::new("virt", DESC)
        .attribute("ensure", "Enum[running, stopped, paused, absent]", property, "State of the machine.")
        .default("running")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the machine: `web`.")
        .attribute(
            "uri",
            r"Pattern[/\A[a-z][a-z+]*:\/\/\S*\z/]",
            parameter,
            "Hypervisor. The default is that of virsh: the variable `LIBVIRT_DEFAULT_URI`, or `qemu:///system` for root.",
        )
        .attribute(
            "kind",
            r"Pattern[/\A[a-z]+\z/]",
            property,
            "Kind of virtualization: `kvm` or `qemu`. A new machine of QEMU has `kvm`.",
        )
        .attribute("memory", "Integer[1]", property, "Memory in MiB. Required for a new machine.")
        .attribute("cpus", "Integer[1]", property, "Number of processors. The default of a new machine is 1.")
        .attribute("boot", "Array[Enum[hd, cdrom, network, fd], 1, 4]", property, "Devices to boot from, in order.")
        .attribute(
            "disks",
            "Array[Variant[String[1], Struct[{path => String[1], Optional[format] => Enum[qcow2, raw]}]]]",
            property,
            "Paths of images and block devices. A name that ends with `.qcow2` has this format, others are `raw`.",
        )
        .attribute("cdroms", "Array[String[1]]", property, "Paths of images of optical disks.")
        .attribute("networks", "Array[String[1]]", property, "Networks of libvirt, or `bridge=NAME`.")
        .attribute("autostart", "Boolean", property, "Start with the host.")
        .attribute("shutdown_timeout", "Integer[0]", parameter, "Seconds that a shutdown may take. The default is 120.")
        .attribute("force", "Boolean", parameter, "Power the machine off after `shutdown_timeout`.")
        .features(&[
            Feature::Canonicalize,
            Feature::CustomInsync,
            Feature::Refresh,
            Feature::SimpleGetFilter,
            Feature::SupportsNoop,
        ])
}

/// Returns the kind of new machines of a hypervisor.
pub(super) fn default_kind(uri: &str) -> &str {
    match uri.split([':', '+']).next() {
        Some(scheme @ ("test" | "xen" | "vbox" | "bhyve")) => scheme,
        _ => "kvm",
    }
}

/// Returns the problem of a name. virsh would read a number or a UUID as another identifier.
pub(super) fn name_problem(name: &str) -> Option<EcoString> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+:@".contains(&byte);
    let is_uuid = name.len() == 36 && name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let is_valid = name.bytes().all(is_inner) && !name.starts_with(['-', '.']) && !is_number && !is_uuid;
    (!is_valid).then(|| eco_format!("`{name}` is not the name of a machine"))
}

pub(super) fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    if let Some(problem) = name_problem(name) {
        let hint = "use letters, digits and `-_.+:@`, and more than a number or a UUID";
        found.push(ValidationError::with("name", problem).hint(hint));
    }
    for (attribute, value) in should.iter() {
        if value.holds_sensitive() {
            let problem = ValidationError::with(attribute.as_str(), "the definition of a machine cannot hold a secret");
            found.push(problem.hint("use a value that is not secret"));
        }
    }
    let disks = should.get("disks").map(Value::as_list).unwrap_or_default();
    let disks = disks.iter().filter_map(path_and_format).map(|(path, _)| ("disks", path.into()));
    for (attribute, path) in disks.chain(texts(should.get("cdroms")).into_iter().map(|path| ("cdroms", path))) {
        if !is_normal(&path) {
            let problem = ValidationError::with(attribute, format!("`{path}` is not an absolute path"));
            found.push(problem.hint("write the path of an image: /var/lib/libvirt/images/web.qcow2"));
        }
    }
    let boot = texts(should.get("boot"));
    if let Some(device) = boot.iter().enumerate().find_map(|(at, one)| boot[..at].contains(one).then_some(one)) {
        found.push(ValidationError::with("boot", format!("`{device}` is listed twice")));
    }
    for network in texts(should.get("networks")) {
        let is_valid = match network.split_once('=') {
            Some((kind, name)) => kind == "bridge" && !name.is_empty(),
            None => !network.is_empty(),
        };
        if !is_valid || network.contains(char::is_control) {
            let problem = ValidationError::with("networks", format!("`{network}` is no network"));
            found.push(problem.hint("write the name of a network of libvirt, or `bridge=NAME`"));
        }
    }
    let seal = Redactor::of(should);
    found.into_iter().map(|problem| seal.problem(problem)).collect()
}
