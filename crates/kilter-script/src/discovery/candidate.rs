//! Files that look like providers.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ecow::eco_format;
use kilter_process::trust::TrustPolicy;

use super::Note;

/// An executable script.
pub(super) struct ExecutableFile {
    /// Absolute path.
    pub(super) path: PathBuf,
    /// File name without the extension.
    pub(super) stem: String,
    /// File metadata.
    pub(super) file: Metadata,
}

/// Collects the scripts of a directory, sorted by name.
pub(super) fn collect(given: &Path, trust: &TrustPolicy, candidates: &mut Vec<ExecutableFile>, notes: &mut Vec<Note>) {
    let directory = match given.canonicalize() {
        Ok(directory) => directory,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => return notes.push(Note::warning(given, eco_format!("cannot be read: {error}"))),
    };
    for directory in [directory.join("providers"), directory] {
        let listed = std::fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = match listed {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => {
                notes.push(Note::warning(&directory, eco_format!("cannot be read: {error}")));
                continue;
            }
        };
        let mut paths: Vec<PathBuf> =
            entries.iter().map(std::fs::DirEntry::path).filter(|path| is_meant(path)).collect();
        if paths.is_empty() {
            continue;
        }
        if let Err(distrust) = trust.open(given).and_then(|_| trust.directory(&directory)) {
            notes.push(Note::warning(&directory, eco_format!("{distrust}")));
            continue;
        }
        paths.sort_unstable();
        for path in paths {
            match candidate(path.clone(), trust) {
                Ok(candidate) if candidates.iter().any(|known| is_same(known, &candidate)) => {}
                Ok(candidate) => candidates.push(candidate),
                Err(Some(why)) => notes.push(Note::warning(&path, why)),
                Err(None) => {}
            }
        }
    }
}

/// Returns true if the name of a file is that of a provider: `NAME.prov`, not hidden.
fn is_meant(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".prov") && !name.starts_with('.')
}

/// Returns the script in a file.
///
/// # Errors
/// The reason why it is unusable.
pub(super) fn at(file: &Path, trust: &TrustPolicy) -> Result<ExecutableFile, ecow::EcoString> {
    trust.open(file).map_err(|distrust| eco_format!("{distrust}"))?;
    let path = file.canonicalize().map_err(|error| eco_format!("cannot be read: {error}"))?;
    candidate(path, trust).map_err(|why| why.unwrap_or_else(|| "not used: it is a directory".into()))
}

/// Returns true if both are the same file, because a directory was given twice.
fn is_same(one: &ExecutableFile, other: &ExecutableFile) -> bool {
    one.path == other.path && one.file.ino() == other.file.ino()
}

/// Returns the script at a path.
///
/// # Errors
/// The reason why it is unusable. None for an entry that is not a file.
fn candidate(path: PathBuf, trust: &TrustPolicy) -> Result<ExecutableFile, Option<ecow::EcoString>> {
    let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned) else {
        return Err(Some("not used: its name is not UTF-8".into()));
    };
    let file = match path.metadata() {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Some("not used: it is a symbolic link that leads nowhere".into()));
        }
        Err(error) => return Err(Some(eco_format!("not used: {error}"))),
    };
    if !file.is_file() {
        return Err((!file.is_dir()).then(|| "not used: it is not a regular file".into()));
    }
    if file.permissions().mode() & 0o111 == 0 {
        return Err(Some(
            "not used: it looks like a provider, but is not executable (correct it with chmod +x)".into(),
        ));
    }
    trust.open(&path).map_err(|distrust| Some(eco_format!("{distrust}")))?;
    Ok(ExecutableFile { path, stem, file })
}
