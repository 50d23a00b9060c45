//! Conversion of bytes to and from text in base64 (RFC 4648, section 4).

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Base64 engine that writes padding and accepts input with and without it.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Encodes bytes in base64.
pub fn base64(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// Decodes a base64 text and ignores white space in it. Returns none if the text is not base64.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    ENGINE.decode(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_round_trip_keeps_bytes() {
        let cases: [(&[u8], &str); 4] = [(b"", ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"\xff\x00bar", "/wBiYXI=")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes));
            assert_eq!(from_base64(text.trim_end_matches('=')).as_deref(), Some(bytes));
        }
        assert_eq!(from_base64(" Zm9v\n  YmFy\n").as_deref(), Some(&b"foobar"[..]));
        for wrong in ["Zg=a", "Z", "%", "Zm-_"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }
}
