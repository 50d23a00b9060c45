//! Streams of a child, as seen from kilter.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::finished::Captured;
use crate::invocation::Capture;

const CHUNK: usize = 64 * 1024;

/// Makes a descriptor non-blocking. Affects kilter's end of the pipe only.
fn unblock(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

/// Result of a read from a pipe.
pub(crate) enum ReadResult<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// The last writer has closed the pipe.
    End,
}

/// Reads an output and keeps the part that the capture asks for.
pub(crate) struct Sink {
    fd: Option<OwnedFd>,
    capture: Capture,
    captured: Captured,
}

impl Sink {
    /// Creates a sink for an output that the caller does not want.
    pub(crate) fn nothing() -> Sink {
        Sink::of_others(Capture::Nothing)
    }

    /// Creates a sink for an output that other code reads.
    pub(crate) fn of_others(capture: Capture) -> Sink {
        Sink { fd: None, capture, captured: Captured::default() }
    }

    pub(crate) fn new(fd: Option<OwnedFd>, capture: Capture) -> io::Result<Sink> {
        if let Some(fd) = &fd {
            unblock(fd)?;
        }
        Ok(Sink { fd, capture, captured: Captured::default() })
    }

    /// Returns the descriptor, until the output has ended.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Returns true if the child wrote more than is allowed.
    pub(crate) fn is_flooded(&self) -> bool {
        matches!(self.capture, Capture::AtMost(_)) && self.captured.dropped > 0
    }

    pub(crate) fn into_captured(mut self) -> Captured {
        self.trim(0);
        self.captured
    }

    /// Reads at most one chunk, so that a flood in one output does not delay the others.
    pub(crate) fn take<'a>(&'a mut self, chunk: &'a mut Vec<u8>) -> ReadResult<'a> {
        let Some(fd) = &self.fd else { return ReadResult::Nothing };
        let kept = &mut self.captured.bytes;
        let before = kept.len();
        // Read directly into the captured bytes if the chunk is kept completely.
        let is_kept = match self.capture {
            Capture::First(limit) | Capture::AtMost(limit) => {
                // A little more data often follows the content of a full pipe.
                let room = if before == 0 { CHUNK + CHUNK / 2 } else { CHUNK };
                kept.reserve(room.min(limit.saturating_sub(before)));
                kept.capacity() > before && kept.capacity() <= limit
            }
            Capture::Last(_) | Capture::Nothing => false,
        };
        let place = if is_kept { kept } else { &mut *chunk };
        if !is_kept {
            place.clear();
            place.reserve(CHUNK);
        }
        match rustix::io::read(fd, spare_capacity(place)) {
            Ok(count) if count > 0 && is_kept => ReadResult::Bytes(&self.captured.bytes[before..]),
            Ok(count) if count > 0 => {
                self.keep(chunk);
                ReadResult::Bytes(chunk)
            }
            Err(Errno::AGAIN | Errno::INTR) => ReadResult::Nothing,
            // A pipe that cannot be read counts as ended.
            Ok(_) | Err(_) => {
                self.fd = None;
                ReadResult::End
            }
        }
    }

    /// Stops reading. Returns true if the output was still open.
    pub(crate) fn close(&mut self) -> bool {
        self.fd.take().is_some()
    }

    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        match self.capture {
            Capture::Nothing => {}
            Capture::First(limit) | Capture::AtMost(limit) => {
                let room = limit.saturating_sub(self.captured.bytes.len()).min(bytes.len());
                self.captured.bytes.extend_from_slice(&bytes[..room]);
                self.captured.dropped += (bytes.len() - room) as u64;
            }
            Capture::Last(limit) => {
                self.captured.bytes.extend_from_slice(bytes);
                self.trim(limit.max(CHUNK));
            }
        }
    }

    /// Drops the bytes before the last `limit` bytes if there are more than `slack` of them.
    fn trim(&mut self, slack: usize) {
        let Capture::Last(limit) = self.capture else { return };
        let excess = self.captured.bytes.len().saturating_sub(limit);
        if excess > slack {
            self.captured.bytes.drain(..excess);
            self.captured.dropped += excess as u64;
        }
    }
}

/// Writes the input of a child.
pub(crate) struct StdinWriter<'a> {
    fd: Option<OwnedFd>,
    rest: &'a [u8],
}

impl<'a> StdinWriter<'a> {
    /// Creates the feed of a child without input.
    pub(crate) fn nothing() -> StdinWriter<'a> {
        StdinWriter { fd: None, rest: &[] }
    }

    pub(crate) fn new(fd: Option<OwnedFd>, bytes: &'a [u8]) -> io::Result<StdinWriter<'a>> {
        if let Some(fd) = &fd {
            unblock(fd)?;
        }
        Ok(StdinWriter { fd, rest: bytes })
    }

    /// Returns the descriptor, until all bytes are written or the child has closed its end.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Writes as many bytes as the pipe takes, and returns them.
    pub(crate) fn give(&mut self) -> &'a [u8] {
        let Some(fd) = &self.fd else { return &[] };
        let mut given: &[u8] = &[];
        if !self.rest.is_empty() {
            match rustix::io::write(fd, self.rest) {
                Ok(count) => (given, self.rest) = self.rest.split_at(count),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // A child may leave its input unread.
                Err(_) => self.rest = &[],
            }
        }
        if self.rest.is_empty() {
            self.fd = None;
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(capture: Capture, parts: &[&[u8]]) -> Captured {
        let mut sink = Sink::new(None, capture).unwrap();
        parts.iter().for_each(|part| sink.keep(part));
        sink.into_captured()
    }

    #[test]
    fn head_buffer_keeps_first_bytes_and_counts_rest() {
        let captured = kept(Capture::First(4), &[b"abc", b"def"]);
        assert_eq!((captured.bytes.as_slice(), captured.dropped), (&b"abcd"[..], 2));
    }

    #[test]
    fn tail_buffer_keeps_last_bytes() {
        let flood = vec![b'x'; 3 * CHUNK];
        let captured = kept(Capture::Last(4), &[&flood, b"abc", b"def"]);
        assert_eq!((captured.bytes.as_slice(), captured.dropped), (&b"cdef"[..], 3 * CHUNK as u64 + 2));
    }
}
