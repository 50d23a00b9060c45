//! `cargo xtask docs`: the generated pages, the links, the examples of the documents and the tests that they
//! name.

mod evidence;
mod examples;
mod links;
mod markdown;
mod pages;

use std::path::{Path, PathBuf};

use crate::step::built_kilter;

/// What is done with generated pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// They are written.
    Write,
    /// They are compared with what would be written.
    Check,
}

/// The documents in the root; those in `docs` are found.
const IN_ROOT: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Does all of it; returns every problem.
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
    /// Where it is, from the root.
    path: PathBuf,
    /// Its text.
    text: String,
}

/// The documents, and why some cannot be read.
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

/// The files below a directory of the repository, from the root, sorted.
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
