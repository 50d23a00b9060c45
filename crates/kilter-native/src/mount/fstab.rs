//! Lines of an fstab(5) file.

use ecow::EcoString;

use crate::line_table::{LineEntry, LineTable};

/// An fstab file.
pub(super) type FstabTable = LineTable<FstabEntry>;

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
    pub(super) fn is_swap(&self) -> bool {
        self.fstype == SWAP
    }
}

impl LineEntry for FstabEntry {
    /// Parses `device dir fstype options dump pass`. An entry without a mount point is one only for a swap area.
    fn parse(line: &[u8]) -> Option<FstabEntry> {
        let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let device = fields.next().filter(|device| !device.starts_with('#'))?;
        let (dir, fstype) = (fields.next()?, fields.next()?);
        let options = fields.next().unwrap_or("defaults");
        let mut number = || fields.next().map_or(Some(0), |field| field.parse().ok());
        let (dump, pass) = (number()?, number()?);
        let entry = FstabEntry {
            device: unescaped(device),
            dir: match dir {
                "/" => "/".into(),
                dir => unescaped(dir.trim_end_matches('/')),
            },
            fstype: unescaped(fstype),
            options: unescaped(options),
            dump,
            pass,
        };
        (entry.is_swap() || entry.dir != "none").then_some(entry)
    }

    fn line(&self) -> String {
        let [device, dir, fstype, options] = [&self.device, &self.dir, &self.fstype, &self.options].map(|t| escaped(t));
        format!("{device}\t{dir}\t{fstype}\t{options}\t{}\t{}\n", self.dump, self.pass)
    }

    /// Returns the mount point, or the device of a swap area.
    fn name(&self) -> &EcoString {
        if self.is_swap() { &self.device } else { &self.dir }
    }
}

/// Decodes octal escapes such as `\040`.
pub(super) fn unescaped(text: &str) -> EcoString {
    String::from_utf8_lossy(&kilter_process::world::unescaped(text.as_bytes())).into()
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

#[cfg(test)]
mod tests {
    use super::*;

    const FSTAB: &[u8] = b"# static file systems\nUUID=12-34  /  ext4  errors=remount-ro 0 1\n\n\
                        LABEL=x /mnt/my\\040disk/ xfs\n/swapfile none swap sw 0 0\ntmpfs /tmp tmpfs size=1g 0 \
                        nothing\n\xff odd line x\nproc /proc proc defaults";

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
