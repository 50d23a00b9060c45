//! Bytes as text: the base 64 alphabet of RFC 4648, section 4.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Padding is written, and read whether or not it is there.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes in base 64.
pub fn base64(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// The bytes that a text in base 64 stands for, white space within it passed over; none if it is
/// not one.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    ENGINE.decode(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_base_64() {
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
