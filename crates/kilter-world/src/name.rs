//! Maps parts of keys to file names.

use ecow::EcoString;
use kilter_provider::percent_decode;

/// Maximum length of a name in bytes. A longer part continues in a directory with that name.
const MAX_NAME_BYTES: usize = 200;

/// Suffix of a name that continues.
const GOES_ON: char = '+';

/// Encodes a part as nested names. Harmless characters stay, and other bytes become `%XX`.
pub(crate) fn names(part: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    for (at, byte) in part.bytes().enumerate() {
        let last = names.last_mut().expect("there is one to begin with");
        if last.len() >= MAX_NAME_BYTES {
            last.push(GOES_ON);
            names.push(String::new());
        }
        let last = names.last_mut().expect("there is one to begin with");
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'*' => last.push(char::from(byte)),
            // Names with a leading dot are temporary files.
            b'.' if at > 0 && !last.is_empty() => last.push('.'),
            byte => last.push_str(&format!("%{byte:02x}")),
        }
    }
    names
}

/// Decodes a name to a part, or to the start of a part. None if the name is not part of a key. The second value
/// is true if the part continues.
pub(crate) fn part(name: &str) -> Option<(Vec<u8>, bool)> {
    let (escaped, goes_on) = match name.strip_suffix(GOES_ON) {
        Some(escaped) => (escaped, true),
        None => (name, false),
    };
    if escaped.starts_with('.') || escaped.is_empty() {
        return None;
    }
    Some((percent_decode(escaped)?, goes_on))
}

/// Converts the bytes of a part to text.
fn text(bytes: Vec<u8>) -> Option<EcoString> {
    String::from_utf8(bytes).ok().map(EcoString::from)
}

/// A partially decoded key.
#[derive(Clone, Default)]
pub(crate) struct PartialName {
    parts: Vec<EcoString>,
    /// Start of a part that continues.
    begun: Vec<u8>,
    depth: usize,
}

impl PartialName {
    /// Returns the key extended by a name.
    pub(crate) fn and(&self, (bytes, goes_on): (Vec<u8>, bool)) -> Option<PartialName> {
        let (mut parts, mut begun) = (self.parts.clone(), self.begun.clone());
        begun.extend(bytes);
        if !goes_on {
            parts.push(text(std::mem::take(&mut begun))?);
        }
        Some(PartialName { parts, begun, depth: self.depth + 1 })
    }

    /// Number of names.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the complete parts.
    pub(crate) fn known(self) -> Vec<EcoString> {
        self.parts
    }

    /// Returns the parts if the last part is complete.
    pub(crate) fn finished(self) -> Option<Vec<EcoString>> {
        self.begun.is_empty().then_some(self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_part_encoding_round_trips() {
        let long = "ü/".repeat(500);
        for whole in ["a", "*", "/etc/motd", "..", ".new", "a+", "100%", "Grüße\n", &long] {
            let names = names(whole);
            assert!(
                names
                    .iter()
                    .all(|name| name.len() <= MAX_NAME_BYTES + 4 && !name.contains('/') && !name.starts_with('.'))
            );
            let mut bytes = Vec::new();
            for (at, name) in names.iter().enumerate() {
                let (more, goes_on) = part(name).unwrap();
                assert_eq!(goes_on, at + 1 < names.len(), "{name}");
                bytes.extend(more);
            }
            assert_eq!(text(bytes).as_deref(), Some(whole));
        }
        assert_eq!((part(".new-1"), part(""), part("%zz"), part("%4")), (None, None, None, None));
    }
}
