//! Schema of the type `net`.

use kilter_model::{Behaviour, Feature, TypeSchema};

const DESC: &str = "\
Network interfaces: their state, addresses and routes in the running kernel.

```yaml
resources:
  net[br0]:
    kind: bridge
    addresses: [10.20.0.1/24, 'fd20::1/64']
    routes: [10.21.0.0/16 via 10.20.0.9]
  net[web]:
    kind: veth
    peer: web-in
    master: br0
  net[uplink.7]:
    kind: vlan
    parent: uplink
    vlan_id: 7
    mtu: 1400
    gateway: 192.0.2.1
  net[uplink]:
    ensure: up
```

kilter talks to the kernel itself (rtnetlink) and needs no program. The kernel reports changes to `kilter run`, \
which repairs them at once.

**Only the running state.** kilter sets the state of the kernel and writes no configuration of another program. \
After a boot, `kilter run` as a [service](../../guides/service.md) sets it again. For interfaces that must exist \
earlier, declare the files of the program that configures them, for example \
`file[/etc/systemd/network/20-uplink.network]`. Do not let two programs set the same attribute of an interface.

**What belongs to the resource.** An attribute that is not declared is not managed. `addresses` are all permanent \
addresses of the interface: kilter removes others, but never dynamic ones (DHCP with a lifetime, SLAAC), nor the \
link-local ones of IPv6 that are not declared. `gateway` and `routes` are all static routes of the interface in the \
main table (with the origin `static` or `boot`); routes of the kernel, of DHCP and of routing daemons stay. If an \
interface goes down, the kernel removes its routes, and its addresses of IPv6.

**Automatic edges.** An interface comes after its `parent` and its `master`, and before its `peer`. If it is absent, \
the order is reversed.";

pub(super) fn schema() -> TypeSchema {
    let list = "Variant[String[1], Array[String[1]]]";
    TypeSchema::new("net", DESC)
        .attribute(
            "ensure",
            "Enum[up, down, present, absent]",
            Behaviour::Property,
            "State: `up` and `down` are the states that an administrator sets; `present` is either. `absent` removes a \
             virtual interface.",
        )
        .default("up")
        .attribute("name", "String[1, 15]", Behaviour::Namevar, "Name of the interface: `eth0`.")
        .attribute(
            "kind",
            "Enum[bridge, dummy, veth, vlan]",
            Behaviour::InitOnly,
            "Kind of a virtual interface. With it, kilter makes an interface that does not exist.",
        )
        .attribute("parent", "String[1, 15]", Behaviour::InitOnly, "Interface that carries the VLAN: `eth0`.")
        .attribute("vlan_id", "Integer[1, 4094]", Behaviour::InitOnly, "Number of the VLAN: `7`.")
        .attribute(
            "peer",
            "String[1, 15]",
            Behaviour::InitOnly,
            "Name of the other end of a pair (`veth`), which kilter makes with it.",
        )
        .attribute("mtu", "Integer[68, 65536]", Behaviour::Property, "Maximum size of a packet in bytes: `1500`.")
        .attribute(
            "master",
            "String[0, 15]",
            Behaviour::Property,
            "Bridge of which the interface is a port: `br0`; `\"\"` for none.",
        )
        .attribute(
            "addresses",
            list,
            Behaviour::Property,
            "All addresses, with the lengths of their prefixes: `[10.0.0.1/24, fd00::1/64]`; `[]` for none.",
        )
        .attribute(
            "gateway",
            list,
            Behaviour::Property,
            "Gateways of the default routes, one for each family: `10.0.0.254`, `[10.0.0.254 metric 100, fd00::1]`; \
             `[]` for none.",
        )
        .attribute(
            "routes",
            list,
            Behaviour::Property,
            "All other static routes: `[10.1.0.0/16 via 10.0.0.9, 10.2.0.0/16 metric 50]`; `[]` for none.",
        )
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter])
}
