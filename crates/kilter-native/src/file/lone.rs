//! Links and removals that other types make at fixed paths, such as `/etc/localtime`.

use std::rc::Rc;

use kilter_provider::{Context, Durability};
use rustix::fs::{AtFlags, fsync, symlinkat, unlinkat};
use rustix::io::Errno;

use super::atomic_rewrite::{AtomicRewriteError, not_regular};
use super::error::FileError;
use super::kind::Kind;
use super::open::{self, Parent};
use super::opened_path::look_at;
use super::stage::Temporary;
use super::temporary_record::record;

/// Puts a symbolic link at a path. It replaces another link or a regular file atomically.
///
/// # Errors
/// If something else is there, or the system refuses.
pub(crate) fn link(path: &str, target: &str, cx: &Context<'_>) -> Result<(), AtomicRewriteError> {
    let path = open::normal(path)?;
    let parent = Rc::new(open::open_parent(path)?);
    let leaf = open::split(path).1.as_bytes();
    if let Some(old) = look_at(&parent.fd, leaf, path)?
        && !matches!(old.kind, Kind::File | Kind::Link)
    {
        return Err(not_regular(path, old.kind));
    }
    let _recorded = record(cx.var_dir(), &parent.fd);
    let temporary = Temporary::new(&parent);
    symlinkat(target, &parent.fd, temporary.name())
        .map_err(|errno| FileError::io("create a link beside", path, errno))?;
    temporary.replace(leaf)?;
    settle(&parent, cx)?;
    Ok(())
}

/// Removes a regular file or a link, if there is one.
///
/// # Errors
/// If something else is there, or the system refuses.
pub(crate) fn remove(path: &str, cx: &Context<'_>) -> Result<(), AtomicRewriteError> {
    let path = open::normal(path)?;
    let parent = match open::open_parent(path) {
        Err(error) if error.is_missing() => return Ok(()),
        parent => parent?,
    };
    match unlinkat(&parent.fd, open::split(path).1, AtFlags::empty()) {
        Ok(()) => settle(&parent, cx)?,
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(FileError::io("remove", path, errno).into()),
    }
    Ok(())
}

fn settle(parent: &Parent, cx: &Context<'_>) -> Result<(), FileError> {
    match cx.durability() {
        Durability::Flushed if parent.readable => {
            fsync(&parent.fd).map_err(|errno| FileError::io("flush", &parent.path, errno))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_replaces_links_and_files_but_no_directory() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x").to_str().unwrap().to_owned();
        let cx = Context::empty();
        for target in ["a", "b"] {
            link(&path, target, &cx).unwrap();
            assert_eq!(std::fs::read_link(&path).unwrap().to_str(), Some(target));
        }
        remove(&path, &cx).unwrap();
        remove(&path, &cx).unwrap();
        std::fs::write(&path, "a copy").unwrap();
        link(&path, "c", &cx).unwrap();
        assert_eq!(std::fs::read_link(&path).unwrap().to_str(), Some("c"));
        remove(&path, &cx).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(link(&path, "d", &cx).unwrap_err().to_string().contains("not a regular file but a directory"));
        assert!(remove(&path, &cx).is_err());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "no temporary name stays");
    }
}
