//! Lines of a hosts(5) file.

use ecow::EcoString;

use crate::line_table::{LineEntry, LineTable};

/// A hosts file.
pub(super) type HostsTable = LineTable<HostEntry>;

/// An entry of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostEntry {
    pub(super) ip: EcoString,
    pub(super) name: EcoString,
    pub(super) aliases: Vec<EcoString>,
    pub(super) comment: EcoString,
}

impl LineEntry for HostEntry {
    /// Parses `ip name alias … # comment`.
    fn parse(line: &[u8]) -> Option<HostEntry> {
        let line = String::from_utf8_lossy(line);
        let (fields, comment) = line.split_once('#').unwrap_or((&line, ""));
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

    fn name(&self) -> &EcoString {
        &self.name
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
        let entry = HostEntry::parse(b"127.0.0.1   localhost loop # me\n").unwrap();
        assert_eq!(HostEntry::parse(entry.line().as_bytes()), Some(entry));
    }
}
