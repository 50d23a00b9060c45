//! Checks of members whose author is not trusted, and the limits of an archive.

use std::io::{self, Read};

use ecow::{EcoString, eco_format};
use kilter_provider::Interrupt;

use crate::file::unpack::Member;

/// Maximum number of members.
pub(super) const MAX_MEMBERS: usize = 1_000_000;
/// Maximum size of all members together in bytes.
pub(super) const MAX_BYTES: u64 = 16 << 30;
/// Maximum length in bytes of a path.
pub(super) const MAX_PATH_BYTES: usize = 4000;
/// Maximum number of directories above a member.
const MAX_DEPTH: usize = 100;

/// Receives a member. Returns false to end the reading.
pub(super) type TakeMember<'t> = dyn FnMut(&mut Member<'_>) -> Result<bool, EcoString> + 't;

/// Reads members until the total size is reached, or the run is interrupted.
pub(super) struct Bounded<'a, R> {
    pub(super) inner: R,
    /// Remaining number of bytes.
    pub(super) left: u64,
    pub(super) interrupt: Interrupt<'a>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.interrupt.is_raised() {
            return Err(io::Error::other("interrupted"));
        }
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other(format!("the archive is larger than {} GiB when it is unpacked", MAX_BYTES >> 30))
        })?;
        Ok(count)
    }
}

/// Describes an archive that cannot be read.
pub(super) fn damaged(interrupt: Interrupt<'_>, error: &io::Error) -> EcoString {
    match interrupt.is_raised() {
        true => "interrupted".into(),
        false => eco_format!("the archive is damaged: {error}"),
    }
}

/// Describes a member that must not be unpacked.
pub(super) fn refused(path: &[u8], why: &str) -> EcoString {
    eco_format!("the archive has the member `{}`, which is not unpacked: {why}", String::from_utf8_lossy(path))
}

/// Returns the path without its first directories; none if there is no further name.
pub(super) fn cleaned(path: &[u8], strip: usize) -> Result<Option<Vec<u8>>, EcoString> {
    if path.starts_with(b"/") {
        return Err(refused(path, "its path is absolute"));
    }
    if path.contains(&0) || path.len() > MAX_PATH_BYTES {
        return Err(refused(path, "its path is too long, or has a NUL"));
    }
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&&b".."[..]) {
        return Err(refused(path, "its path contains `..`"));
    }
    if parts.len() > MAX_DEPTH {
        return Err(refused(path, "it is below too many directories"));
    }
    let rest = parts.get(strip..).unwrap_or_default();
    Ok((!rest.is_empty()).then(|| rest.join(&b'/')))
}

/// Checks that a symbolic link leads to a path of the archive.
pub(super) fn check_link(path: &[u8], target: &[u8]) -> Result<(), &'static str> {
    const OUTSIDE: &str = "it is a link that leaves the directory";
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) {
        return Err(OUTSIDE);
    }
    let mut depth = path.iter().filter(|&&byte| byte == b'/').count();
    for part in target.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => depth = depth.checked_sub(1).ok_or(OUTSIDE)?,
            _ => depth += 1,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_and_stripped() {
        let clean =
            |path: &[u8], strip| cleaned(path, strip).map(|path| path.map(|path| String::from_utf8(path).unwrap()));
        assert_eq!(clean(b"./a//b/", 0), Ok(Some("a/b".into())));
        assert_eq!(clean(b"a/b/c", 1), Ok(Some("b/c".into())));
        assert_eq!(clean(b"a/", 1), Ok(None));
        assert_eq!(clean(b"a", 3), Ok(None));
        for bad in [&b"/etc/passwd"[..], b"../x", b"a/../../x", b"a/..", &b"x/".repeat(101), &[b'x'; 5000], b"a\0b"] {
            assert!(clean(bad, 0).is_err());
        }
    }

    #[test]
    fn links_stay_below_the_directory() {
        for (path, target) in [(&b"a/b"[..], &b"../c"[..]), (b"a", b"b/c"), (b"a/b/c", b"../../d"), (b"a", b"b/../c")] {
            assert_eq!(check_link(path, target), Ok(()));
        }
        for (path, target) in
            [(&b"a"[..], &b"/etc/shadow"[..]), (b"a", b"../x"), (b"a/b", b"../../x"), (b"a", b"b/../../x"), (b"a", b"")]
        {
            assert!(check_link(path, target).is_err());
        }
    }
}
