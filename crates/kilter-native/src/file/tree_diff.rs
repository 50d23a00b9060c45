//! Compares the content of a directory. [`apply`](super::apply) makes the changes.

use ecow::EcoString;
use kilter_model::{Difference, Value};
use kilter_provider::Context;
use rustix::fd::OwnedFd;
use rustix::fs::{Stat, readlinkat};
use rustix::io::Errno;

use super::acl_policy::{AclPolicy, FinalOwnership, manages_access, own_bits, with_mask};
use super::content::go_on;
use super::copy::Source;
use super::entry;
use super::error::{FileError, MAX_DEPTH};
use super::kind::Kind;
use super::mode;
use super::observe::{group_value, is_later, owner_value, text_or_bytes};
use super::open::{LIST, READ};
use super::opened_path::{FoundEntry, OpenedPath, list, list_all, look_at, look_within, open_seen};
use super::spec::Spec;
use super::temp_names;
use crate::accounts::Ids;

/// Maximum number of entries of a new tree that a comparison lists.
const MAX_NEW_ENTRIES: usize = 20;

/// Returns the entries that a copy of a tree creates at a missing path: the first ones, and the number of the others.
pub(super) fn new_entries(
    cx: &Context<'_>,
    accounts: &Ids,
    path: &str,
    spec: &Spec<'_>,
) -> Result<Vec<Difference>, FileError> {
    let Some(source) = spec.source.filter(|_| spec.recurse) else { return Ok(Vec::new()) };
    let source = Source::open_tree(source, path)?;
    // There is no access list to compare, and the accounts that `acl` names may not exist yet.
    let mut tree = Tree { cx, accounts, path, spec, policy: AclPolicy::Keep, found: Vec::new() };
    tree.walk(None, Some(&source), &[], 0)?;
    let mut entries = tree.found;
    let more = entries.len().saturating_sub(MAX_NEW_ENTRIES);
    if more > 0 {
        entries.truncate(MAX_NEW_ENTRIES);
        let others = Difference::new("ensure", "absent".into(), "present".into());
        // The basis of the change covers the number, so the place is the same for every number.
        entries.push(others.of_entry("…").saying(ecow::eco_format!("and {more} more")));
    }
    Ok(entries)
}

/// Returns the differences below a directory, which may not exist yet.
///
/// A directory precedes its entries. Removed entries precede their removed directory.
pub(super) fn differences(
    cx: &Context<'_>,
    accounts: &Ids,
    name: &str,
    path: &str,
    spec: &Spec<'_>,
    there: Option<OpenedPath>,
) -> Result<Vec<Difference>, FileError> {
    compare(cx, accounts, name, path, spec, there, AclPolicy::of(spec, accounts)?)
}

fn compare(
    cx: &Context<'_>,
    accounts: &Ids,
    name: &str,
    path: &str,
    spec: &Spec<'_>,
    there: Option<OpenedPath>,
    policy: AclPolicy,
) -> Result<Vec<Difference>, FileError> {
    let source = match spec.source.filter(|_| spec.recurse).map(|source| Source::open_tree(source, path)) {
        Some(Ok(source)) => Some(source),
        Some(Err(error)) if error.is_missing() && spec.source.is_some_and(|source| is_later(cx, name, source)) => {
            let later = Difference::new("content", Value::Undef, Value::Undef);
            let source = spec.source.unwrap_or_default();
            return Ok(vec![later.saying(ecow::eco_format!("changes to that of {source}, which does not exist yet"))]);
        }
        Some(Err(error)) => return Err(error),
        None => None,
    };
    let mut tree = Tree { cx, accounts, path, spec, policy, found: Vec::new() };
    if let (Some(there), Some(source)) = (&there, &source) {
        tree.found.extend(mode_difference(spec, &there.stat, there.stat.st_mode, Some(&source.stat)));
    }
    let there = match &there {
        Some(there) => Some(
            rustix::fs::openat(&there.fd, c".", LIST, rustix::fs::Mode::empty())
                .map_err(|errno| FileError::io("list", path, errno))?,
        ),
        None => None,
    };
    tree.walk(there.as_ref(), source.as_ref(), &[], 0)?;
    Ok(tree.found)
}

/// Returns the differences below a directory that do not depend on its owner and group, which a plan does not know.
pub(super) fn differences_of_content(
    cx: &Context<'_>,
    accounts: &Ids,
    name: &str,
    path: &str,
    spec: &Spec<'_>,
    there: OpenedPath,
) -> Result<Vec<Difference>, FileError> {
    // `acl` may name an account that does not exist yet.
    let spec = Spec { owner: None, group: None, ..spec.clone() };
    let mut found = compare(cx, accounts, name, path, &spec, Some(there), AclPolicy::Keep)?;
    found.retain(|one| one.entry.is_some() && matches!(one.attribute.as_str(), "ensure" | "content" | "target"));
    Ok(found)
}

/// Returns the difference between the present mode and the declared mode, or that of the source.
pub(super) fn mode_difference(spec: &Spec<'_>, is: &Stat, current: u32, source: Option<&Stat>) -> Option<Difference> {
    let mut should = wanted_bits(spec, Kind::of(is), current, source)?;
    if source.is_some() {
        should = with_mask(spec, should, Kind::of(is));
    }
    let is = is.st_mode & mode::ALL;
    (is != should).then(|| Difference::new("mode", mode::text(is).into(), mode::text(should).into()))
}

/// Returns the desired bits of an entry: those of the declaration, relative to its source if there is one.
pub(super) fn wanted_bits(spec: &Spec<'_>, kind: Kind, current: u32, source: Option<&Stat>) -> Option<u32> {
    if kind == Kind::Link {
        return None;
    }
    let base = source.map(Source::bits);
    spec.bits(base.unwrap_or(current), kind).or(base)
}

/// Returns the owner, group and mode that a file has after the change.
pub(super) fn final_ownership(
    accounts: &Ids,
    spec: &Spec<'_>,
    looked: &OpenedPath,
    source: Option<&Stat>,
) -> Result<FinalOwnership, Errno> {
    let is = &looked.stat;
    let current = if manages_access(spec, looked.kind) { own_bits(looked)? } else { is.st_mode & mode::ALL };
    let own = wanted_bits(spec, looked.kind, current, source).unwrap_or(current);
    let of = |declared: Option<&Value>, id: &dyn Fn(&str) -> Option<u32>| id(&declared?.to_text()?);
    Ok(FinalOwnership {
        uid: of(spec.owner, &|name| accounts.uid(name)).unwrap_or(is.st_uid),
        gid: of(spec.group, &|name| accounts.gid(name)).unwrap_or(is.st_gid),
        bits: with_mask(spec, own, looked.kind),
        group: own >> 3 & 7,
    })
}

/// A directory whose entries are compared.
pub(super) struct Tree<'a> {
    pub(super) cx: &'a Context<'a>,
    pub(super) accounts: &'a Ids,
    pub(super) path: &'a str,
    pub(super) spec: &'a Spec<'a>,
    pub(super) policy: AclPolicy,
    pub(super) found: Vec<Difference>,
}

impl Tree<'_> {
    /// Compares a directory with its counterpart in the source.
    fn walk(
        &mut self,
        there: Option<&OwnedFd>,
        source: Option<&Source>,
        below: &[u8],
        depth: usize,
    ) -> Result<(), FileError> {
        if depth > MAX_DEPTH {
            return Err(FileError::TooDeep(self.full(below)));
        }
        let wanted = match source {
            Some(source) => list(&source.fd, source.path())?,
            None => Vec::new(),
        };
        for name in &wanted {
            self.go_on(below)?;
            if let Some(source) = source {
                self.copied(there, source, &entry::join(below, name), name, depth)?;
            }
        }
        let Some(directory) = there else { return Ok(()) };
        // For a purge, stale temporary files count as entries.
        let list = if self.spec.purge { list_all } else { list };
        for name in list(directory, &self.full(below))? {
            if wanted.binary_search(&name).is_ok() {
                continue;
            }
            self.go_on(below)?;
            let below = entry::join(below, &name);
            if self.spec.purge {
                self.purge(directory, &below, &name, depth)?;
            } else if self.spec.recurse && self.spec.source.is_none() {
                self.owned(directory, &below, &name, depth)?;
            }
        }
        Ok(())
    }

    /// Compares an entry of the source with its copy.
    fn copied(
        &mut self,
        there: Option<&OwnedFd>,
        source: &Source,
        below: &[u8],
        name: &[u8],
        depth: usize,
    ) -> Result<(), FileError> {
        let path = self.full(below);
        let source_path = format!("{}/{}", source.path(), String::from_utf8_lossy(name));
        let Some(wanted) = look_at(&source.fd, name, &source_path)? else { return Ok(()) };
        if !matches!(wanted.kind, Kind::File | Kind::Directory | Kind::Link) {
            return Ok(());
        }
        let copy = match there {
            Some(directory) => match look_within(directory, name, &path)? {
                FoundEntry::Here(copy) => Some(copy),
                FoundEntry::Missing => None,
                // A mount point has its own content and is never replaced.
                FoundEntry::Mounted => return Ok(()),
            },
            None => None,
        };
        let same_kind = copy.as_ref().is_some_and(|copy| copy.kind == wanted.kind);
        if !self.is_managed(&path) {
            match &copy {
                Some(copy) if same_kind => {
                    let directory = there.expect("a copy was found in it");
                    self.compare(directory, source, &wanted, copy, name, below)?;
                }
                other => {
                    let is = other.as_ref().map_or("absent", |copy| copy.kind.ensure());
                    self.report(below, Difference::new("ensure", is.into(), wanted.kind.ensure().into()));
                }
            }
        }
        if wanted.kind != Kind::Directory {
            return Ok(());
        }
        let deeper = Source::of(open_seen(&source.fd, name, &source_path, &wanted.stat, LIST)?, source_path)?;
        let opened = match (there, &copy) {
            (Some(directory), Some(copy)) if same_kind => Some(open_seen(directory, name, &path, &copy.stat, LIST)?),
            _ => None,
        };
        self.walk(opened.as_ref(), Some(&deeper), below, depth + 1)
    }

    fn compare(
        &mut self,
        directory: &OwnedFd,
        source: &Source,
        wanted: &OpenedPath,
        copy: &OpenedPath,
        name: &[u8],
        below: &[u8],
    ) -> Result<(), FileError> {
        let path = self.full(below);
        match wanted.kind {
            Kind::File if self.spec.replace => {
                let source_path = format!("{}/{}", source.path(), String::from_utf8_lossy(name));
                let source = open_seen(&source.fd, name, &source_path, &wanted.stat, READ)?;
                let fd = open_seen(directory, name, &path, &copy.stat, READ)?;
                let copy = OpenedPath { fd, stat: copy.stat, kind: copy.kind, readable: true };
                let difference = Source::of(source, source_path)?.compare(self.cx, self.spec, &path, &copy)?;
                difference.into_iter().for_each(|difference| self.report(below, difference));
            }
            Kind::Link if self.spec.replace => {
                let read = |fd: &OwnedFd| readlinkat(fd, c"", Vec::new());
                let failed = |errno| FileError::io("read the link", path.clone(), errno);
                let (is, should) = (read(&copy.fd).map_err(failed)?, read(&wanted.fd).map_err(failed)?);
                if is != should {
                    self.report(
                        below,
                        Difference::new("target", text_or_bytes(is.to_bytes()), text_or_bytes(should.to_bytes())),
                    );
                }
            }
            _ => {}
        }
        self.ownership(copy, Some(&wanted.stat), below)
    }

    /// Compares owner, group and mode of an entry.
    fn ownership(&mut self, looked: &OpenedPath, source: Option<&Stat>, below: &[u8]) -> Result<(), FileError> {
        let is = &looked.stat;
        let accounts = self.accounts;
        let owner = self.spec.owner.map(|owner| ("owner", owner, owner_value(accounts, owner, is.st_uid)));
        let group = self.spec.group.map(|group| ("group", group, group_value(accounts, group, is.st_gid)));
        let mut moves = false;
        for (attribute, should, is) in owner.into_iter().chain(group) {
            if is != *should {
                moves = true;
                self.report(below, Difference::new(attribute, is, should.clone()));
            }
        }
        let current = if moves { mode::disarmed(is.st_mode, Kind::of(is)) } else { is.st_mode };
        if let Some(difference) = mode_difference(self.spec, is, current, source) {
            self.report(below, difference);
        }
        let after = final_ownership(accounts, self.spec, looked, source)
            .map_err(|errno| FileError::io("read the access list of", self.full(below), errno))?;
        let mut compared = self.policy.compare(accounts, &self.full(below), looked, after)?;
        if source.is_some() {
            compared.mask = None;
        }
        compared.differences(self.spec.acl).for_each(|difference| self.report(below, difference));
        Ok(())
    }

    /// Compares an entry without a source with the declared owner, group and mode.
    fn owned(&mut self, directory: &OwnedFd, below: &[u8], name: &[u8], depth: usize) -> Result<(), FileError> {
        let path = self.full(below);
        if self.is_managed(&path) {
            return Ok(());
        }
        let FoundEntry::Here(is) = look_within(directory, name, &path)? else { return Ok(()) };
        self.ownership(&is, None, below)?;
        if is.kind == Kind::Directory {
            let opened = open_seen(directory, name, &path, &is.stat, LIST)?;
            self.walk(Some(&opened), None, below, depth + 1)?;
        }
        Ok(())
    }

    /// Adds the removal of an undeclared entry. Returns true if the entry will be gone.
    pub(super) fn purge(
        &mut self,
        directory: &OwnedFd,
        below: &[u8],
        name: &[u8],
        depth: usize,
    ) -> Result<bool, FileError> {
        let path = self.full(below);
        if depth > MAX_DEPTH {
            return Err(FileError::TooDeep(path));
        }
        let is = match look_within(directory, name, &path)? {
            FoundEntry::Here(is) => is,
            FoundEntry::Missing => return Ok(true),
            FoundEntry::Mounted => return Ok(false),
        };
        if self.is_managed(&path) || temp_names::is_in_use(name, &is.stat) {
            return Ok(false);
        }
        if is.kind == Kind::Link && self.is_above_managed(&path) {
            return Ok(false);
        }
        if is.kind == Kind::Directory {
            if !self.spec.recurse && !self.spec.force {
                return Ok(false);
            }
            let opened = open_seen(directory, name, &path, &is.stat, LIST)?;
            let mut empty = true;
            for name in list_all(&opened, &path)? {
                self.go_on(below)?;
                empty &= self.purge(&opened, &entry::join(below, &name), &name, depth + 1)?;
            }
            if !empty || self.is_above_managed(&path) {
                return Ok(false);
            }
        }
        self.report(below, Difference::new("ensure", is.kind.ensure().into(), "absent".into()));
        Ok(true)
    }

    /// Fails after an interrupt. Another user can make a tree as large as the file system allows.
    pub(super) fn go_on(&self, below: &[u8]) -> Result<(), FileError> {
        go_on(self.cx.interrupt()).map_err(|errno| FileError::io("compare", self.full(below), errno))
    }

    pub(super) fn report(&mut self, below: &[u8], difference: Difference) {
        self.found.push(difference.of_entry(EcoString::from(entry::text(below))));
    }

    pub(super) fn full(&self, below: &[u8]) -> String {
        let slash = if below.is_empty() || self.path.ends_with('/') { "" } else { "/" };
        format!("{}{slash}{}", self.path, String::from_utf8_lossy(below))
    }

    /// Returns true if a declared file lies below the entry, present or not.
    fn is_above_managed(&self, path: &str) -> bool {
        self.cx.manages_below(path)
    }

    pub(super) fn is_managed(&self, path: &str) -> bool {
        self.cx.manages(path) || self.cx.manages(&format!("{path}/"))
    }
}
