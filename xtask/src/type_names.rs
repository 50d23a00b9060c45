//! Names of types: no more than two modules may define the same one, so that a search finds the right one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::step::output;

/// Maximum number of definitions of a name.
const MOST: usize = 2;

/// Counts the definitions of each name in the Rust files that git tracks.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "crates/*.rs", "xtask/*.rs"]).current_dir(root);
    let listed = output(&mut list).map_err(|problem| vec![problem])?;
    let mut definitions: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for file in listed.split_terminator('\0') {
        // A tracked file may have been removed.
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        for name in text.lines().filter_map(defined) {
            definitions.entry(name.to_owned()).or_default().push(file);
        }
    }
    let problems: Vec<String> = definitions
        .iter()
        .filter(|(_, files)| files.len() > MOST)
        .map(|(name, files)| {
            format!("{} modules define a type `{name}`, at most {MOST} may: {}", files.len(), files.join(", "))
        })
        .collect();
    if problems.is_empty() {
        Ok(format!("type names: {}, each in at most {MOST} modules", definitions.len()))
    } else {
        Err(problems)
    }
}

/// Returns the name of the type that a line begins to define. Associated types have no name of their own.
fn defined(line: &str) -> Option<&str> {
    let is_nested = line.starts_with(' ');
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "unsafe");
    let is_definition = match words.next()? {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !is_nested,
        _ => false,
    };
    let name = words.next().filter(|_| is_definition)?;
    let name = name.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    Some(name).filter(|name| name.starts_with(char::is_uppercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_and_uses_are_not() {
        let found = |line| defined(line);
        assert_eq!(found("pub(super) struct Walk<'a> {"), Some("Walk"));
        assert_eq!(found("    enum Kind {"), Some("Kind"));
        assert_eq!(found("pub trait Machine: Send + Sync {"), Some("Machine"));
        assert_eq!(found("type Names = Vec<u8>;"), Some("Names"));
        for line in ["    type Item = u8;", "impl Walk<'_> {", "// struct Walk", "let type_name = Kind;", ""] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn third_definition_is_reported_with_all_files() {
        let root = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| output(Command::new("git").args(args).current_dir(&root)).unwrap();
        git(&["init", "--quiet"]);
        for name in ["a", "b"] {
            std::fs::create_dir_all(root.path().join("crates")).unwrap();
            std::fs::write(root.path().join(format!("crates/{name}.rs")), "struct Same;\nenum Other {}\n").unwrap();
        }
        git(&["add", "."]);
        assert_eq!(run(root.path()).unwrap(), "type names: 2, each in at most 2 modules");
        std::fs::write(root.path().join("crates/c.rs"), "mod tests {\n    pub struct Same;\n}\n").unwrap();
        git(&["add", "."]);
        let problem = "3 modules define a type `Same`, at most 2 may: crates/a.rs, crates/b.rs, crates/c.rs";
        assert_eq!(run(root.path()).unwrap_err(), [problem]);
    }
}
