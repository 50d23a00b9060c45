//! When a command last succeeded, held against when files were modified.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ecow::{EcoString, eco_format};
use kilter_model::Attributes;
use kilter_provider::Context;

use crate::kept::Shelf;
use crate::words::texts;

const KIND: &str = "exec";

/// So much later than they are the times of files are taken to be: they are those of the last tick of the kernel.
const TICK: Duration = Duration::from_millis(10);

/// Why a command has to run whatever its other guards say: a file of `mtimes` was modified since it last succeeded.
///
/// # Errors
/// When a file cannot be looked at.
pub(super) fn newer(cx: &Context<'_>, name: &str, should: &Attributes) -> Result<Option<EcoString>, EcoString> {
    let paths = texts(should.get("mtimes"));
    if paths.is_empty() {
        return Ok(None);
    }
    let ran = Shelf::of(cx, KIND).read(name)?.and_then(|bytes| time(&bytes));
    let mut newer = None;
    for path in &paths {
        let modified = std::fs::metadata(path.as_str()).and_then(|found| found.modified());
        let modified = match modified {
            // Who is to make it has not run either.
            Err(error) if error.kind() == ErrorKind::NotFound && cx.only_looks() => {
                return Ok(Some(eco_format!("{path} (mtimes) does not exist yet")));
            }
            modified => {
                modified.map_err(|error| eco_format!("cannot tell when {path} (mtimes) was modified: {error}"))?
            }
        };
        if ran.is_none_or(|ran| modified > ran) {
            newer.get_or_insert_with(|| match ran {
                Some(_) => eco_format!("{path} (mtimes) was modified since it ran"),
                None => eco_format!("it has not run since {path} (mtimes) is heeded"),
            });
        }
    }
    Ok(newer)
}

/// The command has succeeded; what was modified while it ran was perhaps not heeded.
///
/// # Errors
/// When that cannot be kept.
pub(super) fn ran(cx: &Context<'_>, name: &str, should: &Attributes, begun: SystemTime) -> Result<(), EcoString> {
    if should.get("mtimes").is_none() {
        return Ok(());
    }
    let begun = begun.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(TICK);
    Shelf::of(cx, KIND).write(name, format!("{}\n", begun.as_nanos()).as_bytes())
}

fn time(bytes: &[u8]) -> Option<SystemTime> {
    let nanos: u128 = std::str::from_utf8(bytes).ok()?.trim_end().parse().ok()?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}
