//! The machine that facts are read from.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kernel::{Kernel, LiveKernel};

/// The most that is read of one file under `/proc`, `/sys` or `/etc`.
const LONGEST_FILE: u64 = 16 << 20;

/// A machine: the directory that is its root, and its kernel.
#[derive(Clone)]
pub struct System {
    root: PathBuf,
    kernel: Arc<dyn Kernel>,
}

impl System {
    /// The machine that this process runs on.
    pub fn live() -> System {
        System::new("/", LiveKernel)
    }

    /// The machine whose files are below `root` and whose system calls `kernel` answers.
    pub fn new(root: impl Into<PathBuf>, kernel: impl Kernel + 'static) -> System {
        System { root: root.into(), kernel: Arc::new(kernel) }
    }

    /// The machine's kernel.
    pub fn kernel(&self) -> &dyn Kernel {
        &*self.kernel
    }

    /// Where `path`, which is absolute on the machine, lies for this process.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file; none when it cannot be read. Bytes that are not UTF-8 are replaced.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The bytes of a file; none when it cannot be read.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        read(&self.path(path))
    }

    /// The first line of a file, trimmed; none when it is empty or cannot be read.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// The whole number that a file holds.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.line(path)?.parse().ok()
    }

    /// Whether there is anything at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// The names in a directory, sorted; none when it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    // Room for most of them at once: files of the kernel have no size to go by.
    let mut bytes = Vec::with_capacity(4096);
    File::open(path).ok()?.take(LONGEST_FILE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
