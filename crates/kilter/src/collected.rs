//! Resources that were collected last, stored in the state directory for a start of `kilter run` while etcd is
//! unreachable.
//!
//! There is a file for each world and machine name. It contains all resources that others exported for this
//! machine, and the time of the read. The key of the state directory encrypts the file. kilter does not use a file
//! that is damaged or belongs to another world or name. Exported resources contain no secrets.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ecow::EcoString;
use kilter_provider::World;
use kilter_runtime::{SealingKey, SealingKeyError, bound};
use serde_json::{Value as Json, json};

use crate::{durable, output};

/// Domain of the encryption, which separates these files from other uses of the key.
const PURPOSE: &str = "kilter collected 1";

/// Maximum size of the stored resources, in bytes of JSON.
const MAX_BYTES: usize = 16 << 20;

/// Maximum size of a file in bytes: base 64 of the encrypted text.
const MAX_FILE_BYTES: u64 = 2 * MAX_BYTES as u64;

/// Interval after which unchanged resources are written again, so that their time stays recent.
const REWRITE_INTERVAL: Duration = Duration::from_secs(3600);

/// Resources that others exported for this machine at one time.
pub(crate) struct Collected {
    /// The resources.
    pub(crate) offered: Vec<ExportedResource>,
    /// Time at which the world had them, as far as is known.
    pub(crate) at: SystemTime,
    /// Reason why the world could not be read, if these are stored resources.
    pub(crate) unreachable: Option<EcoString>,
}

/// Resource that another machine exports for this one.
#[derive(Debug)]
pub(crate) struct ExportedResource {
    /// Exporting machine, type and title. For unreadable entries, the known part of these.
    pub(crate) key: Vec<EcoString>,
    pub(crate) text: Result<String, String>,
}

/// Stores collected resources in a state directory that this process has locked.
pub(crate) struct Keeper {
    state_dir: PathBuf,
    world: Arc<dyn World>,
    last: Mutex<Last>,
}

/// Last write.
#[derive(Default)]
struct Last {
    /// Exported resources as JSON, and the time of the write.
    written: Option<(Json, SystemTime)>,
    /// Reason of a failed write, which was reported.
    failure: Option<String>,
}

impl Keeper {
    /// Stores resources of a world in this state directory.
    pub(crate) fn new(state_dir: PathBuf, world: Arc<dyn World>) -> Keeper {
        Keeper { state_dir, world, last: Mutex::default() }
    }

    /// Stores resources after a read of the world. Reports a failure once.
    pub(crate) fn keep(&self, collected: &mut Collected) {
        let offered = std::mem::take(&mut collected.offered);
        let world = &self.world;
        if collected.unreachable.is_some() || !world.is_remote() || world.unreachable().is_some() {
            return;
        }
        let offered: Json = offered.iter().map(to_json).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_kept(&self.state_dir, world.as_ref()) {
            last.written = None;
        }
        let is_recent = |at: SystemTime| collected.at.duration_since(at).is_ok_and(|age| age < REWRITE_INTERVAL);
        if last.written.as_ref().is_some_and(|(written, at)| *written == offered && is_recent(*at)) {
            return;
        }
        match write(&self.state_dir, world.as_ref(), collected.at, &offered) {
            Ok(()) => *last = Last { written: Some((offered, collected.at)), failure: None },
            Err(why) if last.failure.as_ref() == Some(&why) => {}
            Err(why) => {
                output::warning(format_args!(
                    "cannot store the collected resources for a start while etcd is away: {why}"
                ));
                last.failure = Some(why);
            }
        }
    }
}

/// Returns the path of the file for a world.
fn path(state_dir: &Path, key: &SealingKey, world: &dyn World) -> PathBuf {
    let digest = key.digest([PURPOSE.as_bytes(), world.id().as_bytes(), world.host().as_bytes()]);
    state_dir.join(format!("collected-{}", &digest[..16]))
}

/// Returns true if there is a file for a world. The state directory may have been removed.
fn is_kept(state_dir: &Path, world: &dyn World) -> bool {
    SealingKey::of(state_dir).is_ok_and(|key| path(state_dir, &key, world).exists())
}

fn write(state_dir: &Path, world: &dyn World, at: SystemTime, offered: &Json) -> Result<(), String> {
    let unix_ms = u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
    let text = json!({"read_unix_ms": unix_ms, "offered": offered}).to_string();
    if text.len() > MAX_BYTES {
        return Err(format!("they have more than {} MiB", MAX_BYTES >> 20));
    }
    let key = SealingKey::made(state_dir).map_err(|error| error.to_string())?;
    let sealed = key.seal(&text, &bound([PURPOSE, &world.id(), world.host()])).map_err(|error| error.to_string())?;
    let path = path(state_dir, &key, world);
    durable::replace(&path, sealed.as_bytes()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads the stored resources of a world.
///
/// # Errors
/// If there are none, or the file cannot be used.
pub(crate) fn read(state_dir: &Path, world: &dyn World) -> Result<(Vec<ExportedResource>, SystemTime), String> {
    let nothing = || "the state directory has no stored resources of this world".to_owned();
    let key = match SealingKey::of(state_dir) {
        Err(SealingKeyError::Missing { .. }) => return Err(nothing()),
        key => key.map_err(|error| error.to_string())?,
    };
    let path = path(state_dir, &key, world);
    let unusable =
        |why: &dyn std::fmt::Display| format!("the stored resources {} cannot be used: {why}", path.display());
    let sealed = durable::read(&path, MAX_FILE_BYTES).map_err(|error| unusable(&error))?.ok_or_else(nothing)?;
    let text = key.open(&String::from_utf8_lossy(&sealed), &bound([PURPOSE, &world.id(), world.host()]));
    let json: Option<Json> = text.and_then(|text| serde_json::from_slice(&text).ok());
    let kept = json.and_then(|json| {
        let offered = json["offered"].as_array()?.iter().map(of_json).collect::<Option<Vec<_>>>()?;
        Some((offered, UNIX_EPOCH.checked_add(Duration::from_millis(json["read_unix_ms"].as_u64()?))?))
    });
    kept.ok_or_else(|| unusable(&"they are damaged; remove the file"))
}

fn to_json(offered: &ExportedResource) -> Json {
    let key: Vec<&str> = offered.key.iter().map(EcoString::as_str).collect();
    match &offered.text {
        Ok(text) => json!({"key": key, "text": text}),
        Err(why) => json!({"key": key, "error": why}),
    }
}

fn of_json(json: &Json) -> Option<ExportedResource> {
    let key = json["key"].as_array()?.iter().map(|part| part.as_str().map(EcoString::from)).collect::<Option<_>>()?;
    let text = json["text"].as_str().map(str::to_owned);
    Some(ExportedResource { key, text: text.ok_or_else(|| json["error"].as_str().unwrap_or_default().to_owned()) })
}

#[cfg(test)]
mod tests {
    use kilter_world::{Endpoint, Etcd};

    use super::*;

    fn etcd(prefix: &str, host: &str) -> Etcd {
        let address = format!("http://127.0.0.1:1/{prefix}");
        let (access, prefix) = Endpoint::parse(&address, None, ("none", b"")).unwrap();
        Etcd::new(access, &prefix, host)
    }

    #[test]
    fn stored_resources_are_read_for_their_world_and_machine_only() {
        let state = tempfile::tempdir().unwrap();
        let world = etcd("site", "db");
        assert!(read(state.path(), &world).unwrap_err().contains("no stored resources"));
        let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let offered = json!([{"key": ["web1", "file", "/a"], "text": "{}"}, {"key": ["web2"], "error": "odd"}]);
        write(state.path(), &world, at, &offered).unwrap();
        let (kept, when) = read(state.path(), &world).unwrap();
        assert_eq!((kept.iter().map(to_json).collect::<Json>(), when), (offered, at));
        for other in [etcd("other", "db"), etcd("site", "mail")] {
            assert!(read(state.path(), &other).unwrap_err().contains("no stored resources"));
        }
    }

    #[test]
    fn changed_or_exchanged_file_is_not_used() {
        let state = tempfile::tempdir().unwrap();
        let (one, other) = (etcd("one", "db"), etcd("other", "db"));
        for world in [&one, &other] {
            write(state.path(), world, SystemTime::now(), &json!([])).unwrap();
        }
        let key = SealingKey::of(state.path()).unwrap();
        let (path, from) = (path(state.path(), &key, &one), path(state.path(), &key, &other));
        let whole = std::fs::read(&path).unwrap();
        let refused = || read(state.path(), &one).unwrap_err();
        std::fs::copy(from, &path).unwrap();
        assert!(refused().contains("damaged"), "of another world");
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(refused().contains("damaged"), "half of it");
        let mut flipped = whole.clone();
        flipped[20] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        assert!(refused().contains("damaged") && refused().contains(&path.display().to_string()));
        std::fs::write(&path, &whole).unwrap();
        assert!(read(state.path(), &one).is_ok());
    }
}
