//! Directory for persistent data of a script.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use ecow::{EcoString, eco_format};
use kilter_process::{Confinement, Invocation, trust};

use crate::script_environment::ScriptEnvironment;

/// Environment variable with the directory.
const VARIABLE: &str = "KILTER_VAR_DIR";

/// A path below which no file can be created.
const NOWHERE: &str = "/dev/null/none";

/// Directory of all scripts, relative to the state directory.
const SCRIPTS_DIR: &str = "scripts";

impl ScriptEnvironment {
    /// Passes its data directory to a script: `whose` below the directory of all scripts, such as
    /// `providers/package.apt`. The directory is created if the script may write to it.
    ///
    /// If there is no usable directory, the variable contains a path below which no file can be created, and
    /// `warn` receives the reason. An empty variable would lead to paths such as `/NAME`.
    pub(crate) fn keeping(&self, invocation: Invocation, whose: &str, warn: impl FnOnce(&str)) -> Invocation {
        let Some(state) = &self.state_dir else { return invocation.env(VARIABLE, NOWHERE) };
        match prepared(state, Path::new(whose), invocation.confinement) {
            Ok(path) => invocation.env(VARIABLE, path),
            Err(why) => {
                warn(&eco_format!("it has no directory in {VARIABLE}: {why}"));
                invocation.env(VARIABLE, NOWHERE)
            }
        }
    }
}

/// Returns the directory of a script. Creates it if the script may write to it. Checks existing directories, so
/// that kilter does not follow links of other users.
fn prepared(state: &Path, whose: &Path, confinement: Confinement) -> Result<PathBuf, EcoString> {
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !whose.components().all(is_name) {
        return Err(eco_format!("`{}` cannot be the name of a directory", whose.display()));
    }
    let state = std::path::absolute(state).map_err(|error| eco_format!("{}: {error}", state.display()))?;
    if confinement == Confinement::None {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&state);
        made.map_err(|error| eco_format!("cannot make {}: {error}", state.display()))?;
    }
    let mut path = state;
    let mut parts = Path::new(SCRIPTS_DIR).components().chain(whose.components());
    loop {
        if !is_there(&path)? && confinement == Confinement::None {
            make(&path)?;
        }
        match parts.next() {
            Some(part) => path.push(part),
            None => return Ok(path),
        }
    }
}

fn make(path: &Path) -> Result<(), EcoString> {
    match DirBuilder::new().mode(0o700).create(path) {
        // Another call may have created it, or another user with bad intent.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => is_there(path).map(drop),
        made => made.map_err(|error| eco_format!("cannot make {}: {error}", path.display())),
    }
}

/// Returns true if the directory exists. Another kind of file, or another owner, is an error.
fn is_there(path: &Path) -> Result<bool, EcoString> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(eco_format!("cannot inspect {}: {error}", path.display())),
    };
    match fault(&found) {
        None => Ok(true),
        Some(fault) => Err(eco_format!(
            "{} {fault}: it must be a directory of the user who runs kilter, with mode 0700",
            path.display()
        )),
    }
}

fn fault(found: &Metadata) -> Option<EcoString> {
    let mode = found.mode() & 0o7777;
    match () {
        () if !found.is_dir() => Some("is no directory".into()),
        () if !trust::is_own(found) => Some(eco_format!("belongs to user {}", found.uid())),
        () if mode & 0o077 != 0 => Some(eco_format!("has mode {mode:04o}")),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const MINE: &str = "providers/package.apt";

    fn state() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let state = place.path().join("state");
        (place, state)
    }

    #[test]
    fn var_dir_is_created_private_at_first_write() {
        let (_place, state) = state();
        let path = prepared(&state, Path::new(MINE), Confinement::ReadOnly).unwrap();
        assert_eq!(path, state.join("scripts/providers/package.apt"));
        assert!(!state.exists());
        assert_eq!(prepared(&state, Path::new(MINE), Confinement::None).unwrap(), path);
        for made in path.ancestors().take(4) {
            assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o7777, 0o700, "{made:?}");
        }
        fs::write(path.join("kept"), "x").unwrap();
        assert_eq!(prepared(&state, Path::new(MINE), Confinement::None).unwrap(), path);
        assert!(path.join("kept").exists());
    }

    #[test]
    fn var_dir_refuses_links_and_shared_directories() {
        let (place, state) = state();
        fs::create_dir_all(state.join("scripts")).unwrap();
        let refused = |confinement| prepared(&state, Path::new(MINE), confinement).unwrap_err();
        assert!(refused(Confinement::None).contains("state has mode 0755: it must be"));
        for path in [state.clone(), state.join("scripts")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let elsewhere = place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, state.join("scripts/providers")).unwrap();
        for confinement in [Confinement::None, Confinement::ReadOnly] {
            assert!(refused(confinement).contains("scripts/providers is no directory: "));
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn var_dir_name_cannot_escape() {
        let (_place, state) = state();
        for name in ["providers/../x", "actors/..", "/etc"] {
            assert!(prepared(&state, Path::new(name), Confinement::None).unwrap_err().contains("cannot be the name"));
        }
    }
}
