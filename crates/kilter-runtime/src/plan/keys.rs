//! Keys that sign and verify plans: ed25519.
//!
//! A private key is PKCS#8 in PEM, as `openssl genpkey -algorithm ed25519` writes it, or a key of OpenSSH without a
//! passphrase, as `ssh-keygen -t ed25519 -N ''` writes it. A public key has the form of `openssl pkey -pubout`, or
//! is a line of OpenSSH.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kilter_model::{base64, from_base64};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// Prefix of each ed25519 public key as SubjectPublicKeyInfo (RFC 8410): the 32 bytes of the key follow.
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Name of the algorithm in keys of OpenSSH.
const SSH: &str = "ssh-ed25519";
/// Prefix of a private key of OpenSSH (openssh-portable, PROTOCOL.key).
const SSH_PRIVATE: &[u8] = b"openssh-key-v1\0";
/// Maximum size of the file of a key, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Reason why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanKeyError {
    /// The file cannot be read.
    #[error("cannot read the key {path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The key cannot be used.
    #[error("the key {path} {why}")]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
}

/// Key that signs plans.
pub struct PrivateKey(Ed25519KeyPair);

/// Shows no part of the key.
impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey")
    }
}

/// Key that verifies the signatures of plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PrivateKey {
    /// Reads a private key from the opened file of this path. Only the user of the kilter process, or root, may own
    /// and access the file.
    ///
    /// # Errors
    /// If it cannot be read, is too long, others can read or write it, or it is no ed25519 key.
    pub fn read(path: &Path, file: File) -> Result<PrivateKey, PlanKeyError> {
        let io = |source| PlanKeyError::Io { path: path.to_owned(), source };
        let refused = |why: String| PlanKeyError::Refused { path: path.to_owned(), why };
        let found = file.metadata().map_err(io)?;
        let (owner, me) = (found.uid(), rustix::process::geteuid().as_raw());
        if owner != me && owner != 0 {
            return Err(refused(format!("belongs to the user with uid {owner}, who can sign plans with it")));
        }
        if found.mode() & 0o077 != 0 {
            let mode = found.mode() & 0o7777;
            return Err(refused(format!("has mode {mode:04o}: others may know it; make another one, with mode 0600")));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(refused(format!("is longer than {MAX_BYTES} bytes, which no key is")));
        }
        PrivateKey::parse(&String::from_utf8_lossy(&bytes)).map_err(|why| refused(why.to_owned()))
    }

    pub(super) fn parse(text: &str) -> Result<PrivateKey, &'static str> {
        let wrong = "is not an ed25519 key: `openssl genpkey -algorithm ed25519` makes one";
        if let Some(der) = pem(text, "PRIVATE KEY") {
            return Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(PrivateKey).map_err(|_| wrong);
        }
        if let Some(bytes) = pem(text, "OPENSSH PRIVATE KEY") {
            return ssh_private(&bytes).unwrap_or(Err(wrong));
        }
        if text.contains("BEGIN ENCRYPTED PRIVATE KEY") {
            return Err(
                "has a passphrase, which kilter does not support: `openssl pkey -in KEY -out PLAIN` removes it",
            );
        }
        if text.contains("PUBLIC KEY-----") || text.starts_with(SSH) {
            return Err("is a public key: plans are signed with the private one");
        }
        Err("is not a private key in PEM (`-----BEGIN PRIVATE KEY-----`)")
    }

    /// Returns the key that verifies its signatures.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs bytes.
    pub(super) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }
}

impl PublicKey {
    /// Reads the text of a file as a public key.
    ///
    /// # Errors
    /// If it is no ed25519 key.
    pub fn parse(path: &Path, text: &str) -> Result<PublicKey, PlanKeyError> {
        PublicKey::of(text).map_err(|why| PlanKeyError::Refused { path: path.to_owned(), why: why.to_owned() })
    }

    pub(super) fn of(text: &str) -> Result<PublicKey, &'static str> {
        let wrong = "is not an ed25519 key";
        if let Some(der) = pem(text, "PUBLIC KEY") {
            return PublicKey::from_der(&der).ok_or(wrong);
        }
        if text.contains("PRIVATE KEY-----") {
            return Err(
                "is a private key: keep it only where plans are signed; `openssl pkey -in KEY -pubout` prints the \
                 public one",
            );
        }
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        match line.map(|line| line.split_whitespace().collect::<Vec<_>>()).as_deref() {
            Some([SSH, blob, ..]) => from_base64(blob).and_then(|blob| ssh_public(&blob)).ok_or(wrong),
            Some([kind, ..]) if kind.starts_with("ssh-") || kind.starts_with("ecdsa-") => Err(wrong),
            _ => Err(
                "is not a public key: neither PEM (`-----BEGIN PUBLIC KEY-----`) nor a line of OpenSSH (`ssh-ed25519 \
                 …`)",
            ),
        }
    }

    fn from_der(der: &[u8]) -> Option<PublicKey> {
        Some(PublicKey(der.strip_prefix(&SPKI)?.try_into().ok()?))
    }

    /// Returns the key as in PEM, in base 64 on one line. The text identifies the key.
    pub fn text(&self) -> String {
        base64(&[&SPKI[..], &self.0].concat())
    }

    /// Reads the text of [`PublicKey::text`].
    pub(super) fn from_text(text: &str) -> Option<PublicKey> {
        PublicKey::from_der(&from_base64(text)?)
    }

    pub(super) fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0[..]).verify(bytes, signature).is_ok()
    }
}

/// Returns the bytes between the lines of PEM with this label.
fn pem(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    from_base64(body)
}

/// Splits a string of SSH's wire format off: its length in four bytes, and its bytes (RFC 4251).
fn ssh_string<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (string, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *bytes = rest;
    Some(string)
}

fn ssh_public(mut blob: &[u8]) -> Option<PublicKey> {
    let kind = ssh_string(&mut blob)?;
    let key = ssh_string(&mut blob)?.try_into().ok()?;
    (kind == SSH.as_bytes()).then_some(PublicKey(key))
}

/// Reads a private key of OpenSSH; none if it is another kind of key.
fn ssh_private(bytes: &[u8]) -> Option<Result<PrivateKey, &'static str>> {
    let mut rest = bytes.strip_prefix(SSH_PRIVATE)?;
    let cipher = ssh_string(&mut rest)?;
    let (_, _) = (ssh_string(&mut rest)?, ssh_string(&mut rest)?);
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let _ = ssh_string(&mut rest)?;
    if cipher != b"none" {
        return Some(Err("has a passphrase, which kilter does not support: `ssh-keygen -p -f KEY` removes it"));
    }
    let (_, mut secret) = ssh_string(&mut rest)?.split_first_chunk::<8>()?;
    let (kind, public, pair) = (ssh_string(&mut secret)?, ssh_string(&mut secret)?, ssh_string(&mut secret)?);
    let is_sound = *count == [0, 0, 0, 1] && kind == SSH.as_bytes();
    let pair = Ed25519KeyPair::from_seed_and_public_key(pair.get(..32)?, public).ok()?;
    is_sound.then_some(Ok(PrivateKey(pair)))
}
