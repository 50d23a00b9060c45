//! Chain of digests over the events.

use ring::digest::{Context, SHA256};

/// Length of a digest in bytes.
pub(crate) const DIGEST: usize = 32;

/// Digest of a link.
pub(crate) type Digest = [u8; DIGEST];

/// Link in the making: the digest of the link before, and the events since.
pub(crate) struct Link {
    context: Context,
    /// Bytes of one event.
    bytes: Vec<u8>,
}

/// Stored columns of an event.
pub(crate) struct EventColumns<'a> {
    pub(crate) id: i64,
    pub(crate) run: i64,
    pub(crate) at: i64,
    pub(crate) kind: &'a str,
    /// Type and title, empty for an event about no resource.
    pub(crate) resource: (&'a str, &'a str),
    pub(crate) body: &'a str,
}

impl Link {
    /// Begins a link after another one. The first link follows a digest of zeros.
    pub(crate) fn after(before: &Digest) -> Link {
        let mut context = Context::new(&SHA256);
        context.update(before);
        Link { context, bytes: Vec::new() }
    }

    /// Adds an event. Each text has its length, so that different events have different bytes.
    pub(crate) fn add(&mut self, row: &EventColumns<'_>) {
        self.bytes.clear();
        for number in [row.id, row.run, row.at] {
            self.bytes.extend(number.to_le_bytes());
        }
        for text in [row.kind, row.resource.0, row.resource.1, row.body] {
            self.bytes.extend((text.len() as u64).to_le_bytes());
            self.bytes.extend(text.as_bytes());
        }
        self.context.update(&self.bytes);
    }

    /// Returns the digest.
    pub(crate) fn digest(self) -> Digest {
        let mut digest = [0; DIGEST];
        digest.copy_from_slice(self.context.finish().as_ref());
        digest
    }
}

/// Returns bytes in hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 digest of bytes in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(ring::digest::digest(&SHA256, bytes).as_ref())
}
