//! Files of variables beside an inventory: `group_vars/NAME`, `host_vars/NAME.yml`, or directories of such files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashSet;

/// Ends of the names of files, in the order in which they are searched.
const ENDS: [&str; 4] = ["", ".yml", ".yaml", ".json"];

/// Names in a directory of variables.
pub(crate) struct VarsDirectory {
    path: PathBuf,
    names: FxHashSet<OsString>,
}

impl VarsDirectory {
    /// Reads the names in a directory. Empty if it does not exist.
    pub(crate) fn read(path: PathBuf) -> VarsDirectory {
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name()).collect();
        VarsDirectory { path, names }
    }

    /// Returns true if it has no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the file, or the directory, with the variables of a name.
pub(crate) fn find(directory: &VarsDirectory, name: &str) -> Option<PathBuf> {
    if name.contains('/') || name.starts_with('.') {
        return None;
    }
    let mut names = ENDS.iter().map(|end| format!("{name}{end}"));
    names.find(|name| directory.names.contains(std::ffi::OsStr::new(name))).map(|name| directory.path.join(name))
}

/// Returns true if a file in the directory of a name has variables.
pub(crate) fn has_vars(name: &str) -> bool {
    let end = Path::new(name).extension().map(|end| end.to_string_lossy());
    !name.starts_with('.') && !name.ends_with('~') && matches!(end.as_deref(), None | Some("yml" | "yaml" | "json"))
}
