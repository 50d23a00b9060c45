//! Entries that a `tidy` removes.

use kilter_model::Difference;
use kilter_provider::Context;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, openat};
use rustix::io::Errno;

use super::criteria::Criteria;
use crate::file::content::go_on;
use crate::file::entry;
use crate::file::error::{FileError, MAX_DEPTH};
use crate::file::kind::Kind;
use crate::file::open::{self, LIST};
use crate::file::opened_path::{FoundEntry, examine, list_all, look_within, open_seen};
use crate::file::temp_names;

/// Entries to remove. The entries of a directory precede it.
pub(super) struct Removals {
    pub(super) entries: Vec<Difference>,
    /// Number of further entries.
    pub(super) more: usize,
    /// First directory that is too deep to be searched.
    pub(super) too_deep: Option<String>,
}

/// Returns the directory that the entries are relative to.
pub(super) fn root<'a>(path: &'a str, criteria: &Criteria) -> &'a str {
    if criteria.levels.is_some() { path } else { open::split(path).0 }
}

/// Returns the entries that fulfil the criteria, at most `limit` of them.
pub(super) fn removals(cx: &Context<'_>, path: &str, criteria: &Criteria, limit: usize) -> Result<Removals, FileError> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let found = Removals { entries: Vec::new(), more: 0, too_deep: None };
    let root = root(path, criteria);
    let mut walk = TidyWalk { cx, root, criteria, now: now.as_secs().cast_signed(), limit, found };
    if criteria.levels.is_none() {
        match open::open_parent(path) {
            Ok(parent) => {
                _ = walk.entry(&parent.fd, open::split(path).1.as_bytes(), open::split(path).1.as_bytes(), 0)?
            }
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error),
        }
        return Ok(walk.found);
    }
    let Some(there) = examine(path, false)? else { return Ok(walk.found) };
    if there.kind != Kind::Directory {
        return Err(FileError::NotDirectory { path: path.to_owned(), is: there.kind });
    }
    let directory = openat(&there.fd, c".", LIST, Mode::empty()).map_err(|errno| FileError::io("list", path, errno))?;
    walk.directory(&directory, b"", 1)?;
    Ok(walk.found)
}

struct TidyWalk<'a> {
    cx: &'a Context<'a>,
    root: &'a str,
    criteria: &'a Criteria,
    /// Seconds since 1970.
    now: i64,
    limit: usize,
    found: Removals,
}

impl TidyWalk<'_> {
    /// Searches the entries of a directory, which are on a level below the path. Returns true if none stays.
    fn directory(&mut self, directory: &OwnedFd, below: &[u8], level: usize) -> Result<bool, FileError> {
        let mut is_empty = true;
        for name in list_all(directory, &self.full(below))? {
            // Another user can make a tree as large as the file system allows.
            go_on(self.cx.interrupt()).map_err(|errno| FileError::io("search", self.full(below), errno))?;
            is_empty &= self.entry(directory, &entry::join(below, &name), &name, level)?;
        }
        Ok(is_empty)
    }

    /// Adds an entry if it is to be removed. Returns true if it will be gone.
    fn entry(&mut self, directory: &OwnedFd, below: &[u8], name: &[u8], level: usize) -> Result<bool, FileError> {
        let path = self.full(below);
        let is = match look_within(directory, name, &path)? {
            FoundEntry::Here(is) => is,
            FoundEntry::Missing => return Ok(true),
            FoundEntry::Mounted => return Ok(false),
        };
        let is_empty = match is.kind {
            Kind::Directory if level > 0 || self.criteria.rmdirs => {
                if self.cx.var_dir().is_some_and(|state| state == std::path::Path::new(&path)) {
                    return Ok(false);
                }
                if level >= MAX_DEPTH {
                    self.found.too_deep.get_or_insert(path);
                    return Ok(false);
                }
                match open_seen(directory, name, &path, &is.stat, LIST) {
                    Ok(opened) if self.criteria.levels.is_some_and(|levels| level < levels) => {
                        self.directory(&opened, below, level + 1)?
                    }
                    Ok(opened) => list_all(&opened, &path)?.is_empty(),
                    // Another program has removed or replaced it.
                    Err(FileError::Swapped(_) | FileError::Io { errno: Errno::LOOP, .. }) => return Ok(false),
                    Err(error) if error.is_missing() => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            Kind::Directory => false,
            _ => !temp_names::is_in_use(name, &is.stat),
        };
        if !is_empty || !self.criteria.hold(name, &is, self.now) || self.cx.preview_context().is_written(&path) {
            return Ok(false);
        }
        match self.found.entries.len() < self.limit {
            true => {
                let removal = Difference::new("ensure", is.kind.ensure().into(), "absent".into());
                self.found.entries.push(removal.of_entry(entry::text(below)));
            }
            false => self.found.more += 1,
        }
        Ok(true)
    }

    fn full(&self, below: &[u8]) -> String {
        let slash = if below.is_empty() || self.root.ends_with('/') { "" } else { "/" };
        format!("{}{slash}{}", self.root, String::from_utf8_lossy(below))
    }
}
