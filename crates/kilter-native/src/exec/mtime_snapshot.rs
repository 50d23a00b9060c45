//! Compares files with their state when the last successful command started.

use std::fs::Metadata;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Because, Unknown};
use kilter_provider::{Content, Context, Forecast, PathState};

use super::guard::GuardVerdict;
use crate::state_files::StateFiles;
use crate::value_text::texts;

const KIND: &str = "exec";

/// Minimum age of a modification. File times come from the last tick of the kernel, up to 10 ms ago, so that a later
/// modification could have the same time.
const LATELY: Duration = Duration::from_millis(20);

/// Maximum number of waits for a file that changes all the time.
const WAITS: u32 = 10;

/// State of the files in `mtimes` before a command: a line each, to be stored after a success.
pub(super) struct MtimeSnapshot(Vec<String>);

impl MtimeSnapshot {
    /// Reads the state of the files so that every later modification is visible.
    ///
    /// Waits a moment if a file was modified just now. A file that keeps changing is left out, which causes another
    /// run.
    pub(super) fn now(should: &Attributes) -> MtimeSnapshot {
        MtimeSnapshot(texts(should.get("mtimes")).iter().filter_map(|path| lasting(path)).collect())
    }

    /// Stores the state after a success. Reports a file that was modified during the command, possibly by the
    /// command itself, because the command may have missed that change.
    ///
    /// # Errors
    /// If it cannot be stored.
    pub(super) fn keep(
        self,
        cx: &Context<'_>,
        name: &str,
        should: &Attributes,
    ) -> Result<Option<EcoString>, EcoString> {
        let paths = texts(should.get("mtimes"));
        if paths.is_empty() {
            return Ok(None);
        }
        StateFiles::of(cx, KIND).write(name, self.0.concat().as_bytes())?;
        let modified =
            paths.iter().find(|path| !metadata(path).is_ok_and(|found| self.0.contains(&line(path, &found))));
        Ok(modified
            .map(|path| eco_format!("{path} (mtimes) was modified while the command ran, and requires it again")))
    }
}

/// Returns the reason why the command has to run independently of its guards: a file in `mtimes` has changed since
/// the start of the last successful command.
///
/// # Errors
/// If a file cannot be examined.
pub(super) fn newer(cx: &Context<'_>, name: &str, should: &Attributes) -> Result<GuardVerdict, EcoString> {
    let paths = texts(should.get("mtimes"));
    if paths.is_empty() {
        return Ok(GuardVerdict::Settled);
    }
    let kept = StateFiles::of(cx, KIND).read(name)?;
    let kept = kept.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let mut newer = None;
    for path in &paths {
        let found = match metadata(path) {
            // In a noop run, an earlier resource may create the file.
            Err(error) if error.kind() == ErrorKind::NotFound && cx.is_noop() => {
                return Ok(GuardVerdict::Due(eco_format!("{path} (mtimes) does not exist yet")));
            }
            found => {
                found.map_err(|error| eco_format!("cannot read the modification time of {path} (mtimes): {error}"))?
            }
        };
        let line = line(path, &found);
        if !kept.split_inclusive('\n').any(|kept| kept == line) {
            newer.get_or_insert_with(|| match kept.lines().any(|kept| kept.starts_with(&beginning(path))) {
                true => eco_format!("{path} (mtimes) was modified since it ran"),
                false => eco_format!("it has not run since {path} was added to `mtimes`"),
            });
        }
    }
    if let Some(newer) = newer {
        return Ok(GuardVerdict::Due(newer));
    }
    let predicted = || paths.iter().find_map(|path| predicted(cx, name, path));
    Ok(cx.is_noop().then(predicted).flatten().unwrap_or(GuardVerdict::Settled))
}

/// Returns the verdict for a file that an earlier resource of a plan changes; none if no resource does.
fn predicted(cx: &Context<'_>, name: &str, path: &str) -> Option<GuardVerdict> {
    let unknown =
        |because: Because| GuardVerdict::Unknown(Unknown { attribute: "mtimes".into(), because: because.into() });
    match cx.preview_context().node(name, path) {
        Forecast::Unchanged
        | Forecast::Changed(PathState::Kept | PathState::File { content: Content::Kept, .. }, _) => {
            // The time of a directory changes with each new or removed entry.
            cx.preview_context().below(name, path, &|_| true).map(unknown)
        }
        Forecast::Changed(PathState::File { .. } | PathState::Directory, because) if because.is_ordered => {
            Some(GuardVerdict::Due(eco_format!("{path} (mtimes) was modified since it ran")))
        }
        Forecast::Changed(_, because) | Forecast::Unknown(because) => Some(unknown(because)),
    }
}

fn metadata(path: &str) -> Result<Metadata, Error> {
    std::fs::metadata(path)
}

/// Returns the state of a file: path, modification time, inode and size.
fn line(path: &str, found: &Metadata) -> String {
    let (time, nanos) = (found.mtime(), found.mtime_nsec());
    format!("{}{time}.{nanos:09} {} {}\n", beginning(path), found.ino(), found.len())
}

/// Returns the beginning of a file's line.
fn beginning(path: &str) -> String {
    format!("{path:?} ")
}

/// Returns the state of a file, after the time in which a modification could be invisible.
fn lasting(path: &str) -> Option<String> {
    for _ in 0..WAITS {
        let now = SystemTime::now();
        let found = metadata(path).ok()?;
        // A time in the future was set explicitly and does not come from the kernel's clock.
        match now.duration_since(found.modified().ok()?) {
            Ok(age) if age < LATELY => std::thread::sleep(LATELY - age),
            _ => return Some(line(path, &found)),
        }
    }
    None
}
