//! The path of a checkout, and the users who can change it.

use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};
use kilter_process::trust::{Distrust, TrustPolicy};

use crate::file::directory::{self, FoundPath};

/// The path of a checkout as found.
pub(super) enum CheckoutPlace {
    /// The path does not exist, or is an empty directory.
    Free { directory: Option<FoundPath> },
    /// A repository.
    Repository { uid: u32, gid: u32, is_bare: bool, has_submodules: bool },
    /// Other files.
    Occupied { kind: &'static str },
}

impl CheckoutPlace {
    /// Examines the path.
    ///
    /// # Errors
    /// If it cannot be examined.
    pub(super) fn find(path: &str) -> Result<CheckoutPlace, EcoString> {
        let Some(found) = directory::find(path)? else { return Ok(CheckoutPlace::Free { directory: None }) };
        let Some(directory) = &found.directory else { return Ok(CheckoutPlace::Occupied { kind: found.kind }) };
        let is_work_tree = directory.has(".git");
        let is_bare = !is_work_tree && ["HEAD", "objects", "refs"].iter().all(|name| directory.has(name));
        if is_work_tree || is_bare {
            let has_submodules = is_work_tree && directory.has(".gitmodules");
            return Ok(CheckoutPlace::Repository { uid: found.uid, gid: found.gid, is_bare, has_submodules });
        }
        match directory.is_empty()? {
            true => Ok(CheckoutPlace::Free { directory: Some(found) }),
            false => Ok(CheckoutPlace::Occupied { kind: "directory without a repository" }),
        }
    }
}

/// Checks that root and the user of git alone can replace a repository, whose configuration can contain commands.
///
/// # Errors
/// Names the directory and the user who can change it.
pub(super) fn check_trust(path: &str, uid: u32) -> Result<(), EcoString> {
    let directory = Path::new(path);
    let policy = TrustPolicy::current().with_user(uid);
    // Other users whom the owner lets write to the checkout are a risk for the owner alone.
    let checked = if uid == 0 && directory.exists() { directory } else { directory.parent().unwrap_or(directory) };
    match policy.open(checked) {
        Err(Distrust::Changeable { component, by, .. }) => Err(eco_format!(
            "git does not run as user {uid} in {path}, because another user can change it: {} {by}; change that, or \
             declare `user`",
            component.display()
        )),
        Err(Distrust::Io { source, .. }) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(eco_format!("cannot examine the directories above {path}: {source}"))
        }
        Ok(_) | Err(Distrust::Io { .. }) => Ok(()),
    }
}

/// Returns the user who can add files to an empty directory that becomes the repository of another user.
pub(super) fn intruder(path: &str, uid: u32) -> Option<EcoString> {
    match TrustPolicy::current().with_user(uid).directory(Path::new(path)) {
        Err(Distrust::Changeable { component, by, .. }) => Some(eco_format!(
            "git does not run as user {uid} in {path}, because another user can add files: {} {by}; change that",
            component.display()
        )),
        Ok(_) | Err(Distrust::Io { .. }) => None,
    }
}

/// Returns true for a directory that root and the user of git alone can change.
pub(super) fn is_trusted_source(path: &str, uid: u32) -> bool {
    TrustPolicy::root().with_user(uid).directory(Path::new(path)).is_ok()
}

/// Returns the directory with the objects of a repository that root and the user of git alone can change.
pub(super) fn trusted_objects(path: &str, uid: u32) -> Option<PathBuf> {
    let mut directories = ["objects", ".git/objects"].iter().map(|leaf| Path::new(path).join(leaf));
    directories.find(|directory| directory.is_dir()).filter(|_| is_trusted_source(path, uid))
}
