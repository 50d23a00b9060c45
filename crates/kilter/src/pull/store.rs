//! Versions of a source in the state directory.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ecow::EcoString;
use kilter_runtime::{Lock, StateDir, StateDirError};
use serde_json::{Value as Json, json};

use super::FetchError;
use super::git::remove_directory;
use crate::durable;

/// Maximum size of a file of the store in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A version of the manifests whose files are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PulledVersion {
    /// Commit, or digest of the list of a directory's files.
    pub(crate) id: EcoString,
    /// Object that the source named: the commit, or a tag.
    pub(super) object: EcoString,
    /// Time of the first use.
    pub(crate) at: SystemTime,
}

impl PulledVersion {
    fn to_json(&self) -> Json {
        json!({"version": self.id.as_str(), "object": self.object.as_str(), "unix_ms": unix_ms(self.at)})
    }

    fn of_json(json: &Json) -> Option<PulledVersion> {
        let text = |key: &str| json[key].as_str().map(EcoString::from);
        let id = text("version").filter(|id| id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        Some(PulledVersion { id, object: text("object")?, at: of_unix_ms(&json["unix_ms"])? })
    }

    /// Returns the first digits of the identity, for messages.
    pub(crate) fn short(&self) -> &str {
        super::short(&self.id)
    }
}

pub(super) fn unix_ms(at: SystemTime) -> u64 {
    u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Returns a number that no earlier process with the same id has used.
fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn of_unix_ms(json: &Json) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(json.as_u64()?))
}

/// Versions that a store remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownVersions {
    /// Newest version that the source offered and that may be used.
    pub(super) current: Option<PulledVersion>,
    /// Newest version whose manifests were valid.
    pub(super) good: Option<PulledVersion>,
}

/// Directory with the versions of one source.
#[derive(Debug)]
pub(super) struct PullStore {
    directory: PathBuf,
    /// Lock against other processes.
    _lock: Lock,
    /// True if the directory is removed at the end.
    is_temporary: bool,
}

impl Drop for PullStore {
    fn drop(&mut self) {
        if self.is_temporary {
            // A directory that stays only uses space.
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

impl PullStore {
    /// Returns the directory of a source in a state directory.
    pub(super) fn place(state_dir: &Path, source: &str) -> PathBuf {
        let digest = kilter_history::sha256(source.as_bytes());
        state_dir.join("pull").join(&digest[..16])
    }

    /// Opens the store of a source in a state directory.
    ///
    /// # Errors
    /// If the state directory cannot be used, or another process uses the store.
    pub(super) fn open(state_dir: &Path, source: &str) -> Result<PullStore, StateDirError> {
        StateDir::new(state_dir).prepare()?;
        let directory = PullStore::place(state_dir, source);
        let lock = StateDir::new(&directory).hold()?;
        Ok(PullStore { directory, _lock: lock, is_temporary: false })
    }

    /// Creates a store that is removed at the end.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub(super) fn temporary() -> Result<PullStore, StateDirError> {
        let directory = std::env::temp_dir().join(format!("kilter-pull-{}-{:x}", std::process::id(), nanos()));
        let io = |source| StateDirError::Io { path: directory.clone(), source };
        // It fails if the name exists, such as a link of another user.
        std::fs::DirBuilder::new().mode(0o700).create(&directory).map_err(io)?;
        let lock = StateDir::new(&directory).hold()?;
        Ok(PullStore { directory, _lock: lock, is_temporary: true })
    }

    /// Returns the path of a file or directory of the store.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the file that changes when a run has to read the manifests again.
    pub(super) fn marker(&self) -> PathBuf {
        self.path("reload")
    }

    /// Makes the run read the manifests again.
    pub(super) fn touch(&self) {
        // Without the file, the run reads the manifests at its next event.
        let _ = std::fs::write(self.marker(), format!("{}\n", unix_ms(SystemTime::now())));
    }

    /// Returns the directory with the files of a version.
    pub(super) fn tree(&self, version: &str) -> PathBuf {
        self.path("versions").join(version).join(super::TREE)
    }

    /// Reads the remembered versions whose files exist.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(super) fn read(&self) -> Result<KnownVersions, String> {
        let mut known = read_known(&self.directory)?;
        let exists = |version: &PulledVersion| self.tree(&version.id).is_dir();
        known.current = known.current.filter(exists);
        known.good = known.good.filter(exists);
        Ok(known)
    }

    /// Remembers these versions, durably.
    pub(super) fn write(&self, known: &KnownVersions) -> Result<(), FetchError> {
        let json = |version: &Option<PulledVersion>| version.as_ref().map(PulledVersion::to_json);
        let text = json!({"current": json(&known.current), "good": json(&known.good)}).to_string();
        let path = self.path("state.json");
        durable::replace(&path, text.as_bytes())
            .map_err(|error| FetchError::unavailable(format!("cannot write {}: {error}", path.display())))
    }

    /// Records that the source offers the newest version now.
    pub(super) fn record_seen(&self, at: SystemTime) {
        // Only the age after the next start depends on it.
        let _ = std::fs::write(self.path("seen"), unix_ms(at).to_string());
    }

    /// Returns the last time at which the source offered the newest version.
    pub(super) fn seen(&self) -> Option<SystemTime> {
        let text = std::fs::read_to_string(self.path("seen")).ok()?;
        of_unix_ms(&Json::from(text.trim().parse::<u64>().ok()?))
    }

    /// Adds a version, whose files `fill` writes to an empty directory, and removes all versions that are not in
    /// `kept`. After a crash the version is complete or does not exist.
    pub(super) fn add(
        &self,
        version: &str,
        about: &Json,
        kept: &[&str],
        fill: impl FnOnce(&Path, &Path) -> Result<(), FetchError>,
    ) -> Result<(), FetchError> {
        let versions = self.path("versions");
        let io =
            |error: std::io::Error| FetchError::unavailable(format!("cannot write {}: {error}", versions.display()));
        let make = |path: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(&versions).map_err(io)?;
        for entry in std::fs::read_dir(&versions).map_err(io)?.flatten() {
            let name = entry.file_name();
            if name != version && !kept.iter().any(|kept| name == *kept) {
                remove_directory(&entry.path())?;
            }
        }
        if self.tree(version).is_dir() {
            return Ok(());
        }
        // A program of a killed fetch may still write to its own directory.
        let new = versions.join(format!("new-{}-{:x}", std::process::id(), nanos()));
        let tree = new.join(super::TREE);
        make(&tree).map_err(io)?;
        if let Err(error) = fill(&tree, &new.join("index")) {
            // The next call removes what stays.
            let _ = remove_directory(&new);
            return Err(error);
        }
        let finish = || -> std::io::Result<()> {
            match std::fs::remove_file(new.join("index")) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            std::fs::write(new.join(super::ABOUT), about.to_string())?;
            // All files are on the disk before the name that makes them usable.
            rustix::fs::syncfs(File::open(&new)?)?;
            std::fs::rename(&new, versions.join(version))?;
            File::open(&versions)?.sync_all()
        };
        finish().map_err(io)
    }
}

/// Reads the remembered versions of the store in this directory.
///
/// # Errors
/// If the file cannot be used.
pub(super) fn read_known(directory: &Path) -> Result<KnownVersions, String> {
    let path = directory.join("state.json");
    let text = durable::read(&path, MAX_BYTES).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let Some(text) = text else { return Ok(KnownVersions::default()) };
    let json: Json =
        serde_json::from_slice(&text).map_err(|error| format!("{} is damaged: {error}; remove it", path.display()))?;
    let version = |key: &str| PulledVersion::of_json(&json[key]);
    Ok(KnownVersions { current: version("current"), good: version("good") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(id: &str) -> PulledVersion {
        PulledVersion { id: id.into(), object: id.into(), at: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123) }
    }

    #[test]
    fn version_exists_completely_or_not_at_all() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("state");
        let store = PullStore::open(&state, "a").unwrap();
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let fill = |text: &'static str| {
            move |tree: &Path, _: &Path| {
                std::fs::write(tree.join("site.yaml"), text).map_err(|error| FetchError::unavailable(error.to_string()))
            }
        };
        let failed = |tree: &Path, _: &Path| -> Result<(), FetchError> {
            std::fs::write(tree.join("half"), "x").unwrap();
            Err(FetchError::unavailable("disk full".into()))
        };
        assert!(store.add(&one, &json!({}), &[], failed).is_err());
        assert!(!store.tree(&one).exists());
        store.add(&one, &json!({}), &[], fill("1")).unwrap();
        assert!(!store.tree(&one).join("half").exists());
        store.add(&two, &json!({}), &[&one], fill("2")).unwrap();
        assert_eq!(std::fs::read(store.tree(&one).join("site.yaml")).unwrap(), b"1");
        let known = KnownVersions { current: Some(version(&two)), good: Some(version(&one)) };
        store.write(&known).unwrap();
        assert_eq!(store.read().unwrap(), known);
        store.add(&two, &json!({}), &[], fill("unused")).unwrap();
        assert!(!store.tree(&one).exists());
        assert_eq!(std::fs::read(store.tree(&two).join("site.yaml")).unwrap(), b"2");
        assert_eq!(store.read().unwrap().good, None);
        std::fs::write(store.path("state.json"), "{").unwrap();
        assert!(store.read().unwrap_err().contains("damaged"));
    }
}
