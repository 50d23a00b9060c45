//! Shared store in a directory: a file per key, written atomically.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ecow::{EcoString, eco_format};
use kilter_process::trust::{Distrust, TrustPolicy, TrustedFile};
use kilter_provider::{Shared, World, WorldError};
use rustix::fs::OFlags;

use crate::name::{PartialName, names, part};

/// Maximum size of a text, in bytes.
const MAX_TEXT_BYTES: u64 = 16 << 20;

/// Name of the lock file. No key maps to this name.
const LOCK: &str = ".lock";

/// Maximum nesting depth of directories for a key.
const DEEPEST: usize = 64;

/// Store in a directory. Each text is a file that only its owner can read.
///
/// Machines that share the directory share the texts. A [`TrustPolicy`] decides which of them kilter uses: as root,
/// only those that no other user can change.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    host: EcoString,
    is_shared: bool,
    trust: TrustPolicy,
}

impl Directory {
    /// Creates a store in a directory, which is created on the first write. `host` is the name of this machine.
    pub fn new(path: impl Into<PathBuf>, host: impl Into<EcoString>) -> Directory {
        Directory { path: path.into(), host: host.into(), is_shared: true, trust: TrustPolicy::current() }
    }

    /// Returns the store for a directory that no other machine uses.
    #[must_use]
    pub fn of_one_machine(self) -> Directory {
        Directory { is_shared: false, ..self }
    }

    /// Returns the store with another trust rule.
    #[must_use]
    pub fn trusting(self, trust: TrustPolicy) -> Directory {
        Directory { trust, ..self }
    }

    /// Returns the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the directory until the returned file is dropped. The lock is advisory.
    fn alone(&self) -> Result<File, WorldError> {
        self.make(&self.path)?;
        let path = self.path.join(LOCK);
        let opened =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags()).open(&path);
        let file = opened.map_err(|error| failed("open", &path, &error))?;
        file.lock().map_err(|error| failed("lock", &path, &error))?;
        Ok(file)
    }

    fn path_of(&self, key: &[&str]) -> PathBuf {
        let mut path = self.path.clone();
        path.extend(key.iter().flat_map(|part| names(part)));
        path
    }

    /// Opens a directory to list or change its entries; None if it is missing.
    fn directory(&self, path: &Path) -> Result<Option<TrustedFile>, WorldError> {
        found(path, self.trust.directory(path))
    }

    /// Creates a directory and its ancestors if they are missing. It checks each before it creates anything there.
    fn make(&self, path: &Path) -> Result<(), WorldError> {
        let is_there = |path: &Path| match path.starts_with(&self.path) {
            true => self.directory(path).map(|found| found.is_some()),
            // Other users may add entries beside the store, as in /tmp.
            false => found(path, self.trust.open(path)).map(|found| found.is_some()),
        };
        if is_there(path)? {
            return Ok(());
        }
        if let Some(above) = path.parent() {
            self.make(above)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            // Another process may have created it.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed("create", path, &error)),
            _ => {}
        }
        is_there(path).map(|_| ())
    }

    fn read_file(&self, path: &Path) -> Result<Option<String>, WorldError> {
        loop {
            let Some(file) = found(path, self.trust.open(path))? else { return Ok(None) };
            if !file.metadata().is_file() {
                return Ok(None);
            }
            match file.read(MAX_TEXT_BYTES) {
                // kilter writes only UTF-8. Other content is replaced by meaningless text.
                Ok(bytes) => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
                // Another machine replaced it after the check.
                Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle => {}
                Err(error) if is_missing(&error) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                    return Err(WorldError(eco_format!(
                        "{} is larger than {} MiB",
                        path.display(),
                        MAX_TEXT_BYTES >> 20
                    )));
                }
                Err(error) => return Err(failed("read", path, &error)),
            }
        }
    }

    /// Collects the entries of a directory. `so_far` is the key of the directory.
    fn gather(&self, path: &Path, so_far: &PartialName, into: &mut Vec<Shared>) -> Result<(), WorldError> {
        if so_far.depth() > DEEPEST || self.directory(path)?.is_none() {
            return Ok(());
        }
        let entries = match fs::read_dir(path) {
            Err(error) if is_missing(&error) || error.kind() == ErrorKind::NotADirectory => return Ok(()),
            entries => entries.map_err(|error| failed("read", path, &error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("read", path, &error))?;
            let kind = entry.file_type().map_err(|error| failed("look at", &entry.path(), &error))?;
            names.push((entry.file_name(), kind));
        }
        names.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, kind) in names {
            let Some(next) = name.to_str().and_then(part).and_then(|part| so_far.and(part)) else { continue };
            let path = path.join(name);
            if kind.is_dir() {
                // An error in one entry does not affect the others.
                if let Err(why) = self.gather(&path, &next, into) {
                    into.push(Shared { key: next.known(), text: Err(why) });
                }
            } else if kind.is_file()
                && let Some(key) = next.finished()
                && let Some(text) = self.read_file(&path).transpose()
            {
                into.push(Shared { key, text });
            }
        }
        Ok(())
    }

    fn try_write(path: &Path, text: &str) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let directory = path.parent().unwrap_or(path);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let new = directory.join(format!(".new-{}-{number}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(flags()).open(&new)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| drop(fs::remove_file(&new)))?;
        File::open(directory)?.sync_all()
    }
}

fn flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed()
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> WorldError {
    WorldError(eco_format!("cannot {verb} {}: {error}", path.display()))
}

/// Turns the result of a trust check into that of the store; None if the path is missing.
fn found(path: &Path, checked: Result<TrustedFile, Distrust>) -> Result<Option<TrustedFile>, WorldError> {
    match checked {
        Ok(file) => Ok(Some(file)),
        Err(distrust) if distrust.is_missing() => Ok(None),
        Err(distrust) => Err(WorldError(eco_format!("{}: {distrust}", path.display()))),
    }
}

impl World for Directory {
    fn host(&self) -> &str {
        &self.host
    }

    fn id(&self) -> String {
        self.path.display().to_string()
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn read(&self, key: &[&str]) -> Result<Option<String>, WorldError> {
        self.read_file(&self.path_of(key))
    }

    fn below(&self, key: &[&str]) -> Result<Vec<Shared>, WorldError> {
        let mut found = Vec::new();
        self.gather(&self.path_of(key), &PartialName::default(), &mut found)?;
        found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok(found)
    }

    fn write(&self, key: &[&str], text: &str) -> Result<(), WorldError> {
        if text.len() as u64 > MAX_TEXT_BYTES {
            return Err(WorldError(eco_format!("a text of more than {} MiB is not shared", MAX_TEXT_BYTES >> 20)));
        }
        let path = self.path_of(key);
        let directory = path.parent().unwrap_or(&path);
        self.make(directory)?;
        let written = match Self::try_write(&path, text) {
            // Another process may have removed the empty directory.
            Err(error) if is_missing(&error) => self.make(directory).map(|()| Self::try_write(&path, text))?,
            written => written,
        };
        written.map_err(|error| failed("write", &path, &error))
    }

    fn replace(&self, key: &[&str], expected: Option<&str>, text: &str) -> Result<bool, WorldError> {
        let _alone = self.alone()?;
        if self.read(key)?.as_deref() != expected {
            return Ok(false);
        }
        self.write(key, text).map(|()| true)
    }

    fn remove(&self, key: &[&str]) -> Result<(), WorldError> {
        let path = self.path_of(key);
        if self.directory(path.parent().unwrap_or(&path))?.is_none() {
            return Ok(());
        }
        match fs::remove_file(&path) {
            Err(error) if is_missing(&error) => return Ok(()),
            removed => removed.map_err(|error| failed("remove", &path, &error))?,
        }
        // Remove parent directories that are empty now.
        for above in path.ancestors().skip(1).take_while(|above| above.starts_with(&self.path) && **above != self.path)
        {
            if fs::remove_dir(above).is_err() {
                let synced = File::open(above).and_then(|directory| directory.sync_all());
                return synced.map_err(|error| failed("make durable", above, &error));
            }
        }
        let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(|error| failed("make durable", &self.path, &error))
    }

    fn watched(&self, key: &[&str]) -> PathBuf {
        self.path_of(key)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn world() -> (tempfile::TempDir, Directory) {
        let place = tempfile::tempdir().unwrap();
        let world = Directory::new(place.path().join("world"), "here");
        (place, world)
    }

    fn shown(world: &Directory, key: &[&str]) -> Vec<String> {
        let text = |one: Shared| format!("{}={}", one.key.join("|"), one.text.unwrap_or_else(|why| why.to_string()));
        world.below(key).unwrap().into_iter().map(text).collect()
    }

    #[test]
    fn text_is_stored_under_its_key_until_removed() {
        let (_place, world) = world();
        assert_eq!((world.read(&["a", "b"]), world.below(&["a"])), (Ok(None), Ok(Vec::new())));
        world.write(&["a", "b"], "one").unwrap();
        world.write(&["a", "b"], "two").unwrap();
        world.write(&["a", "/etc/../b"], "three").unwrap();
        world.write(&["a", "c", "d"], "four").unwrap();
        world.write(&["ab"], "five").unwrap();
        assert_eq!(world.read(&["a", "b"]).unwrap().as_deref(), Some("two"));
        assert_eq!(shown(&world, &["a"]), ["/etc/../b=three", "b=two", "c|d=four"]);
        for key in [&["a", "b"][..], &["a", "/etc/../b"], &["a", "c", "d"]] {
            world.remove(key).unwrap();
            world.remove(key).unwrap();
        }
        assert_eq!((world.read(&["a", "b"]), world.below(&["a"])), (Ok(None), Ok(Vec::new())));
        assert!(!world.watched(&["a"]).exists(), "a directory that is left empty goes");
    }

    #[test]
    fn concurrent_increments_are_not_lost() {
        let (_place, world) = world();
        assert!(!world.replace(&["n"], Some("0"), "1").unwrap(), "there is nothing yet");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        while {
                            let is = world.read(&["n"]).unwrap();
                            let next = is.as_deref().map_or(0, |is| is.parse::<u32>().unwrap()) + 1;
                            !world.replace(&["n"], is.as_deref(), &next.to_string()).unwrap()
                        } {}
                    }
                });
            }
        });
        assert_eq!(world.read(&["n"]).unwrap().as_deref(), Some("100"));
    }

    #[test]
    fn long_key_part_spans_directories() {
        let (_place, world) = world();
        let long = "/path".repeat(200);
        world.write(&["file", &long], "text").unwrap();
        assert_eq!(world.read(&["file", &long]).unwrap().as_deref(), Some("text"));
        assert_eq!(shown(&world, &["file"]), [format!("{long}=text")]);
        world.remove(&["file", &long]).unwrap();
        assert_eq!(world.below(&[]).unwrap(), []);
    }

    #[test]
    fn shared_files_are_private_and_partial_writes_ignored() {
        let (_place, world) = world();
        world.write(&["a", "b"], "text").unwrap();
        let path = world.watched(&["a", "b"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(path.with_file_name(".new-1-1"), "half").unwrap();
        fs::write(path.with_file_name("no%zz"), "another's").unwrap();
        assert_eq!(world.below(&[]).unwrap().len(), 1);
    }

    #[test]
    fn root_refuses_world_directory_of_other_user() {
        assert!(rustix::process::geteuid().is_root(), "run this test as root: it gives files to another user");
        let (place, world) = world();
        world.write(&["a", "b"], "text").unwrap();
        let path = world.watched(&["a", "b"]);
        let said = |world: &Directory| {
            let read = world.read(&["a", "b"]).unwrap_err().to_string();
            let below = world.below(&["a"]);
            let below = below.map_or_else(|why| why.to_string(), |all| format!("{all:?}"));
            assert!(below.contains("not used by root"), "{below}");
            read
        };
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&path, 0o666);
        let why = said(&world);
        assert!(why.contains("b: not used by root: it can be written by everybody (mode 0666)"), "{why}");
        let accepted = TrustPolicy::root().with_path(place.path()).unwrap();
        let accepting = Directory::new(world.path(), "here").trusting(accepted);
        assert_eq!(accepting.read(&["a", "b"]).unwrap().as_deref(), Some("text"));
        mode(&path, 0o600);
        std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
        assert!(said(&world).contains("b: not used by root: it belongs to user 4711"));
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        std::os::unix::fs::lchown(&path, Some(4711), None).unwrap();
        let why = world.read(&["a", "b"]).unwrap_err().to_string();
        assert!(why.contains("b: not used by root: it belongs to user 4711"), "{why}");
        mode(path.parent().unwrap(), 0o777);
        assert!(said(&world).contains("/a can be written by everybody"));
        let why = world.write(&["a", "b"], "x").unwrap_err().to_string();
        assert!(why.contains("/a: not used by root: it can be written by everybody"), "{why}");
        assert!(world.remove(&["a", "b"]).is_err());
        mode(place.path(), 0o777);
        assert!(said(&world).contains("can be written by everybody"));
    }

    #[test]
    fn link_of_other_user_is_not_followed() {
        assert!(rustix::process::geteuid().is_root(), "run this test as root: it gives files to another user");
        let (place, _) = world();
        let target = place.path().join("target");
        fs::create_dir(&target).unwrap();
        let shared = place.path().join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        symlink(&target, shared.join("link")).unwrap();
        std::os::unix::fs::lchown(shared.join("link"), Some(4711), None).unwrap();
        let world = Directory::new(shared.join("link/world"), "here");
        let why = world.write(&["a"], "x").unwrap_err().to_string();
        assert!(why.contains("belongs to user 4711"), "{why}");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }
}
