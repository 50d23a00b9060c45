//! Rules of `layers.toml`.

use std::collections::BTreeMap;

/// Lists of crate names by crate name.
pub(super) type CrateLists = BTreeMap<String, Vec<String>>;

/// Allowed dependencies.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Dependencies inside the workspace, by crate.
    pub(super) crates: CrateLists,
    /// Further dependencies of tests inside the workspace, by crate.
    pub(super) dev_crates: CrateLists,
    /// Crates of the workspace that may use an external crate, by external crate.
    pub(super) external: CrateLists,
    /// Crates of the workspace whose tests may use an external crate, by external crate.
    pub(super) dev_external: CrateLists,
}

impl Rules {
    /// Parses the file. An error names the line.
    pub(super) fn read(text: &str) -> Result<Rules, String> {
        let mut sections: BTreeMap<String, CrateLists> = toml::from_str(text).map_err(|error| error.to_string())?;
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
