//! Events of the kernel about tables: a netlink socket of nf_tables.

use kilter_provider::{Context, WatchSink};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, netlink, recv, socket_with};

/// `NFNLGRP_NFTABLES` (linux/netfilter/nfnetlink.h), as a mask.
const GROUP: u32 = 1 << (7 - 1);
/// `NFNL_SUBSYS_NFTABLES`, and `NFT_MSG_NEWGEN`, which ends each transaction and is about no table.
const SUBSYSTEM: u8 = 10;
const NEW_GENERATION: u8 = 15;

/// Size of the buffer for messages in bytes: the kernel's own messages are smaller.
const BUFFER: usize = 64 * 1024;
/// Sizes of `struct nlmsghdr` and `struct nfgenmsg`.
const HEADER: usize = 16;
const FAMILY_HEADER: usize = 4;

/// Reports the tables that any program changes, until the watch is interrupted.
pub(super) fn follow(cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::NETFILTER))?;
    bind(&socket, &netlink::SocketAddrNetlink::new(0, GROUP))?;
    let interrupt = cx.interrupt();
    tell.watching();
    let mut buffer = vec![0; BUFFER];
    while !interrupt.is_raised() {
        match recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((_, length)) => match changed(&buffer[..length.min(BUFFER)]) {
                Some(tables) => tables.iter().for_each(|table| tell.changed(table)),
                None => tell.all_changed(),
            },
            Err(Errno::AGAIN) => {
                let mut polled = vec![PollFd::new(&socket, PollFlags::IN)];
                polled.extend(interrupt.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
                match poll(&mut polled, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            // The kernel has dropped events.
            Err(Errno::NOBUFS) => tell.all_changed(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Returns the tables that messages are about. None if a message has another form.
fn changed(mut messages: &[u8]) -> Option<Vec<String>> {
    let mut tables: Vec<String> = Vec::new();
    while !messages.is_empty() {
        let length = u32::from_ne_bytes(messages.get(..4)?.try_into().ok()?) as usize;
        let message = messages.get(..length).filter(|message| message.len() >= HEADER + FAMILY_HEADER)?;
        let [kind, subsystem] = u16::from_ne_bytes(message[4..6].try_into().ok()?).to_le_bytes();
        if subsystem == SUBSYSTEM && kind != NEW_GENERATION {
            let name = table(message)?;
            if !tables.contains(&name) {
                tables.push(name);
            }
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(tables)
}

/// Returns the table of a message: in all messages but one, the first attribute is its name.
fn table(message: &[u8]) -> Option<String> {
    let family = match message[HEADER] {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => return None,
    };
    let attribute = message.get(HEADER + FAMILY_HEADER..)?;
    let length = usize::from(u16::from_ne_bytes(attribute.get(..2)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(attribute.get(2..4)?.try_into().ok()?);
    let name = attribute.get(4..length)?.strip_suffix(b"\0")?;
    (kind == 1).then(|| format!("{family} {}", String::from_utf8_lossy(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, family: u8, name: &str) -> Vec<u8> {
        let attribute = 4 + name.len() + 1;
        let length = HEADER + FAMILY_HEADER + attribute;
        let mut bytes = (length as u32).to_ne_bytes().to_vec();
        bytes.extend(u16::from_le_bytes([kind, SUBSYSTEM]).to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend([family, 0, 0, 0]);
        bytes.extend((attribute as u16).to_ne_bytes());
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn tables_of_messages_are_named() {
        let mut bytes = message(3, 1, "filter");
        bytes.extend(message(6, 1, "filter"));
        bytes.extend(message(6, 10, "nat"));
        bytes.extend(message(NEW_GENERATION, 0, ""));
        assert_eq!(changed(&bytes), Some(vec!["inet filter".to_owned(), "ip6 nat".to_owned()]));
        assert_eq!(changed(&[]), Some(Vec::new()));
    }

    #[test]
    fn damaged_messages_count_as_any_change() {
        let bytes = message(3, 1, "filter");
        for length in 1..bytes.len() - 1 {
            assert_eq!(changed(&bytes[..length]), None, "{length}");
        }
        assert_eq!(changed(&message(3, 77, "filter")), None);
    }
}
