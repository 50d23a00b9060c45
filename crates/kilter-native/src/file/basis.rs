//! Digests of the data that a change reads and replaces. A plan stores them. A step with another digest is stale.

use std::borrow::Cow;

use kilter_model::{Attributes, Difference, Value};
use kilter_provider::{Context, Found};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, Stat, openat, readlinkat};
use rustix::io::Errno;

use super::content::{MAX_DIFF_BYTES, checksum_of, go_on, load};
use super::copy::Source;
use super::error::{FileError, MAX_DEPTH};
use super::kind::Kind;
use super::open::{self, LIST, READ};
use super::opened_path::{OpenedPath, examine, list_all, look_at, open_seen};
use super::spec::{Checksum, Ensure, Spec};
use super::{entry, fragments, predict, secret};

/// Returns digests of the data that a change reads and replaces, in addition to its differences: the content of its
/// sources (`source`), and that of each overwritten (`replaced`) or removed (`removed`) file by its entry.
///
/// Returns none if there is no such data. Unreadable data is part of a digest as unreadable. Data that is unknown in a
/// plan has no digest.
pub(super) fn basis(cx: &Context<'_>, name: &str, should: &Attributes, found: &Found) -> Option<Value> {
    let path = open::trim(name);
    let effective = match fragments::put_together(cx, name, should) {
        Ok(Ok(effective)) => effective,
        Ok(Err(_)) | Err(_) => Cow::Borrowed(should),
    };
    let spec = Spec::of(&effective);
    let writes = |one: &&Difference| matches!(one.attribute.as_str(), "ensure" | "content" | "target");
    let written: Vec<&Difference> = found.differences.iter().filter(writes).collect();
    if written.is_empty() {
        return None;
    }
    let mut walk = BasisWalk { cx, is_secret: secret::holds(cx, should) };
    let is_unknown = |attribute: &str| found.state.unknown.iter().any(|one| one.attribute == *attribute);
    // An earlier resource of a plan may change these entries.
    let may_move = || !found.state.unknown.is_empty() && predict::own_tree_changed_by(cx, name, path).is_some();
    let replaced = match found.state.exists && !is_unknown("ensure") && !may_move() {
        true => walk.replaced(path, &written, spec.force),
        false => Vec::new(),
    };
    let is_known = !is_unknown("content") && !is_unknown("ensure");
    let source = if is_known { walk.sources(name, path, &spec, should) } else { None };
    let is_private = walk.is_secret || spec.content.is_some_and(Value::holds_sensitive) || !spec.show_diff;
    let digest = |is: Result<String, FileError>, is_private: bool| {
        let is = is.unwrap_or_else(|error| error.to_string());
        let digest = Value::from(checksum_of(Checksum::Sha256, is.as_bytes()));
        if is_private { Value::sensitive(digest) } else { digest }
    };
    let mut parts: Vec<(&str, Value)> = source.map(|is| ("source", digest(is, is_private))).into_iter().collect();
    let (removed, mut replaced): (Vec<_>, Vec<_>) = replaced.into_iter().partition(|one| one.depth == Depth::Removed);
    replaced.retain(|_| is_known);
    // The description of a removed file has no content.
    for (part, files, is_private) in [("replaced", replaced, is_private), ("removed", removed, false)] {
        let digests = files.into_iter().map(|file| (file.entry, digest(file.is, is_private)));
        let digests: Vec<(&str, Value)> = digests.collect();
        parts.extend((!digests.is_empty()).then(|| (part, Value::hash(digests))));
    }
    (!parts.is_empty()).then(|| Value::hash(parts))
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

/// Description of a file that a change overwrites or removes.
struct ReplacedFile<'d> {
    /// Entry of the directory; empty for the resource itself.
    entry: &'d str,
    depth: Depth,
    is: Result<String, FileError>,
}

struct BasisWalk<'a> {
    cx: &'a Context<'a>,
    /// True if a described content must not be shown.
    is_secret: bool,
}

impl BasisWalk<'_> {
    /// Describes the data that each difference replaces, by its entry.
    fn replaced<'d>(&mut self, path: &str, written: &[&'d Difference], force: bool) -> Vec<ReplacedFile<'d>> {
        let mut all: Vec<ReplacedFile<'d>> = Vec::new();
        for one in written {
            let depth = match (one.entry.is_some(), one.attribute == "ensure" && one.should.as_str() == Some("absent"))
            {
                (true, true) => Depth::Removed,
                (false, _) if force => Depth::All,
                _ => Depth::This,
            };
            let entry = one.entry.as_deref().unwrap_or_default();
            if all.last().is_some_and(|last| last.entry == entry) {
                continue;
            }
            let bytes =
                one.entry.as_deref().and_then(super::entry::bytes).and_then(|bytes| String::from_utf8(bytes).ok());
            let at =
                bytes.map_or(Cow::Borrowed(path), |bytes| format!("{}/{bytes}", path.trim_end_matches('/')).into());
            // An incomplete description must not match the plan.
            let is = match self.cx.interrupt().is_raised() {
                true => Err(FileError::io("compare", path, Errno::CANCELED)),
                false => self.at(&at, depth),
            };
            all.push(ReplacedFile { entry, depth, is });
        }
        all
    }

    /// Describes the data that a change reads; none if it reads nothing or a plan does not know it.
    fn sources(
        &mut self,
        name: &str,
        path: &str,
        spec: &Spec<'_>,
        should: &Attributes,
    ) -> Option<Result<String, FileError>> {
        match (spec.ensure, spec.source) {
            (Ensure::Absent, _) => None,
            (Ensure::Is(Kind::File), Some(source)) => match predict::open_source(self.cx, name, source) {
                Ok(Ok(source)) => Some(self.source(&source)),
                Ok(Err(_)) => None,
                Err(error) => Some(Err(error)),
            },
            (Ensure::Is(Kind::Directory), Some(source)) if spec.recurse => {
                Some(Source::open_tree(source, path).and_then(|source| self.source(&source)))
            }
            _ => {
                let content = spec.content.filter(|_| should.get("fragments").is_some())?;
                Some(Ok(checksum_of(Checksum::Sha256, content.as_bytes().unwrap_or_default()).into()))
            }
        }
    }

    fn at(&mut self, path: &str, depth: Depth) -> Result<String, FileError> {
        match examine(path, depth != Depth::Removed)? {
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
