//! Decoder for netstrings in a possibly damaged byte stream.

use crate::convention::beginning;

/// Default maximum size of a message, in bytes.
pub const LONGEST_MESSAGE: usize = 4 << 20;

/// Number of skipped bytes after which they are reported, unless they are one message that is too long.
const STRETCH: usize = 64 << 10;

/// Maximum size in bytes of an oversized message that is reported as a single damage.
const MAX_DECLARED_BYTES: usize = 1 << 30;

/// Maximum number of skipped bytes that a report shows.
const SAMPLE: usize = 80;

/// A range of bytes that belongs to no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Garbage {
    /// Offset in the stream, in bytes.
    pub at: u64,
    /// Number of skipped bytes.
    pub bytes: usize,
    /// First bytes, as text.
    pub beginning: String,
}

impl std::fmt::Display for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = if self.bytes == 1 { "byte" } else { "bytes" };
        write!(f, "{} {bytes} that belong to no message were skipped: `{}`", self.bytes, self.beginning)
    }
}

/// Output of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<T> {
    /// A message.
    Message(T),
    /// Bytes skipped before the next message.
    Damage(Garbage),
}

/// Decoder for netstrings whose content `read` accepts.
///
/// After damage, the decoder searches for the next complete, acceptable netstring, so only damaged data is
/// lost. The result does not depend on the chunk boundaries. White space between messages is skipped. The
/// decoder buffers at most one message of maximum size.
pub(super) struct Decoder<T> {
    longest: usize,
    /// Number of digits of the maximum length.
    digits: usize,
    read: fn(&[u8]) -> Option<T>,
    pub(super) held: Vec<u8>,
    /// Number of bytes of the stream before the buffer.
    passed: u64,
    /// Number of skipped bytes that have not been reported, and their offset.
    skipped: usize,
    skipped_at: u64,
    sample: Vec<u8>,
    /// Number of skipped bytes that are reported together, known after the first [`STRETCH`].
    stretch: usize,
}

/// Result of decoding the start of a buffer.
enum Start<T> {
    /// A message, and its length with the header.
    Message(T, usize),
    /// Possibly an incomplete message.
    Open,
    /// Not a message.
    Nothing,
}

impl<T> Decoder<T> {
    pub(super) fn new(longest: usize, read: fn(&[u8]) -> Option<T>) -> Decoder<T> {
        Decoder {
            longest,
            digits: longest.to_string().len(),
            read,
            held: Vec::new(),
            passed: 0,
            skipped: 0,
            skipped_at: 0,
            sample: Vec::new(),
            stretch: STRETCH,
        }
    }

    /// Decodes a chunk.
    pub(super) fn feed(&mut self, bytes: &[u8], give: &mut dyn FnMut(Frame<T>)) {
        self.held.extend_from_slice(bytes);
        self.scan(false, give);
    }

    /// Handles the end of the stream. An incomplete message counts as damage.
    pub(super) fn end(&mut self, give: &mut dyn FnMut(Frame<T>)) {
        self.scan(true, give);
        self.emit(give);
    }

    fn scan(&mut self, is_end: bool, give: &mut dyn FnMut(Frame<T>)) {
        let held = std::mem::take(&mut self.held);
        let mut at = 0;
        while at < held.len() {
            match self.start(&held[at..]) {
                Start::Message(message, length) => {
                    self.emit(give);
                    give(Frame::Message(message));
                    at += length;
                }
                Start::Open if !is_end => break,
                Start::Open | Start::Nothing => {
                    self.skip(held[at], self.passed + at as u64, give);
                    at += 1;
                }
            }
        }
        self.passed += at as u64;
        // A long message arrives in many chunks.
        self.held = if at == 0 { held } else { held[at..].to_vec() };
    }

    /// Decodes a message at the start of `bytes`. More data changes the result only if it is [`Start::Open`].
    fn start(&self, bytes: &[u8]) -> Start<T> {
        // A length with more digits than the maximum is invalid.
        let most = self.digits;
        let digits = bytes.iter().take(most + 1).take_while(|byte| byte.is_ascii_digit()).count();
        let length = || std::str::from_utf8(&bytes[..digits]).ok()?.parse::<usize>().ok();
        let is_length = digits > 0 && digits <= most && (digits == 1 || bytes[0] != b'0');
        let Some(length) = length().filter(|length| is_length && *length <= self.longest) else {
            return Start::Nothing;
        };
        match bytes.get(digits) {
            None => return Start::Open,
            Some(b':') => {}
            Some(_) => return Start::Nothing,
        }
        let content = &bytes[digits + 1..];
        // Do not wait for the rest of content that is certain to be rejected.
        if content.first().is_some_and(|first| !matches!(first, b'[' | b' ' | b'\t' | b'\r' | b'\n')) {
            return Start::Nothing;
        }
        match content.get(length) {
            None => Start::Open,
            Some(b',') => match (self.read)(&content[..length]) {
                Some(message) => Start::Message(message, digits + 1 + length + 1),
                None => Start::Nothing,
            },
            Some(_) => Start::Nothing,
        }
    }

    fn skip(&mut self, byte: u8, at: u64, give: &mut dyn FnMut(Frame<T>)) {
        if self.skipped == 0 && byte.is_ascii_whitespace() {
            return;
        }
        if self.skipped == 0 {
            self.skipped_at = at;
        }
        self.skipped += 1;
        if self.sample.len() < 4 * SAMPLE {
            self.sample.push(byte);
        }
        if self.skipped == STRETCH {
            self.stretch = STRETCH.max(declared_len(&self.sample).unwrap_or(0));
        }
        if self.skipped >= STRETCH && self.skipped == self.stretch {
            self.emit(give);
        }
    }

    fn emit(&mut self, give: &mut dyn FnMut(Frame<T>)) {
        if self.skipped > 0 {
            let text = beginning(String::from_utf8_lossy(&self.sample).trim_end(), SAMPLE);
            give(Frame::Damage(Garbage { at: self.skipped_at, bytes: self.skipped, beginning: text.to_string() }));
        }
        self.skipped = 0;
        self.sample.clear();
    }
}

/// Returns the size of the netstring that begins like this, header included, if it could be a message.
fn declared_len(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()?;
    let is_message = bytes.get(digits..digits + 2) == Some(b":[") && length <= MAX_DECLARED_BYTES;
    is_message.then_some(digits + 1 + length + 1)
}

/// Encodes `LENGTH:CONTENT,`.
pub(super) fn encode(content: &[u8]) -> Vec<u8> {
    let mut netstring = format!("{}:", content.len()).into_bytes();
    netstring.extend_from_slice(content);
    netstring.push(b',');
    netstring
}
