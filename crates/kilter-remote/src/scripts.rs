//! Provider scripts that a session brings to a host.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use kilter_process::Environment;
use kilter_process::trust::TrustPolicy;
use ring::digest::{Context, SHA256};
use rustix::fs::{FlockOperation, StatVfsMountFlags, Timestamps, flock, futimens, statvfs};

use crate::compressed::hexadecimal;
use crate::session::random_word;

/// Maximum number of files of all directories.
pub(crate) const MAX_FILES: usize = 1000;

/// Maximum size of all files in bytes.
const MAX_SIZE: u64 = 16 << 20;

/// Maximum number of directories below a directory.
const MAX_DEPTH: usize = 16;

/// Number of trees that stay on a host.
const KEPT: usize = 3;

/// Time in which a tree stays after its last use, because an apply without a confirmation is undone with its scripts.
const KEPT_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Beginning of the name of a tree in the cache of a host.
const PREFIX: &str = "scripts-";

/// Name of the directory of mold in a tree. The directories of provider scripts are `0`, `1` and so on.
const MOLD: &str = "mold";

/// Directories of mold that no script needs.
const UNSENT: [&str; 2] = ["logs", "certs"];

/// Directories of scripts, with all files below them.
#[derive(Debug)]
pub struct ScriptTree {
    /// Names of its directories.
    pub(crate) directories: Vec<String>,
    pub(crate) files: Vec<ScriptFile>,
    /// SHA-256 of paths, modes and contents in hexadecimal digits.
    pub(crate) digest: String,
}

/// A file of a tree.
#[derive(Debug)]
pub(crate) struct ScriptFile {
    /// Path below the tree. It starts with the number of its directory.
    pub(crate) path: String,
    pub(crate) is_executable: bool,
    pub(crate) content: Vec<u8>,
}

impl ScriptTree {
    /// Reads directories of provider scripts and a directory of mold, without hidden files. Links are followed.
    ///
    /// # Errors
    /// If a file cannot be read, another user can change it, or the directories are too large.
    pub fn read(providers: &[PathBuf], mold: Option<&Path>, trust: &TrustPolicy) -> io::Result<ScriptTree> {
        let numbered = providers.iter().enumerate().map(|(number, path)| (number.to_string(), path.as_path()));
        let named = numbered.chain(mold.map(|path| (MOLD.to_owned(), path)));
        ScriptTree::of(named.collect(), trust)
    }

    fn of(named: Vec<(String, &Path)>, trust: &TrustPolicy) -> io::Result<ScriptTree> {
        let mut reader = TreeReader { trust, size: 0, files: Vec::new() };
        for (name, path) in &named {
            reader.directory(path, name, MAX_DEPTH)?;
        }
        let directories: Vec<String> = named.into_iter().map(|(name, _)| name).collect();
        let mut context = Context::new(&SHA256);
        context.update(format!("{directories:?}\n").as_bytes());
        for file in &reader.files {
            context.update(format!("{:?} {} {}\n", file.path, file.is_executable, file.content.len()).as_bytes());
            context.update(&file.content);
        }
        Ok(ScriptTree { directories, files: reader.files, digest: hexadecimal(context.finish().as_ref()) })
    }
}

struct TreeReader<'a> {
    trust: &'a TrustPolicy,
    size: u64,
    files: Vec<ScriptFile>,
}

impl TreeReader<'_> {
    fn directory(&mut self, directory: &Path, name: &str, depth: usize) -> io::Result<()> {
        let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
        let refuse = |why: &str| at(io::Error::other(why.to_owned()));
        self.trust.directory(directory).map_err(|distrust| refuse(&distrust.to_string()))?;
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(at)?;
        let mut names: Vec<OsString> = entries.into_iter().map(|entry| entry.file_name()).collect();
        names.sort();
        for file_name in names {
            let file_name = file_name.to_str().ok_or_else(|| refuse("it contains a name that is not UTF-8"))?;
            if file_name.starts_with('.') || name == MOLD && UNSENT.contains(&file_name) {
                continue;
            }
            let (path, name) = (directory.join(file_name), format!("{name}/{file_name}"));
            let found = self
                .trust
                .open(&path)
                .map_err(|distrust| io::Error::other(format!("{}: {distrust}", path.display())))?;
            if found.metadata().is_dir() {
                let depth = depth.checked_sub(1).ok_or_else(|| {
                    refuse("this directory is too deep. All files of a directory are sent: name one with scripts only")
                })?;
                self.directory(&path, &name, depth)?;
                continue;
            }
            if found.metadata().len() > MAX_SIZE - self.size {
                return Err(refuse(
                    "the files are larger than 16 MiB. All files of a directory are sent: name one with scripts only",
                ));
            }
            let content = found
                .read(MAX_SIZE - self.size)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            self.size += content.len() as u64;
            if self.files.len() == MAX_FILES {
                return Err(refuse(
                    "there are more than 1000 files. All files of a directory are sent: name one with scripts only",
                ));
            }
            self.files.push(ScriptFile { path: name, is_executable: found.metadata().mode() & 0o100 != 0, content });
        }
        Ok(())
    }
}

/// A tree on a host. No other session removes it.
#[derive(Debug)]
pub(crate) struct InstalledScripts {
    path: PathBuf,
    directories: Vec<String>,
    /// Lock of the directory.
    _lock: File,
    /// True if it is removed at the end of the session.
    is_temporary: bool,
}

impl InstalledScripts {
    /// Returns the tree with this digest, if the host has it.
    ///
    /// # Errors
    /// If no directory allows the execution of programs.
    pub(crate) fn find(digest: &str, directories: &[String]) -> io::Result<Option<InstalledScripts>> {
        let is_number = |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        let are_known = directories.iter().all(|name| name == MOLD || is_number(name));
        if !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) || !are_known {
            return Err(crate::frame::damaged());
        }
        Ok(InstalledScripts::of(place()?.join(format!("{PREFIX}{digest}")), digest, directories))
    }

    /// Returns a directory if it is the tree with this digest.
    fn of(path: PathBuf, digest: &str, directories: &[String]) -> Option<InstalledScripts> {
        let lock = locked(&path, FlockOperation::LockShared).ok()?;
        let paths: Vec<PathBuf> = directories.iter().map(|name| path.join(name)).collect();
        let named = directories.iter().cloned().zip(paths.iter().map(PathBuf::as_path)).collect();
        let is_whole = ScriptTree::of(named, &TrustPolicy::any()).is_ok_and(|tree| tree.digest == digest);
        // Another session removes it after the time of its last use.
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let _ = futimens(&lock, &Timestamps { last_access: now, last_modification: now });
        is_whole.then(|| InstalledScripts { path, directories: directories.to_vec(), _lock: lock, is_temporary: false })
    }

    /// Adds the variables with which a command finds the scripts.
    ///
    /// # Errors
    /// If the path contains a colon.
    pub(crate) fn add_to(&self, mut environment: Environment) -> io::Result<Environment> {
        let (mold, providers): (Vec<_>, Vec<_>) = self.directories.iter().partition(|name| *name == MOLD);
        if !providers.is_empty() {
            let paths = std::env::join_paths(providers.into_iter().map(|name| self.path.join(name)));
            environment = environment.set("KILTER_PROVIDERS", paths.map_err(io::Error::other)?);
        }
        if !mold.is_empty() {
            environment = environment.set("KILTER_MOLD", self.path.join(MOLD));
        }
        Ok(environment)
    }
}

impl Drop for InstalledScripts {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A tree that a host receives. A drop before its end removes it.
#[derive(Debug)]
pub(crate) struct IncomingScripts {
    tree: Option<InstalledScripts>,
}

impl IncomingScripts {
    /// Creates an empty tree.
    ///
    /// # Errors
    /// If no directory allows the execution of programs, or the disk is full.
    pub(crate) fn create(directories: Vec<String>) -> io::Result<IncomingScripts> {
        let path = place()?.join(format!("{PREFIX}{}", random_word()?));
        let create = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        create(&path)?;
        let lock = locked(&path, FlockOperation::LockShared)?;
        let tree = InstalledScripts { path, directories, _lock: lock, is_temporary: true };
        for name in &tree.directories {
            create(&tree.path.join(name))?;
        }
        Ok(IncomingScripts { tree: Some(tree) })
    }

    /// Creates a file of the tree.
    ///
    /// # Errors
    /// If the path leaves the tree, the file exists, or the disk is full.
    pub(crate) fn create_file(&self, path: &str, is_executable: bool) -> io::Result<File> {
        let tree = self.tree.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if path.is_empty() || !Path::new(path).components().all(is_plain) {
            return Err(io::Error::other("it is no path below the directory"));
        }
        let path = tree.path.join(path);
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        File::options().write(true).create_new(true).mode(if is_executable { 0o700 } else { 0o600 }).open(path)
    }

    /// Ends the transfer. The tree gets its name in the cache if it `is_kept`.
    ///
    /// # Errors
    /// If the tree is not the one with this digest.
    pub(crate) fn end(mut self, digest: &str, is_kept: bool) -> io::Result<InstalledScripts> {
        let damaged = || io::Error::other("they were damaged on the way");
        let mut tree = self.tree.take().ok_or_else(damaged)?;
        let is_whole = |path: &Path| InstalledScripts::of(path.to_owned(), digest, &tree.directories);
        is_whole(&tree.path).ok_or_else(damaged)?;
        if !is_kept {
            return Ok(tree);
        }
        let path = tree.path.with_file_name(format!("{PREFIX}{digest}"));
        if fs::rename(&tree.path, &path).is_err() {
            // Another session was faster, or the tree that is there is damaged.
            if let Some(installed) = is_whole(&path) {
                return Ok(installed);
            }
            let _lock = locked(&path, FlockOperation::NonBlockingLockExclusive)?;
            fs::remove_dir_all(&path)?;
            fs::rename(&tree.path, &path)?;
        }
        tree.path = path;
        tree.is_temporary = false;
        remove_unused(&tree.path);
        Ok(tree)
    }
}

/// Opens a directory with a lock.
fn locked(path: &Path, operation: FlockOperation) -> io::Result<File> {
    let directory = File::open(path)?;
    flock(&directory, operation)?;
    // It may have been removed before the lock.
    let now = fs::symlink_metadata(path)?;
    let opened = directory.metadata()?;
    match (now.dev(), now.ino()) == (opened.dev(), opened.ino()) {
        true => Ok(directory),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns the directory for trees: the current one, which the script of the session has chosen for the program.
fn place() -> io::Result<PathBuf> {
    let found = fs::metadata(".")?;
    let is_private = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    let is_noexec = statvfs(".")?.f_flag.contains(StatVfsMountFlags::NOEXEC);
    match is_private && !is_noexec {
        true => std::env::current_dir(),
        false => Err(io::Error::other("no directory there allows the execution of programs")),
    }
}

/// Removes old trees next to this one, except the last ones and those of other sessions.
fn remove_unused(installed: &Path) {
    let Some(place) = installed.parent() else { return };
    let of_tree = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()))?;
        let used = entry.metadata().ok()?.modified().ok()?;
        (entry.path() != installed).then_some((used, entry.path()))
    };
    let mut trees: Vec<_> = fs::read_dir(place).into_iter().flatten().filter_map(of_tree).collect();
    trees.sort();
    let surplus = trees.len().saturating_sub(KEPT - 1);
    let is_old = |used: &SystemTime| used.elapsed().is_ok_and(|age| age > KEPT_TIME);
    for (_, path) in trees[..surplus].iter().filter(|(used, _)| is_old(used)) {
        if let Ok(_lock) = locked(path, FlockOperation::NonBlockingLockExclusive) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_is_the_same_after_the_transfer_and_stays_inside() {
        let place = tempfile::tempdir().unwrap();
        let scripts = place.path().join("scripts");
        fs::create_dir_all(scripts.join("lib/deep")).unwrap();
        fs::write(scripts.join("a.prov"), "#!/bin/sh\n").unwrap();
        fs::write(scripts.join("lib/deep/b"), "b").unwrap();
        fs::write(scripts.join(".hidden"), "x").unwrap();
        fs::create_dir(scripts.join("logs")).unwrap();
        fs::set_permissions(scripts.join("a.prov"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let tree = ScriptTree::read(std::slice::from_ref(&scripts), Some(&scripts), &TrustPolicy::any()).unwrap();
        let paths: Vec<(&str, bool)> = tree.files.iter().map(|file| (&*file.path, file.is_executable)).collect();
        let of_mold = [("mold/a.prov", true), ("mold/lib/deep/b", false)];
        assert_eq!(paths, [[("0/a.prov", true), ("0/lib/deep/b", false)], of_mold].concat());
        let path = place.path().join("incoming");
        fs::create_dir(&path).unwrap();
        let lock = locked(&path, FlockOperation::LockShared).unwrap();
        let installed = InstalledScripts {
            path: path.clone(),
            directories: tree.directories.clone(),
            _lock: lock,
            is_temporary: true,
        };
        let incoming = IncomingScripts { tree: Some(installed) };
        for outside in ["/etc/x", "../x", "0/../../x", ""] {
            assert!(incoming.create_file(outside, true).is_err(), "{outside}");
        }
        for file in &tree.files {
            io::Write::write_all(&mut incoming.create_file(&file.path, file.is_executable).unwrap(), &file.content)
                .unwrap();
        }
        let installed = incoming.end(&tree.digest, true).unwrap();
        assert_eq!(installed.path, place.path().join(format!("{PREFIX}{}", tree.digest)));
        assert!(InstalledScripts::of(installed.path.clone(), &tree.digest, &tree.directories).is_some());
        fs::write(installed.path.join("0/a.prov"), "other").unwrap();
        assert!(
            InstalledScripts::of(installed.path.clone(), &tree.digest, &tree.directories).is_none(),
            "a damaged tree"
        );
    }

    #[test]
    fn link_to_itself_ends_with_an_error() {
        let place = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(".", place.path().join("again")).unwrap();
        let read = ScriptTree::read(&[place.path().to_owned()], None, &TrustPolicy::any());
        assert!(read.unwrap_err().to_string().contains("too deep"));
    }
}
