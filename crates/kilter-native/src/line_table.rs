//! Files whose lines are entries with a name: `/etc/hosts`, `/etc/fstab`. Unchanged lines are kept byte for byte.

use ecow::EcoString;

/// An entry of such a file.
pub(crate) trait LineEntry: PartialEq + Sized {
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

    /// Returns the entries. If several have the same name, the first counts.
    pub(crate) fn entries(&self) -> Vec<&E> {
        let mut seen = rustc_hash::FxHashSet::default();
        self.all().filter(|entry| seen.insert(entry.name())).collect()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&E> {
        self.all().find(|entry| entry.name() == name)
    }

    fn all(&self) -> impl Iterator<Item = &E> {
        self.lines.iter().filter_map(|(_, entry)| entry.as_ref())
    }

    /// Replaces the first entry with this name, or adds the entry at the end. An equal entry keeps its line.
    pub(crate) fn put(&mut self, entry: E) {
        let is_same = |old: &E| old.name() == entry.name();
        if let Some(old) = self.lines.iter_mut().find(|(_, old)| old.as_ref().is_some_and(is_same)) {
            if old.1.as_ref() != Some(&entry) {
                *old = (entry.line().into_bytes(), Some(entry));
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

    /// Removes all entries with a name.
    pub(crate) fn remove(&mut self, name: &str) {
        self.lines.retain(|(_, entry)| entry.as_ref().is_none_or(|entry| entry.name() != name));
    }
}
