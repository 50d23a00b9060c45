//! What files were when a command was begun that has succeeded, held against what they are.

use std::fs::Metadata;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Because, Unknown};
use kilter_provider::{Content, Context, Forecast, Node};

use super::guard::Verdict;
use crate::kept::Shelf;
use crate::words::texts;

const KIND: &str = "exec";

/// The times of files are those of the last tick of the kernel, 10 ms ago at most: what was modified so lately may be modified
/// once more and have the same time.
const LATELY: Duration = Duration::from_millis(20);

/// So often a file is waited for that is modified all the time.
const WAITS: u32 = 10;

/// The files of `mtimes` before a command: a line each, to be kept if it succeeds.
pub(super) struct Seen(Vec<String>);

impl Seen {
    /// The files as they are. Whatever is done to them from now on makes them others: waits for that, a moment, where one has
    /// been modified just now. One of which that cannot be said is left out, and asks for the command once more.
    pub(super) fn now(should: &Attributes) -> Seen {
        Seen(texts(should.get("mtimes")).iter().filter_map(|path| lasting(path)).collect())
    }

    /// The command has succeeded. Tells which file was modified while it ran, perhaps by itself: it was perhaps not heeded.
    ///
    /// # Errors
    /// When that cannot be kept.
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
        Shelf::of(cx, KIND).write(name, self.0.concat().as_bytes())?;
        let modified = paths.iter().find(|path| !look(path).is_ok_and(|found| self.0.contains(&line(path, &found))));
        Ok(modified.map(|path| eco_format!("{path} (mtimes) was modified while it ran, and asks for it again")))
    }
}

/// Why a command has to run whatever its other guards say: a file of `mtimes` is not what it was when it last began to succeed.
///
/// # Errors
/// When a file cannot be looked at.
pub(super) fn newer(cx: &Context<'_>, name: &str, should: &Attributes) -> Result<Verdict, EcoString> {
    let paths = texts(should.get("mtimes"));
    if paths.is_empty() {
        return Ok(Verdict::Settled);
    }
    let kept = Shelf::of(cx, KIND).read(name)?;
    let kept = kept.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let mut newer = None;
    for path in &paths {
        let found = match look(path) {
            // Who is to make it has not run either.
            Err(error) if error.kind() == ErrorKind::NotFound && cx.only_looks() => {
                return Ok(Verdict::Due(eco_format!("{path} (mtimes) does not exist yet")));
            }
            found => found.map_err(|error| eco_format!("cannot tell when {path} (mtimes) was modified: {error}"))?,
        };
        let line = line(path, &found);
        if !kept.split_inclusive('\n').any(|kept| kept == line) {
            newer.get_or_insert_with(|| match kept.lines().any(|kept| kept.starts_with(&beginning(path))) {
                true => eco_format!("{path} (mtimes) was modified since it ran"),
                false => eco_format!("it has not run since {path} (mtimes) is heeded"),
            });
        }
    }
    if let Some(newer) = newer {
        return Ok(Verdict::Due(newer));
    }
    let predicted = || paths.iter().find_map(|path| predicted(cx, name, path));
    Ok(cx.only_looks().then(predicted).flatten().unwrap_or(Verdict::Settled))
}

/// What a plan says of a file that an earlier resource changes; none if no resource does.
fn predicted(cx: &Context<'_>, name: &str, path: &str) -> Option<Verdict> {
    let unknown = |because: Because| Verdict::Unknown(Unknown { attribute: "mtimes".into(), because: because.into() });
    match cx.outlook().node(name, path) {
        Forecast::Unchanged | Forecast::Changed(Node::Kept | Node::File { content: Content::Kept, .. }, _) => {
            // The time of a directory is that of its last new or lost entry.
            cx.outlook().below(name, path, &|_| true).map(unknown)
        }
        Forecast::Changed(Node::File { .. } | Node::Directory, because) if because.is_ordered => {
            Some(Verdict::Due(eco_format!("{path} (mtimes) was modified since it ran")))
        }
        Forecast::Changed(_, because) | Forecast::Unknown(because) => Some(unknown(because)),
    }
}

fn look(path: &str) -> Result<Metadata, Error> {
    std::fs::metadata(path)
}

/// What a file is: its path, when it was modified, which one it is and how long.
fn line(path: &str, found: &Metadata) -> String {
    let (time, nanos) = (found.mtime(), found.mtime_nsec());
    format!("{}{time}.{nanos:09} {} {}\n", beginning(path), found.ino(), found.len())
}

/// With what the line of a file begins.
fn beginning(path: &str) -> String {
    format!("{path:?} ")
}

/// What a file is, as soon as nobody can modify it and leave it the same.
fn lasting(path: &str) -> Option<String> {
    for _ in 0..WAITS {
        let now = SystemTime::now();
        let found = look(path).ok()?;
        // A time to come was set by somebody, and is none that the kernel gives.
        match now.duration_since(found.modified().ok()?) {
            Ok(age) if age < LATELY => std::thread::sleep(LATELY - age),
            _ => return Some(line(path, &found)),
        }
    }
    None
}
