//! Definitions of machines in the XML of libvirt.

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Value};
use xmltree::{Element, EmitterConfig, XMLNode};

use crate::value_text::texts;

/// Definition of a machine.
pub(super) struct Definition(Element);

/// Returns the first child with a name.
fn child<'e>(element: &'e Element, name: &str) -> Option<&'e Element> {
    element.children.iter().filter_map(XMLNode::as_element).find(|child| child.name == name)
}

/// Returns the first child with a name, and adds it if there is none.
fn entry<'e>(element: &'e mut Element, name: &str) -> &'e mut Element {
    let is_child = |node: &XMLNode| node.as_element().is_some_and(|child| child.name == name);
    let at = element.children.iter().position(is_child).unwrap_or_else(|| {
        element.children.push(XMLNode::Element(Element::new(name)));
        element.children.len() - 1
    });
    element.children[at].as_mut_element().expect("the position is that of an element")
}

fn attribute<'e>(element: &'e Element, of: &str, name: &str) -> Option<&'e str> {
    child(element, of)?.attributes.get(name).map(String::as_str)
}

fn text(element: &Element) -> EcoString {
    element.children.iter().filter_map(XMLNode::as_text).map(str::trim).collect()
}

/// Returns an element with attributes.
fn element(name: &str, attributes: &[(&str, &str)]) -> Element {
    let mut element = Element::new(name);
    for (name, value) in attributes {
        element.attributes.insert((*name).into(), (*value).into());
    }
    element
}

fn with_text(element: &mut Element, text: impl ToString) {
    element.children = vec![XMLNode::Text(text.to_string())];
}

/// Returns the number of bytes in a unit of libvirt.
fn unit_bytes(unit: &str) -> Option<u64> {
    Some(match unit {
        "b" | "bytes" => 1,
        "KB" => 1000,
        "k" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    })
}

/// Returns the format of an image with this name.
fn usual_format(path: &str) -> &'static str {
    if path.ends_with(".qcow2") { "qcow2" } else { "raw" }
}

/// Path and format of a declared or a found disk.
fn disk(path: &str, format: &str) -> Value {
    match format == usual_format(path) {
        true => Value::from(path),
        false => Value::hash([("path", Value::from(path)), ("format", Value::from(format))]),
    }
}

/// Returns the path and the format of a declared disk.
pub(super) fn path_and_format(declared: &Value) -> Option<(&str, &str)> {
    if let Some(path) = declared.as_str() {
        return Some((path, usual_format(path)));
    }
    let fields = declared.as_hash()?;
    let path = fields.get("path")?.as_str()?;
    Some((path, fields.get("format").and_then(Value::as_str).unwrap_or(usual_format(path))))
}

/// Returns the disks as [`Definition::read`] returns them.
pub(super) fn canonical_disks(declared: &Value) -> Value {
    let disks =
        declared.as_list().iter().filter_map(|one| path_and_format(one).map(|(path, format)| disk(path, format)));
    Value::array(disks)
}

fn is_device(element: &Element, device: &str) -> bool {
    element.name == "disk" && element.attributes.get("device").map_or("disk", String::as_str) == device
}

/// Returns the path of a disk on this machine.
fn source(disk: &Element) -> Option<&str> {
    attribute(disk, "source", "file").or_else(|| attribute(disk, "source", "dev"))
}

/// Returns the network of an interface: `default`, `bridge=br0`.
fn network(interface: &Element) -> Option<EcoString> {
    let named = |name| attribute(interface, "source", name);
    match interface.attributes.get("type").map(String::as_str) {
        Some("network") => named("network").map(EcoString::from),
        Some("bridge") => named("bridge").map(|bridge| eco_format!("bridge={bridge}")),
        _ => None,
    }
}

impl Definition {
    /// Returns the definition of a new machine without memory.
    pub(super) fn new(name: &str, kind: &str) -> Definition {
        let mut domain = element("domain", &[("type", kind)]);
        with_text(entry(&mut domain, "name"), name);
        with_text(entry(&mut domain, "vcpu"), 1);
        with_text(entry(entry(&mut domain, "os"), "type"), "hvm");
        let features = entry(&mut domain, "features");
        // A shutdown needs ACPI.
        features.children = ["acpi", "apic"].map(|name| XMLNode::Element(Element::new(name))).into();
        let graphics = element("graphics", &[("type", "vnc"), ("autoport", "yes"), ("listen", "127.0.0.1")]);
        let console = element("console", &[("type", "pty")]);
        entry(&mut domain, "devices").children = [console, graphics].map(XMLNode::Element).into();
        Definition(domain)
    }

    /// Parses a definition that virsh has printed.
    ///
    /// # Errors
    /// If it is no XML.
    pub(super) fn parse(xml: &str) -> Result<Definition, EcoString> {
        Element::parse(xml.as_bytes()).map(Definition).map_err(|error| eco_format!("virsh wrote no XML: {error}"))
    }

    /// Returns the XML.
    ///
    /// # Errors
    /// If a text cannot be part of XML.
    pub(super) fn xml(&self) -> Result<Vec<u8>, EcoString> {
        let mut xml = Vec::new();
        let config = EmitterConfig::new().write_document_declaration(false);
        self.0.write_with_config(&mut xml, config).map_err(|error| eco_format!("cannot write XML: {error}"))?;
        Ok(xml)
    }

    /// Returns the attributes.
    pub(super) fn read(&self) -> Attributes {
        let mut found = Attributes::with_capacity(7);
        let domain = &self.0;
        if let Some(kind) = domain.attributes.get("type") {
            found.push("kind", kind.as_str());
        }
        if let Some(memory) = child(domain, "memory") {
            let unit = memory.attributes.get("unit").map_or("KiB", String::as_str);
            let bytes =
                text(memory).parse::<u64>().ok().zip(unit_bytes(unit)).and_then(|(n, unit)| n.checked_mul(unit));
            if let Some(mebibytes) = bytes.and_then(|bytes| i64::try_from(bytes >> 20).ok()) {
                found.push("memory", mebibytes);
            }
        }
        if let Some(cpus) = child(domain, "vcpu").and_then(|cpus| text(cpus).parse::<i64>().ok()) {
            found.push("cpus", cpus);
        }
        let boot = child(domain, "os").map(|os| &os.children).into_iter().flatten().filter_map(XMLNode::as_element);
        let boot = boot.filter(|one| one.name == "boot").filter_map(|one| one.attributes.get("dev"));
        found.push("boot", Value::strings(boot.map(String::as_str)));
        let devices =
            || child(domain, "devices").map(|all| &all.children).into_iter().flatten().filter_map(XMLNode::as_element);
        let disks = devices()
            .filter(|one| is_device(one, "disk"))
            .filter_map(|one| Some(disk(source(one)?, attribute(one, "driver", "type").unwrap_or("raw"))));
        found.push("disks", Value::array(disks));
        let cdroms = devices().filter(|one| is_device(one, "cdrom")).filter_map(source);
        found.push("cdroms", Value::strings(cdroms));
        let networks = devices().filter(|one| one.name == "interface").filter_map(network);
        found.push("networks", Value::strings(networks));
        found
    }

    /// Sets the declared attributes. Devices that stay keep their settings.
    pub(super) fn apply(&mut self, should: &Attributes) {
        let domain = &mut self.0;
        if let Some(kind) = should.text("kind") {
            domain.attributes.insert("type".into(), kind.into());
        }
        if let Some(memory) = should.get("memory").and_then(Value::to_text) {
            for name in ["memory", "currentMemory"] {
                let element = entry(domain, name);
                element.attributes.insert("unit".into(), "MiB".into());
                with_text(element, &memory);
            }
        }
        if let Some(cpus) = should.get("cpus").and_then(Value::to_text) {
            let element = entry(domain, "vcpu");
            element.attributes.shift_remove("current");
            with_text(element, cpus);
        }
        if should.get("boot").is_some() {
            let os = entry(domain, "os");
            os.children.retain(|node| node.as_element().is_none_or(|one| one.name != "boot"));
            let boot = texts(should.get("boot"));
            os.children.extend(boot.iter().map(|dev| XMLNode::Element(element("boot", &[("dev", dev)]))));
        }
        let devices = entry(domain, "devices");
        if let Some(declared) = should.get("disks") {
            let disks: Vec<_> = declared
                .as_list()
                .iter()
                .filter_map(|one| path_and_format(one))
                .map(|(path, format)| (path.into(), format.into()))
                .collect();
            set_disks(devices, "disk", &disks);
        }
        if should.get("cdroms").is_some() {
            let cdroms: Vec<_> = texts(should.get("cdroms")).into_iter().map(|path| (path, "raw".into())).collect();
            set_disks(devices, "cdrom", &cdroms);
        }
        if should.get("networks").is_some() {
            set_networks(devices, &texts(should.get("networks")));
        }
    }
}

/// Takes the elements out that a function selects.
fn take(devices: &mut Element, is_taken: impl Fn(&Element) -> bool) -> Vec<Element> {
    let (mut taken, mut kept) = (Vec::new(), Vec::new());
    for node in devices.children.drain(..) {
        match node {
            XMLNode::Element(one) if is_taken(&one) => taken.push(one),
            other => kept.push(other),
        }
    }
    devices.children = kept;
    taken
}

/// Sets the disks of a kind of device, `disk` or `cdrom`. The names of their targets follow their order.
fn set_disks(devices: &mut Element, device: &str, declared: &[(EcoString, EcoString)]) {
    let mut old = take(devices, |one| is_device(one, device) && source(one).is_some());
    let disks = devices.children.iter().filter_map(XMLNode::as_element).filter(|one| one.name == "disk");
    let mut used: Vec<String> = disks.filter_map(|one| attribute(one, "target", "dev")).map(String::from).collect();
    for (path, format) in declared {
        let at = old.iter().position(|one| source(one) == Some(path));
        let mut disk = at.map_or_else(|| new_disk(device, path), |at| old.remove(at));
        let driver = entry(&mut disk, "driver");
        driver.attributes.insert("type".into(), format.to_string());
        let target = entry(&mut disk, "target");
        let prefix = match target.attributes.get("bus").map(String::as_str) {
            Some("virtio") => "vd",
            Some("ide") => "hd",
            Some("fdc") => "fd",
            Some("xen") => "xvd",
            _ => "sd",
        };
        let names = (0..).map(|number| eco_format!("{prefix}{}", letters(number)).to_string());
        let Some(name) = names.into_iter().find(|name| !used.contains(name)) else { continue };
        if target.attributes.insert("dev".into(), name.clone()).is_some_and(|old| old != name) {
            disk.children.retain(|node| node.as_element().is_none_or(|one| one.name != "address"));
        }
        used.push(name);
        devices.children.push(XMLNode::Element(disk));
    }
}

/// Returns the letters of the disk with this number: `a`, …, `z`, `aa`.
fn letters(number: u32) -> String {
    let last = char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => last.to_string(),
        before => letters(before - 1) + &last.to_string(),
    }
}

fn new_disk(device: &str, path: &str) -> Element {
    let (kind, attribute) = if path.starts_with("/dev/") { ("block", "dev") } else { ("file", "file") };
    let mut disk = element("disk", &[("type", kind), ("device", device)]);
    let bus = if device == "disk" { "virtio" } else { "sata" };
    let mut children = vec![
        element("driver", &[("name", "qemu")]),
        element("source", &[(attribute, path)]),
        element("target", &[("bus", bus)]),
    ];
    if device == "cdrom" {
        children.push(Element::new("readonly"));
    }
    disk.children = children.into_iter().map(XMLNode::Element).collect();
    disk
}

/// Sets the interfaces. An interface whose network stays keeps its MAC address.
fn set_networks(devices: &mut Element, declared: &[EcoString]) {
    let mut old = take(devices, |one| one.name == "interface" && network(one).is_some());
    for name in declared {
        let at = old.iter().position(|one| network(one).as_ref() == Some(name));
        let interface = at.map(|at| old.remove(at)).unwrap_or_else(|| {
            let (kind, name) = name.split_once('=').unwrap_or(("network", name));
            let mut interface = element("interface", &[("type", kind)]);
            let children = [element("source", &[(kind, name)]), element("model", &[("type", "virtio")])];
            interface.children = children.map(XMLNode::Element).into();
            interface
        });
        devices.children.push(XMLNode::Element(interface));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(definition: &mut Definition, should: &[(&str, Value)]) -> Attributes {
        definition.apply(&should.iter().cloned().collect());
        let xml = String::from_utf8(definition.xml().unwrap()).unwrap();
        *definition = Definition::parse(&xml).unwrap();
        definition.read()
    }

    #[test]
    fn attributes_survive_the_definition() {
        let odd = Value::hash([("path", Value::from("/b.img")), ("format", Value::from("qcow2"))]);
        let should = [
            ("kind", Value::from("test")),
            ("memory", Value::from(512)),
            ("cpus", Value::from(2)),
            ("boot", Value::strings(["cdrom", "hd"])),
            ("disks", Value::array([Value::from("/a & <b>.qcow2"), odd])),
            ("cdroms", Value::strings(["/x.iso"])),
            ("networks", Value::strings(["default", "bridge=br0"])),
        ];
        let mut definition = Definition::new("web", "kvm");
        assert_eq!(applied(&mut definition, &should), should.iter().cloned().collect());
        let none = ["boot", "disks", "cdroms", "networks"].map(|name| (name, Value::strings([""; 0])));
        let found = applied(&mut definition, &none);
        assert!(none.iter().all(|(name, value)| found.get(name) == Some(value)), "{found:?}");
        assert_eq!(found.get("memory"), Some(&Value::from(512)));
    }

    #[test]
    fn devices_that_stay_keep_their_settings() {
        let xml = "<domain type='kvm'><name>a</name><memory>1048576</memory><devices><disk device='disk'><driver \
                   cache='none' type='raw'/><source file='/a'/><target dev='vdb' bus='virtio'/><address slot='7'/></disk>\
                   <disk device='lun'><source dev='/dev/x'/><target dev='vda' bus='virtio'/></disk>\
                   <interface type='network'><mac address='52:54:00:00:00:01'/><source network='lan'/></interface>\
                   <hostdev/></devices></domain>";
        let mut definition = Definition::parse(xml).unwrap();
        let found = applied(
            &mut definition,
            &[("disks", Value::strings(["/new", "/a"])), ("networks", Value::strings(["default", "lan"]))],
        );
        assert_eq!(found.get("memory"), Some(&Value::from(1024)));
        assert_eq!(found.get("disks"), Some(&Value::strings(["/new", "/a"])));
        let xml = String::from_utf8(definition.xml().unwrap()).unwrap();
        for kept in ["cache=\"none\"", "52:54:00:00:00:01", "<hostdev", "dev=\"vda\"", "dev=\"vdb\"", "dev=\"vdc\""] {
            assert!(xml.contains(kept), "{kept}: {xml}");
        }
        assert!(!xml.contains("slot=\"7\""), "the disk has another target: {xml}");
        assert_eq!([0, 25, 26, 701, 702].map(letters), ["a", "z", "aa", "zz", "aaa"]);
    }
}
