//! Cache of script metadata.

use std::fs::{self, DirBuilder};
use std::hash::Hasher;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ecow::EcoString;
use rustc_hash::FxHasher;

use super::candidate::ExecutableFile;
use crate::script_environment::ScriptEnvironment;

/// Metadata printed by a script, or the reason why there is none.
pub(super) type CachedDescription = Result<EcoString, EcoString>;

/// Time until a script that failed to describe itself is tried again. The time doubles with each failure,
/// because a hanging script costs a whole timeout.
const FAILED: Duration = Duration::from_secs(600);

/// Maximum of this time. The missing requirement of a script may appear without a change of its file.
const FAILED_AT_MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum size of a cached answer, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Cache file of a script.
pub(super) struct Cache<'a> {
    directory: PathBuf,
    file: PathBuf,
    /// Validity of the answer: the first lines of the file.
    key: String,
    surroundings: &'a ScriptEnvironment,
}

impl<'a> Cache<'a> {
    pub(super) fn new(directory: &Path, candidate: &ExecutableFile, surroundings: &'a ScriptEnvironment) -> Cache<'a> {
        let mut hasher = FxHasher::default();
        hasher.write(candidate.path.as_os_str().as_bytes());
        let file = directory.join(format!("{}-{:016x}", candidate.stem, hasher.finish()));
        let key = key(candidate, surroundings);
        Cache { directory: directory.to_owned(), file, key, surroundings }
    }

    /// Returns the cached answer if it is valid, and the remaining validity of a failure.
    pub(super) fn get(&self) -> Option<(CachedDescription, Duration)> {
        let kept = self.kept()?;
        match kept.strip_prefix(&self.key)?.split_once('\n')? {
            ("described", text) => Some((Ok(text.into()), Duration::MAX)),
            (word, why) => {
                let age = fs::metadata(&self.file).ok()?.modified().ok()?.elapsed().ok()?;
                let left = believed(word)?.checked_sub(age).filter(|left| !left.is_zero())?;
                Some((Err(why.into()), left))
            }
        }
    }

    /// Returns the content of the file if no other user can have written it.
    fn kept(&self) -> Option<String> {
        String::from_utf8(self.surroundings.trust.read(&self.file, MAX_BYTES).ok()?).ok()
    }

    /// Returns the validity of the next failure.
    fn next_belief(&self) -> Duration {
        let kept = self.kept();
        let answer = kept.as_deref().and_then(|kept| kept.strip_prefix(&self.key)?.split_once('\n'));
        match answer.and_then(|(word, _)| believed(word)) {
            Some(former) => former.saturating_mul(2).clamp(FAILED, FAILED_AT_MOST),
            None => FAILED,
        }
    }

    /// Stores an answer and returns its validity. If the cache is not writable, the only cost is another call
    /// the next time.
    pub(super) fn put(&self, described: &CachedDescription) -> Option<Duration> {
        let belief = if described.is_ok() { Duration::MAX } else { self.next_belief() };
        self.write(described, belief).ok().map(|()| belief)
    }

    fn write(&self, described: &CachedDescription, belief: Duration) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let (word, text) = match described {
            Ok(text) => ("described".to_owned(), text),
            Err(why) => (format!("failed {}", belief.as_secs()), why),
        };
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let unfinished = self.directory.join(format!(".{name}.{}", std::process::id()));
        let mut file = fs::File::create(&unfinished)?;
        file.write_all(format!("{}{word}\n{text}", self.key).as_bytes())?;
        fs::rename(&unfinished, &self.file)
    }
}

/// Returns the validity of a failure from its line in the file.
fn believed(word: &str) -> Option<Duration> {
    word.strip_prefix("failed ")?.parse().ok().map(Duration::from_secs)
}

/// Returns the inputs that an answer depends on: the script file and the available commands, because scripts
/// derive their suitability from them.
fn key(candidate: &ExecutableFile, surroundings: &ScriptEnvironment) -> String {
    let file = &candidate.file;
    let times = |time: &fs::Metadata| format!("{}.{:09}", time.mtime(), time.mtime_nsec());
    let mut key = format!(
        "kilter describe 2\n{}\n{} {} {} {}\n",
        candidate.path.display(),
        file.len(),
        times(file),
        file.dev(),
        file.ino()
    );
    let mut hasher = FxHasher::default();
    for directory in surroundings.path().as_bytes().split(|byte| *byte == b':') {
        let path = Path::new(std::ffi::OsStr::from_bytes(directory));
        hasher.write(directory);
        if let Ok(found) = fs::metadata(path) {
            hasher.write(times(&found).as_bytes());
        }
    }
    key += &format!("{:016x}\n", hasher.finish());
    key
}
