//! Watch of all units.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use kilter_provider::{Context, ProviderError, Scope, WatchSink, WatchSource};

use super::bus::BusError;
use super::systemd::{Systemd, SystemdEvent};
use super::{ServiceProvider, unit};

/// Directory of the links of enabled units.
pub(super) const LINKS: &str = "/etc/systemd/system";

/// Returns the event sources of a unit.
pub(super) fn sources() -> Vec<WatchSource> {
    vec![WatchSource::Provider, WatchSource::Path { path: LINKS.into(), scope: Scope::Tree }]
}

/// Sets a flag until it is dropped.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl ServiceProvider {
    /// Reports units that have started, stopped or changed, and changes of unit files, until the watch is interrupted.
    pub(super) fn follow(&self, cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), ProviderError> {
        self.is_watching.store(true, Ordering::Release);
        let _raised = Raised(&self.is_watching);
        drop(self.idle.lock().unwrap_or_else(PoisonError::into_inner).take());
        match self.forward(cx, tell) {
            Ok(()) | Err(BusError::Interrupted) => Ok(()),
            Err(error) => Err(ProviderError::new(format!("watch of units: {error}"))),
        }
    }

    fn forward(&self, cx: &Context<'_>, tell: &dyn WatchSink) -> Result<(), BusError> {
        let mut systemd = Systemd::open(&self.machine.sockets, cx)?;
        systemd.subscribe()?;
        tell.watching();
        loop {
            match systemd.event()? {
                SystemdEvent::Unit(unit) | SystemdEvent::Job { unit, .. } => self.report_unit(&unit, tell),
                SystemdEvent::Files => tell.all_changed(),
                SystemdEvent::Other => {}
            }
        }
    }

    /// Reports a unit by all names that a resource may have.
    fn report_unit(&self, id: &str, tell: &dyn WatchSink) {
        tell.changed(id);
        if unit::listed_name(id) != id {
            tell.changed(unit::listed_name(id));
        }
        let aliases = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
        aliases.get(id).into_iter().flatten().for_each(|name| tell.changed(name));
    }
}
