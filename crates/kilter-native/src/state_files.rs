//! Small files of resources in the state directory. Each is replaced atomically.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};
use kilter_provider::{Context, percent_decode};
use sha2::{Digest, Sha256};

use crate::file::atomic_rewrite::{self, AtomicRewrite};

/// Maximum length in bytes of a file name. A name with a longer file name is replaced by a checksum.
const MAX_FILE_NAME_BYTES: usize = 200;

/// Files of a resource type.
pub(crate) struct StateFiles<'a> {
    var_dir: Option<&'a Path>,
    kind: &'static str,
    cx: &'a Context<'a>,
}

impl<'a> StateFiles<'a> {
    /// Opens the files of a type in the state directory of a run.
    pub(crate) fn of(cx: &'a Context<'a>, kind: &'static str) -> StateFiles<'a> {
        StateFiles { var_dir: cx.var_dir(), kind, cx }
    }

    /// Returns the stored bytes of a name; none if there are none.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, EcoString> {
        let Some(directory) = self.directory() else { return Ok(None) };
        match real(&directory)? {
            Some(directory) => {
                atomic_rewrite::read(&shown(&directory.join(file_name(name)))).map_err(|error| eco_format!("{error}"))
            }
            None => Ok(None),
        }
    }

    /// Stores bytes under a name, readable by the owner only.
    ///
    /// # Errors
    /// If they cannot be written, or the run has no state directory.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), EcoString> {
        let directory = self.directory().ok_or("there is no state directory: use --state-dir")?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|error| eco_format!("cannot create {}: {error}", directory.display()))?;
        let directory = real(&directory)?.ok_or_else(|| eco_format!("{} has gone", directory.display()))?;
        let file =
            AtomicRewrite::open(&shown(&directory.join(file_name(name)))).map_err(|error| eco_format!("{error}"))?;
        file.replace(bytes, 0o600, self.cx).map_err(|error| eco_format!("{error}"))?;
        Ok(())
    }

    /// Removes the stored bytes of a name.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), EcoString> {
        let Some(directory) = self.directory() else { return Ok(()) };
        let path = directory.join(file_name(name));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(eco_format!("cannot remove {}: {error}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the stored names, sorted. Omits names that are replaced by checksums.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn names(&self) -> Result<Vec<EcoString>, EcoString> {
        let Some(directory) = self.directory() else { return Ok(Vec::new()) };
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| eco_format!("cannot read {}: {error}", directory.display()))?,
        };
        let names = entries.filter_map(|entry| name_of(entry.ok()?.file_name().to_str()?));
        let mut names: Vec<EcoString> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    fn directory(&self) -> Option<PathBuf> {
        Some(self.var_dir?.join("kept").join(self.kind))
    }
}

/// Returns the file of a name, relative to the state directory.
pub(crate) fn path_of(kind: &str, name: &str) -> PathBuf {
    Path::new("kept").join(kind).join(file_name(name))
}

/// Returns true if [`StateFiles::names`] can return the name.
pub(crate) fn is_listed(name: &str) -> bool {
    name_of(&file_name(name)).is_some()
}

/// Escapes a name as a file name: special bytes become `%XX`.
fn file_name(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => escaped.push(char::from(byte)),
            // Files with a leading dot are temporary files of writers.
            b'.' if !escaped.is_empty() => escaped.push('.'),
            byte => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    if escaped.len() <= MAX_FILE_NAME_BYTES && !escaped.is_empty() {
        return escaped;
    }
    let digest = Sha256::digest(name.as_bytes());
    format!("%sha256-{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn name_of(file: &str) -> Option<EcoString> {
    let name = String::from_utf8(percent_decode(file)?).ok()?;
    (file_name(&name) == file).then(|| name.into())
}

/// Returns the canonical path of a directory; none if it does not exist.
fn real(directory: &Path) -> Result<Option<PathBuf>, EcoString> {
    match directory.canonicalize() {
        Ok(real) => Ok(Some(real)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(eco_format!("cannot reach {}: {error}", directory.display())),
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn file_name_encoding_round_trips() {
        for name in ["stage", "a/b", "..", ".hidden", "%41", "Grüße", "a b\n", "x.y-z_1"] {
            let file = file_name(name);
            assert!(!file.contains('/') && !file.starts_with('.'), "{file}");
            assert_eq!(name_of(&file).as_deref(), Some(name), "{file}");
        }
        assert!(!is_listed(&"x".repeat(201)) && !is_listed(""));
        assert_eq!(name_of(&file_name(&"x".repeat(201))), None);
        assert_eq!(name_of("not.%zz"), None);
    }

    #[test]
    fn state_file_is_private_and_removable() {
        let state = tempfile::tempdir().unwrap();
        let cx = Context::empty().with_var_dir(Some(state.path()));
        let files = StateFiles::of(&cx, "kv");
        assert_eq!(files.read("a/b").unwrap(), None);
        assert!(files.names().unwrap().is_empty());
        files.write("a/b", b"one").unwrap();
        files.write("a/b", b"two").unwrap();
        assert_eq!(files.read("a/b").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(files.names().unwrap(), ["a/b"]);
        let path = state.path().join(path_of("kv", "a/b"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        files.remove("a/b").unwrap();
        files.remove("a/b").unwrap();
        assert_eq!(files.read("a/b").unwrap(), None);
    }

    #[test]
    fn state_directory_path_is_normalised() {
        let place = tempfile::tempdir().unwrap();
        let plain = place.path().join("state");
        std::fs::create_dir_all(plain.join("x")).unwrap();
        let up = std::env::current_dir().unwrap().components().skip(1).map(|_| "../").collect::<String>();
        let relative = format!("{up}.{}", plain.display());
        for given in [relative, format!("{}/x/..//.", plain.display())] {
            let cx = Context::empty().with_var_dir(Some(Path::new(&given)));
            let files = StateFiles::of(&cx, "value");
            files.write(&given, b"one").unwrap();
            assert_eq!(files.read(&given).unwrap().as_deref(), Some(&b"one"[..]), "{given}");
            assert!(plain.join(path_of("value", &given)).exists(), "{given}");
        }
    }

    #[test]
    fn state_files_need_a_state_directory() {
        let cx = Context::empty();
        let files = StateFiles::of(&cx, "kv");
        assert_eq!(files.read("x").unwrap(), None);
        assert!(files.write("x", b"").unwrap_err().contains("--state-dir"));
    }
}
