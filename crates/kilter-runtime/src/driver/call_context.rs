//! Context of calls to providers: the environment of a run, and the context for one provider.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ecow::EcoString;
use kilter_model::{Feature, Resource};
use kilter_provider::{Context, ProcessLog, Provider, Registry};
use tracing::span::EnteredSpan;

use super::calls::CallKind;
use super::message::LogSender;
use super::open_providers::OpenProviders;
use super::shutdown::PendingDeadline;
use super::shutdown::ShutdownHandle;
use crate::options::{Mode, Options};
use crate::prepare::Prepared;
use crate::preview_context::{CallPreviewContext, CurrentPreview, RunPreview};
use crate::state_dir::StateDir;

/// Lazy attributes that each provider must always read, because a resource declares them. Computed at the first call
/// of a provider: most providers of a registry have no resource, and building their schemas would take most of the
/// time of a short run.
struct LazyAttributes(Vec<OnceLock<Vec<EcoString>>>);

impl LazyAttributes {
    fn new(prepared: &Prepared) -> LazyAttributes {
        LazyAttributes((0..prepared.registry.len()).map(|_| OnceLock::new()).collect())
    }

    /// Computes the attributes for a provider. None for providers that can filter: the others read everything, and do
    /// not know the resources.
    fn compute(&self, prepared: &Prepared, at: u16) {
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
        });
    }

    fn of(&self, at: u16) -> &[EcoString] {
        self.0[usize::from(at)].get().map_or(&[], Vec::as_slice)
    }
}

fn manages(resource: &Resource, attribute: &str) -> bool {
    resource.get(attribute).is_some() || resource.deferred().iter().any(|deferred| deferred.attribute == *attribute)
}

/// Data that all calls of a run share.
#[derive(Clone)]
pub(super) struct CallEnvironment<'run> {
    pub(super) opened: &'run OpenProviders,
    pub(super) mail: &'run LogSender,
    options: &'run Options,
    stop: &'run ShutdownHandle,
    /// Providers of the current catalog.
    registry: Arc<Registry>,
    lazy: Arc<LazyAttributes>,
    preview_context: Arc<CurrentPreview>,
    /// Number of the last recorded process.
    processes: Arc<AtomicU64>,
}

impl<'run> CallEnvironment<'run> {
    pub(super) fn new(
        prepared: &Prepared,
        preview_context: &Arc<RunPreview>,
        opened: &'run OpenProviders,
        options: &'run Options,
        stop: &'run ShutdownHandle,
        mail: &'run LogSender,
    ) -> CallEnvironment<'run> {
        let (registry, lazy) = (Arc::clone(&prepared.registry), Arc::new(LazyAttributes::new(prepared)));
        let preview_context = Arc::new(CurrentPreview::new(Arc::clone(preview_context)));
        CallEnvironment { opened, mail, options, stop, registry, lazy, preview_context, processes: Arc::default() }
    }

    /// Takes another catalog. Calls of changed and removed resources keep the former one, because their resources may
    /// depend on others that only it declares.
    pub(super) fn edit<'a>(
        &mut self,
        next: &Prepared,
        preview_context: &Arc<RunPreview>,
        superseded: impl Iterator<Item = &'a CallPreviewContext>,
    ) {
        let former = self.preview_context.get();
        superseded.for_each(|call| call.keep(&former));
        self.preview_context.replace(Arc::clone(preview_context));
        self.registry = Arc::clone(&next.registry);
        self.lazy = Arc::new(LazyAttributes::new(next));
    }

    /// Returns the context of calls to a provider. `prepared` is the current catalog.
    pub(super) fn context(&self, prepared: &Prepared, provider: u16, doing: CallKind) -> CallContext<'run> {
        self.lazy.compute(prepared, provider);
        let preview_context = Arc::new(CallPreviewContext::new(&self.preview_context, provider));
        CallContext { provider, doing, environment: self.clone(), preview_context }
    }
}

/// Context of calls to one provider, usable on any thread.
pub(super) struct CallContext<'run> {
    provider: u16,
    doing: CallKind,
    environment: CallEnvironment<'run>,
    preview_context: Arc<CallPreviewContext>,
}

impl CallContext<'_> {
    pub(super) fn provider(&self) -> &dyn Provider {
        self.environment.registry.at(usize::from(self.provider)).as_ref()
    }

    /// Returns the source of answers about other resources.
    pub(super) fn preview_context(&self) -> &Arc<CallPreviewContext> {
        &self.preview_context
    }

    /// Opens the provider unless it is open.
    ///
    /// # Errors
    /// The reason why the provider cannot be used.
    pub(super) fn open(&self, cx: &Context<'_>, again: bool) -> Result<(), EcoString> {
        self.environment.opened.open(self.provider, self.provider(), cx, again)
    }

    pub(super) fn call<T>(&self, call: impl FnOnce(&Context<'_>) -> T) -> T {
        self.call_until(None, call)
    }

    /// Makes a call with a context. With `to_begin`, the call has its own timeout.
    pub(super) fn call_until<T>(&self, to_begin: Option<PendingDeadline>, call: impl FnOnce(&Context<'_>) -> T) -> T {
        let CallEnvironment { options, stop, registry, lazy, mail, processes, .. } = &self.environment;
        let processes = ProcessLog::new(processes);
        let deadline = to_begin.map(|to_begin| to_begin.begin(stop));
        let interrupt = match &deadline {
            Some(deadline) => deadline.alarm.interrupt(),
            None => stop.interrupt(self.doing),
        };
        let managed = |name: &str| self.preview_context.manages(name);
        let managed_below = |path: &str| self.preview_context.manages_below(path);
        let cx = Context::empty()
            .with_log(*mail)
            .with_interrupt(interrupt)
            .with_ending(stop.ending())
            .with_noop(options.mode == Mode::Noop)
            .with_managed(&managed)
            .with_managed_below(&managed_below)
            .with_preview_context(&*self.preview_context)
            .with_var_dir(options.state_dir.as_ref().map(StateDir::path))
            .with_hostname(registry.hostname())
            .with_device(registry.device())
            .with_durability(options.durability)
            .with_strictness(options.strictness)
            .with_requested_attributes(lazy.of(self.provider))
            .with_processes((options.mode == Mode::Apply).then_some(&processes));
        let logged = self.logged();
        let result = call(&cx);
        drop(logged);
        result
    }

    /// Starts the span of a call in the log.
    fn logged(&self) -> LoggedCall {
        let (doing, provider) = (self.doing.word(), self.provider());
        let span = tracing::debug_span!("call", message = format_args!("{doing} {}", provider.type_name()));
        LoggedCall { begun: Instant::now(), _span: span.entered() }
    }
}

/// A call in the log, which shows the programs that it runs and its duration.
struct LoggedCall {
    begun: Instant,
    _span: EnteredSpan,
}

impl Drop for LoggedCall {
    fn drop(&mut self) {
        tracing::debug!(ms = self.begun.elapsed().as_millis() as u64, "returned");
    }
}
