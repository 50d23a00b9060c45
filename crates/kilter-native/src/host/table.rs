//! Lines of a hosts(5) file. Unchanged lines are kept byte for byte.

use ecow::EcoString;

/// An entry of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostEntry {
    pub(super) ip: EcoString,
    pub(super) name: EcoString,
    pub(super) aliases: Vec<EcoString>,
    pub(super) comment: EcoString,
}

impl HostEntry {
    /// Parses `ip name alias … # comment`; returns none for comments and other lines.
    fn parse(line: &str) -> Option<HostEntry> {
        let (fields, comment) = line.split_once('#').unwrap_or((line, ""));
        let mut fields = fields.split_ascii_whitespace().map(EcoString::from);
        Some(HostEntry {
            ip: fields.next()?,
            name: fields.next()?,
            aliases: fields.collect(),
            comment: comment.trim().into(),
        })
    }

    fn line(&self) -> String {
        let mut line = format!("{}\t{}", self.ip, self.name);
        for (at, alias) in self.aliases.iter().enumerate() {
            line.push(if at == 0 { '\t' } else { ' ' });
            line.push_str(alias);
        }
        if !self.comment.is_empty() {
            line.push_str("\t# ");
            line.push_str(&self.comment);
        }
        line.push('\n');
        line
    }
}

/// A hosts file.
pub(super) struct HostsTable {
    lines: Vec<(Vec<u8>, Option<HostEntry>)>,
}

impl HostsTable {
    pub(super) fn parse(bytes: &[u8]) -> HostsTable {
        let lines = bytes.split_inclusive(|&b| b == b'\n');
        HostsTable {
            lines: lines.map(|line| (line.to_vec(), HostEntry::parse(&String::from_utf8_lossy(line)))).collect(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|(bytes, _)| bytes).copied().collect()
    }

    /// Returns the entries. If several have the same name, the first counts.
    pub(super) fn entries(&self) -> Vec<&HostEntry> {
        let mut seen = rustc_hash::FxHashSet::default();
        self.all().filter(|entry| seen.insert(&entry.name)).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<&HostEntry> {
        self.all().find(|entry| entry.name == name)
    }

    fn all(&self) -> impl Iterator<Item = &HostEntry> {
        self.lines.iter().filter_map(|(_, entry)| entry.as_ref())
    }

    /// Replaces the first entry with this name, or adds the entry at the end.
    pub(super) fn put(&mut self, entry: HostEntry) {
        let line = entry.line().into_bytes();
        let old = self.lines.iter_mut().find(|(_, old)| old.as_ref().is_some_and(|old| old.name == entry.name));
        if let Some(old) = old {
            *old = (line, Some(entry));
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
        self.lines.retain(|(_, entry)| entry.as_ref().is_none_or(|entry| entry.name != name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: &[u8] =
        b"# The machine\n127.0.0.1   localhost loop # me\n\n::1 localhost ip6-localhost\n\xff odd\nbroken\n10.0.0.1 a";

    #[test]
    fn every_other_line_stays_byte_for_byte() {
        let mut table = HostsTable::parse(HOSTS);
        assert_eq!(table.bytes(), HOSTS);
        table.put(HostEntry {
            ip: "10.0.0.2".into(),
            name: "b".into(),
            aliases: vec!["c".into(), "d".into()],
            comment: "new".into(),
        });
        let mut wanted = HOSTS.to_vec();
        wanted.extend_from_slice(b"\n10.0.0.2\tb\tc d\t# new\n");
        assert_eq!(table.bytes(), wanted);
        table.remove("b");
        assert_eq!(table.bytes(), [HOSTS, b"\n"].concat());
    }

    #[test]
    fn first_entry_of_a_name_wins_and_absent_removes_all() {
        let mut table = HostsTable::parse(HOSTS);
        assert_eq!(table.find("localhost").map(|entry| entry.ip.as_str()), Some("127.0.0.1"));
        assert_eq!(table.entries().iter().filter(|entry| entry.name == "localhost").count(), 1);
        table.remove("localhost");
        assert_eq!(table.find("localhost"), None);
    }

    #[test]
    fn an_entry_reads_as_it_was_written() {
        let entry = HostEntry::parse("127.0.0.1   localhost loop # me\n").unwrap();
        assert_eq!(HostEntry::parse(&entry.line()), Some(entry));
    }
}
