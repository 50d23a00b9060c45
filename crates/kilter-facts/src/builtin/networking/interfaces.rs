//! `networking.interfaces`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kilter_model::{Hash, Value};

use crate::builtin::parts;
use crate::kernel::Address;
use crate::system::FactSource;

/// Returns the interfaces of the machine, by name.
pub(super) fn interfaces(system: &FactSource) -> Hash {
    // In a sandbox, the kernel may hide the addresses, but there are still interfaces.
    let addresses = system.kernel().addresses().unwrap_or_default();
    let names = system.names("/sys/class/net").into_iter();
    names
        .filter_map(|name| {
            let index = system.number(&format!("/sys/class/net/{name}/ifindex"))?;
            let own = |address: &&Address| i64::from(address.interface) == index;
            let own: Vec<&Address> = addresses.iter().filter(own).collect();
            Some((name.as_str().into(), interface(system, &name, &own)?))
        })
        .collect()
}

/// Returns the first interface with an address that other machines can reach.
pub(super) fn first_with_address(interfaces: &Hash) -> Option<String> {
    let usable = |value: &Value| {
        let ip = value.as_hash()?.get("ip").or_else(|| value.as_hash()?.get("ip6"))?;
        ip.as_str()?.parse::<IpAddr>().ok().filter(|ip| !is_ignored(*ip))
    };
    interfaces.iter().find(|(_, value)| usable(value).is_some()).map(|(name, _)| name.to_string())
}

fn interface(system: &FactSource, name: &str, addresses: &[&Address]) -> Option<Value> {
    let of = |part: &str| system.line(&format!("/sys/class/net/{name}/{part}"));
    let (v4, v6): (Vec<&Address>, Vec<&Address>) = addresses.iter().partition(|address| address.address.is_ipv4());
    let (main, main6) = (main(&v4), main(&v6));
    let text = |address: Option<&Address>, part: fn(&Address) -> IpAddr| {
        address.map(|address| Value::from(part(address).to_string()))
    };
    // Virtual interfaces have no speed: the file is unreadable or contains -1.
    let speed = of("speed").and_then(|speed| speed.parse::<i64>().ok()).filter(|speed| *speed > 0);
    parts([
        ("bindings", bindings(&v4)),
        ("bindings6", bindings(&v6)),
        ("duplex", of("duplex").filter(|duplex| duplex != "unknown").map(Value::from)),
        ("ip", text(main, |address| address.address)),
        ("ip6", text(main6, |address| address.address)),
        ("mac", mac(of("address"))),
        ("mtu", of("mtu").and_then(|mtu| mtu.parse().ok()).map(Value::Integer)),
        ("netmask", text(main, netmask)),
        ("netmask6", text(main6, netmask)),
        ("network", text(main, network)),
        ("network6", text(main6, network)),
        ("operational_state", of("operstate").map(Value::from)),
        ("physical", Some(Value::from(system.has(&format!("/sys/class/net/{name}/device"))))),
        ("scope6", main6.map(|address| Value::from(address.scope))),
        ("speed", speed.map(Value::Integer)),
    ])
}

/// Returns the hardware address. None for an address of zeros, as of loopback.
fn mac(text: Option<String>) -> Option<Value> {
    text.filter(|mac| mac.bytes().any(|byte| !matches!(byte, b'0' | b':'))).map(Value::from)
}

/// Returns the main address of the interface: the first that other machines can reach, otherwise the first.
fn main<'a>(addresses: &[&'a Address]) -> Option<&'a Address> {
    let reachable = addresses.iter().find(|address| !is_ignored(address.address));
    reachable.or(addresses.first()).copied()
}

/// Returns true for loopback and link-local addresses.
fn is_ignored(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
    }
}

fn bindings(addresses: &[&Address]) -> Option<Value> {
    (!addresses.is_empty()).then(|| Value::array(addresses.iter().filter_map(|address| binding(address))))
}

fn binding(address: &Address) -> Option<Value> {
    let only6 = |value: Value| address.address.is_ipv6().then_some(value);
    parts([
        ("address", Some(Value::from(address.address.to_string()))),
        ("flags", only6(Value::strings(address.flags.iter().copied()))),
        ("netmask", Some(Value::from(netmask(address).to_string()))),
        ("network", Some(Value::from(network(address).to_string()))),
        ("scope6", only6(Value::from(address.scope))),
    ])
}

fn netmask(address: &Address) -> IpAddr {
    let prefix = u32::from(address.prefix);
    match address.address {
        IpAddr::V4(_) => Ipv4Addr::from(u32::MAX.checked_shl(32_u32.saturating_sub(prefix)).unwrap_or(0)).into(),
        IpAddr::V6(_) => Ipv6Addr::from(u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0)).into(),
    }
}

fn network(address: &Address) -> IpAddr {
    match (address.address, netmask(address)) {
        (IpAddr::V4(ip), IpAddr::V4(mask)) => (ip & mask).into(),
        (IpAddr::V6(ip), IpAddr::V6(mask)) => (ip & mask).into(),
        (ip, _) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_networks_follow_from_the_prefix() {
        let of = |ip: &str, prefix| {
            let address =
                Address { interface: 1, address: ip.parse().unwrap(), prefix, scope: "global", flags: Vec::new() };
            (netmask(&address).to_string(), network(&address).to_string())
        };
        assert_eq!(of("192.0.2.77", 24), ("255.255.255.0".into(), "192.0.2.0".into()));
        assert_eq!(of("192.0.2.77", 0), ("0.0.0.0".into(), "0.0.0.0".into()));
        assert_eq!(of("192.0.2.77", 32), ("255.255.255.255".into(), "192.0.2.77".into()));
        assert_eq!(of("2001:db8:1:2::5", 64), ("ffff:ffff:ffff:ffff::".into(), "2001:db8:1:2::".into()));
    }
}
