//! Targets of symbolic links.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// Returns the names of an absolute path; none if it is not absolute or contains `..`.
pub(super) fn names(path: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let is_plain = path.first() == Some(&b'/') && path.split(|byte| *byte == b'/').all(|name| name != b"..");
    is_plain.then(|| path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b"."))
}

/// Returns the paths that a link in a directory depends on; the last one is its target.
///
/// Links on the way stay in the paths, because they are watched themselves. Before a `..` that follows a link, the
/// path so far becomes a path of its own.
pub(super) fn targets(directory: &[u8], text: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    // A relative link starts at the real path of its directory. Otherwise a link to `.` would create endless paths
    // of the same link.
    let mut at = if text.first() == Some(&b'/') { Vec::new() } else { real(directory) };
    let mut is_real = true;
    for name in text.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                if !is_real {
                    all.push(at.clone());
                    at = real(&at);
                    is_real = true;
                }
                at.truncate(at.iter().rposition(|byte| *byte == b'/').unwrap_or_default());
            }
            name => {
                at.push(b'/');
                at.extend_from_slice(name);
                is_real = false;
            }
        }
    }
    all.push(at);
    all
}

/// Returns a path without links; the unchanged path if it does not exist.
fn real(path: &[u8]) -> Vec<u8> {
    let mut real = Path::new(OsStr::from_bytes(path))
        .canonicalize()
        .map_or_else(|_| path.to_vec(), |real| real.into_os_string().into_vec());
    if real == b"/" {
        real.clear();
    }
    real
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_absolute_paths_have_names() {
        let of = |path: &'static str| names(path.as_bytes()).map(|names| names.collect::<Vec<_>>());
        assert_eq!(of("/a//b/./c/"), Some(vec![&b"a"[..], b"b", b"c"]));
        assert_eq!(of("/"), Some(vec![]));
        assert_eq!((of("a"), of(""), of("/a/../b")), (None, None, None));
    }

    #[test]
    fn the_way_up_to_a_dotdot_is_a_path_of_its_own() {
        let of = |text: &str| {
            let all = targets(b"/nowhere/at/all", text.as_bytes());
            all.into_iter().map(|path| String::from_utf8(path).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of("/x//y/."), ["/x/y"]);
        assert_eq!(of("../x"), ["/nowhere/at/x"]);
        assert_eq!(of("x/../y"), ["/nowhere/at/all/x", "/nowhere/at/all/y"]);
        assert_eq!(of("../../../../.."), [""]);
    }
}
