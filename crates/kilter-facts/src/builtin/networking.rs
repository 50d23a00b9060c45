//! `networking`.

mod interfaces;

use kilter_model::{Hash, Value};

use super::parts;
use crate::kernel::machine_name;
use crate::system::FactSource;

pub(super) fn networking(system: &FactSource) -> Option<Value> {
    let interfaces = interfaces::interfaces(system);
    let primary = primary(system).filter(|name| interfaces.contains_key(name.as_str()));
    let primary = primary.or_else(|| interfaces::first_with_address(&interfaces));
    let main = primary.as_deref().and_then(|name| interfaces.get(name)?.as_hash());
    let of = |key: &str| main.and_then(|main| main.get(key).cloned());
    let names = HostNames::of(system);
    parts([
        ("domain", names.domain.as_deref().map(Value::from)),
        ("fqdn", Some(Value::from(names.fqdn()))),
        ("hostname", Some(Value::from(names.hostname.as_str()))),
        ("interfaces", (!interfaces.is_empty()).then(|| as_value(&interfaces))),
        ("ip", of("ip")),
        ("ip6", of("ip6")),
        ("mac", of("mac")),
        ("mtu", of("mtu")),
        ("netmask", of("netmask")),
        ("netmask6", of("netmask6")),
        ("network", of("network")),
        ("network6", of("network6")),
        ("primary", primary.as_deref().map(Value::from)),
        ("scope6", of("scope6")),
    ])
}

fn as_value(entries: &Hash) -> Value {
    Value::Hash(std::sync::Arc::new(entries.clone()))
}

/// Names of the machine from its own configuration. No name server is queried.
struct HostNames {
    hostname: String,
    domain: Option<String>,
}

impl HostNames {
    fn of(system: &FactSource) -> HostNames {
        let uname = system.kernel().uname();
        let node = machine_name(&uname.nodename);
        if let Some((hostname, domain)) = node.split_once('.') {
            let domain = (!domain.is_empty()).then(|| domain.to_owned());
            return HostNames { hostname: hostname.to_owned(), domain };
        }
        let domain = domain_in_hosts(system, node).or_else(|| domain_of_resolver(system));
        HostNames { hostname: node.to_owned(), domain }
    }

    fn fqdn(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{}.{domain}", self.hostname),
            None => self.hostname.clone(),
        }
    }
}

/// Returns the domain part of the host's name in `/etc/hosts`.
fn domain_in_hosts(system: &FactSource, hostname: &str) -> Option<String> {
    let hosts = system.text("/etc/hosts")?;
    let names = hosts.lines().flat_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        line.split_whitespace().skip(1)
    });
    let mut domains = names.filter_map(|name| name.strip_prefix(hostname)?.strip_prefix('.'));
    domains.find(|domain| !domain.is_empty()).map(str::to_owned)
}

/// Returns the `domain` in `/etc/resolv.conf`, or the first entry of its `search` list.
fn domain_of_resolver(system: &FactSource) -> Option<String> {
    let text = system.text("/etc/resolv.conf")?;
    let word_after = |key: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(key)).then(|| words.next()).flatten()
        })
    };
    let domain = word_after("domain").or_else(|| word_after("search"))?.trim_matches('.');
    (!domain.is_empty()).then(|| domain.to_owned())
}

/// Returns the interface of the default route with the smallest metric, IPv4 first.
fn primary(system: &FactSource) -> Option<String> {
    default_of(&system.text("/proc/net/route").unwrap_or_default(), ipv4_default)
        .or_else(|| default_of(&system.text("/proc/net/ipv6_route").unwrap_or_default(), ipv6_default))
}

fn default_of(table: &str, read: fn(&[&str]) -> Option<(u32, String)>) -> Option<String> {
    let routes = table.lines().filter_map(|line| read(&line.split_whitespace().collect::<Vec<_>>()));
    routes.min_by_key(|(metric, _)| *metric).map(|(_, interface)| interface)
}

const ROUTE_IS_UP: u32 = 1;
const ROUTE_REJECTS: u32 = 0x200;

/// Parses a line of `/proc/net/route`: interface, destination, gateway, flags, two counts, metric, mask.
fn ipv4_default(fields: &[&str]) -> Option<(u32, String)> {
    let [interface, destination, _, flags, _, _, metric, mask, ..] = fields else { return None };
    let usable = usable(u32::from_str_radix(flags, 16).ok()?);
    let is_default = *destination == "00000000" && *mask == "00000000";
    (usable && is_default).then_some((metric.parse().ok()?, (*interface).to_owned()))
}

/// Parses a line of `/proc/net/ipv6_route`: destination, its prefix, source, its prefix, next hop, metric, two
/// counts, flags, interface.
fn ipv6_default(fields: &[&str]) -> Option<(u32, String)> {
    let [destination, prefix, _, _, _, metric, _, _, flags, interface] = fields else { return None };
    let usable = usable(u32::from_str_radix(flags, 16).ok()?) && *interface != "lo";
    let is_default = *prefix == "00" && destination.bytes().all(|digit| digit == b'0');
    (usable && is_default).then_some((u32::from_str_radix(metric, 16).ok()?, (*interface).to_owned()))
}

fn usable(flags: u32) -> bool {
    flags & ROUTE_IS_UP != 0 && flags & ROUTE_REJECTS == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_with_the_smallest_metric_is_primary() {
        let table = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
            wlan0 00000000 0102A8C0 0003 0 0 600 00000000 0 0 0\n\
            eth0 00000000 010200C0 0003 0 0 100 00000000 0 0 0\n\
            eth1 00000000 00000000 0201 0 0 0 00000000 0 0 0\n\
            eth2 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";
        assert_eq!(default_of(table, ipv4_default).as_deref(), Some("eth0"));
    }

    #[test]
    fn an_ipv6_default_route_is_read() {
        let zero = "0".repeat(32);
        let table = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
        );
        assert_eq!(default_of(&table, ipv6_default).as_deref(), Some("eth0"));
    }
}
