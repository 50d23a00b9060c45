//! Messages of rtnetlink(7): requests to the kernel, and its answers.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, netlink, recv, send, socket_with,
};

/// Size of the buffer for answers in bytes. The kernel fills at most half of it.
const BUFFER: usize = 64 * 1024;

/// Size of `struct nlmsghdr`.
const HEADER: usize = 16;

/// Maximum number of reads of a list that changes meanwhile.
const MAX_READS: usize = 5;

const ERROR: u16 = 2;
const DONE: u16 = 3;

const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP_INTERRUPTED: u16 = 0x10;
const DUMP: u16 = 0x300;
/// Flags of a request that makes a new object.
pub(super) const NEW: u16 = 0x400 | 0x200;
/// Flags of a request that changes an object.
pub(super) const CHANGE: u16 = 0;

/// A request, or the value of a nested attribute.
pub(super) struct NetlinkRequest {
    bytes: Vec<u8>,
}

impl NetlinkRequest {
    /// Creates a request of a kind, with the header of the kind.
    pub(super) fn new(kind: u16, flags: u16, header: &[u8]) -> NetlinkRequest {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | REQUEST).to_ne_bytes());
        bytes.extend_from_slice(header);
        NetlinkRequest { bytes }
    }

    /// Adds an attribute.
    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(value);
        self.close(start, kind);
    }

    /// Adds an attribute that contains others, after `header`.
    pub(super) fn nested(&mut self, kind: u16, header: &[u8], fill: &dyn Fn(&mut NetlinkRequest)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(header);
        fill(self);
        self.close(start, kind);
    }

    fn close(&mut self, start: usize, kind: u16) {
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// A connection to the kernel.
pub(super) struct Connection {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Connection {
    /// Opens a connection in the network namespace of the thread.
    pub(super) fn open() -> Result<Connection, Errno> {
        // `NETLINK_ROUTE` is the protocol 0.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
        // The address of the kernel.
        connect(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
        Ok(Connection { socket, sequence: 0, buffer: vec![0; BUFFER] })
    }

    fn send(&mut self, mut request: NetlinkRequest, flags: u16) -> Result<(), Errno> {
        self.sequence += 1;
        let (length, flags) =
            (request.bytes.len() as u32, u16::from_ne_bytes([request.bytes[6], request.bytes[7]]) | flags);
        request.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        request.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        request.bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        send(&self.socket, &request.bytes, SendFlags::empty()).map(drop)
    }

    /// Receives the messages that answer the last request.
    fn receive(&mut self) -> Result<Vec<NetlinkMessage>, Errno> {
        let (_, length) =
            rustix::io::retry_on_intr(|| recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::empty()))?;
        let all = messages(&self.buffer[..length.min(BUFFER)]).ok_or(Errno::BADMSG)?;
        Ok(all.into_iter().filter(|message| message.sequence == self.sequence).collect())
    }

    /// Makes a change.
    pub(super) fn change(&mut self, request: NetlinkRequest) -> Result<(), Errno> {
        self.send(request, ACK)?;
        loop {
            if let Some(answer) = self.receive()?.into_iter().find(|message| message.kind == ERROR) {
                return answer.result();
            }
        }
    }

    /// Returns the bodies of all objects of a kind, after the header of the netlink message.
    pub(super) fn list(&mut self, kind: u16, header: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        for _ in 0..MAX_READS {
            self.send(NetlinkRequest::new(kind, 0, header), DUMP)?;
            let mut found = Vec::new();
            let mut is_interrupted = false;
            'read: loop {
                for message in self.receive()? {
                    is_interrupted |= message.flags & DUMP_INTERRUPTED != 0;
                    match message.kind {
                        DONE => break 'read,
                        ERROR => message.result()?,
                        _ => found.push(message.body),
                    }
                }
            }
            if !is_interrupted {
                return Ok(found);
            }
        }
        Err(Errno::AGAIN)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct NetlinkMessage {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: Vec<u8>,
}

impl NetlinkMessage {
    /// Returns the result that a message of the kind [`ERROR`] reports.
    fn result(&self) -> Result<(), Errno> {
        let code = self.body.get(..4).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
        match code {
            0 => Ok(()),
            code => Err(Errno::from_raw_os_error(code.saturating_neg())),
        }
    }
}

/// Splits what was received. None if a message has another form.
fn messages(mut bytes: &[u8]) -> Option<Vec<NetlinkMessage>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let length = number(bytes)? as usize;
        let message = bytes.get(..length).filter(|message| message.len() >= HEADER)?;
        let kind = u16::from_ne_bytes(message[4..6].try_into().ok()?);
        let flags = u16::from_ne_bytes(message[6..8].try_into().ok()?);
        found.push(NetlinkMessage { kind, flags, sequence: number(&message[8..])?, body: message[HEADER..].to_vec() });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(found)
}

/// Returns the number at the start of a value.
pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Returns the value of an attribute; none if a message does not have it, or is damaged before it.
pub(super) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        // The highest bits are flags.
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut request = NetlinkRequest::new(16, NEW, &[7; 16]);
        request.attribute(3, b"br0\0");
        request.nested(18, &[], &|nested| {
            nested.attribute(1, b"bridge\0");
            nested.nested(2, &[9; 4], &|data| data.attribute(5, &[1]));
        });
        let mut bytes = request.bytes;
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        let message = messages(&bytes).unwrap().remove(0);
        assert_eq!((message.kind, message.flags, message.body.len() % 4), (16, NEW | REQUEST, 0));
        let attributes = &message.body[16..];
        assert_eq!(attribute(attributes, 3), Some(&b"br0\0"[..]));
        let nested = attribute(attributes, 18).unwrap();
        assert_eq!(attribute(nested, 1), Some(&b"bridge\0"[..]));
        assert_eq!(attribute(&attribute(nested, 2).unwrap()[4..], 5), Some(&[1][..]));
        assert_eq!(attribute(attributes, 4), None);
        for length in 0..attributes.len() {
            // Damaged attributes are not read.
            let _ = attribute(&attributes[..length], 18);
        }
        for length in 1..bytes.len() {
            assert_eq!(messages(&bytes[..length]), None, "{length}");
        }
        assert_eq!(attribute(&[0; 8], 3), None, "a length of 0 ends the search");
    }

    #[test]
    fn kernel_lists_the_loopback_interface() {
        let mut connection = Connection::open().unwrap();
        let links = connection.list(18, &[0; 16]).unwrap();
        assert!(links.iter().any(|link| attribute(&link[16..], 3) == Some(&b"lo\0"[..])));
        let refused = connection.change(NetlinkRequest::new(17, CHANGE, &[0; 16]));
        assert!(refused.is_err(), "a link without a name cannot be removed");
        assert_eq!(connection.list(18, &[0; 16]).unwrap().len(), links.len());
    }
}
