//! A content that is put together from files: it becomes the declared content, and is treated like one.

use std::borrow::Cow;

use ecow::EcoString;
use kilter_model::{Attributes, Difference, State, Value};
use kilter_provider::{Context, Insync};
use rustix::fd::AsFd;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;

use super::content::{self, load};
use super::error::FileError;
use super::observe::is_later;
use super::place::{self, Parent, READ};
use super::{content_insync, look, mode};
use crate::words::texts;

/// The largest content that is put together: it is held in memory.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The mode of a file that is new, where none is declared.
const NEW: u32 = 0o644;

/// What is declared, with the content that the fragments make.
///
/// # Errors
/// When one cannot be read.
pub(super) fn put_together<'a>(cx: &Context<'_>, should: &'a Attributes) -> Result<Cow<'a, Attributes>, FileError> {
    if should.get("fragments").is_none() {
        return Ok(Cow::Borrowed(should));
    }
    let mut whole = Whole { bytes: Vec::new(), bits: NEW };
    for path in texts(should.get("fragments")) {
        add(cx, place::trim(&path), &mut whole)?;
    }
    let mut effective = should.clone();
    effective.set("content", Value::from_bytes(&whole.bytes));
    // Nobody may read together what not everybody may read in parts.
    if should.get("mode").is_none() && whole.bits != NEW {
        effective.set("mode", mode::text(whole.bits));
    }
    Ok(Cow::Owned(effective))
}

/// What is put together, and who may read all of it.
struct Whole {
    bytes: Vec<u8>,
    bits: u32,
}

/// Adds a file, or those of a directory in the order of their names.
fn add(cx: &Context<'_>, path: &str, whole: &mut Whole) -> Result<(), FileError> {
    let fd = place::open_source(path, READ)?;
    let stat = fstat(&fd).map_err(|errno| FileError::io("inspect", path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        whole.bits &= stat.st_mode;
        return append(path, fd.as_fd(), &stat, whole);
    }
    let directory = Parent::of(fd, path, true)?;
    for name in look::list(&directory.fd, path)? {
        let path = directory.join(&name);
        content::go_on(cx.interrupt()).map_err(|errno| FileError::io("read", &path, errno))?;
        let Some(found) = look::look_at(&directory.fd, &name, &path)? else { continue };
        if FileType::from_raw_mode(found.stat.st_mode) == FileType::RegularFile {
            whole.bits &= found.stat.st_mode;
            let fd = look::open_seen(&directory.fd, &name, &path, &found.stat, READ)?;
            append(&path, fd.as_fd(), &found.stat, whole)?;
        }
    }
    Ok(())
}

fn append(path: &str, fd: rustix::fd::BorrowedFd<'_>, stat: &Stat, whole: &mut Whole) -> Result<(), FileError> {
    let failed = |errno| FileError::io("read", path, errno);
    let left = LARGEST - whole.bytes.len() as u64;
    // What is too large is not read first.
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

/// Whether fragments that are missing may be there by the turn of the resource.
pub(super) fn may_come(cx: &Context<'_>, name: &str, should: &Attributes) -> bool {
    texts(should.get("fragments")).iter().any(|path| is_later(cx, name, place::trim(path)))
}

/// What was found is held against what the fragments make: nobody else knows that.
pub(super) fn compare(state: &mut State, effective: &Attributes) {
    if let Insync::Differs(message) = content_insync(state, effective)
        && state.exists
    {
        let difference = Difference::new("content", Value::Undef, Value::Undef).saying(message.unwrap_or_default());
        let shown = (effective.truth("show_diff") != Some(false)).then(|| diff(state, effective)).flatten();
        state.drift.push(match shown {
            Some(diff) => difference.showing(diff),
            None => difference,
        });
    }
    state.attributes.remove("content");
}

fn diff(state: &State, effective: &Attributes) -> Option<EcoString> {
    let (is, should) = (state.attributes.get("content")?, effective.get("content")?);
    content::diff(place::trim(&state.name), is.as_bytes()?, should.as_bytes()?)
}
