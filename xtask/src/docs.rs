//! `cargo xtask docs`: checks generated pages, links, examples in documents, and the tests that documents name.

mod evidence;
mod examples;
mod links;
mod markdown;
mod pages;

use std::path::{Path, PathBuf};

use crate::step::built_kilter;

/// Treatment of generated pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Write,
    /// Compare the pages with the output of the generator.
    Check,
}

/// Documents in the root. Those in `docs` are found by a search.
const IN_ROOT: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Runs all checks. Returns every problem.
pub(crate) fn run(root: &Path, mode: Pages) -> Result<String, Vec<String>> {
    let kilter = built_kilter(root).map_err(|problem| vec![problem])?;
    let mut problems = pages::run(root, mode, &kilter);
    let (documents, unreadable) = documents(root);
    problems.extend(unreadable);
    problems.extend(links::broken(root, &documents));
    problems.extend(links::unlisted(&documents));
    problems.extend(evidence::missing(root, &documents));
    let plan = |manifests: &[PathBuf]| examples::plan(&kilter, manifests);
    problems.extend(examples::failing(root, &documents, &plan));
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(format!("docs: {} documents, {} generated pages: all good", documents.len(), pages::TABLE.len()))
}

/// A document of the repository.
pub(crate) struct Document {
    /// Path, relative to the root.
    path: PathBuf,
    text: String,
}

/// Returns the documents, and the errors for unreadable ones.
fn documents(root: &Path) -> (Vec<Document>, Vec<String>) {
    let mut paths: Vec<PathBuf> = IN_ROOT.iter().map(PathBuf::from).collect();
    paths.extend(files_below(root, Path::new("docs")).into_iter().filter(|p| p.extension().is_some_and(|e| e == "md")));
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match std::fs::read_to_string(root.join(&path)) {
            Ok(text) => documents.push(Document { path, text }),
            Err(error) => problems.push(format!("{}: {error}", path.display())),
        }
    }
    (documents, problems)
}

/// Returns the files below a directory of the repository, relative to the root, sorted.
fn files_below(root: &Path, directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root.join(directory)) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let path = directory.join(entry.file_name());
        if root.join(&path).is_dir() {
            found.extend(files_below(root, &path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}
