//! Description of a directory tree. Equal trees have equal descriptions.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// One line for each entry: its path, kind, mode, owner and content. The directory's own path is taken
/// out of everything.
pub(crate) fn fingerprint(directory: &Path) -> String {
    let mut lines = Vec::new();
    collect(directory, directory, &mut lines);
    let own = directory.to_string_lossy();
    lines.join("\n").replace(&*own, "")
}

fn collect(root: &Path, directory: &Path, lines: &mut Vec<String>) {
    let entries = std::fs::read_dir(directory).expect("a directory of the test can be read");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    for path in paths {
        let found = path.symlink_metadata().expect("nothing else works in the directory of a test");
        let kind = found.file_type();
        let content = if kind.is_symlink() {
            format!("link to {:?}", std::fs::read_link(&path).expect("a link can be read"))
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).expect("a file of the test can be read");
            format!("file with {:?}", String::from_utf8_lossy(&bytes))
        } else if kind.is_dir() {
            "directory".to_owned()
        } else {
            assert!(kind.is_fifo() || kind.is_socket(), "no test makes devices");
            "other".to_owned()
        };
        let (mode, owner, group) = (found.mode() & 0o7777, found.uid(), found.gid());
        let shown = path.strip_prefix(root).expect("it is below").display();
        lines.push(format!("{shown} {mode:o} {owner}:{group} {content}"));
        if kind.is_dir() {
            collect(root, &path, lines);
        }
    }
}
