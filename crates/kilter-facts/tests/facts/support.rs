//! A machine made of files.

use std::io;
use std::path::Path;

use kilter_facts::{Address, FactSource, Facts, Ids, Kernel, Space, Uname};
use kilter_model::{Value, to_json};
use tempfile::TempDir;

/// A fake kernel with given replies.
#[derive(Clone)]
pub(crate) struct FakeKernel {
    pub(crate) uname: Uname,
    pub(crate) addresses: Vec<Address>,
    pub(crate) ids: Ids,
    pub(crate) now: i64,
}

impl Default for FakeKernel {
    fn default() -> FakeKernel {
        let text = str::to_owned;
        FakeKernel {
            uname: Uname {
                sysname: text("Linux"),
                nodename: text("web1"),
                release: text("6.1.0-18-amd64"),
                machine: text("x86_64"),
            },
            addresses: Vec::new(),
            ids: Ids { uid: 1000, gid: 1000 },
            now: 1_768_000_000,
        }
    }
}

impl Kernel for FakeKernel {
    fn uname(&self) -> Uname {
        self.uname.clone()
    }

    fn addresses(&self) -> io::Result<Vec<Address>> {
        Ok(self.addresses.clone())
    }

    fn space(&self, path: &Path) -> Option<Space> {
        path.is_dir().then_some(Space { size: 1000 << 20, available: 200 << 20, free: 250 << 20 })
    }

    fn ids(&self) -> Ids {
        self.ids
    }

    fn now(&self) -> i64 {
        self.now
    }
}

/// A machine whose files are written by the test.
pub(crate) struct FakeRoot {
    pub(crate) root: TempDir,
    pub(crate) kernel: FakeKernel,
}

impl FakeRoot {
    pub(crate) fn new() -> FakeRoot {
        FakeRoot { root: tempfile::tempdir().unwrap(), kernel: FakeKernel::default() }
    }

    /// Adds files: path and text.
    pub(crate) fn with<const N: usize>(self, files: [(&str, &str); N]) -> FakeRoot {
        for (path, text) in files {
            let path = self.root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        self
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts::new(FactSource::new(self.root.path(), self.kernel.clone()))
    }

    /// A fact as JSON; null when there is none.
    pub(crate) fn fact(&self, path: &str) -> serde_json::Value {
        to_json(&self.facts().lookup(path).unwrap_or(Value::Undef))
    }
}
