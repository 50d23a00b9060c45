//! `layers.toml`: sections with names and single-line lists of texts.

use std::collections::BTreeMap;

/// Names, each with a list of names.
pub(super) type Table = BTreeMap<String, Vec<String>>;

/// Rules of `layers.toml`.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// For each crate of the workspace: the crates that it may depend on.
    pub(super) crates: Table,
    /// The same for tests.
    pub(super) dev_crates: Table,
    /// For each external crate: the crates of the workspace that may depend on it.
    pub(super) external: Table,
    /// The same for tests.
    pub(super) dev_external: Table,
}

impl Rules {
    /// Parses the file. A problem starts with its line number.
    pub(super) fn read(text: &str) -> Result<Rules, String> {
        let mut sections: BTreeMap<String, Table> = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut section = |name: &str| sections.remove(name).unwrap_or_default();
        let rules = Rules {
            crates: section("crates"),
            dev_crates: section("dev-crates"),
            external: section("external"),
            dev_external: section("dev-external"),
        };
        match sections.keys().next() {
            Some(unknown) => Err(format!(
                "unknown section [{unknown}]; the sections are [crates], [dev-crates], [external] and [dev-external]"
            )),
            None => Ok(rules),
        }
    }

    /// Returns each name that must be a crate of the workspace, once.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_file_names_line_or_section() {
        for (text, expected) in [
            ("[crates]\na = [b]", "line 2"),
            ("[crates]\na = 3", "line 2"),
            ("[layers]", "unknown section [layers]"),
            ("[crates]\n\na = []\na = []", "duplicate key"),
            ("a = []", "line 1"),
        ] {
            let problem = Rules::read(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
