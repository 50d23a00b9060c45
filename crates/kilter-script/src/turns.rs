//! Who may be called at the same time.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Calls of one provider: those that read go side by side, one that changes something goes alone.
///
/// libral calls updates one after the other, and scripts rely on it: they read a file, change it and write it again.
#[derive(Debug, Default)]
pub(crate) struct Turns(RwLock<()>);

/// A turn; others come when it is dropped.
pub(crate) struct Turn<'a> {
    _shared: Option<RwLockReadGuard<'a, ()>>,
    _alone: Option<RwLockWriteGuard<'a, ()>>,
}

impl Turns {
    /// Waits until nothing is changed.
    pub(crate) fn to_read(&self, is_parallel: bool) -> Turn<'_> {
        // A call that panicked has changed nothing here.
        let shared = || self.0.read().unwrap_or_else(PoisonError::into_inner);
        Turn { _shared: (!is_parallel).then(shared), _alone: None }
    }

    /// Waits until nothing is read or changed.
    pub(crate) fn to_change(&self, is_parallel: bool) -> Turn<'_> {
        let alone = || self.0.write().unwrap_or_else(PoisonError::into_inner);
        Turn { _shared: None, _alone: (!is_parallel).then(alone) }
    }
}
