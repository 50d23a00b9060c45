//! Finds programs by name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType};

/// Returns the path of a program: `program` itself if it contains a slash, otherwise the first executable file of
/// that name in the directories of `path`.
///
/// Skips entries of `path` that are not absolute, because the program must not depend on the directory in which
/// kilter was started. There is no cache, so a newly installed program is found at once. A search costs a system
/// call per directory.
pub fn which(program: &OsStr, path: &OsStr) -> Option<PathBuf> {
    if program.is_empty() {
        return None;
    }
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    path.as_bytes()
        .split(|&b| b == b':')
        .map(|directory| Path::new(OsStr::from_bytes(directory)))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
        && rustix::fs::stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(program: &str, path: &str) -> Option<PathBuf> {
        which(OsStr::new(program), OsStr::new(path))
    }

    #[test]
    fn a_name_is_found_in_the_first_directory_that_has_it() {
        assert_eq!(found("test", "/nowhere:/usr/bin:/bin"), Some("/usr/bin/test".into()));
        assert_eq!(found("test", "/nowhere"), None);
        assert_eq!(found("", "/usr/bin"), None);
    }

    #[test]
    fn path_is_returned_unchanged() {
        assert_eq!(found("./x", "/usr/bin"), Some("./x".into()));
    }

    #[test]
    fn neither_directories_nor_plain_files_nor_relative_entries_are_programs() {
        assert_eq!(found("share", "/usr"), None);
        assert_eq!(found("passwd", "/etc"), None);
        assert_eq!(found("test", "usr/bin:."), None);
    }
}
