//! Frames of the protocol: a kind, a length and a payload.

use std::io::{self, Read, Write};

use serde_json::Value as Json;

/// Version of the protocol. Both sides refuse another one.
pub(crate) const PROTOCOL: u64 = 1;

/// Maximum length of a payload in bytes.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

/// Length of the header: one byte for the kind, four for the length of the payload (big-endian).
const HEADER: usize = 5;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A message: a JSON object.
    Message,
    /// Bytes of the content that the last message announces.
    Content,
    /// Standard output of a command.
    Stdout,
    /// Error output of a command.
    Stderr,
    /// Sign of life, without a payload.
    Alive,
}

impl FrameKind {
    fn byte(self) -> u8 {
        match self {
            FrameKind::Message => b'm',
            FrameKind::Content => b'c',
            FrameKind::Stdout => b'o',
            FrameKind::Stderr => b'e',
            FrameKind::Alive => b'a',
        }
    }

    fn of(byte: u8) -> Option<FrameKind> {
        [FrameKind::Message, FrameKind::Content, FrameKind::Stdout, FrameKind::Stderr, FrameKind::Alive]
            .into_iter()
            .find(|kind| kind.byte() == byte)
    }
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// Parses the payload of a message.
    pub(crate) fn message(&self) -> io::Result<Json> {
        serde_json::from_slice(&self.payload).map_err(|_| damaged())
    }
}

/// Error for bytes that are no frame.
pub(crate) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other side does not speak the protocol of kilter")
}

/// Writes a frame.
pub(crate) fn write(output: &mut dyn Write, kind: FrameKind, payload: &[u8]) -> io::Result<()> {
    for part in payload.chunks(MAX_PAYLOAD).chain(payload.is_empty().then_some(payload)) {
        let length = u32::try_from(part.len()).map_err(io::Error::other)?;
        let mut frame = Vec::with_capacity(HEADER + part.len());
        frame.push(kind.byte());
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(part);
        output.write_all(&frame)?;
    }
    output.flush()
}

/// Writes a message.
pub(crate) fn write_message(output: &mut dyn Write, message: &Json) -> io::Result<()> {
    let text = message.to_string();
    match text.len() {
        length if length > MAX_PAYLOAD => Err(io::Error::other("a message is larger than 1 MiB")),
        _ => write(output, FrameKind::Message, text.as_bytes()),
    }
}

/// Takes the first whole frame out of received bytes; none if it is not complete.
///
/// # Errors
/// If the bytes are no frame.
pub(crate) fn take(received: &mut Vec<u8>) -> io::Result<Option<Frame>> {
    let Some((header, rest)) = received.split_first_chunk::<HEADER>() else { return Ok(None) };
    let [kind, length @ ..] = *header;
    let kind = FrameKind::of(kind).ok_or_else(damaged)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_PAYLOAD {
        return Err(damaged());
    }
    let Some(payload) = rest.get(..length).map(<[u8]>::to_vec) else { return Ok(None) };
    received.drain(..HEADER + length);
    Ok(Some(Frame { kind, payload }))
}

/// Reads a frame; none at the end of the input between two frames.
///
/// # Errors
/// If the input cannot be read, is no frame, or ends inside of one.
pub(crate) fn read(input: &mut dyn Read) -> io::Result<Option<Frame>> {
    let mut header = [0; HEADER];
    let mut filled = 0;
    while filled < HEADER {
        match input.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [kind, length @ ..] = header;
    let kind = FrameKind::of(kind).ok_or_else(damaged)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_PAYLOAD {
        return Err(damaged());
    }
    let mut payload = vec![0; length];
    input.read_exact(&mut payload)?;
    Ok(Some(Frame { kind, payload }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_in_any_portions() {
        let mut bytes = Vec::new();
        write_message(&mut bytes, &serde_json::json!({ "a": 1 })).unwrap();
        write(&mut bytes, FrameKind::Stdout, b"").unwrap();
        write(&mut bytes, FrameKind::Content, &vec![7; MAX_PAYLOAD + 3]).unwrap();
        let mut whole = Vec::new();
        let mut input = bytes.as_slice();
        while let Some(frame) = read(&mut input).unwrap() {
            whole.push(frame);
        }
        let lengths: Vec<usize> = whole.iter().map(|frame| frame.payload.len()).collect();
        assert_eq!(lengths, [7, 0, MAX_PAYLOAD, 3]);
        let (mut received, mut taken) = (Vec::new(), Vec::new());
        for portion in bytes.chunks(1000) {
            received.extend_from_slice(portion);
            while let Some(frame) = take(&mut received).unwrap() {
                taken.push(frame);
            }
        }
        assert_eq!(taken, whole);
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert!(take(&mut b"Welcome to web1".to_vec()).is_err());
        assert!(take(&mut [b'm', 255, 255, 255, 255].to_vec()).is_err());
        assert!(read(&mut b"m\0\0\0\x09{".as_slice()).is_err());
        assert!(read(&mut b"m\0".as_slice()).is_err());
    }
}
