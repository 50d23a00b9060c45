//! Entries of a directory that a purge may remove, if a plan does not know the content of the directory or of its
//! source.

use std::cell::RefCell;

use ecow::EcoString;
use kilter_model::{Difference, Value};
use kilter_provider::{Context, Forecast, PathState};
use rustix::fd::OwnedFd;

use super::acl_policy::AclPolicy;
use super::copy::Source;
use super::error::{FileError, MAX_DEPTH};
use super::kind::Kind;
use super::open::LIST;
use super::opened_path::{FoundEntry, examine, list_all, look_at, look_within, open_seen};
use super::spec::Spec;
use super::tree_diff::Tree;
use super::{entry, open};
use crate::accounts::Ids;

/// Text of a removal that depends on an earlier resource.
const POSSIBLE: &str = "may be removed";

/// Returns the entries that a purge may remove: those on disk without a certain counterpart in the source, and those
/// that earlier resources may create.
///
/// An entry that an earlier resource creates without naming it is missing.
pub(super) fn possible(
    cx: &Context<'_>,
    accounts: &Ids,
    name: &str,
    path: &str,
    spec: &Spec<'_>,
) -> Result<Vec<Difference>, FileError> {
    if !spec.purge || !spec.has_tree() {
        return Ok(Vec::new());
    }
    let mut tree = Tree { cx, accounts, path, spec, policy: AclPolicy::Keep, found: Vec::new() };
    if let Some(there) = examine(path, false)?.filter(|there| there.kind == Kind::Directory) {
        let there = rustix::fs::openat(&there.fd, c".", LIST, rustix::fs::Mode::empty())
            .map_err(|errno| FileError::io("list", path, errno))?;
        let source = CertainSource::of(cx, name, path, spec);
        match &source {
            Some(certain) => tree.uncertain(&there, &certain.source, certain, &[], 0)?,
            None => tree.all(&there, &[], 0)?,
        }
    }
    let mut found: Vec<Difference> = tree.found.into_iter().map(|one| one.saying(POSSIBLE)).collect();
    found.extend(created(cx, name, path));
    Ok(found)
}

/// Source of a tree that earlier resources change only at known places.
struct CertainSource {
    source: Source,
    /// Paths that earlier resources change, with those that they may remove.
    changed: Vec<String>,
}

impl CertainSource {
    /// Opens the source of a tree; none if there is none, or if an earlier resource may change any entry.
    fn of(cx: &Context<'_>, name: &str, path: &str, spec: &Spec<'_>) -> Option<CertainSource> {
        let source = spec.source.filter(|_| spec.recurse)?;
        if !matches!(
            cx.preview_context().node(name, source),
            Forecast::Unchanged | Forecast::Changed(PathState::Kept, _)
        ) {
            return None;
        }
        let (changed, is_complete) = changed_below(cx, name, source);
        let source = Source::open_tree(source, path).ok().filter(|_| is_complete)?;
        Some(CertainSource { source, changed })
    }

    /// Returns true if an entry of the source stays.
    fn keeps(&self, path: &str) -> bool {
        let is_above = |changed: &String| {
            path.strip_prefix(&**changed).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.changed.iter().any(is_above)
    }
}

/// Returns the paths below a directory that earlier resources change, and true if there are no others.
fn changed_below(cx: &Context<'_>, name: &str, path: &str) -> (Vec<String>, bool) {
    let changed = RefCell::new(Vec::new());
    let because = cx.preview_context().below(name, path, &|path| {
        changed.borrow_mut().push(path.to_owned());
        false
    });
    (changed.into_inner(), because.is_none())
}

/// Returns the missing entries of a directory that an earlier resource may create, and their missing directories.
fn created(cx: &Context<'_>, name: &str, path: &str) -> Vec<Difference> {
    let prefix = format!("{}/", open::trim(path));
    let is_managed = |path: &str| cx.manages(path) || cx.manages(&format!("{path}/"));
    let mut names: Vec<EcoString> = Vec::new();
    for changed in changed_below(cx, name, path).0 {
        let Some(below) = changed.strip_prefix(&prefix).filter(|below| !below.is_empty()) else { continue };
        let directories = below.match_indices('/').map(|(at, _)| &below[..at]);
        for below in directories.chain([below]) {
            let full = format!("{prefix}{below}");
            if std::fs::symlink_metadata(&full).is_err() && !is_managed(&full) {
                names.push(entry::text(below.as_bytes()).into());
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    let removal = |name| Difference::new("ensure", Value::Undef, "absent".into()).of_entry(name).saying(POSSIBLE);
    names.into_iter().map(removal).collect()
}

impl Tree<'_> {
    /// Adds the removal of all entries of a directory.
    fn all(&mut self, directory: &OwnedFd, below: &[u8], depth: usize) -> Result<(), FileError> {
        for name in list_all(directory, &self.full(below))? {
            self.go_on(below)?;
            self.purge(directory, &entry::join(below, &name), &name, depth)?;
        }
        Ok(())
    }

    /// Adds the removal of the entries of a directory whose counterparts in the source are missing, or may be removed.
    fn uncertain(
        &mut self,
        directory: &OwnedFd,
        source: &Source,
        certain: &CertainSource,
        below: &[u8],
        depth: usize,
    ) -> Result<(), FileError> {
        if depth > MAX_DEPTH {
            return Err(FileError::TooDeep(self.full(below)));
        }
        for name in list_all(directory, &self.full(below))? {
            self.go_on(below)?;
            let below = entry::join(below, &name);
            let path = self.full(&below);
            let source_path = format!("{}/{}", source.path(), String::from_utf8_lossy(&name));
            let wanted = look_at(&source.fd, &name, &source_path)?.filter(|_| certain.keeps(&source_path));
            let Some(wanted) = wanted else {
                self.purge(directory, &below, &name, depth)?;
                continue;
            };
            let FoundEntry::Here(copy) = look_within(directory, &name, &path)? else { continue };
            if (wanted.kind, copy.kind) != (Kind::Directory, Kind::Directory) {
                continue;
            }
            let deeper = open_seen(&source.fd, &name, &source_path, &wanted.stat, LIST)?;
            let opened = open_seen(directory, &name, &path, &copy.stat, LIST)?;
            self.uncertain(&opened, &Source::of(deeper, source_path)?, certain, &below, depth + 1)?;
        }
        Ok(())
    }
}
