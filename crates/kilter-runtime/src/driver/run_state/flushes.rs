//! Flushes of providers after changes.

use std::collections::BTreeSet;

use ecow::{EcoString, eco_format};
use kilter_provider::{Context, Log, Registry};

use crate::options::Options;
use crate::state_dir::StateDir;
use crate::step::catch_panic;

/// Providers whose changes may not be durable yet.
#[derive(Default)]
pub(in crate::driver) struct PendingFlushes(BTreeSet<u16>);

impl PendingFlushes {
    /// Registers a provider for the next flush. The driver calls this after a change, never before: a flush that
    /// runs while the call still waits for a worker must not count for that change.
    pub(in crate::driver) fn add(&mut self, provider: u16) {
        self.0.insert(provider);
    }

    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Flushes the providers. A provider whose flush fails is flushed again later. Returns the failures.
    pub(in crate::driver) fn flush(&mut self, registry: &Registry, options: &Options, log: &dyn Log) -> Vec<EcoString> {
        let cx = Context::empty()
            .with_log(log)
            .with_var_dir(options.state_dir.as_ref().map(StateDir::path))
            .with_hostname(registry.hostname())
            .with_durability(options.durability);
        let mut failures = Vec::new();
        self.0.retain(|at| {
            let provider = registry.at(usize::from(*at));
            let flushed = catch_panic(provider.as_ref(), || provider.capabilities().session().flush(&cx));
            let failure = flushed.and_then(|flushed| flushed.map_err(|error| error.message)).err();
            failures.extend(failure.as_ref().map(|error| eco_format!("{}: {error}", provider.schema().name)));
            failure.is_some()
        });
        failures
    }
}
