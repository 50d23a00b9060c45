//! What surrounds the calls of one provider.

use ecow::EcoString;
use kilter_provider::{Context, Provider};

use super::opened::Opened;
use super::stop::{Mail, Stop};
use super::{Driver, Mode, Options};
use crate::lookup::Lookup;
use crate::outlook::{Outlook, View};
use crate::prepare::Prepared;
use crate::state_dir::StateDir;

/// What surrounds the calls of one provider, on whichever thread they run.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'run> {
    at: u16,
    prepared: &'run Prepared<'run>,
    lookup: &'run Lookup<'run>,
    outlook: &'run Outlook<'run>,
    opened: &'run Opened,
    options: &'run Options,
    stop: &'run Stop,
    mail: &'run Mail,
}

impl<'run> Driver<'run, '_, '_> {
    pub(super) fn surroundings(&self, at: u16) -> Surroundings<'run> {
        Surroundings {
            at,
            prepared: self.prepared,
            lookup: self.lookup,
            outlook: self.outlook,
            opened: self.opened,
            options: self.options,
            stop: self.stop,
            mail: self.mail,
        }
    }
}

impl<'run> Surroundings<'run> {
    pub(super) fn provider(&self) -> &'run dyn Provider {
        self.prepared.registry.at(usize::from(self.at)).as_ref()
    }

    /// Sees to it that the provider is open.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn open(&self, cx: &Context<'_>, again: bool) -> Result<(), EcoString> {
        self.opened.open(self.at, self.provider(), cx, again)
    }

    pub(super) fn call<T>(&self, call: impl FnOnce(&Context<'_>) -> T) -> T {
        let managed = |name: &str| self.lookup.named(self.at, name).is_some();
        let managed_below = |path: &str| self.lookup.has_below(self.at, path);
        let view = View { outlook: self.outlook, provider: self.at };
        let cx = Context::bare()
            .with_log(self.mail)
            .with_interrupt(self.stop.interrupt())
            .with_ending(self.stop.ending())
            .with_only_looks(self.options.mode == Mode::Noop)
            .with_managed(&managed)
            .with_managed_below(&managed_below)
            .with_outlook(&view)
            .with_var_dir(self.options.state_dir.as_ref().map(StateDir::path))
            .with_durability(self.options.durability)
            .with_strictness(self.options.strictness);
        call(&cx)
    }
}
