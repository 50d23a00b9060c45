//! Links and removals that other types make at fixed paths, such as `/etc/localtime`.

use std::rc::Rc;

use ecow::{EcoString, eco_format};
use kilter_provider::{Context, Durability};
use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, symlinkat, unlinkat};
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

/// Creates a regular file with mode 0600 through a program. `write` gets its temporary path in the same directory. The file
/// has its final name when it is complete.
///
/// # Errors
/// If a file is there, if `write` fails, or the system refuses.
pub(crate) fn create(
    path: &str,
    cx: &Context<'_>,
    write: &mut dyn FnMut(&str) -> Result<(), EcoString>,
) -> Result<(), EcoString> {
    let text = |error: FileError| eco_format!("{error}");
    let path = open::normal(path).map_err(|error| eco_format!("{error}"))?;
    let parent = Rc::new(open::open_parent(path).map_err(text)?);
    let _recorded = record(cx.var_dir(), &parent.fd);
    let temporary = Temporary::new(&parent);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let made = openat(&parent.fd, temporary.name(), flags, Mode::RUSR | Mode::WUSR);
    let made = made.map_err(|errno| text(FileError::io("create", path, errno)))?;
    write(&temporary.path())?;
    if cx.durability() == Durability::Flushed {
        fsync(&made).map_err(|errno| text(FileError::io("flush", path, errno)))?;
    }
    temporary.become_new(open::split(path).1.as_bytes()).map_err(text)?;
    settle(&parent, cx).map_err(text)
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
