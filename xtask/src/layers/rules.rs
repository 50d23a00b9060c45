//! `layers.toml`: sections, and in them a name with a list of texts on one line.

use std::collections::BTreeMap;

/// Names, each with a list of names.
pub(super) type Table = BTreeMap<String, Vec<String>>;

/// What `layers.toml` allows.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// By crate of the workspace: those that it may depend on.
    pub(super) crates: Table,
    /// The same for tests.
    pub(super) dev_crates: Table,
    /// By external crate: those of the workspace that may depend on it.
    pub(super) external: Table,
    /// The same for tests.
    pub(super) dev_external: Table,
}

impl Rules {
    /// Reads the file. A problem begins with the number of its line.
    pub(super) fn read(text: &str) -> Result<Rules, String> {
        let mut rules = Rules::default();
        let mut section = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let problem = |what: &str| format!("{}: {what}: `{line}`", number + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = Some(name);
                rules.table(name).ok_or_else(|| problem("no such section"))?;
                continue;
            }
            let (name, list) = line.split_once('=').ok_or_else(|| problem("not of the form name = [\"…\"]"))?;
            let list = list_of(list.trim()).ok_or_else(|| problem("not a list of texts on one line"))?;
            let table = section.and_then(|section| rules.table(section)).ok_or_else(|| problem("in no section"))?;
            if table.insert(name.trim().to_owned(), list).is_some() {
                return Err(problem("written twice"));
            }
        }
        Ok(rules)
    }

    fn table(&mut self, section: &str) -> Option<&mut Table> {
        match section {
            "crates" => Some(&mut self.crates),
            "dev-crates" => Some(&mut self.dev_crates),
            "external" => Some(&mut self.external),
            "dev-external" => Some(&mut self.dev_external),
            _ => None,
        }
    }

    /// The names that stand where only crates of the workspace may stand, each once.
    pub(super) fn crate_names(&self) -> Vec<&str> {
        let own = [&self.crates, &self.dev_crates];
        let keys = own.iter().flat_map(|table| table.keys());
        let tables = [&self.crates, &self.dev_crates, &self.external, &self.dev_external];
        let values = tables.iter().flat_map(|table| table.values().flatten());
        let mut names: Vec<&str> = keys.chain(values).map(String::as_str).filter(|name| *name != "*").collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// `["a", "b"]`
fn list_of(text: &str) -> Option<Vec<String>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?.trim();
    let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| Some(part.strip_prefix('"')?.strip_suffix('"')?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_told_with_its_line() {
        for (text, expected) in [
            ("[crates]\na = [b]", "2: not a list"),
            ("[layers]", "1: no such section"),
            ("a = []", "1: in no section"),
            ("[crates]\n\na = []\na = []", "4: written twice"),
            ("[crates]\nwhat", "2: not of the form"),
        ] {
            let problem = Rules::read(text).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
