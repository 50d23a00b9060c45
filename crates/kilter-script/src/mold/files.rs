//! Files in a mold directory.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ecow::{EcoString, eco_format};
use kilter_process::trust::TrustPolicy;

use crate::discovery::{Note, trusted_text};

/// Maximum size of metadata, in bytes.
const MAX_METADATA_BYTES: usize = 1 << 20;

/// Access to the files in a mold directory.
pub trait Files: Send + Sync {
    /// Returns the absolute path of the directory.
    ///
    /// # Errors
    /// If the directory does not exist or cannot be read.
    fn directory(&self, path: &Path) -> std::io::Result<PathBuf>;

    /// Returns the scripts of a directory, sorted by name, and notes about other files.
    fn scripts(&self, directory: &Path) -> (Vec<(EcoString, PathBuf)>, Vec<Note>);

    /// Returns the name of an executable script. None if the path is not a file.
    ///
    /// # Errors
    /// The reason why the script is unusable.
    fn script(&self, path: &Path) -> Result<Option<EcoString>, EcoString>;

    /// Returns the path and text of the metadata file next to a script. None if there is none.
    ///
    /// # Errors
    /// If the file is not trusted or cannot be read.
    fn metadata(&self, script: &Path) -> Result<Option<(PathBuf, EcoString)>, Note>;

    /// Returns true if a path exists.
    fn exists(&self, path: &Path) -> bool;
}

/// Files of this machine, with a trust policy.
#[derive(Clone, Debug)]
pub struct LiveFiles(pub TrustPolicy);

impl Files for LiveFiles {
    fn directory(&self, path: &Path) -> std::io::Result<PathBuf> {
        self.0.open(path).map_err(std::io::Error::other)?;
        let directory = path.canonicalize()?;
        // Checks that the path is a readable directory.
        drop(std::fs::read_dir(&directory)?);
        Ok(directory)
    }

    fn scripts(&self, directory: &Path) -> (Vec<(EcoString, PathBuf)>, Vec<Note>) {
        let mut notes = Vec::new();
        let scripts = scripts(directory, &self.0, &mut notes);
        (scripts, notes)
    }

    fn script(&self, path: &Path) -> Result<Option<EcoString>, EcoString> {
        script(path, &self.0)
    }

    fn metadata(&self, script: &Path) -> Result<Option<(PathBuf, EcoString)>, Note> {
        metadata(script, &self.0)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
}

/// Returns the scripts of a directory, sorted by name: all executable files except hidden files, leftovers of
/// editors and metadata (`NAME.yaml`). A missing directory counts as empty.
fn scripts(directory: &Path, trust: &TrustPolicy, notes: &mut Vec<Note>) -> Vec<(EcoString, PathBuf)> {
    let listed = std::fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = match listed {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            notes.push(Note::warning(directory, eco_format!("cannot be read: {error}")));
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).filter(|path| is_meant(path)).collect();
    if paths.is_empty() {
        return Vec::new();
    }
    if let Err(distrust) = trust.directory(directory) {
        notes.push(Note::warning(directory, eco_format!("{distrust}")));
        return Vec::new();
    }
    paths.sort_unstable();
    let mut found = Vec::new();
    for path in paths {
        match script(&path, trust) {
            Ok(Some(name)) => found.push((name, path)),
            Ok(None) => {}
            Err(why) => notes.push(Note::warning(&path, not_used("not used", &why))),
        }
    }
    found
}

/// Says that a file is not used, and why. A refusal by the trust rule says the first part itself.
fn not_used(consequence: &str, why: &str) -> EcoString {
    match why.strip_prefix("not used") {
        Some(rest) => eco_format!("{consequence}{rest}"),
        None => eco_format!("{consequence}: {why}"),
    }
}

/// Returns the name of an executable script. None if the path is not a file.
fn script(path: &Path, trust: &TrustPolicy) -> Result<Option<EcoString>, EcoString> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or("its name is not UTF-8")?;
    let found = path.metadata().map_err(|error| eco_format!("{error}"))?;
    if !found.is_file() {
        return Ok(None);
    }
    if found.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable (correct it with chmod +x)".into());
    }
    trust.open(path).map_err(|distrust| eco_format!("{distrust}"))?;
    Ok(Some(name.into()))
}

fn is_meant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let others = ["~", ".bak", ".swp", ".yaml", ".yml", ".dpkg-old", ".dpkg-new", ".dpkg-dist", ".rpmsave", ".rpmnew"];
    !name.starts_with('.') && !others.iter().any(|end| name.ends_with(end))
}

/// Returns the metadata file next to a script. None if there is none.
fn metadata(script: &Path, trust: &TrustPolicy) -> Result<Option<(PathBuf, EcoString)>, Note> {
    let mut path = script.as_os_str().to_owned();
    path.push(".yaml");
    let path = PathBuf::from(path);
    match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    match trusted_text(trust, &path, MAX_METADATA_BYTES) {
        Ok(text) => Ok(Some((path, text))),
        Err(why) => Err(Note::warning(&path, not_used("its script is not used", &why))),
    }
}
