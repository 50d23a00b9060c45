//! Processes before the first resource: programs that print manifests, facts and secrets.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kilter_process::{Invocation, Output, SpawnError};
use kilter_provider::ProcessList;
use kilter_script::process_record;

/// Processes of a session that no resource has started, until a run records them.
#[derive(Clone, Default)]
pub(crate) struct EarlyProcesses(Arc<Mutex<ProcessList>>);

impl EarlyProcesses {
    /// Adds a process that has ended. `purpose` says for what it ran, such as `manifest`. Its outputs are no part of
    /// the record: they are a manifest, a secret, or facts.
    pub(crate) fn add(
        &self,
        purpose: &str,
        invocation: &Invocation,
        result: &Result<Output, SpawnError>,
        duration: Duration,
    ) {
        let mut record = process_record(invocation, result.as_ref(), duration);
        record.subject = Some(purpose.into());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(record));
    }

    /// Returns the processes since the last call of this function.
    pub(crate) fn take(&self) -> ProcessList {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
