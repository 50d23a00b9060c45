//! Predicts certain failures before a change, with the messages of the change itself. Predicts a failure only if no
//! earlier resource can remove its cause.

use std::path::{Path, PathBuf};

use kilter_model::{Attributes, Change};
use kilter_provider::{Context, Forecast, PathState};

use super::acl_policy::AclPolicy;
use super::copy::Source;
use super::error::FileError;
use super::kind::Kind;
use super::open::{self, LIST};
use super::opened_path::{OpenedPath, examine, list};
use super::predict;
use super::root::needs_force;
use super::spec::{Ensure, Spec};
use crate::accounts::Ids;

/// Returns the reason why a change is certain to fail, if it is.
pub(super) fn failure(cx: &Context<'_>, accounts: &Ids, change: &Change<'_>) -> Option<FileError> {
    let spec = Spec::of(change.should?);
    let path = open::trim(change.name);
    let error = foreseen(cx, accounts, change, path, &spec).err()?;
    (!cx.preview_context().may_change_before(change.name)).then_some(error)
}

/// Runs the checks in the same order as a change.
fn foreseen(
    cx: &Context<'_>,
    accounts: &Ids,
    change: &Change<'_>,
    path: &str,
    spec: &Spec<'_>,
) -> Result<(), FileError> {
    if spec.ensure == Ensure::Absent {
        return removal(cx, path, spec);
    }
    let makes_parents = || change.should.is_some_and(|should| should.get_bool("parents") == Some(true));
    if !change.is.exists && !makes_parents() {
        parent(cx, change.name, path)?;
    }
    source(cx, change.name, path, spec)?;
    force(cx, change, path, spec)?;
    owners(cx, accounts, spec)?;
    listed(cx, accounts, spec)
}

/// Checks the users and groups in `acl`.
fn listed(cx: &Context<'_>, accounts: &Ids, spec: &Spec<'_>) -> Result<(), FileError> {
    let is_declared = |kind, name: &str| cx.preview_context().declared(kind, name).is_some();
    match AclPolicy::for_new(spec, accounts) {
        Err(FileError::NoAccount { kind, name }) if is_declared(kind, &name) || is_declared("user", &name) => Ok(()),
        other => other.map(|_| ()),
    }
}

fn parent(cx: &Context<'_>, name: &str, path: &str) -> Result<(), FileError> {
    let directory = open::split(path).0;
    let is_made = || may_come(cx, directory) || cx.preview_context().writer(name, directory).is_some();
    match open::open_parent(path) {
        Err(error) if error.is_missing() && !is_made() => Err(error),
        _ => Ok(()),
    }
}

fn source(cx: &Context<'_>, name: &str, copy: &str, spec: &Spec<'_>) -> Result<(), FileError> {
    let Some(path) = spec.source else { return Ok(()) };
    match cx.preview_context().node(name, path) {
        Forecast::Unchanged => {}
        Forecast::Changed(PathState::Absent, _) => return Err(predict::missing(path)),
        Forecast::Changed(..) | Forecast::Unknown(_) => return Ok(()),
    }
    let opened = match spec.ensure {
        Ensure::Is(Kind::File) => Source::open_file(path),
        Ensure::Is(Kind::Directory) if spec.recurse => Source::open_tree(path, copy),
        _ => return Ok(()),
    };
    match opened {
        Err(error) if error.is_missing() && may_come(cx, path) => Ok(()),
        Err(FileError::Source { .. }) if declared(cx, path).is_some() || is_open_above(cx, path) => Ok(()),
        opened => opened.map(|_| ()),
    }
}

/// Checks that existing files may be replaced without `force`, at the path and below it.
fn force(cx: &Context<'_>, change: &Change<'_>, path: &str, spec: &Spec<'_>) -> Result<(), FileError> {
    let Ensure::Is(kind) = spec.ensure else { return Ok(()) };
    if spec.force || is_open_above(cx, path) {
        return Ok(());
    }
    let refused = |path: String, is| Err(FileError::NeedsForce { path, is, what: "replace" });
    if let Ok(Some(looked)) = examine(path, false)
        && kind != looked.kind
        && needs_force(looked.kind)
    {
        return refused(path.to_owned(), looked.kind);
    }
    let in_the_way = change.differences.iter().find(|difference| {
        let (is, should) = (difference.is.as_str(), difference.should.as_str());
        difference.attribute == "ensure" && is == Some("directory") && should != Some("absent")
    });
    match in_the_way.and_then(|difference| difference.entry.as_ref()) {
        Some(entry) => refused(format!("{}/{entry}", open::trim(path)), Kind::Directory),
        None => Ok(()),
    }
}

/// Checks that a directory may be removed without `force`, which requires that it is empty.
fn removal(cx: &Context<'_>, path: &str, spec: &Spec<'_>) -> Result<(), FileError> {
    if spec.force || is_open_above(cx, path) {
        return Ok(());
    }
    let Ok(Some(OpenedPath { kind: Kind::Directory, .. })) = examine(path, false) else { return Ok(()) };
    let names = open::open(path, LIST).and_then(|directory| list(&directory, path)).unwrap_or_default();
    // Declared entries may be removed first.
    let stays = |name: &Vec<u8>| declared(cx, &format!("{path}/{}", String::from_utf8_lossy(name))).is_none();
    match names.iter().any(stays) {
        true => Err(FileError::NeedsForce { path: path.to_owned(), is: Kind::Directory, what: "remove what is in" }),
        false => Ok(()),
    }
}

fn owners(cx: &Context<'_>, accounts: &Ids, spec: &Spec<'_>) -> Result<(), FileError> {
    let is_declared = |type_name, name: &str| cx.preview_context().declared(type_name, name).is_some();
    if let Some(name) = spec.owner.and_then(|owner| owner.to_text())
        && accounts.uid(&name).is_none()
        && !is_declared("user", &name)
    {
        return Err(FileError::NoAccount { kind: "user", name: name.into() });
    }
    // A user may come with a group of the same name.
    if let Some(name) = spec.group.and_then(|group| group.to_text())
        && accounts.gid(&name).is_none()
        && !is_declared("group", &name)
        && !is_declared("user", &name)
    {
        return Err(FileError::NoAccount { kind: "group", name: name.into() });
    }
    Ok(())
}

/// Returns true if other resources may create the missing parts of a path before it is needed.
pub(crate) fn may_come(cx: &Context<'_>, path: &str) -> bool {
    let Some(real) = resolved(Path::new(path)) else { return true };
    is_made(cx, path) || is_made(cx, &real.to_string_lossy())
}

/// Returns true if all missing parts of a path are declared, or a directory above can bring any file.
fn is_made(cx: &Context<'_>, path: &str) -> bool {
    let is_missing = |path: &&str| std::fs::symlink_metadata(path).is_err();
    is_open_above(cx, path) || above(path).chain([path]).filter(is_missing).all(|path| declared(cx, path).is_some())
}

/// Returns the path with its links resolved as far as it exists; none for a dangling link.
fn resolved(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find(|above| std::fs::symlink_metadata(above).is_ok())?;
    let rest = path.strip_prefix(there).ok()?;
    Some(std::fs::canonicalize(there).ok()?.join(rest))
}

/// Returns true if a declared directory above a path determines its content: a link, a copied tree, or a directory
/// to remove.
fn is_open_above(cx: &Context<'_>, path: &str) -> bool {
    let is_plain = |should: &Attributes| {
        matches!(should.text("ensure"), Some("directory"))
            && should.get("source").is_none_or(|source| source.is_undef())
    };
    above(path).filter_map(|path| declared(cx, path)).any(|should| !is_plain(should))
}

fn declared<'a>(cx: &Context<'a>, path: &str) -> Option<&'a Attributes> {
    let of = |name: &str| cx.preview_context().declared("file", name);
    of(path).or_else(|| of(&format!("{path}/")))
}

/// Returns the directories above a path, without the root.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).filter(|path| !path.is_empty())
}
