//! The `networking` fact of machines that are trees of files.

use crate::support::FakeRoot;
use kilter_facts::Address;
use serde_json::json;

fn address(interface: u32, address: &str, prefix: u8, scope: &'static str) -> Address {
    Address { interface, address: address.parse().unwrap(), prefix, scope, flags: vec!["permanent"] }
}

fn machine() -> FakeRoot {
    let mut machine = FakeRoot::new().with([
        ("sys/class/net/lo/ifindex", "1\n"),
        ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
        ("sys/class/net/lo/mtu", "65536\n"),
        ("sys/class/net/eth0/ifindex", "2\n"),
        ("sys/class/net/eth0/address", "02:fc:00:00:00:01\n"),
        ("sys/class/net/eth0/mtu", "1500\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
        ("sys/class/net/eth0/speed", "-1\n"),
        ("sys/class/net/eth0/device/vendor", "x"),
        ("sys/class/net/bonding_masters", "\n"),
        (
            "proc/net/route",
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
             eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n",
        ),
    ]);
    machine.kernel.addresses = vec![
        address(1, "127.0.0.1", 8, "host"),
        address(2, "169.254.7.7", 16, "link"),
        address(2, "192.0.2.2", 24, "global"),
        address(2, "fe80::1", 64, "link"),
        address(2, "2001:db8::2", 64, "global"),
    ];
    machine
}

#[test]
fn interface_has_its_bindings() {
    assert_eq!(
        machine().fact("networking.interfaces.eth0"),
        json!({
            "bindings": [
                { "address": "169.254.7.7", "netmask": "255.255.0.0", "network": "169.254.0.0" },
                { "address": "192.0.2.2", "netmask": "255.255.255.0", "network": "192.0.2.0" },
            ],
            "bindings6": [
                { "address": "fe80::1", "flags": ["permanent"], "netmask": "ffff:ffff:ffff:ffff::", "network": "fe80::", "scope6": "link" },
                { "address": "2001:db8::2", "flags": ["permanent"], "netmask": "ffff:ffff:ffff:ffff::", "network": "2001:db8::", "scope6": "global" },
            ],
            "ip": "192.0.2.2", "ip6": "2001:db8::2", "mac": "02:fc:00:00:00:01", "mtu": 1500,
            "netmask": "255.255.255.0", "netmask6": "ffff:ffff:ffff:ffff::",
            "network": "192.0.2.0", "network6": "2001:db8::",
            "operational_state": "up", "physical": true, "scope6": "global",
        })
    );
}

#[test]
fn the_machine_has_the_addresses_of_its_primary_interface() {
    let networking = machine().fact("networking");
    assert_eq!(networking["primary"], json!("eth0"));
    assert_eq!(networking["ip"], json!("192.0.2.2"));
    assert_eq!(networking["mac"], json!("02:fc:00:00:00:01"));
    assert_eq!(networking["interfaces"]["lo"]["ip"], json!("127.0.0.1"));
    assert_eq!(networking["interfaces"]["lo"].get("mac"), None);
}

#[test]
fn without_a_default_route_the_first_usable_interface_is_primary() {
    let machine = machine().with([("proc/net/route", "Iface Destination\n")]);
    assert_eq!(machine.fact("networking.primary"), json!("eth0"));
}

#[test]
fn the_domain_is_taken_from_the_name_then_hosts_then_the_resolver() {
    let resolv = ("etc/resolv.conf", "nameserver 192.0.2.1\nsearch example.net example.org\n");
    let hosts = ("etc/hosts", "127.0.0.1 localhost # web1.wrong.example\n192.0.2.2 web1.example.com web1\n");
    let names = |machine: &FakeRoot| {
        let networking = machine.fact("networking");
        json!([networking["hostname"], networking["domain"], networking["fqdn"]])
    };
    assert_eq!(names(&FakeRoot::new()), json!(["web1", null, "web1"]));
    assert_eq!(names(&FakeRoot::new().with([resolv])), json!(["web1", "example.net", "web1.example.net"]));
    assert_eq!(names(&FakeRoot::new().with([resolv, hosts])), json!(["web1", "example.com", "web1.example.com"]));
    let mut named = FakeRoot::new().with([resolv, hosts]);
    named.kernel.uname.nodename = "db.example.edu".to_owned();
    assert_eq!(names(&named), json!(["db", "example.edu", "db.example.edu"]));
    for unset in ["", "(none)"] {
        let mut unnamed = FakeRoot::new();
        unnamed.kernel.uname.nodename = unset.to_owned();
        assert_eq!(names(&unnamed), json!(["localhost", null, "localhost"]), "{unset:?}");
    }
}
