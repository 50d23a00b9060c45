//! Lines of an fstab(5) file. Unchanged lines are kept byte for byte.

use ecow::EcoString;

/// Type of a swap entry, which has no mount point.
pub(super) const SWAP: &str = "swap";

/// An entry of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FstabEntry {
    pub(super) device: EcoString,
    pub(super) dir: EcoString,
    pub(super) fstype: EcoString,
    pub(super) options: EcoString,
    pub(super) dump: i64,
    pub(super) pass: i64,
}

impl FstabEntry {
    /// Parses `device dir fstype options dump pass`; returns none for comments and other lines.
    fn parse(line: &str) -> Option<FstabEntry> {
        let mut fields = line.split_ascii_whitespace();
        let device = fields.next().filter(|device| !device.starts_with('#'))?;
        let (dir, fstype) = (fields.next()?, fields.next()?);
        let options = fields.next().unwrap_or("defaults");
        let mut number = || fields.next().map_or(Some(0), |field| field.parse().ok());
        let (dump, pass) = (number()?, number()?);
        Some(FstabEntry {
            device: unescaped(device),
            dir: match dir {
                "/" => "/".into(),
                dir => unescaped(dir.trim_end_matches('/')),
            },
            fstype: unescaped(fstype),
            options: unescaped(options),
            dump,
            pass,
        })
    }

    /// Returns the name of the resource: the mount point, or the device of a swap area.
    pub(super) fn name(&self) -> &EcoString {
        if self.is_swap() { &self.device } else { &self.dir }
    }

    pub(super) fn is_swap(&self) -> bool {
        self.fstype == SWAP
    }

    fn line(&self) -> String {
        let [device, dir, fstype, options] = [&self.device, &self.dir, &self.fstype, &self.options].map(|t| escaped(t));
        format!("{device}\t{dir}\t{fstype}\t{options}\t{}\t{}\n", self.dump, self.pass)
    }
}

/// Decodes octal escapes such as `\040`.
pub(super) fn unescaped(text: &str) -> EcoString {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[3..]);
            }
            None => {
                bytes.push(b'\\');
                bytes.extend(part.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into()
}

/// Encodes white space, backslashes, and a `#` that would begin a comment.
fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            ' ' | '\t' | '\n' | '\\' => line.push_str(&format!("\\{:03o}", u32::from(char))),
            '#' if line.is_empty() => line.push_str("\\043"),
            char => line.push(char),
        }
    }
    line
}

/// An fstab file.
pub(super) struct FstabTable {
    lines: Vec<(Vec<u8>, Option<FstabEntry>)>,
}

impl FstabTable {
    pub(super) fn parse(bytes: &[u8]) -> FstabTable {
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let entry = |line: &[u8]| std::str::from_utf8(line).ok().and_then(FstabEntry::parse);
        FstabTable { lines: lines.map(|line| (line.to_vec(), entry(line))).collect() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|(bytes, _)| bytes).copied().collect()
    }

    /// Returns the entries. If several have the same name, the first counts, as for mount(8).
    pub(super) fn entries(&self) -> Vec<&FstabEntry> {
        let mut seen = rustc_hash::FxHashSet::default();
        let is_none = |entry: &FstabEntry| !entry.is_swap() && entry.dir == "none";
        let all = self.lines.iter().filter_map(|(_, entry)| entry.as_ref());
        all.filter(|entry| !is_none(entry) && seen.insert(entry.name())).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<&FstabEntry> {
        self.lines.iter().filter_map(|(_, entry)| entry.as_ref()).find(|entry| entry.name() == name)
    }

    /// Replaces the first entry with this name, or adds the entry at the end.
    pub(super) fn put(&mut self, entry: FstabEntry) {
        let line = entry.line().into_bytes();
        let is_same = |old: &FstabEntry| old.name() == entry.name();
        if let Some(old) = self.lines.iter_mut().find(|(_, old)| old.as_ref().is_some_and(is_same)) {
            if old.1.as_ref() != Some(&entry) {
                *old = (line, Some(entry));
            }
            return;
        }
        if let Some((last, _)) = self.lines.last_mut()
            && !last.ends_with(b"\n")
        {
            last.push(b'\n');
        }
        self.lines.push((line, Some(entry)));
    }

    /// Removes all entries with a name.
    pub(super) fn remove(&mut self, name: &str) {
        self.lines.retain(|(_, entry)| entry.as_ref().is_none_or(|entry| entry.name() != name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FSTAB: &[u8] = b"# static file systems\nUUID=12-34  /  ext4  errors=remount-ro 0 1\n\nLABEL=x /mnt/my\\040disk/ xfs\n/swapfile none swap sw 0 0\ntmpfs /tmp tmpfs size=1g 0 nothing\n\xff odd line x\nproc /proc proc defaults";

    #[test]
    fn every_other_line_stays_byte_for_byte() {
        let mut table = FstabTable::parse(FSTAB);
        assert_eq!(table.bytes(), FSTAB);
        let entry = FstabEntry {
            device: "/dev/sdb 1".into(),
            dir: "/data\\x".into(),
            fstype: "ext4".into(),
            options: "ro,noatime".into(),
            dump: 0,
            pass: 2,
        };
        table.put(entry.clone());
        let added = b"\n/dev/sdb\\0401\t/data\\134x\text4\tro,noatime\t0\t2\n";
        assert_eq!(table.bytes(), [FSTAB, added].concat());
        assert_eq!(FstabTable::parse(&table.bytes()).find("/data\\x"), Some(&entry));
        table.put(entry);
        table.remove("/data\\x");
        assert_eq!(table.bytes(), [FSTAB, b"\n"].concat());
    }

    #[test]
    fn entries_have_defaults_and_unescaped_fields() {
        let table = FstabTable::parse(FSTAB);
        let names: Vec<&str> = table.entries().into_iter().map(|entry| entry.name().as_str()).collect();
        assert_eq!(names, ["/", "/mnt/my disk", "/swapfile", "/proc"]);
        let disk = table.find("/mnt/my disk").unwrap();
        assert_eq!((disk.options.as_str(), disk.dump, disk.pass), ("defaults", 0, 0));
        assert_eq!(table.find("/").map(|root| (root.options.as_str(), root.pass)), Some(("errors=remount-ro", 1)));
    }

    #[test]
    fn entry_without_a_difference_keeps_its_line() {
        let mut table = FstabTable::parse(FSTAB);
        table.put(table.find("/").unwrap().clone());
        assert_eq!(table.bytes(), FSTAB);
    }

    #[test]
    fn backslashes_that_escape_nothing_are_kept() {
        for (text, plain) in [("a\\040b", "a b"), ("a\\9", "a\\9"), ("\\", "\\"), ("\\134040", "\\040")] {
            assert_eq!(unescaped(text), plain, "{text}");
        }
        assert_eq!(unescaped(&escaped("#a b\\040")), "#a b\\040");
    }
}
