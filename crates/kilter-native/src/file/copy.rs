//! Sources of copies, and their comparison.

use ecow::{EcoString, eco_format};
use kilter_model::{Difference, Value};
use kilter_provider::Context;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Stat, fstat};

use super::content::{self, DiffOmitted, MAX_DIFF_BYTES};
use super::error::FileError;
use super::kind::Kind;
use super::open::{self, LIST, READ};
use super::opened_path::OpenedPath;
use super::spec::{Checksum, Spec};
use super::{secret, time};

pub(super) struct Source {
    /// Readable descriptor.
    pub(super) fd: OwnedFd,
    pub(super) stat: Stat,
    path: String,
    /// True if a plan has predicted the content, which is written later.
    is_new: bool,
    /// True if the content must not be shown.
    is_secret: bool,
}

impl Source {
    /// Creates the source of an open file or directory.
    pub(super) fn of(fd: OwnedFd, path: String) -> Result<Source, FileError> {
        let stat = fstat(&fd).map_err(|errno| FileError::io("inspect the source", &path, errno))?;
        Ok(Source { fd, stat, path, is_new: false, is_secret: false })
    }

    /// Marks the content as not to be shown.
    pub(super) fn secret(self) -> Source {
        Source { is_secret: true, ..self }
    }

    /// Marks the source as written before the copy.
    pub(super) fn into_new(self) -> Source {
        Source { is_new: true, ..self }
    }

    /// Returns true if its content must not be shown.
    pub(super) fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// Returns true if its modification time is not known yet.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Opens a file to copy.
    pub(super) fn open_file(path: &str) -> Result<Source, FileError> {
        let source = Source::of(open::open_source(path, READ)?, path.to_owned())?;
        match Kind::of(&source.stat) {
            Kind::File => Ok(source),
            is => {
                let hint = match is {
                    Kind::Directory => "`recurse: true` copies it with everything below",
                    _ => "only files and directories can be copied",
                };
                Err(FileError::Source { path: path.to_owned(), is, hint })
            }
        }
    }

    /// Opens a directory to copy to `copy`. Reports an error if links lead from the source to the copy.
    pub(super) fn open_tree(path: &str, copy: &str) -> Result<Source, FileError> {
        match open::open_source(path, LIST) {
            Ok(_) if holds(path, copy) => {
                Err(FileError::Entangled { path: copy.to_owned(), source_path: path.to_owned() })
            }
            Ok(fd) => Source::of(fd, path.to_owned()),
            Err(FileError::Io { errno: rustix::io::Errno::NOTDIR, .. }) => Err(FileError::Source {
                path: path.to_owned(),
                is: Kind::File,
                hint: "without `recurse` it is copied as a file",
            }),
            Err(error) => Err(error),
        }
    }

    /// Returns the permission bits that a copy takes over.
    pub(super) fn bits(stat: &Stat) -> u32 {
        stat.st_mode & 0o777
    }

    /// Returns the size of a file when it was opened.
    pub(super) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Returns the difference between the contents of source and copy. Does not read contents of different sizes,
    /// unless they are short enough to be shown.
    pub(super) fn compare(
        &self,
        cx: &Context<'_>,
        spec: &Spec<'_>,
        path: &str,
        copy: &OpenedPath,
    ) -> Result<Option<Difference>, FileError> {
        let failed = |errno| FileError::io("compare", path, errno);
        let secret = || {
            let is_secret = self.is_secret || secret::is_declared(cx, &self.path);
            let unsaid = || Difference::new("content", Value::Undef, Value::Undef);
            is_secret.then(|| unsaid().saying("another content (not shown: it is sensitive)"))
        };
        let told = |is: EcoString, should: EcoString| {
            secret().unwrap_or_else(|| Difference::new("content", is.into(), should.into()))
        };
        let (is, should) = (copy.size(), self.size());
        match spec.checksum {
            Checksum::None => return Ok(None),
            Checksum::Size => {
                let told = || told(eco_format!("{{size}}{is}"), eco_format!("{{size}}{should}"));
                return Ok((is != should).then(told));
            }
            Checksum::Mtime => {
                let time = |stat: &Stat| (stat.st_mtime, stat.st_mtime_nsec);
                let text = |stat: &Stat, size| eco_format!("{{mtime}}{} {{size}}{size}", time::utc(stat.st_mtime));
                let told = || told(text(&copy.stat, is), text(&self.stat, should));
                return Ok((is != should || time(&copy.stat) != time(&self.stat)).then(told));
            }
            Checksum::Sha256 | Checksum::Sha512 => {}
        }
        if is == should && content::same(copy.fd.as_fd(), self.fd.as_fd(), should, cx.interrupt()).map_err(failed)? {
            return Ok(None);
        }
        if let Some(difference) = secret() {
            return Ok(Some(difference));
        }
        let sum = |fd, size| match is != should && size > MAX_DIFF_BYTES {
            true => Ok(content::size_text(size)),
            false => content::checksum_of_file(spec.checksum, fd, cx.interrupt())
                .map(|sum| EcoString::from(content::brief(&sum))),
        };
        let (old, new) = (sum(copy.fd.as_fd(), is).map_err(failed)?, sum(self.fd.as_fd(), should).map_err(failed)?);
        let difference = |why: &dyn std::fmt::Display| {
            let message = eco_format!("{old} → {new} (not shown: {why})");
            Some(Difference::new("content", old.clone().into(), new.clone().into()).saying(message))
        };
        if !spec.show_diff {
            return Ok(difference(&"`show_diff` is false"));
        }
        if is > MAX_DIFF_BYTES || should > MAX_DIFF_BYTES {
            return Ok(difference(&DiffOmitted::Large(MAX_DIFF_BYTES)));
        }
        let is = content::load(copy.fd.as_fd(), MAX_DIFF_BYTES).map_err(failed)?;
        let should = content::load(self.fd.as_fd(), MAX_DIFF_BYTES).map_err(failed)?;
        if let Some(why) = content::unshown(&is).or(content::unshown(&should)) {
            return Ok(difference(&why));
        }
        let diff = content::diff(path, &is, &should);
        Ok(Some(Difference { diff, ..Difference::new("content", old.into(), new.into()) }))
    }

    /// Returns the path, for messages.
    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

/// Returns true if a directory contains a path, or is that path, after links are resolved. Returns false if a path
/// cannot be resolved, because opening it reports the error.
fn holds(directory: &str, path: &str) -> bool {
    let (parent, leaf) = open::split(path);
    let real = |path: &str| std::fs::canonicalize(path).ok();
    let (Some(directory), Some(parent)) = (real(directory), real(parent)) else { return false };
    parent.join(leaf).starts_with(directory)
}
