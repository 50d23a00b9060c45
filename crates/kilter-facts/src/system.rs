//! The machine from which facts are read.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kernel::{Kernel, LiveKernel};

/// Maximum size of a file that is read below `/proc`, `/sys` or `/etc`, in bytes.
const LONGEST_FILE: u64 = 16 << 20;

/// A machine: its root directory and its kernel.
#[derive(Clone)]
pub struct FactSource {
    root: PathBuf,
    kernel: Arc<dyn Kernel>,
}

impl FactSource {
    /// Returns the machine on which this process runs.
    pub fn live() -> FactSource {
        FactSource::new("/", LiveKernel)
    }

    /// Creates a machine with its files below `root` and its system calls in `kernel`.
    pub fn new(root: impl Into<PathBuf>, kernel: impl Kernel + 'static) -> FactSource {
        FactSource { root: root.into(), kernel: Arc::new(kernel) }
    }

    /// Returns the kernel.
    pub fn kernel(&self) -> &dyn Kernel {
        &*self.kernel
    }

    /// Converts an absolute path of the machine to a path of this process.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a text file and replaces invalid UTF-8. None if the file cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a file. None if it cannot be read.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        read(&self.path(path))
    }

    /// Reads the first line of a file, trimmed. None if it is empty or cannot be read.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let line = text.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// Reads the integer in a file.
    pub(crate) fn number(&self, path: &str) -> Option<i64> {
        self.line(path)?.parse().ok()
    }

    /// Returns true if `path` exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// Returns the sorted names in a directory. Empty if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    // Files of the kernel have no size, so reserve enough space for most of them.
    let mut bytes = Vec::with_capacity(4096);
    File::open(path).ok()?.take(LONGEST_FILE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
