//! Netstrings in a stream of bytes that may be damaged.

use crate::convention::beginning;

/// The longest message that is taken, in bytes, unless another limit is given.
pub const LONGEST_MESSAGE: usize = 4 << 20;

/// Number of skipped bytes after which they are reported, unless they are one message that is too long.
const STRETCH: usize = 64 << 10;

/// Maximum size of a message that is reported as one, though it is too long, in bytes.
const MAX_DECLARED_BYTES: usize = 1 << 30;

/// So many of the bytes that were skipped are shown.
const SAMPLE: usize = 80;

/// A stretch of bytes that belongs to no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins in the stream, in bytes.
    pub at: u64,
    /// How many bytes were skipped.
    pub bytes: usize,
    /// How they begin, as text.
    pub beginning: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = if self.bytes == 1 { "byte" } else { "bytes" };
        write!(f, "{} {bytes} that belong to no message were skipped: `{}`", self.bytes, self.beginning)
    }
}

/// What a decoder gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<T> {
    /// A message.
    Message(T),
    /// What was skipped before the next message.
    Damage(Damage),
}

/// Takes netstrings out of a stream, whole ones whose content `read` accepts.
///
/// After damage it looks for the next place where a whole acceptable netstring stands, so that nothing is lost but
/// what is damaged. What it gives does not depend on how the stream is cut into parts. White space between
/// messages is passed over. It holds at most one message of the longest length.
pub(super) struct Decoder<T> {
    longest: usize,
    /// How many digits the longest length has.
    digits: usize,
    read: fn(&[u8]) -> Option<T>,
    pub(super) held: Vec<u8>,
    /// Bytes of the stream before those that are held.
    passed: u64,
    /// What was skipped and not told yet, and where that began.
    skipped: usize,
    skipped_at: u64,
    sample: Vec<u8>,
    /// Number of skipped bytes that are reported together, known after the first [`STRETCH`].
    stretch: usize,
}

/// What stands at the beginning of some bytes.
enum Start<T> {
    /// A message, and where it ends.
    Message(T, usize),
    /// The beginning of what may be one.
    Open,
    /// No message.
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

    /// Takes a part of the stream.
    pub(super) fn feed(&mut self, bytes: &[u8], give: &mut dyn FnMut(Frame<T>)) {
        self.held.extend_from_slice(bytes);
        self.scan(false, give);
    }

    /// The stream has ended: what is open is no message.
    pub(super) fn end(&mut self, give: &mut dyn FnMut(Frame<T>)) {
        self.scan(true, give);
        self.tell(give);
    }

    fn scan(&mut self, is_end: bool, give: &mut dyn FnMut(Frame<T>)) {
        let held = std::mem::take(&mut self.held);
        let mut at = 0;
        while at < held.len() {
            match self.start(&held[at..]) {
                Start::Message(message, length) => {
                    self.tell(give);
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
        // A message that is long comes in many parts.
        self.held = if at == 0 { held } else { held[at..].to_vec() };
    }

    /// Whether bytes begin with a message. The answer for a longer text with the same beginning is the same, unless it
    /// is open.
    fn start(&self, bytes: &[u8]) -> Start<T> {
        // No length has more digits than the longest one.
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
        // What is certain to be refused is not waited for.
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
            self.tell(give);
        }
    }

    fn tell(&mut self, give: &mut dyn FnMut(Frame<T>)) {
        if self.skipped > 0 {
            let text = beginning(String::from_utf8_lossy(&self.sample).trim_end(), SAMPLE);
            give(Frame::Damage(Damage { at: self.skipped_at, bytes: self.skipped, beginning: text.to_string() }));
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

/// `LENGTH:CONTENT,`
pub(super) fn encode(content: &[u8]) -> Vec<u8> {
    let mut netstring = format!("{}:", content.len()).into_bytes();
    netstring.extend_from_slice(content);
    netstring.push(b',');
    netstring
}
