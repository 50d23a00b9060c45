//! Addresses of interfaces, from a dump over a route netlink socket (rtnetlink(7)).
//!
//! `getifaddrs` is an unsafe call. `/proc/net/fib_trie` does not contain the interface of an address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use super::Address;

const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Length of `struct nlmsghdr`, in bytes.
const HEADER: usize = 16;
/// Length of `struct ifaddrmsg`, in bytes.
const IFADDRMSG: usize = 8;

/// Names of the address flags, from the lowest bit (if_addr.h).
const FLAGS: [&str; 12] = [
    "temporary",
    "noad",
    "optimistic",
    "dadfailed",
    "homeaddress",
    "deprecated",
    "tentative",
    "permanent",
    "managetempaddr",
    "noprefixroute",
    "mcautojoin",
    "stableprivacy",
];

/// Returns the addresses of all interfaces.
pub(super) fn dump() -> io::Result<Vec<Address>> {
    // The default protocol, 0, is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    // The kernel answers immediately. The timeout handles a sandbox that drops the request.
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(2)))?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if read_messages(&buffer[..length], &mut found)? == NetlinkDump::Done {
            return Ok(found);
        }
    }
}

fn request() -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + IFADDRMSG);
    message.extend_from_slice(&24_u32.to_ne_bytes());
    message.extend_from_slice(&RTM_GETADDR.to_ne_bytes());
    message.extend_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    // Sequence number, port (set by the kernel) and an ifaddrmsg for all families.
    message.resize(HEADER + IFADDRMSG, 0);
    message
}

#[derive(Debug, PartialEq, Eq)]
enum NetlinkDump {
    More,
    Done,
}

/// Reads the messages of one datagram into `found`.
fn read_messages(mut datagram: &[u8], found: &mut Vec<Address>) -> io::Result<NetlinkDump> {
    while datagram.len() >= HEADER {
        let length = u32_at(datagram, 0).map_or(0, |length| length as usize);
        let kind = u16_at(datagram, 4);
        if length < HEADER || length > datagram.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let body = &datagram[HEADER..length];
        match kind {
            Some(NLMSG_DONE) => return Ok(NetlinkDump::Done),
            Some(NLMSG_ERROR) => return Err(error_of(body)),
            Some(RTM_NEWADDR) => found.extend(address(body)),
            _ => {}
        }
        datagram = &datagram[aligned(length).min(datagram.len())..];
    }
    Ok(NetlinkDump::More)
}

fn error_of(body: &[u8]) -> io::Error {
    match u32_at(body, 0) {
        Some(code) => io::Error::from_raw_os_error(code.cast_signed().wrapping_neg()),
        None => io::ErrorKind::InvalidData.into(),
    }
}

/// Parses the address in an `RTM_NEWADDR` message.
fn address(body: &[u8]) -> Option<Address> {
    let [family, prefix, flags, scope] = *body.first_chunk::<4>()?;
    let interface = u32_at(body, 4)?;
    let (mut any, mut local, mut flags) = (None, None, u32::from(flags));
    for (kind, payload) in attributes(body.get(IFADDRMSG..)?) {
        match kind {
            IFA_ADDRESS => any = ip(family, payload),
            IFA_LOCAL => local = ip(family, payload),
            IFA_FLAGS => flags = u32_at(payload, 0)?,
            _ => {}
        }
    }
    // On a point-to-point link, IFA_ADDRESS is the remote address and IFA_LOCAL the local one.
    Some(Address { interface, address: local.or(any)?, prefix, scope: scope_word(scope), flags: flag_words(flags) })
}

fn scope_word(scope: u8) -> &'static str {
    match scope {
        200 => "site",
        253 => "link",
        254 | 255 => "host",
        _ => "global",
    }
}

fn flag_words(flags: u32) -> Vec<&'static str> {
    FLAGS.iter().enumerate().filter(|(bit, _)| flags & (1 << bit) != 0).map(|(_, word)| *word).collect()
}

fn ip(family: u8, payload: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(Ipv4Addr::from(*payload.first_chunk::<4>()?).into()),
        AF_INET6 => Some(Ipv6Addr::from(*payload.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Iterates over the attributes after the fixed part of a message, up to the first malformed one.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)?;
        let payload = rest.get(4..length)?;
        rest = &rest[aligned(length).min(rest.len())..];
        Some((kind, payload))
    })
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(body);
        bytes
    }

    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(4 + payload.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    #[test]
    fn local_address_of_point_to_point_link_is_used() {
        let mut body = vec![AF_INET, 32, 0x80, 0];
        body.extend_from_slice(&7_u32.to_ne_bytes());
        body.extend(attribute(IFA_ADDRESS, &[10, 0, 0, 2]));
        body.extend(attribute(IFA_LOCAL, &[10, 0, 0, 1]));
        let mut found = Vec::new();
        let mut datagram = message(RTM_NEWADDR, &body);
        datagram.extend(message(NLMSG_DONE, &[0; 4]));
        assert_eq!(read_messages(&datagram, &mut found).unwrap(), NetlinkDump::Done);
        assert_eq!(
            found,
            [Address {
                interface: 7,
                address: "10.0.0.1".parse().unwrap(),
                prefix: 32,
                scope: "global",
                flags: vec!["permanent"]
            }]
        );
    }

    #[test]
    fn netlink_error_keeps_errno() {
        let datagram = message(NLMSG_ERROR, &(-1_i32).to_ne_bytes());
        let error = read_messages(&datagram, &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(1));
    }

    #[test]
    fn truncated_or_invalid_netlink_messages_are_refused() {
        let mut body = vec![AF_INET6, 64, 0, 253, 1, 0, 0, 0];
        body.extend(attribute(IFA_ADDRESS, &[1; 16]));
        let whole = message(RTM_NEWADDR, &body);
        for end in 0..whole.len() {
            let _ = read_messages(&whole[..end], &mut Vec::new());
            let mut cut = message(RTM_NEWADDR, &whole[HEADER..end.max(HEADER)]);
            let _ = read_messages(&cut, &mut Vec::new());
            cut[0] = 255;
            assert!(read_messages(&cut, &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn the_loopback_address_of_this_machine_is_found() {
        let found = dump().unwrap();
        let local = found.iter().find(|address| address.address == IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!((local.prefix, local.scope), (8, "host"));
    }
}
