//! Interfaces, addresses and routes of the kernel.

use std::net::IpAddr;

use ecow::{EcoString, eco_format};
use rustix::io::Errno;

use super::address::{Prefix, Route, default_metric};
use super::netlink::{CHANGE, Connection, NEW, NetlinkRequest, attribute, number};

// Kinds of messages (linux/rtnetlink.h).
const NEW_LINK: u16 = 16;
const REMOVE_LINK: u16 = 17;
const LIST_LINKS: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const REMOVE_ADDRESS: u16 = 21;
const LIST_ADDRESSES: u16 = 22;
const NEW_ROUTE: u16 = 24;
const REMOVE_ROUTE: u16 = 25;
const LIST_ROUTES: u16 = 26;

// Attributes of links (linux/if_link.h).
const LINK_NAME: u16 = 3;
const LINK_MTU: u16 = 4;
const LINK_PARENT: u16 = 5;
const LINK_MASTER: u16 = 10;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const LINK_NAMESPACE: u16 = 37;
const VLAN_ID: u16 = 1;
const VETH_PEER: u16 = 1;

// Attributes of addresses (linux/if_addr.h).
const ADDRESS: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
const ADDRESS_FLAGS: u16 = 8;
const IS_PERMANENT: u32 = 0x80;

// Attributes of routes (linux/rtnetlink.h).
const ROUTE_NETWORK: u16 = 1;
const ROUTE_LINK: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_METRIC: u16 = 6;

const IS_UP: u32 = 1;
const MAIN_TABLE: u8 = 254;
const UNICAST: u8 = 1;
/// Origins of static routes: a program such as ip(8) without another word, and an administrator.
const BOOT: u8 = 3;
const STATIC: u8 = 4;
/// Scopes of routes: with a gateway, and on the link.
const UNIVERSE: u8 = 0;
const LINK: u8 = 253;

const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// Sizes of `struct ifinfomsg`, `struct ifaddrmsg` and `struct rtmsg`.
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;

/// An interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: EcoString,
    pub(super) is_up: bool,
    pub(super) mtu: u32,
    /// Kind of a virtual interface; none for a device.
    pub(super) kind: Option<EcoString>,
    pub(super) master: u32,
    /// Interface below a VLAN, or the peer of a veth.
    pub(super) parent: u32,
    pub(super) vlan: Option<u16>,
}

/// A new virtual interface.
pub(super) struct NewLink<'a> {
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) parent: Option<u32>,
    pub(super) vlan: Option<u16>,
    pub(super) peer: Option<&'a str>,
}

/// The state of the kernel, in the network namespace of the thread.
pub(super) struct NetKernel {
    connection: Connection,
    pub(super) links: Vec<Link>,
    addresses: Vec<(u32, Prefix)>,
    routes: Vec<(u32, u8, Route)>,
}

fn text(bytes: &[u8]) -> EcoString {
    String::from_utf8_lossy(bytes.strip_suffix(b"\0").unwrap_or(bytes)).into()
}

fn zero_ended(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn family(is_v6: bool) -> u8 {
    if is_v6 { IPV6 } else { IPV4 }
}

fn link(body: &[u8]) -> Option<Link> {
    let attributes = body.get(LINK_HEADER..)?;
    let value = |kind| attribute(attributes, kind).and_then(number);
    let info = attribute(attributes, LINK_INFO);
    let kind = info.and_then(|info| attribute(info, INFO_KIND)).map(text);
    let data = info.and_then(|info| attribute(info, INFO_DATA)).filter(|_| kind.as_deref() == Some("vlan"));
    let vlan = data.and_then(|data| attribute(data, VLAN_ID)).and_then(|id| id.try_into().ok()).map(u16::from_ne_bytes);
    // An index of another namespace is none of this one.
    let is_here = attribute(attributes, LINK_NAMESPACE).is_none();
    Some(Link {
        index: number(&body[4..])?,
        name: text(attribute(attributes, LINK_NAME)?),
        is_up: number(&body[8..])? & IS_UP != 0,
        mtu: value(LINK_MTU).unwrap_or(0),
        kind,
        master: value(LINK_MASTER).unwrap_or(0),
        parent: value(LINK_PARENT).filter(|_| is_here).unwrap_or(0),
        vlan,
    })
}

/// Returns a permanent address, and the index of its interface.
fn permanent(body: &[u8]) -> Option<(u32, Prefix)> {
    let attributes = body.get(ADDRESS_HEADER..)?;
    let flags = attribute(attributes, ADDRESS_FLAGS).and_then(number).unwrap_or(u32::from(body[2]));
    // With a peer, the own address is the local one.
    let own = attribute(attributes, ADDRESS_LOCAL).or_else(|| attribute(attributes, ADDRESS));
    let prefix = Prefix { address: address(own?)?, length: body[1] };
    (flags & IS_PERMANENT != 0).then_some((number(&body[4..])?, prefix))
}

/// Returns a static route of the main table, the index of its interface, and its origin.
fn route(body: &[u8]) -> Option<(u32, u8, Route)> {
    let attributes = body.get(ROUTE_HEADER..)?;
    let [family, length, table, origin, kind] = [body[0], body[1], body[4], body[5], body[7]];
    if table != MAIN_TABLE || !matches!(origin, BOOT | STATIC) || kind != UNICAST {
        return None;
    }
    let network = match attribute(attributes, ROUTE_NETWORK) {
        Some(network) => Some(Prefix { address: address(network)?, length }),
        None => None,
    };
    let gateway = attribute(attributes, ROUTE_GATEWAY).and_then(address);
    let is_v6 = family == IPV6;
    let metric = attribute(attributes, ROUTE_METRIC).and_then(number).unwrap_or(0);
    let route = Route { network, gateway, metric, is_v6 };
    Some((attribute(attributes, ROUTE_LINK).and_then(number)?, origin, route))
}

impl NetKernel {
    /// Reads the state.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn read() -> Result<NetKernel, EcoString> {
        let mut connection = Connection::open().map_err(failed("open a connection to the kernel"))?;
        let mut list = |kind, size| connection.list(kind, &vec![0; size]).map_err(failed("list the network"));
        let links = list(LIST_LINKS, LINK_HEADER)?.iter().filter_map(|body| link(body)).collect();
        let addresses = list(LIST_ADDRESSES, ADDRESS_HEADER)?.iter().filter_map(|body| permanent(body)).collect();
        let routes = list(LIST_ROUTES, ROUTE_HEADER)?.iter().filter_map(|body| route(body)).collect();
        Ok(NetKernel { connection, links, addresses, routes })
    }

    /// Reads the state again.
    pub(super) fn refresh(&mut self) -> Result<(), EcoString> {
        *self = NetKernel::read()?;
        Ok(())
    }

    pub(super) fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// Returns the name of the interface with an index.
    pub(super) fn name_of(&self, index: u32) -> Option<&EcoString> {
        self.links.iter().find(|link| link.index == index && index != 0).map(|link| &link.name)
    }

    /// Returns the permanent addresses of an interface.
    pub(super) fn addresses(&self, index: u32) -> Vec<Prefix> {
        sorted(self.addresses.iter().filter(|(link, _)| *link == index).map(|(_, prefix)| *prefix).collect())
    }

    /// Returns the static routes of an interface.
    pub(super) fn routes(&self, index: u32) -> Vec<Route> {
        sorted(self.routes.iter().filter(|(link, _, _)| *link == index).map(|(_, _, route)| *route).collect())
    }

    fn change(&mut self, request: NetlinkRequest, what: &str) -> Result<(), EcoString> {
        self.connection.change(request).map_err(failed(what))
    }

    /// Makes a virtual interface.
    pub(super) fn create(&mut self, new: &NewLink<'_>) -> Result<(), EcoString> {
        let mut request = NetlinkRequest::new(NEW_LINK, NEW, &[0; LINK_HEADER]);
        request.attribute(LINK_NAME, &zero_ended(new.name));
        if let Some(parent) = new.parent {
            request.attribute(LINK_PARENT, &parent.to_ne_bytes());
        }
        request.nested(LINK_INFO, &[], &|info| {
            info.attribute(INFO_KIND, &zero_ended(new.kind));
            if let Some(id) = new.vlan {
                info.nested(INFO_DATA, &[], &|data| data.attribute(VLAN_ID, &id.to_ne_bytes()));
            }
            if let Some(peer) = new.peer {
                info.nested(INFO_DATA, &[], &|data| {
                    data.nested(VETH_PEER, &[0; LINK_HEADER], &|link| link.attribute(LINK_NAME, &zero_ended(peer)));
                });
            }
        });
        self.change(request, &format!("make the interface {} of the kind {}", new.name, new.kind))?;
        self.refresh()
    }

    /// Removes a virtual interface.
    pub(super) fn remove(&mut self, link: &Link) -> Result<(), EcoString> {
        self.change(
            NetlinkRequest::new(REMOVE_LINK, CHANGE, &link_header(link.index, None)),
            &format!("remove {}", link.name),
        )
    }

    /// Brings an interface up or down.
    pub(super) fn set_up(&mut self, link: &Link, is_up: bool) -> Result<(), EcoString> {
        let what = format!("bring {} {}", link.name, if is_up { "up" } else { "down" });
        self.change(NetlinkRequest::new(NEW_LINK, CHANGE, &link_header(link.index, Some(is_up))), &what)
    }

    pub(super) fn set_mtu(&mut self, link: &Link, mtu: u32) -> Result<(), EcoString> {
        let mut request = NetlinkRequest::new(NEW_LINK, CHANGE, &link_header(link.index, None));
        request.attribute(LINK_MTU, &mtu.to_ne_bytes());
        self.change(request, &format!("set the MTU of {} to {mtu}", link.name))
    }

    /// Makes an interface a port of a bridge; of none with 0.
    pub(super) fn set_master(&mut self, link: &Link, master: u32) -> Result<(), EcoString> {
        let mut request = NetlinkRequest::new(NEW_LINK, CHANGE, &link_header(link.index, None));
        request.attribute(LINK_MASTER, &master.to_ne_bytes());
        self.change(request, &format!("change the bridge of {}", link.name))
    }

    /// Adds or removes an address.
    pub(super) fn set_address(&mut self, link: &Link, prefix: Prefix, is_added: bool) -> Result<(), EcoString> {
        let mut header = [0; ADDRESS_HEADER];
        header[0] = family(prefix.address.is_ipv6());
        header[1] = prefix.length;
        header[4..].copy_from_slice(&link.index.to_ne_bytes());
        let (kind, flags, what) = match is_added {
            true => (NEW_ADDRESS, NEW, "add"),
            false => (REMOVE_ADDRESS, CHANGE, "remove"),
        };
        let mut request = NetlinkRequest::new(kind, flags, &header);
        request.attribute(ADDRESS_LOCAL, &octets(prefix.address));
        request.attribute(ADDRESS, &octets(prefix.address));
        self.change(request, &format!("{what} the address {prefix} of {}", link.name))
    }

    /// Adds or removes a route.
    pub(super) fn set_route(&mut self, link: &Link, route: &Route, is_added: bool) -> Result<(), EcoString> {
        let known = self.routes.iter().find(|(index, _, known)| *index == link.index && known == route);
        let mut header = [0; ROUTE_HEADER];
        header[0] = family(route.is_v6);
        header[1] = route.network.map_or(0, |network| network.length);
        header[4] = MAIN_TABLE;
        header[5] = known.map_or(STATIC, |(_, origin, _)| *origin);
        header[6] = if route.gateway.is_some() || route.is_v6 { UNIVERSE } else { LINK };
        header[7] = UNICAST;
        let (kind, flags, what) = match is_added {
            true => (NEW_ROUTE, NEW, "add"),
            false => (REMOVE_ROUTE, CHANGE, "remove"),
        };
        let mut request = NetlinkRequest::new(kind, flags, &header);
        if let Some(network) = route.network {
            request.attribute(ROUTE_NETWORK, &octets(network.address));
        }
        if let Some(gateway) = route.gateway {
            request.attribute(ROUTE_GATEWAY, &octets(gateway));
        }
        request.attribute(ROUTE_LINK, &link.index.to_ne_bytes());
        if route.metric != default_metric(route.is_v6) {
            request.attribute(ROUTE_METRIC, &route.metric.to_ne_bytes());
        }
        let name = if route.network.is_none() { "the default route" } else { "the route" };
        self.change(request, &format!("{what} {name} {route} of {}", link.name))
    }
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Returns a `struct ifinfomsg`.
fn link_header(index: u32, is_up: Option<bool>) -> [u8; LINK_HEADER] {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    if let Some(is_up) = is_up {
        header[8..12].copy_from_slice(&u32::from(is_up).to_ne_bytes());
        header[12..].copy_from_slice(&IS_UP.to_ne_bytes());
    }
    header
}

/// Explains a refusal of the kernel.
fn failed(what: &str) -> impl Fn(Errno) -> EcoString + use<'_> {
    move |errno| {
        let why = match errno {
            Errno::PERM => ": only root may change the network",
            Errno::OPNOTSUPP => ": the kernel does not support it, or its module is not installed",
            Errno::NETUNREACH | Errno::HOSTUNREACH => ": no address of an interface reaches the gateway",
            Errno::NETDOWN => ": the interface is down",
            Errno::EXIST => ": there is another one",
            _ => "",
        };
        eco_format!("cannot {what}: {errno}{why}")
    }
}
