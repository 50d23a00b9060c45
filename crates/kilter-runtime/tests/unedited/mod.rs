//! A manifest that never changes, for tests of runs.

use std::path::PathBuf;

use kilter_runtime::{ManifestSource, Reload, ReloadNotifier};

/// A manifest that never changes.
pub(crate) struct Fixed;

impl ManifestSource for Fixed {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn may_have_changed(&mut self) -> bool {
        false
    }

    fn begin_reading(&mut self, ring: ReloadNotifier) {
        drop(ring);
    }

    fn read(&mut self) -> Reload {
        Reload::Same
    }
}
