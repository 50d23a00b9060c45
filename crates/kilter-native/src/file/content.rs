//! Reads, compares and hashes contents.

use std::cell::RefCell;
use std::fmt;
use std::fmt::Write as _;

use ecow::{EcoString, eco_format};
use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use kilter_provider::Interrupt;
use memchr::{memchr, memchr_iter};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{Errno, pread, read};
use sha2::{Digest, Sha256, Sha512};

use super::spec::Checksum;

/// Size of a read in bytes. A file of at most this size costs a single system call.
const CHUNK: usize = 64 * 1024;

/// Maximum size in bytes of new content that is shown.
const INTRODUCED: usize = 16 << 10;
/// Maximum size in bytes of content that is shown as a diff.
pub(super) const MAX_DIFF_BYTES: u64 = 1024 * 1024;
/// Maximum number of lines of a content in a diff. Another user may write a file of empty lines, whose comparison
/// takes seconds.
const MAX_DIFF_LINES: usize = 20_000;
/// Maximum size of a file that `get` computes a checksum of, in bytes.
pub(super) const MAX_HASHED_BYTES: u64 = 256 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends a thread-local buffer.
fn with_buffer<R>(size: usize, work: impl FnOnce(&mut [u8]) -> R) -> R {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size {
            buffer.resize(size.next_power_of_two().clamp(4096, 2 * CHUNK), 0);
        }
        work(&mut buffer[..size])
    })
}

/// Returns true if the rest of a file equals `wanted`, whose length is the file's size.
pub(super) fn holds(fd: BorrowedFd<'_>, wanted: &[u8]) -> Result<bool, Errno> {
    if wanted.is_empty() {
        return Ok(true);
    }
    with_buffer(wanted.len().min(CHUNK), |buffer| {
        let mut rest = wanted;
        while !rest.is_empty() {
            let size = buffer.len().min(rest.len());
            let count = retry(|| read(fd, &mut buffer[..size]))?;
            // A file that has become shorter differs.
            if count == 0 || buffer[..count] != rest[..count] {
                return Ok(false);
            }
            rest = &rest[count..];
        }
        Ok(true)
    })
}

/// Returns true if two files of equal size have the same content.
///
/// # Errors
/// `CANCELED` after an interrupt.
pub(super) fn same(
    one: BorrowedFd<'_>,
    other: BorrowedFd<'_>,
    size: u64,
    interrupt: Interrupt<'_>,
) -> Result<bool, Errno> {
    with_buffer(2 * CHUNK, |buffer| {
        let (left, right) = buffer.split_at_mut(CHUNK);
        let mut at = 0;
        while at < size {
            go_on(interrupt)?;
            let count = fill(one, left, at)?;
            if count == 0 || fill(other, right, at)? != count || left[..count] != right[..count] {
                return Ok(false);
            }
            at += count as u64;
        }
        Ok(true)
    })
}

/// Reads until the buffer is full or the file ends.
fn fill(fd: BorrowedFd<'_>, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match retry(|| pread(fd, &mut buffer[filled..], at + filled as u64))? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Returns the content, up to `limit` bytes.
pub(super) fn load(fd: BorrowedFd<'_>, limit: u64) -> Result<Vec<u8>, Errno> {
    let mut content = Vec::new();
    each_chunk(fd, &mut |chunk| {
        let room = usize::try_from(limit).unwrap_or(usize::MAX) - content.len();
        content.extend_from_slice(&chunk[..chunk.len().min(room)]);
        content.len() < usize::try_from(limit).unwrap_or(usize::MAX)
    })?;
    Ok(content)
}

/// Fails with `CANCELED` after an interrupt by the user, or by the timeout of the call.
pub(super) fn go_on(interrupt: Interrupt<'_>) -> Result<(), Errno> {
    if interrupt.is_raised() { Err(Errno::CANCELED) } else { Ok(()) }
}

/// Reads a file from its start, until `take` returns false.
pub(super) fn each_chunk(fd: BorrowedFd<'_>, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno> {
    with_buffer(CHUNK, |buffer| {
        let mut at = 0;
        loop {
            let count = retry(|| pread(fd, &mut *buffer, at))?;
            if count == 0 || !take(&buffer[..count]) {
                return Ok(());
            }
            at += count as u64;
        }
    })
}

pub(super) fn write(fd: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let count = retry(|| rustix::io::write(&fd, bytes))?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Repeats a call that a signal interrupted.
pub(super) fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// An incremental checksum.
pub(super) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    /// Returns the hasher whose checksum reports of a comparison show.
    pub(super) fn of(checksum: Checksum) -> Hasher {
        match checksum {
            Checksum::Sha512 => Hasher::Sha512(Sha512::new()),
            _ => Hasher::Sha256(Sha256::new()),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(self) -> EcoString {
        match self {
            Hasher::Sha256(hasher) => eco_format!("{{sha256}}{}", hex(&hasher.finalize())),
            Hasher::Sha512(hasher) => eco_format!("{{sha512}}{}", hex(&hasher.finalize())),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend([byte >> 4, byte & 15].map(|nibble| char::from(DIGITS[usize::from(nibble)])));
    }
    text
}

/// Returns `{sha256}…` of bytes.
pub(super) fn checksum_of(checksum: Checksum, bytes: &[u8]) -> EcoString {
    let mut hasher = Hasher::of(checksum);
    hasher.update(bytes);
    hasher.finish()
}

/// Returns `{sha256}…` of a file.
///
/// # Errors
/// `CANCELED` after an interrupt.
pub(super) fn checksum_of_file(
    checksum: Checksum,
    fd: BorrowedFd<'_>,
    interrupt: Interrupt<'_>,
) -> Result<EcoString, Errno> {
    let mut hasher = Hasher::of(checksum);
    let mut state = Ok(());
    each_chunk(fd, &mut |chunk| {
        hasher.update(chunk);
        state = go_on(interrupt);
        state.is_ok()
    })?;
    state.map(|()| hasher.finish())
}

/// Returns a placeholder for content that was not read because its size differs: `{size}4096`.
pub(super) fn size_text(size: u64) -> EcoString {
    eco_format!("{{size}}{size}")
}

/// Returns the first twelve digits of a checksum, for people.
pub(super) fn brief(checksum: &str) -> &str {
    let digits = checksum.find('}').map_or(0, |at| at + 1);
    checksum.get(..digits + 12).unwrap_or(checksum)
}

/// The reason why content is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffOmitted {
    /// The content is not text.
    Binary,
    /// The content has more bytes than this.
    Large(u64),
    /// The content has more lines than `MAX_DIFF_LINES`.
    ManyLines,
}

impl fmt::Display for DiffOmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiffOmitted::Binary => f.write_str("binary"),
            DiffOmitted::Large(limit) if limit % (1 << 20) == 0 => write!(f, "larger than {} MiB", limit >> 20),
            DiffOmitted::Large(limit) => write!(f, "larger than {} KiB", limit >> 10),
            DiffOmitted::ManyLines => write!(f, "more than {MAX_DIFF_LINES} lines"),
        }
    }
}

/// Returns the reason why content is not shown as a diff; none if it is shown.
pub(super) fn unshown(bytes: &[u8]) -> Option<DiffOmitted> {
    unshown_above(MAX_DIFF_BYTES, bytes)
}

/// Returns the reason why new content is not shown; none if it is shown or empty.
pub(super) fn unintroduced(bytes: &[u8]) -> Option<DiffOmitted> {
    unshown_above(INTRODUCED as u64, bytes)
}

fn unshown_above(limit: u64, bytes: &[u8]) -> Option<DiffOmitted> {
    if bytes.len() as u64 > limit {
        return Some(DiffOmitted::Large(limit));
    }
    if memchr_iter(b'\n', bytes).count() > MAX_DIFF_LINES {
        return Some(DiffOmitted::ManyLines);
    }
    (memchr(0, bytes).is_some() || std::str::from_utf8(bytes).is_err()).then_some(DiffOmitted::Binary)
}

/// Returns the change of a text as a unified diff; none if either content is not shown.
pub(super) fn diff(path: &str, is: &[u8], should: &[u8]) -> Option<EcoString> {
    if unshown(is).or(unshown(should)).is_some() {
        return None;
    }
    let (is, should) = (std::str::from_utf8(is).ok()?, std::str::from_utf8(should).ok()?);
    let input = InternedInput::new(is, should);
    let mut lines = Diff::compute(Algorithm::Histogram, &input);
    lines.postprocess_lines(&input);
    let printer = BasicLineDiffPrinter(&input.interner);
    let hunks = lines.unified_diff(&printer, UnifiedDiffConfig::default(), &input);
    Some(eco_format!("--- {path} (is)\n+++ {path} (should)\n{hunks}"))
}

/// Returns a new text as a unified diff; none if it is not shown or too long.
pub(super) fn introduction(path: &str, content: &[u8]) -> Option<EcoString> {
    if content.is_empty() || unintroduced(content).is_some() {
        return None;
    }
    let content = std::str::from_utf8(content).ok()?;
    let count = content.lines().count();
    // With many new files all diffs are in memory for some time, so allocate the exact size.
    let mut text = EcoString::with_capacity(2 * path.len() + content.len() + count + 80);
    let _ = write!(text, "--- {path} (is)\n+++ {path} (should)\n@@ -0,0 +1,{count} @@\n");
    for line in content.lines() {
        text.push('+');
        text.push_str(line);
        text.push('\n');
    }
    if !content.ends_with('\n') {
        text.push_str("\\ No newline at end of file\n");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_of_more_lines_than_the_limit_is_omitted() {
        for (lines, is_shown) in [(MAX_DIFF_LINES, true), (MAX_DIFF_LINES + 1, false)] {
            let is = "\n".repeat(lines);
            assert_eq!(diff("/x", is.as_bytes(), b"new\n").is_some(), is_shown, "{lines}");
        }
        let omitted = unshown(&[b'\n'; MAX_DIFF_LINES + 1]);
        assert_eq!(omitted.map(|why| why.to_string()).as_deref(), Some("more than 20000 lines"));
    }

    #[test]
    fn a_checksum_names_its_kind() {
        let sum = checksum_of(Checksum::Sha256, b"abc");
        assert_eq!(sum, "{sha256}ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(brief(&sum), "{sha256}ba7816bf8f01");
        assert!(checksum_of(Checksum::Sha512, b"abc").starts_with("{sha512}ddaf35a193617aba"));
    }

    #[test]
    fn texts_have_a_diff_and_bytes_have_none() {
        let shown = diff("/x", b"a\nb\n", b"a\nc\n").unwrap();
        assert!(shown.contains("--- /x (is)\n+++ /x (should)\n"), "{shown}");
        assert!(shown.contains("-b\n+c\n"), "{shown}");
        assert_eq!(diff("/x", b"a\0b", b"a"), None);
        assert_eq!(diff("/x", b"\xff", b"a"), None);
    }

    #[test]
    fn a_new_text_is_introduced_line_by_line() {
        let shown = introduction("/x", b"a\nb").unwrap();
        assert_eq!(shown, "--- /x (is)\n+++ /x (should)\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n");
        assert_eq!(introduction("/x", b""), None);
        assert_eq!(introduction("/x", &vec![b'x'; INTRODUCED + 1]), None);
    }
}
