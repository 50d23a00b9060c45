//! Key that encrypts the secrets of a state directory.
//!
//! Only this machine can decrypt and authenticate the texts: XChaCha20-Poly1305 with a random nonce for each text.
//! The key is created at its first use.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use kilter_model::{base64, from_base64};
use ring::hmac;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;

/// File name of the key in its state directory.
const NAME: &str = "sealing.key";
/// Length of a key in bytes.
const KEY: usize = 32;
/// Length of a nonce in bytes. It precedes the encrypted text.
const NONCE: usize = 24;
/// Padding block in bytes: the padding hides the length of short secrets.
const BLOCK: usize = 256;

/// Reason why there is no usable key.
#[derive(Debug, thiserror::Error)]
pub enum SealingKeyError {
    /// The key does not exist.
    #[error("the key {path} is gone")]
    Missing {
        /// Expected path.
        path: PathBuf,
    },
    /// The key cannot be trusted: it may have been replaced or read by others.
    #[error("the key {path} {why}; {mend}")]
    Refused {
        /// Path of the key.
        path: PathBuf,
        /// Problem of the key.
        why: String,
        /// Advice.
        mend: &'static str,
    },
    /// The system refused an operation.
    #[error("cannot {attempt} the key {path}: {source}")]
    Io {
        /// Attempted operation.
        attempt: &'static str,
        /// Path of the key.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Advice for a key that others may have read.
const CHANGE: &str = "if nobody else has seen it, give it mode 0600 and the user who runs kilter as its owner, \
                      otherwise remove it: kilter makes another one, and values that were encrypted with it are lost";
/// Advice for a file that is no key.
const REPLACE: &str =
    "put the right one back, or remove it: kilter makes another one, and the encrypted values are lost";

/// Purpose of the derived key for digests: each key serves one algorithm only.
const DIGESTS: &[u8] = b"kilter digests 1";

/// Key that encrypts the secrets of a state directory.
pub struct SealingKey {
    cipher: XChaCha20Poly1305,
    digests: hmac::Key,
}

/// Shows no part of the key.
impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey")
    }
}

impl SealingKey {
    /// Returns the path of the key of a state directory.
    pub fn path(state: &Path) -> PathBuf {
        state.join(NAME)
    }

    /// Reads the key of a state directory.
    ///
    /// # Errors
    /// If there is none, or it cannot be trusted.
    pub fn of(state: &Path) -> Result<SealingKey, SealingKeyError> {
        SealingKey::read(SealingKey::path(state), rustix::process::geteuid().as_raw())
    }

    /// Reads a key from a file, which must belong to the user with this uid.
    fn read(path: PathBuf, uid: u32) -> Result<SealingKey, SealingKeyError> {
        let io = |source| SealingKeyError::Io { attempt: "read", path: path.clone(), source };
        let refused = |why: String, mend| SealingKeyError::Refused { path: path.clone(), why, mend };
        // A FIFO must not block the process.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(SealingKeyError::Missing { path }),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return Err(refused("is a symbolic link".to_owned(), REPLACE));
            }
            Err(source) => return Err(io(source)),
        };
        let found = file.metadata().map_err(io)?;
        if !found.is_file() {
            return Err(refused("is not a file".to_owned(), REPLACE));
        }
        if found.uid() != uid {
            return Err(refused(format!("belongs to the user with uid {}", found.uid()), CHANGE));
        }
        if found.mode() & 0o7777 & !0o600 != 0 {
            return Err(refused(format!("has mode {:04o}", found.mode() & 0o7777), CHANGE));
        }
        let mut bytes = Vec::with_capacity(KEY + 1);
        file.take(KEY as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
        let cipher = XChaCha20Poly1305::new_from_slice(&bytes)
            .map_err(|_| refused(format!("has {} bytes instead of {KEY}", found.len()), REPLACE))?;
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &bytes), DIGESTS);
        Ok(SealingKey { cipher, digests: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()) })
    }

    /// Reads the key of a state directory, and creates it if needed.
    ///
    /// # Errors
    /// If it cannot be created, or the existing one cannot be trusted.
    pub fn made(state: &Path) -> Result<SealingKey, SealingKeyError> {
        match SealingKey::of(state) {
            Err(SealingKeyError::Missing { path }) => {
                let made = make(state, &path);
                made.map_err(|source| SealingKeyError::Io { attempt: "make", path, source })?;
                // Another process may have created it first.
                SealingKey::of(state)
            }
            found => found,
        }
    }

    /// Encrypts `text`, in base 64. Decryption requires the same `bound` data.
    pub fn seal(&self, text: &str, bound: &[u8]) -> io::Result<String> {
        // The padding is white space, which JSON ignores.
        let mut padded = text.to_owned();
        padded.extend(std::iter::repeat_n(' ', padding(text.len())));
        Ok(base64(&self.seal_bytes(padded.as_bytes(), bound)?))
    }

    /// Encrypts `bytes`. Decryption requires the same `bound` data.
    pub(crate) fn seal_bytes(&self, bytes: &[u8], bound: &[u8]) -> io::Result<Vec<u8>> {
        let nonce: [u8; NONCE] = random()?;
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), Payload { msg: bytes, aad: bound });
        let sealed = sealed.map_err(|_| io::Error::other("it is too long to be sealed"))?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// Decrypts bytes; none if the key or the `bound` data are different.
    pub(crate) fn open_bytes(&self, sealed: &[u8], bound: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: bound }).ok()
    }

    /// Decrypts a text, which ends with blanks; none if the key or the `bound` data are different.
    pub fn open(&self, sealed: &str, bound: &[u8]) -> Option<Vec<u8>> {
        self.open_bytes(&from_base64(sealed)?, bound)
    }
}

impl SealingKey {
    /// Returns the keyed digest of `parts` (HMAC-SHA-256, in hexadecimal).
    ///
    /// Different lists of parts yield different inputs. Guesses cannot be tested against a digest without the key.
    pub fn digest<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut context = hmac::Context::with_key(&self.digests);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns parts as associated data: different lists of parts yield different bytes.
pub fn bound<'a>(parts: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

/// Returns the number of blanks that pad a text of this length.
fn padding(length: usize) -> usize {
    length.next_multiple_of(BLOCK) - length
}

pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            got => filled += got?,
        }
    }
    Ok(bytes)
}

/// Creates a key, which appears atomically and durably. An existing key stays.
fn make(state: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    let key: [u8; KEY] = random()?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // The file has no name until it is complete, so that a killed run leaves no second key.
    if let Ok(fd) = rustix::fs::open(state, flags, Mode::RUSR | Mode::WUSR) {
        let mut file = File::from(fd);
        file.write_all(&key).and_then(|()| file.sync_all())?;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        match linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW) {
            Ok(()) | Err(Errno::EXIST) => return File::open(state)?.sync_all(),
            // Without /proc, the file gets a temporary name.
            Err(_) => {}
        }
    }
    let new = state.join(format!("{NAME}.{:016x}.new", u64::from_le_bytes(random()?)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(&key).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match std::fs::hard_link(&new, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    // The first error is reported.
    let removed = std::fs::remove_file(&new);
    linked.and(removed)?;
    File::open(state)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn encrypted_value_opens_only_with_its_key_and_binding() {
        let state = tempfile::tempdir().unwrap();
        let key = SealingKey::made(state.path()).unwrap();
        let as_a = bound(["exec[a]", "stdout"]);
        let sealed = key.seal("hunter2", &as_a).unwrap();
        let opened = |key: &SealingKey, sealed: &str, bound: &[u8]| {
            key.open(sealed, bound).map(|bytes| String::from_utf8(bytes).unwrap().trim_end().to_owned())
        };
        assert_eq!(opened(&key, &sealed, &as_a).as_deref(), Some("hunter2"));
        assert_eq!(opened(&key, &sealed, &bound(["exec[b]", "stdout"])), None);
        assert_eq!(opened(&key, &sealed, &bound(["exec[a]stdout"])), None, "parts have their ends");
        let again = SealingKey::of(state.path()).unwrap();
        assert_eq!(opened(&again, &sealed, &as_a).as_deref(), Some("hunter2"));
        let other = tempfile::tempdir().unwrap();
        assert_eq!(opened(&SealingKey::made(other.path()).unwrap(), &sealed, &as_a), None);
        let bytes = from_base64(&sealed).unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert_eq!(opened(&key, &base64(&flipped), &as_a), None, "byte {at}");
            assert_eq!(opened(&key, &base64(&bytes[..at]), &as_a), None, "cut at {at}");
        }
    }

    #[test]
    fn neither_the_length_of_a_secret_nor_that_it_is_the_same_one_shows() {
        let state = tempfile::tempdir().unwrap();
        let key = SealingKey::made(state.path()).unwrap();
        let sealed = |text: &str| key.seal(text, b"").unwrap();
        assert_ne!(sealed("a"), sealed("a"));
        assert_eq!(sealed("a").len(), sealed(&"ä".repeat(BLOCK / 2)).len());
        assert!(sealed(&"a".repeat(BLOCK + 1)).len() > sealed("a").len());
    }

    #[test]
    fn long_text_is_decrypted_unchanged() {
        let state = tempfile::tempdir().unwrap();
        let key = SealingKey::made(state.path()).unwrap();
        let long = "ü%".repeat(1 << 20);
        let opened = key.open(&key.seal(&long, b"").unwrap(), b"").unwrap();
        assert_eq!(std::str::from_utf8(&opened).unwrap().trim_end_matches(' '), long);
    }

    #[test]
    fn concurrent_key_creation_yields_one_key_without_leftovers() {
        let state = tempfile::tempdir().unwrap();
        let start = std::sync::Barrier::new(8);
        let sealed: Vec<String> = std::thread::scope(|scope| {
            let make = || {
                start.wait();
                SealingKey::made(state.path()).unwrap().seal("x", b"").unwrap()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let key = SealingKey::of(state.path()).unwrap();
        assert!(sealed.iter().all(|sealed| key.open(sealed, b"").is_some()));
        let left: Vec<_> = std::fs::read_dir(state.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [NAME]);
        let found = std::fs::metadata(SealingKey::path(state.path())).unwrap();
        assert_eq!((found.len(), found.mode() & 0o7777), (32, 0o600));
    }

    #[test]
    fn untrusted_key_is_refused_with_reason_path_and_remedy() {
        let state = tempfile::tempdir().unwrap();
        let path = SealingKey::path(state.path());
        let refusal = || {
            // No new key replaces it.
            let said = SealingKey::made(state.path()).unwrap_err().to_string();
            assert_eq!(SealingKey::of(state.path()).unwrap_err().to_string(), said);
            assert!(said.contains(&path.display().to_string()) && said.contains("remove it"), "{said}");
            said
        };
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for length in [0, 31, 33, 4096] {
            std::fs::write(&path, vec![7; length]).unwrap();
            mode(0o600);
            assert!(refusal().contains(&format!("has {length} bytes instead of 32")), "{length}");
        }
        std::fs::write(&path, [7; KEY]).unwrap();
        for wide in [0o640, 0o604, 0o620, 0o700, 0o4600] {
            mode(wide);
            assert!(refusal().contains(&format!("has mode {wide:04o}")), "{wide:o}");
        }
        mode(0o400);
        assert!(SealingKey::of(state.path()).is_ok(), "who only reads it needs no more");
        let moved = state.path().join("elsewhere");
        std::fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &path).unwrap();
        assert!(refusal().contains("is a symbolic link"));
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert!(refusal().contains("is not a file"));
        std::fs::remove_file(&path).unwrap();
        let gone = SealingKey::of(state.path()).unwrap_err();
        assert!(matches!(gone, SealingKeyError::Missing { .. }), "{gone}");
    }

    #[test]
    fn the_key_of_another_user_is_refused() {
        let state = tempfile::tempdir().unwrap();
        SealingKey::made(state.path()).unwrap();
        let (path, me) = (SealingKey::path(state.path()), rustix::process::geteuid().as_raw());
        assert!(SealingKey::read(path.clone(), me).is_ok());
        let said = SealingKey::read(path, me + 1).unwrap_err().to_string();
        assert!(said.contains(&format!("belongs to the user with uid {me}; if nobody else has seen it")), "{said}");
    }
}
