//! Decoder for file names with `%XX` escapes.

/// Replaces each `%XX` by its byte. None if an escape is invalid: another program wrote the name.
pub fn percent_decode(name: &str) -> Option<Vec<u8>> {
    let mut parts = name.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_escapes_are_decoded_and_invalid_ones_are_refused() {
        assert_eq!(percent_decode("a%2fb%C3%bc").as_deref(), Some("a/bü".as_bytes()));
        assert_eq!(percent_decode("").as_deref(), Some(&b""[..]));
        for invalid in ["%", "a%4", "%zz", "%+1", "%é"] {
            assert_eq!(percent_decode(invalid), None, "{invalid}");
        }
    }
}
