//! A manifest for tests of what is held.

use std::path::PathBuf;

use kilter_runtime::{ManifestSource, Reload, ReloadNotifier};

/// What nobody edits.
pub(crate) struct Fixed;

impl ManifestSource for Fixed {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_touched(&mut self) -> bool {
        false
    }

    fn begin_reading(&mut self, ring: ReloadNotifier) {
        drop(ring);
    }

    fn read(&mut self) -> Reload {
        Reload::Same
    }
}
