//! Shared context of the calls to one provider.

use std::sync::{Arc, OnceLock};

use ecow::EcoString;
use kilter_model::{Feature, Resource};
use kilter_provider::{Context, Provider};

use super::opened::OpenProviders;
use super::stop::{CallKind, LogSender, ShutdownHandle};
use super::timeout::PendingDeadline;
use super::{Driver, Mode, Options};
use crate::outlook::{Outlook, ProviderPreviewContext};
use crate::prepare::Prepared;
use crate::state_dir::StateDir;

/// Lazy attributes that each provider must always read, because a resource declares them. Computed at the first call
/// of a provider: most providers of a registry have no resource, and building their schemas would take most of the
/// time of a short run.
pub(super) struct LazyAttributes(Vec<OnceLock<Vec<EcoString>>>);

impl LazyAttributes {
    pub(super) fn new(prepared: &Prepared) -> LazyAttributes {
        LazyAttributes((0..prepared.registry.len()).map(|_| OnceLock::new()).collect())
    }

    /// Returns the attributes for the provider with this index. Empty for providers that can filter: the others read
    /// everything, and do not know the resources.
    fn of(&self, prepared: &Prepared, at: u16) -> &[EcoString] {
        self.0[usize::from(at)].get_or_init(|| {
            let schema = prepared.registry.at(usize::from(at)).schema();
            if schema.has(Feature::SimpleGetFilter) {
                return Vec::new();
            }
            let is_managed = |name: &str| {
                let resources = prepared.resources().iter().zip(&*prepared.providers);
                resources.filter(|(_, by)| **by == at).any(|(resource, _)| manages(resource, name))
            };
            let lazy = schema.attributes.iter().filter(|attribute| attribute.lazy);
            lazy.map(|attribute| attribute.name.text().clone()).filter(|name| is_managed(name)).collect()
        })
    }
}

fn manages(resource: &Resource, attribute: &str) -> bool {
    resource.get(attribute).is_some() || resource.deferred().iter().any(|deferred| deferred.attribute == *attribute)
}

/// Shared context of the calls to one provider, usable on any thread.
pub(super) struct CallContext<'run> {
    at: u16,
    /// Kind of the calls.
    doing: CallKind,
    prepared: Arc<Prepared>,
    outlook: Arc<Outlook>,
    lazy: Arc<LazyAttributes>,
    opened: &'run OpenProviders,
    options: &'run Options,
    stop: &'run ShutdownHandle,
    mail: &'run LogSender,
}

impl<'run> Driver<'run, '_, '_, '_> {
    pub(super) fn surroundings(&self, at: u16, doing: CallKind) -> CallContext<'run> {
        CallContext {
            at,
            doing,
            prepared: Arc::clone(&self.prepared),
            outlook: Arc::clone(&self.outlook),
            lazy: Arc::clone(&self.lazy),
            opened: self.opened,
            options: self.options,
            stop: self.stop,
            mail: self.mail,
        }
    }
}

impl CallContext<'_> {
    pub(super) fn provider(&self) -> &dyn Provider {
        self.prepared.registry.at(usize::from(self.at)).as_ref()
    }

    /// Opens the provider unless it is open.
    ///
    /// # Errors
    /// The reason why the provider cannot be used.
    pub(super) fn open(&self, cx: &Context<'_>, again: bool) -> Result<(), EcoString> {
        self.opened.open(self.at, self.provider(), cx, again)
    }

    pub(super) fn call<T>(&self, call: impl FnOnce(&Context<'_>) -> T) -> T {
        self.call_until(None, call)
    }

    /// Makes a call with a context. With `to_begin`, the call has its own timeout.
    pub(super) fn call_until<T>(&self, to_begin: Option<PendingDeadline>, call: impl FnOnce(&Context<'_>) -> T) -> T {
        let deadline = to_begin.map(|to_begin| to_begin.begin(self.stop));
        let lookup = self.prepared.lookup();
        let managed = |name: &str| lookup.named(self.at, name).is_some();
        let managed_below = |path: &str| lookup.has_below(self.at, path);
        let view = ProviderPreviewContext { outlook: &self.outlook, provider: self.at };
        let cx = Context::empty()
            .with_log(self.mail)
            .with_interrupt(
                deadline
                    .as_ref()
                    .map_or_else(|| self.stop.interrupt(self.doing), |deadline| deadline.alarm.interrupt()),
            )
            .with_ending(self.stop.ending())
            .with_noop(self.options.mode == Mode::Noop)
            .with_managed(&managed)
            .with_managed_below(&managed_below)
            .with_outlook(&view)
            .with_var_dir(self.options.state_dir.as_ref().map(StateDir::path))
            .with_hostname(self.prepared.registry.hostname())
            .with_durability(self.options.durability)
            .with_strictness(self.options.strictness)
            .with_requested_attributes(self.lazy.of(&self.prepared, self.at));
        call(&cx)
    }
}
