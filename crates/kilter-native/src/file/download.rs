//! Contents from HTTP servers.
//!
//! With a declared checksum, a present file is compared without a request. Otherwise the server is asked for another
//! version than the present one, by the validators that it sent with that version.

use std::io;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_fetch::{Answer, FetchError, Request, Validators};
use kilter_model::{Difference, Value};
use kilter_provider::Context;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, openat};
use rustix::io::Errno;
use serde_json::json;

use super::content::{self, Hasher, brief, checksum_of, checksum_of_file};
use super::copy::Source;
use super::error::FileError;
use super::opened_path::OpenedPath;
use super::spec::{Checksum, Spec};
use crate::state_files::StateFiles;

/// Maximum size of a content in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Maximum duration of a download.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// Kind of the state files with the validators.
const STATE: &str = "download";

/// A content to download.
#[derive(Clone, Debug)]
pub(super) struct Download<'a> {
    pub(super) url: &'a str,
    /// Declared checksum, `{sha256}…`.
    pub(super) expected: Option<EcoString>,
}

/// Version of a file that was downloaded.
struct FileVersion {
    checksum: EcoString,
    validators: Validators,
}

impl FileVersion {
    /// Reads the version of a path, if it came from this address. A damaged state file counts as missing.
    fn read(cx: &Context<'_>, path: &str, url: &str) -> Option<FileVersion> {
        let bytes = StateFiles::of(cx, STATE).read(path).ok()??;
        let stored: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        let text = |name: &str| stored.get(name)?.as_str().map(str::to_owned);
        if text("source")? != digest(url) {
            return None;
        }
        let validators = Validators { etag: text("etag"), last_modified: text("last_modified") };
        Some(FileVersion { checksum: text("checksum")?.into(), validators })
    }

    /// Stores the version. Without it, the next check transfers the content again.
    fn write(&self, cx: &Context<'_>, path: &str, url: &str) {
        if self.validators.is_empty() || cx.var_dir().is_none() {
            return;
        }
        let Validators { etag, last_modified } = &self.validators;
        let stored =
            json!({"source": &*digest(url), "checksum": &*self.checksum, "etag": etag, "last_modified": last_modified});
        let _ = StateFiles::of(cx, STATE).write(path, stored.to_string().as_bytes());
    }
}

/// Returns the digest of an address, which may contain a secret.
fn digest(url: &str) -> EcoString {
    checksum_of(Checksum::Sha256, url.as_bytes())
}

/// Result of a request.
enum Fetched {
    Unchanged,
    Version(FileVersion),
}

impl Download<'_> {
    fn failed(&self, reason: impl std::fmt::Display) -> FileError {
        FileError::Download { url: self.url.to_owned(), reason: reason.to_string() }
    }

    /// Requests the content. It is written to `into`, if given.
    fn fetch(
        &self,
        cx: &Context<'_>,
        method: Checksum,
        known: Option<&Validators>,
        into: Option<BorrowedFd<'_>>,
    ) -> Result<Fetched, FileError> {
        let mut hasher = Hasher::of(method);
        let request = Request { url: self.url, known, max_bytes: MAX_BYTES, timeout: TIMEOUT };
        let answer = kilter_fetch::get(&request, cx.interrupt().flag(), &mut |chunk| {
            hasher.update(chunk);
            into.map_or(Ok(()), |fd| content::write(fd, chunk).map_err(io::Error::from))
        });
        match answer {
            Ok(Answer::Unchanged) => Ok(Fetched::Unchanged),
            Ok(Answer::Content(validators)) => {
                Ok(Fetched::Version(FileVersion { checksum: hasher.finish(), validators }))
            }
            Err(FetchError::Cancelled) => Err(FileError::io("download", self.url, Errno::CANCELED)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Returns the difference between the present file and the declared content.
    pub(super) fn compare(
        &self,
        cx: &Context<'_>,
        spec: &Spec<'_>,
        path: &str,
        file: &OpenedPath,
    ) -> Result<Option<Difference>, FileError> {
        if spec.checksum == Checksum::None {
            return Ok(None);
        }
        if !file.readable {
            return Err(FileError::io("read", path, Errno::ACCESS));
        }
        let difference =
            |is: &str, should: &str| Difference::new("content", Value::from(brief(is)), Value::from(brief(should)));
        // Another user may have made the file as large as the file system allows.
        let is = match file.size() > MAX_BYTES {
            true => content::size_text(file.size()),
            false => checksum_of_file(spec.checksum, file.fd.as_fd(), cx.interrupt())
                .map_err(|errno| FileError::io("read", path, errno))?,
        };
        if let Some(expected) = &self.expected {
            return Ok((is != *expected).then(|| difference(&is, expected)));
        }
        let stored = FileVersion::read(cx, path, self.url).filter(|stored| stored.checksum == is);
        match self.fetch(cx, spec.checksum, stored.as_ref().map(|stored| &stored.validators), None)? {
            Fetched::Version(version) if version.checksum != is => Ok(Some(difference(&is, &version.checksum))),
            Fetched::Version(_) | Fetched::Unchanged => Ok(None),
        }
    }

    /// Downloads the content of a path. `directory` is the directory of the path: its file system holds the content.
    pub(super) fn source(
        &self,
        cx: &Context<'_>,
        method: Checksum,
        path: &str,
        directory: &OwnedFd,
    ) -> Result<Source, FileError> {
        let fd = unnamed(directory).map_err(|errno| FileError::io("create a file beside", path, errno))?;
        let Fetched::Version(version) = self.fetch(cx, method, None, Some(fd.as_fd()))? else {
            return Err(self.failed("the server sent no content"));
        };
        match &self.expected {
            Some(expected) if version.checksum != *expected => {
                return Err(self.failed(eco_format!(
                    "its content has the checksum {}, and {} is declared",
                    version.checksum,
                    expected
                )));
            }
            Some(_) => {}
            None => version.write(cx, path, self.url),
        }
        Source::of(fd, self.url.to_owned())
    }
}

/// Creates a file without a name. Some file systems have none; memory holds the content then.
fn unnamed(directory: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(directory, c".", flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::NOTSUP | Errno::ISDIR | Errno::INVAL) => memfd_create(c"kilter-download", MemfdFlags::CLOEXEC),
        other => other,
    }
}
