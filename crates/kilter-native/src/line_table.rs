//! Files whose lines are entries with a name: `/etc/hosts`, `/etc/fstab`, `/etc/sysctl.d`. Unchanged lines are kept
//! byte for byte.

use ecow::EcoString;

/// An entry of such a file.
pub(crate) trait LineEntry: PartialEq + Sized {
    /// True if the last of several entries with the same name counts. Otherwise, the first counts.
    const LAST_COUNTS: bool = false;

    /// Parses a line; returns none for comments and other lines.
    fn parse(line: &[u8]) -> Option<Self>;

    /// Returns the line of a new or changed entry, with its line break.
    fn line(&self) -> String;

    fn name(&self) -> &EcoString;
}

/// The lines of a file.
pub(crate) struct LineTable<E> {
    lines: Vec<(Vec<u8>, Option<E>)>,
}

impl<E: LineEntry> LineTable<E> {
    pub(crate) fn parse(bytes: &[u8]) -> LineTable<E> {
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        LineTable { lines: lines.map(|line| (line.to_vec(), E::parse(line))).collect() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|(bytes, _)| bytes).copied().collect()
    }

    /// Returns the entries that count.
    pub(crate) fn entries(&self) -> Vec<&E> {
        let mut seen = rustc_hash::FxHashSet::default();
        if !E::LAST_COUNTS {
            return self.all().filter(|entry| seen.insert(entry.name())).collect();
        }
        let mut entries: Vec<&E> = self.all().rev().filter(|entry| seen.insert(entry.name())).collect();
        entries.reverse();
        entries
    }

    /// Returns the entry with a name that counts.
    pub(crate) fn find(&self, name: &str) -> Option<&E> {
        let is_named = |entry: &&E| entry.name() == name;
        if E::LAST_COUNTS { self.all().rfind(is_named) } else { self.all().find(is_named) }
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = &E> {
        self.lines.iter().filter_map(|(_, entry)| entry.as_ref())
    }

    /// Replaces the first entry with this name, or adds the entry at the end. An equal entry keeps its line. If the
    /// last entry counts, removes the others.
    pub(crate) fn put(&mut self, entry: E) {
        let is_same = |old: &Option<E>| old.as_ref().is_some_and(|old| old.name() == entry.name());
        if let Some(first) = self.lines.iter().position(|(_, old)| is_same(old)) {
            if E::LAST_COUNTS {
                let mut at = 0;
                self.lines.retain(|(_, old)| {
                    at += 1;
                    at <= first + 1 || !is_same(old)
                });
            }
            if self.lines[first].1.as_ref() != Some(&entry) {
                self.lines[first] = (entry.line().into_bytes(), Some(entry));
            }
            return;
        }
        if let Some((last, _)) = self.lines.last_mut()
            && !last.ends_with(b"\n")
        {
            last.push(b'\n');
        }
        self.lines.push((entry.line().into_bytes(), Some(entry)));
    }

    /// Restores the line of an entry from an older table, or removes it if that has none.
    pub(crate) fn restore(&mut self, old: &LineTable<E>, name: &str) {
        let of_name = |(_, entry): &&(Vec<u8>, Option<E>)| entry.as_ref().is_some_and(|entry| entry.name() == name);
        let Some((line, _)) = old.lines.iter().find(of_name) else { return self.remove(name) };
        let mut line = line.clone();
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        if let Some(at) = self.lines.iter().position(|now| of_name(&now)) {
            let entry = E::parse(&line);
            self.lines[at] = (line, entry);
        }
    }

    /// Removes all entries with a name.
    pub(crate) fn remove(&mut self, name: &str) {
        self.lines.retain(|(_, entry)| entry.as_ref().is_none_or(|entry| entry.name() != name));
    }
}
