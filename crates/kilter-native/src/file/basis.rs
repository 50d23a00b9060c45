//! Digests of what a change reads and replaces: a plan holds them, and a step whose digest is another one is stale.

use std::borrow::Cow;

use kilter_model::{Attributes, Value};
use kilter_provider::{Context, Found};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Mode, Stat, openat, readlinkat};
use rustix::io::Errno;

use super::content::{SHOWN, checksum_of, load};
use super::copy::Source;
use super::error::{FileError, MAX_DEPTH};
use super::kind::Kind;
use super::look::{Looked, list_all, look, look_at, open_seen};
use super::place::{self, LIST, READ};
use super::spec::{Checksum, Ensure, Spec};
use super::{entry, fragments, predict};

/// Returns a digest of what the change of a path reads and replaces, beyond what its differences tell: the contents of its
/// sources, and what is removed or overwritten. None if there is nothing of the kind. What cannot be read counts as that.
pub(super) fn basis(cx: &Context<'_>, name: &str, should: &Attributes, found: &Found) -> Option<Value> {
    let path = place::trim(name);
    // What a plan does not know it is not based on: the step is unknown.
    let effective = match fragments::put_together(cx, name, should) {
        Ok(Ok(effective)) => effective,
        Ok(Err(_)) | Err(_) => Cow::Borrowed(should),
    };
    let spec = Spec::of(&effective);
    let writes = |attribute: &str| matches!(attribute, "ensure" | "content" | "target");
    if !found.differences.iter().any(|difference| writes(difference.attribute.as_str())) {
        return None;
    }
    let walk = Walk { cx };
    let mut lines = String::new();
    let mut add = |what: &str, is: Result<String, FileError>| {
        let is = is.unwrap_or_else(|error| error.to_string());
        lines.push_str(&format!("{what} {is}\n"));
    };
    let mut entries: Vec<Option<&str>> = found.differences.iter().map(|one| one.entry.as_deref()).collect();
    entries.dedup();
    for below in entries.into_iter().filter(|_| found.state.exists) {
        let bytes = below.and_then(entry::bytes).and_then(|bytes| String::from_utf8(bytes).ok());
        let at = bytes.map_or(Cow::Borrowed(path), |bytes| format!("{}/{bytes}", path.trim_end_matches('/')).into());
        add(&format!("is {}", below.unwrap_or_default()), walk.at(&at, spec.force && below.is_none()));
    }
    match (spec.ensure, spec.source) {
        (Ensure::Absent, _) => {}
        (Ensure::Is(Kind::File), Some(source)) => match predict::open_source(cx, name, source) {
            Ok(Ok(source)) => add("from", walk.source(Ok(source))),
            Ok(Err(_)) => return None,
            Err(error) => add("from", Err(error)),
        },
        (Ensure::Is(Kind::Directory), Some(source)) if spec.recurse => {
            add("from", walk.source(Source::open_tree(source, path)));
        }
        _ => {}
    }
    if let Some(content) = spec.content.filter(|_| should.get("fragments").is_some()) {
        add("from", Ok(checksum_of(Checksum::Sha256, content.as_bytes().unwrap_or_default()).into()));
    }
    if lines.is_empty() {
        return None;
    }
    let digest = Value::from(checksum_of(Checksum::Sha256, lines.as_bytes()));
    let is_private = spec.content.is_some_and(Value::holds_sensitive) || !spec.show_diff;
    Some(if is_private { Value::sensitive(digest) } else { digest })
}

struct Walk<'a> {
    cx: &'a Context<'a>,
}

impl Walk<'_> {
    /// Describes what is at a path, with everything below it if `is_deep`.
    fn at(&self, path: &str, is_deep: bool) -> Result<String, FileError> {
        match look(path, true)? {
            None => Ok("nothing".to_owned()),
            Some(found) => self.described(&found, path, is_deep, 0),
        }
    }

    /// Describes a source: its permission bits belong to it, as a copy takes them over.
    fn source(&self, source: Result<Source, FileError>) -> Result<String, FileError> {
        let Source { fd, stat, .. } = source?;
        let found = Looked { kind: Kind::of(&stat), fd, stat, readable: true };
        let bits = Source::bits(&found.stat);
        Ok(format!("{bits:o} {}", self.described(&found, "", true, 0)?))
    }

    fn described(&self, found: &Looked, path: &str, is_deep: bool, depth: usize) -> Result<String, FileError> {
        let failed = |attempt| move |errno| FileError::io(attempt, path, errno);
        match found.kind {
            Kind::File => content(found.fd.as_fd(), &found.stat, found.readable).map_err(failed("read")),
            Kind::Link => {
                let target = readlinkat(&found.fd, c"", Vec::new()).map_err(failed("read the link"))?;
                Ok(format!("link {}", entry::text(target.to_bytes())))
            }
            Kind::Directory if is_deep && depth < MAX_DEPTH => self.below(found, path, depth),
            kind => Ok(format!("{} {}", kind.word(), found.stat.st_rdev)),
        }
    }

    fn below(&self, found: &Looked, path: &str, depth: usize) -> Result<String, FileError> {
        let failed = |errno| FileError::io("list", path, errno);
        let directory = openat(&found.fd, c".", LIST, Mode::empty()).map_err(failed)?;
        let mut lines = String::new();
        for name in list_all(&directory, path)? {
            if self.cx.interrupt().is_raised() {
                return Err(failed(Errno::INTR));
            }
            let Some(mut found) = look_at(&directory, &name, path)? else { continue };
            if found.kind == Kind::File {
                found.fd = open_seen(&directory, &name, path, &found.stat, READ)?;
                found.readable = true;
            }
            // A declared entry has a step of its own, which may come first.
            let joined = format!("{}/{}", path.trim_end_matches('/'), String::from_utf8_lossy(&name));
            // A source has no path here.
            let path = if path.is_empty() { "" } else { joined.as_str() };
            if self.cx.manages(path) || self.cx.manages(&format!("{path}/")) {
                continue;
            }
            let is = self.described(&found, path, true, depth + 1)?;
            lines.push_str(&format!("{} {:o} {is}\n", entry::text(&name), Source::bits(&found.stat)));
        }
        Ok(format!("directory {}", checksum_of(Checksum::Sha256, lines.as_bytes())))
    }
}

/// Describes a file: by its content, or by what changes with its content if it is large or cannot be read. So the work is bounded,
/// whatever size another user gives the file.
fn content(fd: BorrowedFd<'_>, stat: &Stat, readable: bool) -> Result<String, Errno> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if readable && size <= SHOWN {
        // It may grow meanwhile.
        let bytes = load(fd, SHOWN + 1)?;
        return Ok(format!("file {} {}", bytes.len(), checksum_of(Checksum::Sha256, &bytes)));
    }
    let (modified, changed) = ((stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec));
    Ok(format!("file {size} {} {modified:?} {changed:?}", stat.st_ino))
}
