//! Digests of the data that a change reads and replaces. A plan stores them. A step with another digest is stale.

use std::borrow::Cow;

use kilter_model::{Attributes, Value};
use kilter_provider::{Context, Found};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, Stat, openat, readlinkat};
use rustix::io::Errno;

use super::content::{MAX_DIFF_BYTES, checksum_of, go_on, load};
use super::copy::Source;
use super::error::{FileError, MAX_DEPTH};
use super::kind::Kind;
use super::look::{OpenedPath, list_all, look, look_at, open_seen};
use super::open::{self, LIST, READ};
use super::spec::{Checksum, Ensure, Spec};
use super::{entry, fragments, predict, secret};

/// Returns a digest of the data that a change reads and replaces, in addition to its differences: the content of its
/// sources, and of removed or overwritten files.
///
/// Returns none if there is no such data. Unreadable data is part of the digest as unreadable.
pub(super) fn basis(cx: &Context<'_>, name: &str, should: &Attributes, found: &Found) -> Option<Value> {
    let path = open::trim(name);
    // Data that is unknown in a plan is not part of the digest, because the step is unknown.
    let effective = match fragments::put_together(cx, name, should) {
        Ok(Ok(effective)) => effective,
        Ok(Err(_)) | Err(_) => Cow::Borrowed(should),
    };
    let spec = Spec::of(&effective);
    let writes = |attribute: &str| matches!(attribute, "ensure" | "content" | "target");
    if !found.differences.iter().any(|difference| writes(difference.attribute.as_str())) {
        return None;
    }
    let mut walk = BasisWalk { cx, is_secret: secret::holds(cx, should) };
    let mut lines = String::new();
    let mut add = |what: &str, is: Result<String, FileError>| {
        let is = is.unwrap_or_else(|error| error.to_string());
        lines.push_str(&format!("{what} {is}\n"));
    };
    let mut entries: Vec<(Option<&str>, Depth)> = Vec::new();
    for one in found.differences.iter().filter(|_| found.state.exists) {
        let depth = match (one.entry.is_some(), one.attribute == "ensure" && one.should.as_str() == Some("absent")) {
            (true, true) => Depth::Removed,
            (true, false) => Depth::This,
            (false, _) => {
                if spec.force {
                    Depth::All
                } else {
                    Depth::This
                }
            }
        };
        entries.push((one.entry.as_deref(), depth));
    }
    entries.dedup_by_key(|(below, _)| *below);
    for (below, depth) in entries {
        // An incomplete description must not match the plan.
        if cx.interrupt().is_raised() {
            add("is", Err(FileError::io("compare", path, Errno::CANCELED)));
            break;
        }
        let bytes = below.and_then(entry::bytes).and_then(|bytes| String::from_utf8(bytes).ok());
        let at = bytes.map_or(Cow::Borrowed(path), |bytes| format!("{}/{bytes}", path.trim_end_matches('/')).into());
        add(&format!("is {}", below.unwrap_or_default()), walk.at(&at, depth));
    }
    match (spec.ensure, spec.source) {
        (Ensure::Absent, _) => {}
        (Ensure::Is(Kind::File), Some(source)) => match predict::open_source(cx, name, source) {
            Ok(Ok(source)) => add("from", walk.source(&source)),
            Ok(Err(_)) => return None,
            Err(error) => add("from", Err(error)),
        },
        (Ensure::Is(Kind::Directory), Some(source)) if spec.recurse => {
            add("from", Source::open_tree(source, path).and_then(|source| walk.source(&source)));
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
    let is_private = walk.is_secret || spec.content.is_some_and(Value::holds_sensitive) || !spec.show_diff;
    Some(if is_private { Value::sensitive(digest) } else { digest })
}

/// Extent of the description of replaced data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The path only, a file with its content.
    This,
    /// The path, and everything below a directory.
    All,
    /// The path only, which is removed: a file by metadata that changes with its content.
    Removed,
}

/// Side of a change whose entries a walk describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The source: all entries, declared or not.
    Source,
    /// The replaced data. Declared entries have their own steps, which may run earlier.
    Replaced,
}

struct BasisWalk<'a> {
    cx: &'a Context<'a>,
    /// True if a described content must not be shown.
    is_secret: bool,
}

impl BasisWalk<'_> {
    fn at(&mut self, path: &str, depth: Depth) -> Result<String, FileError> {
        match look(path, depth != Depth::Removed)? {
            None => Ok("nothing".to_owned()),
            Some(found) if found.kind == Kind::Directory && depth == Depth::All => {
                self.below(&found.fd, path, Side::Replaced, 0)
            }
            Some(found) => shallow(&found, path),
        }
    }

    /// Describes a source with its permission bits, because a copy takes them over.
    fn source(&mut self, source: &Source) -> Result<String, FileError> {
        let path = source.path();
        self.is_secret = self.is_secret || source.is_secret() || secret::is_declared(self.cx, path);
        let is = match Kind::of(&source.stat) {
            Kind::Directory => self.below(&source.fd, path, Side::Source, 0)?,
            Kind::File => {
                content(source.fd.as_fd(), &source.stat, true).map_err(|errno| FileError::io("read", path, errno))?
            }
            kind => other(kind, &source.stat),
        };
        Ok(format!("{:o} {is}", Source::bits(&source.stat)))
    }

    /// Describes the entries of a directory. Does not read the content of removed files, because another user can
    /// fill a directory with large files.
    fn below(&mut self, directory: &OwnedFd, path: &str, side: Side, depth: usize) -> Result<String, FileError> {
        let failed = |errno| FileError::io("list", path, errno);
        let directory = openat(directory, c".", LIST, Mode::empty()).map_err(failed)?;
        let mut lines = String::new();
        for name in list_all(&directory, path)? {
            go_on(self.cx.interrupt()).map_err(failed)?;
            let path = &format!("{}/{}", path.trim_end_matches('/'), String::from_utf8_lossy(&name));
            if side == Side::Replaced && (self.cx.manages(path) || self.cx.manages(&format!("{path}/"))) {
                continue;
            }
            let Some(mut found) = look_at(&directory, &name, path)? else { continue };
            if found.kind == Kind::File && side == Side::Source {
                self.is_secret = self.is_secret || secret::is_declared(self.cx, path);
                found.fd = open_seen(&directory, &name, path, &found.stat, READ)?;
                found.readable = true;
            }
            let is = match found.kind {
                Kind::Directory if depth + 1 < MAX_DEPTH => self.below(&found.fd, path, side, depth + 1)?,
                _ => shallow(&found, path)?,
            };
            lines.push_str(&format!("{} {:o} {is}\n", entry::text(&name), Source::bits(&found.stat)));
        }
        Ok(format!("directory {}", checksum_of(Checksum::Sha256, lines.as_bytes())))
    }
}

/// Describes an examined file, without the entries below it.
fn shallow(found: &OpenedPath, path: &str) -> Result<String, FileError> {
    let failed = |attempt| move |errno| FileError::io(attempt, path, errno);
    match found.kind {
        Kind::File => content(found.fd.as_fd(), &found.stat, found.readable).map_err(failed("read")),
        Kind::Link => {
            let target = readlinkat(&found.fd, c"", Vec::new()).map_err(failed("read the link"))?;
            Ok(format!("link {}", entry::text(target.to_bytes())))
        }
        kind => Ok(other(kind, &found.stat)),
    }
}

fn other(kind: Kind, stat: &Stat) -> String {
    format!("{} {}", kind.word(), stat.st_rdev)
}

/// Describes a file by its content, or by metadata that changes with its content if it is large or unreadable. So
/// the work is bounded for files of any size.
fn content(fd: BorrowedFd<'_>, stat: &Stat, readable: bool) -> Result<String, Errno> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if readable && size <= MAX_DIFF_BYTES {
        // The file may grow meanwhile.
        let bytes = load(fd, MAX_DIFF_BYTES + 1)?;
        return Ok(format!("file {} {}", bytes.len(), checksum_of(Checksum::Sha256, &bytes)));
    }
    let (modified, changed) = ((stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec));
    Ok(format!("file {size} {} {modified:?} {changed:?}", stat.st_ino))
}
