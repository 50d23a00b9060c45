//! Content that is assembled from files. It is treated like declared content.

use std::borrow::Cow;

use ecow::EcoString;
use kilter_model::{Attributes, Difference, State, Value};
use kilter_provider::{Context, Forecast, Insync, PathState};
use rustix::fd::AsFd;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;

use super::content::{self, load};
use super::error::FileError;
use super::observe::is_later;
use super::open::{self, Parent, READ};
use super::predict::{self, Known};
use super::{content_insync, content_message, introduction, is_new, mode, opened_path, secret};
use crate::value_text::texts;

/// Maximum size in bytes of assembled content, which is held in memory.
const MAX_CONTENT_BYTES: u64 = 64 * 1024 * 1024;

/// Default mode of a new file.
const NEW: u32 = 0o644;

/// Returns the declaration with the assembled content.
///
/// # Errors
/// If a fragment cannot be read.
pub(super) fn put_together<'a>(
    cx: &Context<'_>,
    name: &str,
    should: &'a Attributes,
) -> Result<Known<Cow<'a, Attributes>>, FileError> {
    if should.get("fragments").is_none() {
        return Ok(Ok(Cow::Borrowed(should)));
    }
    let mut whole = AssembledContent { bytes: Vec::new(), bits: NEW, is_secret: false };
    for path in texts(should.get("fragments")) {
        if let Err(because) = add(cx, name, open::trim(&path), &mut whole)? {
            return Ok(Err(because));
        }
    }
    let mut effective = should.clone();
    let content = Value::from_bytes(&whole.bytes);
    effective.set("content", if whole.is_secret { Value::sensitive(content) } else { content });
    // The complete file must not be readable for more users than each of its fragments.
    if should.get("mode").is_none() && whole.bits != NEW {
        effective.set("mode", mode::text(whole.bits));
    }
    Ok(Ok(Cow::Owned(effective)))
}

/// Assembled content, with the mode that protects it.
struct AssembledContent {
    bytes: Vec<u8>,
    bits: u32,
    /// True if a fragment is a secret.
    is_secret: bool,
}

/// Adds a file, or the files of a directory sorted by name, in the state in which the resource `name` will find
/// them.
fn add(cx: &Context<'_>, name: &str, path: &str, whole: &mut AssembledContent) -> Result<Known<()>, FileError> {
    if !cx.is_noop() {
        return add_now(cx, path, whole).map(Ok);
    }
    match cx.preview_context().node(name, path) {
        Forecast::Unchanged | Forecast::Changed(PathState::Kept, _) => {
            match cx.preview_context().below(name, path, &|_| true) {
                Some(because) => Ok(Err(because)),
                None => match add_now(cx, path, whole) {
                    Err(error) if error.is_missing() => predict::brought(cx, name, error),
                    added => added.map(Ok),
                },
            }
        }
        Forecast::Changed(PathState::File { .. }, _) => {
            let source = match predict::open_source(cx, name, path)? {
                Ok(source) => source,
                Err(because) => return Ok(Err(because)),
            };
            whole.bits &= source.stat.st_mode;
            whole.is_secret |= source.is_secret();
            append(cx, path, source.fd.as_fd(), &source.stat, whole).map(Ok)
        }
        Forecast::Changed(PathState::Absent, _) => predict::brought(cx, name, predict::missing(path)),
        Forecast::Changed(_, because) | Forecast::Unknown(because) => Ok(Err(because)),
    }
}

fn add_now(cx: &Context<'_>, path: &str, whole: &mut AssembledContent) -> Result<(), FileError> {
    let fd = open::open_source(path, READ)?;
    let stat = fstat(&fd).map_err(|errno| FileError::io("inspect", path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        whole.bits &= stat.st_mode;
        return append(cx, path, fd.as_fd(), &stat, whole);
    }
    let directory = Parent::of(fd, path, true)?;
    for name in opened_path::list(&directory.fd, path)? {
        let path = directory.join(&name);
        content::go_on(cx.interrupt()).map_err(|errno| FileError::io("read", &path, errno))?;
        let Some(found) = opened_path::look_at(&directory.fd, &name, &path)? else { continue };
        if FileType::from_raw_mode(found.stat.st_mode) == FileType::RegularFile {
            whole.bits &= found.stat.st_mode;
            let fd = opened_path::open_seen(&directory.fd, &name, &path, &found.stat, READ)?;
            append(cx, &path, fd.as_fd(), &found.stat, whole)?;
        }
    }
    Ok(())
}

fn append(
    cx: &Context<'_>,
    path: &str,
    fd: rustix::fd::BorrowedFd<'_>,
    stat: &Stat,
    whole: &mut AssembledContent,
) -> Result<(), FileError> {
    whole.is_secret = whole.is_secret || secret::is_declared(cx, path);
    let failed = |errno| FileError::io("read", path, errno);
    let left = MAX_CONTENT_BYTES - whole.bytes.len() as u64;
    // Check the size before reading.
    if u64::try_from(stat.st_size).is_ok_and(|size| size > left) {
        return Err(failed(Errno::FBIG));
    }
    let part = load(fd, left + 1).map_err(failed)?;
    if part.len() as u64 > left {
        return Err(failed(Errno::FBIG));
    }
    whole.bytes.extend_from_slice(&part);
    Ok(())
}

/// Returns true if an earlier resource may create missing fragments.
pub(super) fn may_come(cx: &Context<'_>, name: &str, should: &Attributes) -> bool {
    texts(should.get("fragments")).iter().any(|path| is_later(cx, name, open::trim(path)))
}

/// Adds the difference between the present content and the assembled content. The generic comparison does not know
/// the assembled content.
pub(super) fn compare(state: &mut State, effective: &Attributes) {
    if state.exists && matches!(content_insync(state, effective), Insync::Differs(_)) {
        let message = content_message(state, effective).unwrap_or_default();
        let difference = Difference::new("content", Value::Undef, Value::Undef).saying(message);
        let shown = (effective.get_bool("show_diff") != Some(false)).then(|| diff(state, effective)).flatten();
        state.drift.push(match shown {
            Some(diff) => difference.showing(diff),
            None => difference,
        });
    }
    state.attributes.remove("content");
}

fn diff(state: &State, effective: &Attributes) -> Option<EcoString> {
    if is_new(state, effective) {
        return introduction(state, effective);
    }
    let (is, should) = (state.attributes.get("content")?, effective.get("content")?);
    content::diff(open::trim(&state.name), is.as_bytes()?, should.as_bytes()?)
}
