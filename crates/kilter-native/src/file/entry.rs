//! Names of entries below a directory, as bytes and as text.

/// Returns the path of an entry relative to the managed directory.
pub(super) fn join(below: &[u8], name: &[u8]) -> Vec<u8> {
    if below.is_empty() { name.to_vec() } else { [below, b"/", name].concat() }
}

/// Returns the directory and the last component of a relative path.
pub(super) fn split(below: &[u8]) -> (&[u8], &[u8]) {
    match below.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&below[..at], &below[at + 1..]),
        None => (b"", below),
    }
}

/// Returns the path as text: invalid UTF-8 bytes become `\xNN`, a backslash becomes `\\`.
pub(super) fn text(below: &[u8]) -> String {
    let mut text = String::with_capacity(below.len());
    for chunk in below.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Returns the path from its text, the inverse of [`text`].
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        rest = match escaped.strip_prefix('\\') {
            Some(rest) => {
                bytes.push(b'\\');
                rest
            }
            None => {
                bytes.push(u8::from_str_radix(escaped.strip_prefix('x')?.get(..2)?, 16).ok()?);
                &escaped[3..]
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_text_encoding_round_trips() {
        for name in [&b"a/b"[..], b"a\\b", b"\xff\xfe", b"x\\xff", "é/ü".as_bytes(), b""] {
            assert_eq!(bytes(&text(name)).as_deref(), Some(name), "{}", text(name));
        }
        assert_eq!(text(b"a\xff"), "a\\xff");
        assert_eq!(bytes("a\\q"), None);
    }

    #[test]
    fn a_relative_path_splits_at_its_last_slash() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"a"), (&b""[..], &b"a"[..]));
    }
}
