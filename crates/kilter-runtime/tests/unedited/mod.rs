//! A manifest for tests of what is held.

use std::path::PathBuf;

use kilter_runtime::{Anew, Declared, Handover, Held, Ring, RunError};

/// What nobody edits.
pub(crate) struct Fixed;

impl Declared for Fixed {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_touched(&mut self) -> bool {
        false
    }

    fn begin_reading(&mut self, ring: Ring) {
        drop(ring);
    }

    fn read(&mut self) -> Anew {
        Anew::Same
    }

    fn succeed(&mut self, handover: Box<Handover>) -> Result<Held, RunError> {
        Ok(Held::Superseded(handover))
    }
}
