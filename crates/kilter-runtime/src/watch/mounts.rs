//! List of mounts: a mount over a directory causes no event of the directory.

use std::fs::File;
use std::io::{Read as _, Seek as _};

use rustc_hash::FxHashSet;

/// Mounts of this process's namespace, as of the last read.
pub(super) struct Mounts {
    /// Has an exceptional condition after each mount or unmount.
    pub(super) file: File,
    known: FxHashSet<(Vec<u8>, Vec<u8>)>,
}

impl Mounts {
    /// Returns none if `/proc` is not mounted.
    pub(super) fn open() -> Option<Mounts> {
        let mut mounts = Mounts { file: File::open("/proc/self/mountinfo").ok()?, known: FxHashSet::default() };
        mounts.known = mounts.read()?;
        Some(mounts)
    }

    fn read(&mut self) -> Option<FxHashSet<(Vec<u8>, Vec<u8>)>> {
        let mut text = Vec::new();
        self.file.rewind().ok()?;
        self.file.read_to_end(&mut text).ok()?;
        Some(text.split(|byte| *byte == b'\n').filter_map(mount).collect())
    }

    /// Returns the mount points that have changed since the last call.
    pub(super) fn changed(&mut self) -> Vec<Vec<u8>> {
        let Some(now) = self.read() else { return Vec::new() };
        let changed = now.symmetric_difference(&self.known).map(|(_, point)| point.clone()).collect();
        self.known = now;
        changed
    }
}

/// Returns the number and the mount point of a line.
fn mount(line: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = fields.next()?;
    Some((number.to_vec(), unescaped(fields.nth(3)?)))
}

/// Decodes octal escapes such as `\040`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_number_and_a_place() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402\134x rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mount(line), Some((b"36".to_vec(), br"/mnt 2\x".to_vec())));
        assert_eq!(mount(b""), None);
        assert_eq!(unescaped(br"a\04"), br"a\04");
    }
}
