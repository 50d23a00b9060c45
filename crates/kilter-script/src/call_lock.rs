//! Serialises writes to one provider; reads run concurrently.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Lock for the calls of a provider: calls that read run concurrently, a call that changes a resource runs
/// alone. A provider with `parallel` is not locked.
///
/// libral serialises updates, and scripts rely on it when they read, modify and rewrite a file.
#[derive(Debug, Default)]
pub(crate) struct CallLock(RwLock<()>);

/// Guard of a call. Dropping it releases the lock.
pub(crate) struct CallGuard<'a> {
    _shared: Option<RwLockReadGuard<'a, ()>>,
    _alone: Option<RwLockWriteGuard<'a, ()>>,
}

impl CallLock {
    /// Waits until no change is in progress.
    pub(crate) fn to_read(&self, is_parallel: bool) -> CallGuard<'_> {
        // A panic in another call leaves no inconsistent data, so poisoning is ignored.
        let shared = || self.0.read().unwrap_or_else(PoisonError::into_inner);
        CallGuard { _shared: (!is_parallel).then(shared), _alone: None }
    }

    /// Waits until no other call is in progress.
    pub(crate) fn to_change(&self, is_parallel: bool) -> CallGuard<'_> {
        let alone = || self.0.write().unwrap_or_else(PoisonError::into_inner);
        CallGuard { _shared: None, _alone: (!is_parallel).then(alone) }
    }
}
