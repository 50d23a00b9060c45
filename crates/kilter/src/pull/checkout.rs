//! Files of a version in the state directory.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{ABOUT, TREE};

/// Maximum size of the file about a version in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Version whose files contain a manifest.
#[derive(Clone, Debug)]
pub(crate) struct Checkout {
    /// Directory with its files.
    pub(crate) tree: PathBuf,
    /// Source of the version, with its `ref` and `commit`, or its `version`.
    about: Json,
}

impl Checkout {
    /// Returns the version that contains a file, if it is a file of a version.
    pub(crate) fn of(path: &Path) -> Option<Checkout> {
        let is_tree = |path: &&Path| {
            let above = path.parent().and_then(Path::parent);
            path.ends_with(TREE) && above.is_some_and(|above| above.ends_with("versions"))
        };
        let tree = path.ancestors().find(is_tree)?;
        let file = tree.with_file_name(ABOUT);
        if std::fs::metadata(&file).ok()?.len() > MAX_BYTES {
            return None;
        }
        let about = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
        Some(Checkout { tree: tree.to_owned(), about })
    }

    /// Returns a text about the version: `from`, `ref`, `commit` or `version`.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.about[key].as_str()
    }

    /// Returns the identity of a file over all versions: its source, and its path in the source.
    pub(crate) fn identity(&self, path: &Path) -> Option<String> {
        let inside = path.strip_prefix(&self.tree).ok()?.display();
        let reference = self.text("ref").map(|reference| format!(" {reference}")).unwrap_or_default();
        Some(format!("{}{reference} {inside}", self.text("from")?))
    }
}

/// Refuses a file outside of a version, to which a symbolic link leads.
///
/// # Errors
/// If it is outside, or cannot be found.
pub(crate) fn refuse_outside(tree: &Path, found: &Path) -> Result<(), String> {
    let inside = std::fs::canonicalize(tree).is_ok_and(|tree| found.starts_with(tree));
    match inside {
        true => Ok(()),
        false => Err(format!(
            "{} is outside of the source: a relative path and its symbolic links stay in the source",
            found.display()
        )),
    }
}

impl Checkout {
    /// Refuses a file outside of the version.
    ///
    /// # Errors
    /// If it is outside.
    pub(crate) fn refuse_outside(&self, found: &Path) -> Result<(), String> {
        refuse_outside(&self.tree, found)
    }
}
