//! Keys of repositories: OpenPGP public keys (RFC 9580), armored or binary.

use kilter_model::from_base64;

/// Encoding of a keyring. apt expects the file name extension that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyForm {
    Armored,
    Binary,
}

impl KeyForm {
    pub(super) fn extension(self) -> &'static str {
        match self {
            KeyForm::Armored => "asc",
            KeyForm::Binary => "gpg",
        }
    }
}

/// Begin of an armored block of any kind.
pub(super) const ARMOR: &str = "-----BEGIN PGP ";
const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

const NO_KEY: &str = "it is not an OpenPGP public key";
const DAMAGED: &str = "the key is damaged or cut off";
const PRIVATE: &str = "it contains a private key, which every user could read: give the public key alone";

const PUBLIC_KEY: u8 = 6;
const SECRET_KEY: u8 = 5;
const SECRET_SUBKEY: u8 = 7;

/// Returns the form of a keyring.
///
/// # Errors
/// The reason why the bytes are not public keys that apt can read.
pub(super) fn form(bytes: &[u8]) -> Result<KeyForm, &'static str> {
    if memchr::memmem::find(bytes, b"PGP PRIVATE KEY BLOCK-----").is_some() {
        return Err(PRIVATE);
    }
    if memchr::memmem::find(bytes, ARMOR.as_bytes()).is_none() {
        if bytes.get(8..12) == Some(b"KBXf") {
            return Err("it is a keybox of GnuPG, which apt cannot read: export the key with `gpg --export`");
        }
        return packets(bytes).map(|()| KeyForm::Binary);
    }
    let mut rest = std::str::from_utf8(bytes).map_err(|_| "it has an armored key and other bytes")?;
    if !rest.contains(BEGIN) {
        return Err(NO_KEY);
    }
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (block, after) = after.split_once(END).ok_or(DAMAGED)?;
        armored(block)?;
        rest = after;
    }
    Ok(KeyForm::Armored)
}

/// Checks the lines between the begin and the end of an armored block: headers, a blank line, base64 and its checksum.
fn armored(block: &str) -> Result<(), &'static str> {
    let mut lines = block.lines().map(str::trim).skip(1);
    lines.find(|line| line.is_empty()).ok_or("the key has no blank line after its first line")?;
    let (mut encoded, mut checksum) = (String::new(), None);
    for line in lines {
        match line.strip_prefix('=').filter(|sum| sum.len() == 4) {
            Some(sum) => checksum = Some(sum),
            None => encoded.push_str(line),
        }
    }
    let bytes = from_base64(&encoded).ok_or(DAMAGED)?;
    if checksum.is_some_and(|sum| from_base64(sum).as_deref() != Some(&crc24(&bytes)[..])) {
        return Err(DAMAGED);
    }
    packets(&bytes)
}

/// Checks that the bytes are whole packets, and that the first one is a public key.
fn packets(mut bytes: &[u8]) -> Result<(), &'static str> {
    if bytes.is_empty() {
        return Err(NO_KEY);
    }
    let mut is_first = true;
    while let [head, rest @ ..] = bytes {
        let is_new = head & 0x40 != 0;
        let tag = if is_new { head & 0x3f } else { (head & 0x3c) >> 2 };
        match tag {
            _ if head & 0x80 == 0 => return Err(if is_first { NO_KEY } else { DAMAGED }),
            SECRET_KEY | SECRET_SUBKEY => return Err(PRIVATE),
            PUBLIC_KEY => {}
            _ if is_first => return Err(NO_KEY),
            _ => {}
        }
        let (length, body) = match is_new {
            true => new_length(rest),
            false => old_length(head & 3, rest),
        }
        .ok_or(DAMAGED)?;
        bytes = body.get(length..).ok_or(DAMAGED)?;
        is_first = false;
    }
    Ok(())
}

/// Returns the length of a packet and the bytes after it. Keys have no partial lengths.
fn new_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [short @ 0..192, rest @ ..] => Some((usize::from(*short), rest)),
        [high @ 192..224, low, rest @ ..] => Some((((usize::from(*high) - 192) << 8) + usize::from(*low) + 192, rest)),
        [255, rest @ ..] => number(4, rest),
        _ => None,
    }
}

fn old_length(kind: u8, bytes: &[u8]) -> Option<(usize, &[u8])> {
    match kind {
        3 => None,
        kind => number(1 << kind, bytes),
    }
}

fn number(size: usize, bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(size)?;
    Some((digits.iter().fold(0, |number, digit| number << 8 | usize::from(*digit)), rest))
}

/// Returns the checksum of armored bytes (RFC 9580, section 6.1).
fn crc24(bytes: &[u8]) -> [u8; 3] {
    let mut crc: u32 = 0x00b7_04ce;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    let [_, high, middle, low] = crc.to_be_bytes();
    [high, middle, low]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A key that gpg made: Ed25519, without a purpose.
    pub(in crate::apt_repository) const KEY: &str = include_str!("fixtures/key.asc");
    pub(in crate::apt_repository) const OTHER_KEY: &str = include_str!("fixtures/other.asc");

    fn binary(armored: &str) -> Vec<u8> {
        let body: Vec<&str> = armored.lines().filter(|line| !line.starts_with(['-', '='])).collect();
        from_base64(&body.concat()).unwrap()
    }

    #[test]
    fn keys_have_a_form() {
        assert_eq!(form(KEY.as_bytes()), Ok(KeyForm::Armored));
        assert_eq!(
            form(format!("A comment\n\n{KEY}\n{OTHER_KEY}").replace('\n', "\r\n").as_bytes()),
            Ok(KeyForm::Armored)
        );
        assert_eq!(form(&binary(KEY)), Ok(KeyForm::Binary));
        assert_eq!(form(&[binary(KEY), binary(OTHER_KEY)].concat()), Ok(KeyForm::Binary));
    }

    #[test]
    fn damaged_and_other_files_are_refused() {
        let key = binary(KEY);
        for (bytes, reason) in [
            (&b""[..], NO_KEY),
            (b"<html>", NO_KEY),
            (&[0xff; 40], NO_KEY),
            (&key[..key.len() - 1], DAMAGED),
            (&[&key[..], b"x"].concat(), DAMAGED),
            (KEY.replacen("\nmDME", "\nmDMF", 1).as_bytes(), DAMAGED),
            (KEY.split("-----END").next().unwrap().as_bytes(), DAMAGED),
            (KEY.replace("PUBLIC", "PRIVATE").as_bytes(), PRIVATE),
            // A secret key as binary.
            (&[0x94, 1, 0], PRIVATE),
            (b"-----BEGIN PGP SIGNATURE-----\n\nAA==\n-----END PGP SIGNATURE-----\n", NO_KEY),
        ] {
            assert_eq!(form(bytes), Err(reason), "{}", String::from_utf8_lossy(bytes));
        }
        let keybox = [&[0, 0, 0, 32, 1, 1, 0, 2][..], b"KBXf", &[0; 20]].concat();
        assert!(form(&keybox).unwrap_err().contains("gpg --export"));
    }

    #[test]
    fn lengths_of_packets_have_several_forms() {
        let packet = |head: &[u8], length: usize| [head, &vec![0; length]].concat();
        for bytes in [
            packet(&[0xc6, 5], 5),
            packet(&[0xc6, 192, 0], 192),
            packet(&[0xc6, 255, 0, 0, 1, 0], 256),
            packet(&[0x98, 5], 5),
            packet(&[0x99, 1, 0], 256),
            packet(&[0x9a, 0, 0, 0, 3], 3),
        ] {
            assert_eq!(packets(&bytes), Ok(()), "{bytes:?}");
            assert_eq!(packets(&bytes[..bytes.len() - 1]), Err(DAMAGED), "{bytes:?}");
        }
        assert_eq!(packets(&[0xc6, 0xe1, 0, 0]), Err(DAMAGED), "partial");
        assert_eq!(packets(&[0x9b, 0]), Err(DAMAGED), "without an end");
    }
}
