//! Checks the tests that documents name as `path::test`: each must exist, and every promise must have a test.
//!
//! The check of promises covers tables whose last column has the heading `test`. If the second cell of a row starts
//! with a bold word of [`PROMISES`], the last cell must name a test.

use std::collections::HashMap;
use std::path::Path;

use super::Document;
use super::markdown::divide;

/// Words for features that kilter has.
const PROMISES: [&str; 3] = ["kept", "lifted", "otherwise"];

/// Words for features that kilter does not have.
const OTHERS: [&str; 3] = ["advice", "not yet", "waits"];

/// Heading of the column with the tests.
const HEADING: &str = "test";

/// Returns the problems of the tests that documents name, with their positions.
pub(super) fn missing(root: &Path, documents: &[Document]) -> Vec<String> {
    let mut tests = Tests { root, read: HashMap::new() };
    documents.iter().flat_map(|document| missing_in(document, &mut tests)).collect()
}

fn missing_in(document: &Document, tests: &mut Tests<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut is_held = false;
    for (number, line) in divide(&document.text).prose {
        let Some(cells) = cells(line) else {
            is_held = false;
            continue;
        };
        if cells.last() == Some(&HEADING) {
            is_held = true;
            continue;
        }
        if !is_held || cells.iter().all(|cell| cell.chars().all(|c| c == '-')) {
            continue;
        }
        let mut tell = |problem: String| problems.push(format!("{}:{number}: {problem}", document.path.display()));
        let named: Vec<&str> = cells.last().map_or(Vec::new(), |cell| named(cell));
        let word = cells.get(cells.len().saturating_sub(2)).and_then(|cell| bold(cell)).unwrap_or_default();
        if !PROMISES.contains(&word) && !OTHERS.contains(&word) {
            let known = PROMISES.iter().chain(&OTHERS).copied().collect::<Vec<_>>().join("**, **");
            tell(format!("the row begins with none of **{known}**"));
        }
        if PROMISES.contains(&word) && named.is_empty() {
            tell(format!("a row that begins with **{word}** needs the name of a test"));
        }
        for name in named {
            if let Err(why) = tests.find(name) {
                tell(format!("the test `{name}` does not exist: {why}"));
            }
        }
    }
    problems
}

/// Returns the cells of a row; none if the line is not a row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let mut cells = Vec::new();
    let mut start = 0;
    for (at, _) in inner.match_indices('|') {
        if !inner[..at].ends_with('\\') {
            cells.push(inner[start..at].trim());
            start = at + 1;
        }
    }
    cells.push(inner[start..].trim());
    Some(cells)
}

/// Returns the bold word at the start of a cell.
fn bold(cell: &str) -> Option<&str> {
    cell.strip_prefix("**")?.split("**").next()
}

/// Returns the code spans in a cell.
fn named(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Tests of the requested files.
struct Tests<'a> {
    root: &'a Path,
    read: HashMap<String, Result<Vec<String>, String>>,
}

impl Tests<'_> {
    fn find(&mut self, name: &str) -> Result<(), String> {
        let (path, test) = name.split_once("::").ok_or("it is no `path::test`")?;
        let root = self.root;
        let known = self.read.entry(path.to_owned()).or_insert_with(|| {
            let text = std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
            Ok(tests_in(&text))
        });
        match known {
            Ok(known) if known.iter().any(|known| known == test) => Ok(()),
            Ok(_) => Err(format!("{path} has no such function under #[test]")),
            Err(why) => Err(why.clone()),
        }
    }
}

/// Returns the functions with `#[test]`, also if other attributes follow it.
fn tests_in(text: &str) -> Vec<String> {
    let mut is_test = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if let (true, Some(rest)) = (is_test, line.strip_prefix("fn ")) {
            found.extend(rest.split('(').next().map(str::to_owned));
            is_test = false;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            is_test = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(page: &str) -> Vec<String> {
        // Tests run in parallel.
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("xtask-evidence-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let code = "#[test]\n#[cfg(unix)]\nfn it_holds() {}\n\nfn helper() {}\n";
        std::fs::write(root.join("a.rs"), code).unwrap();
        let document = Document { path: "page.md".into(), text: page.to_owned() };
        let problems = missing(&root, &[document]);
        std::fs::remove_dir_all(&root).unwrap();
        problems
    }

    #[test]
    fn missing_tests_are_reported_with_places() {
        let page = "| 1 | says | **kept** | `a.rs::none` |\n\n\
            | # | the text | kilter | test |\n|---|---|---|---|\n\
            | 1 | a \\| b | **kept** | `a.rs::it_holds` |\n\
            | 2 | says | **kept**, more or less | `a.rs::helper`, `a.rs::it_holds` |\n\
            | 3 | says | **lifted**: how | |\n\
            | 4 | says | **waits** for something | |\n\
            | 5 | says | somehow | `b.rs::x` |\n\
            | 6 | says | **otherwise** | `it_holds` |\n";
        let [second, third, fifth, no_file, sixth] = told(page).try_into().unwrap();
        let no_test = "page.md:6: the test `a.rs::helper` does not exist: a.rs has no such function under #[test]";
        assert_eq!(second, no_test);
        assert_eq!(third, "page.md:7: a row that begins with **lifted** needs the name of a test");
        assert!(fifth.starts_with("page.md:9: the row begins with none of **kept**, **lifted**"), "{fifth}");
        assert!(no_file.starts_with("page.md:9: the test `b.rs::x` does not exist: b.rs: "), "{no_file}");
        assert_eq!(sixth, "page.md:10: the test `it_holds` does not exist: it is no `path::test`");
    }

    #[test]
    fn other_tables_are_ignored() {
        assert_eq!(told("| a | b |\n|---|---|\n| `x` | **y** |\n"), [""; 0]);
    }
}
