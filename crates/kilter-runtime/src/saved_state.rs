//! State of a resource before a change, compressed and encrypted.
//!
//! Its content may be secret, such as the former content of a private file, so that it is encrypted with the key of
//! the state directory.

use std::io::{Read as _, Write as _};

use ecow::EcoString;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use kilter_model::{Attributes, Value, from_canonical_json, to_canonical_json_clear};
use serde_json::{Map, Value as Json, json};

use crate::sealing::SealingKey;

/// Domain of the encryption, which separates these states from other uses of the key.
const PURPOSE: &[u8] = b"kilter history 1";

/// Maximum size of a state in bytes: a file of 64 MiB in base64.
const MAX_BYTES: u64 = 96 << 20;

/// Declaration that restores the state of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedState {
    /// Provider of the resource.
    pub provider: EcoString,
    /// Attributes to declare.
    pub attributes: Attributes,
}

impl SavedState {
    /// Returns the digest of the state, which needs the key, and the encrypted state.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub fn seal(&self, key: &SealingKey) -> std::io::Result<(String, Vec<u8>)> {
        let part = |is_secret: bool| -> Map<String, Json> {
            let of_part = self.attributes.iter().filter(|(_, value)| value.holds_sensitive() == is_secret);
            of_part.map(|(name, value)| (name.to_string(), to_canonical_json_clear(value))).collect()
        };
        let text =
            json!({ "provider": self.provider.as_str(), "clear": part(false), "secret": part(true) }).to_string();
        let digest = key.digest([PURPOSE, text.as_bytes()]);
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes())?;
        let sealed = key.seal_bytes(&encoder.finish()?, PURPOSE)?;
        Ok((digest, sealed))
    }

    /// Decrypts a state; none if the key is another one, or the state was changed.
    pub fn open(sealed: &[u8], key: &SealingKey) -> Option<SavedState> {
        let compressed = key.open_bytes(sealed, PURPOSE)?;
        let mut text = Vec::new();
        ZlibDecoder::new(compressed.as_slice()).take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let state: Json = serde_json::from_slice(&text).ok()?;
        let mut attributes = Attributes::new();
        for (part, is_secret) in [("clear", false), ("secret", true)] {
            for (name, value) in state.get(part)?.as_object()? {
                let value = from_canonical_json(value).ok()?;
                attributes.push(name.as_str(), if is_secret { Value::sensitive(value) } else { value });
            }
        }
        Some(SavedState { provider: state.get("provider")?.as_str()?.into(), attributes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_restored_with_its_secrets_and_shows_none_of_them() {
        let place = tempfile::tempdir().unwrap();
        let key = SealingKey::made(place.path()).unwrap();
        let mut attributes = Attributes::new();
        attributes.set("mode", "0600");
        attributes.set("bytes", Value::from_bytes(&[0, 159, 255]));
        attributes.set("content", Value::sensitive(Value::from("hunter2")));
        let state = SavedState { provider: "posix".into(), attributes };
        let (digest, sealed) = state.seal(&key).unwrap();
        assert_eq!(SavedState::open(&sealed, &key), Some(state.clone()));
        assert!(!sealed.windows(7).any(|part| part == b"hunter2"));
        let (again, other) = state.seal(&key).unwrap();
        assert_eq!(again, digest);
        assert_ne!(other, sealed);
        let elsewhere = tempfile::tempdir().unwrap();
        let wrong = SealingKey::made(elsewhere.path()).unwrap();
        assert_eq!(SavedState::open(&sealed, &wrong), None);
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert_eq!(SavedState::open(&flipped, &key), None, "byte {at}");
        }
    }
}
