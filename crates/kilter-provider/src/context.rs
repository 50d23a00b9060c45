//! Context of a provider call.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::contract::{ProviderError, Wanted};
use crate::logging::ProviderEvent;
use crate::preview_context::{NoPendingChanges, PreviewContext};
use crate::process::{ProcessList, ProcessLog, ProcessRecord};
use crate::transport::{self, Device, Transport};
use ecow::EcoString;

/// Severity levels of RFC 5424, the most severe last.
///
/// Providers use levels up to [`Level::Err`], because their failures concern only their resources. The higher
/// levels exist to forward messages of other programs unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Messages for the author of a provider.
    Debug,
    /// Regular progress.
    Info,
    /// A state change, or another notable event.
    Notice,
    /// A problem that does not prevent the operation.
    Warning,
    /// A problem that prevented the operation.
    Err,
    /// A critical condition. Not for providers.
    Critical,
    /// Immediate action is required. Not for providers.
    Alert,
    /// The system is unusable. Not for providers.
    Emerg,
}

impl Level {
    /// Returns the keyword.
    pub fn word(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Err => "err",
            Level::Critical => "critical",
            Level::Alert => "alert",
            Level::Emerg => "emerg",
        }
    }

    /// Returns the severity number of RFC 5424: 7 for debug down to 0 for emerg.
    pub fn severity(self) -> u8 {
        match self {
            Level::Debug => 7,
            Level::Info => 6,
            Level::Notice => 5,
            Level::Warning => 4,
            Level::Err => 3,
            Level::Critical => 2,
            Level::Alert => 1,
            Level::Emerg => 0,
        }
    }
}

/// Receiver of the log lines of providers.
pub trait Log: Send + Sync {
    /// Receives a line about a resource, or about the provider if `name` is empty.
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str);

    /// Receives an event of a [`ChangeLog`](crate::ChangeLog). The default implementation writes one line for
    /// each resource of the event.
    fn event(&self, event: &ProviderEvent<'_>) {
        let text = event.text();
        if event.titles.is_empty() {
            self.log(event.level, event.type_name, "", &text);
        }
        for title in event.titles {
            self.log(event.level, event.type_name, title, &text);
        }
    }
}

/// Log that discards all lines.
pub struct NoLog;

impl Log for NoLog {
    fn log(&self, _: Level, _: &str, _: &str, _: &str) {}

    fn event(&self, _: &ProviderEvent<'_>) {}
}

/// A request to cancel in-flight calls.
#[derive(Clone, Copy)]
pub struct Interrupt<'a> {
    flag: &'a AtomicBool,
    fd: Option<BorrowedFd<'a>>,
    urgent: Option<&'a AtomicBool>,
}

impl<'a> Interrupt<'a> {
    /// Creates an interrupt from `flag`. `fd` becomes readable when the flag is set.
    pub fn new(flag: &'a AtomicBool, fd: Option<BorrowedFd<'a>>) -> Interrupt<'a> {
        Interrupt { flag, fd, urgent: None }
    }

    /// Adds a second flag: when `urgent` is set, cancelled processes are killed immediately.
    #[must_use]
    pub fn or_urgent(self, urgent: &'a AtomicBool) -> Interrupt<'a> {
        Interrupt { urgent: Some(urgent), ..self }
    }

    /// Returns the flag that removes the grace period of cancelled processes.
    pub fn urgent(&self) -> Option<&'a AtomicBool> {
        self.urgent
    }

    /// Returns true if the interrupt is raised.
    pub fn is_raised(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Returns the flag.
    pub fn flag(&self) -> &'a AtomicBool {
        self.flag
    }

    /// Returns a descriptor for polling. It becomes readable when the interrupt is raised.
    pub fn fd(&self) -> Option<BorrowedFd<'a>> {
        self.fd
    }
}

/// Durability of changes in a system crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Changes survive a crash after the run has reported success.
    #[default]
    Flushed,
    /// Changes survive a crash after the system has flushed them.
    Unflushed,
}

/// Reaction to providers that violate their contract. Examples: values that are not canonical, titles that do
/// not match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// No reaction.
    Off,
    /// A warning.
    #[default]
    Warning,
    /// The resource fails.
    Error,
}

/// Name of the program that runs providers, as reported to them.
pub const PROGRAM: &str = "kilter";

/// Default host name.
pub(crate) const DEFAULT_HOSTNAME: &str = "localhost";

static NEVER: AtomicBool = AtomicBool::new(false);

/// Context of a provider call.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    log: &'a dyn Log,
    interrupt: Interrupt<'a>,
    managed: &'a (dyn Fn(&str) -> bool + Sync),
    managed_below: &'a (dyn Fn(&str) -> bool + Sync),
    var_dir: Option<&'a Path>,
    hostname: &'a str,
    durability: Durability,
    ending: &'a AtomicBool,
    noop: bool,
    preview_context: &'a dyn PreviewContext,
    strictness: Strictness,
    asked: &'a [EcoString],
    device: Option<&'a Device>,
    processes: Option<&'a ProcessLog<'a>>,
    subject: Option<&'a str>,
}

impl Context<'static> {
    /// Creates a context without a log, without other resources and without an interrupt.
    pub fn empty() -> Context<'static> {
        Context {
            log: &NoLog,
            interrupt: Interrupt::new(&NEVER, None),
            managed: &|_| false,
            managed_below: &|_| false,
            var_dir: None,
            hostname: DEFAULT_HOSTNAME,
            durability: Durability::Flushed,
            ending: &NEVER,
            noop: false,
            preview_context: &NoPendingChanges,
            strictness: Strictness::default(),
            asked: &[],
            device: None,
            processes: None,
            subject: None,
        }
    }
}

impl<'a> Context<'a> {
    /// Returns the context with another log.
    #[must_use]
    pub fn with_log<'b>(self, log: &'b dyn Log) -> Context<'b>
    where
        'a: 'b,
    {
        Context { log, ..self }
    }

    /// Returns the context with another interrupt.
    #[must_use]
    pub fn with_interrupt<'b>(self, interrupt: Interrupt<'b>) -> Context<'b>
    where
        'a: 'b,
    {
        Context { interrupt, ..self }
    }

    /// Returns the context with another function for [`Context::manages`].
    #[must_use]
    pub fn with_managed<'b>(self, managed: &'b (dyn Fn(&str) -> bool + Sync)) -> Context<'b>
    where
        'a: 'b,
    {
        Context { managed, ..self }
    }

    /// Returns the context with another function for [`Context::manages_below`].
    #[must_use]
    pub fn with_managed_below<'b>(self, managed_below: &'b (dyn Fn(&str) -> bool + Sync)) -> Context<'b>
    where
        'a: 'b,
    {
        Context { managed_below, ..self }
    }

    /// Returns the context with another var directory.
    #[must_use]
    pub fn with_var_dir<'b>(self, var_dir: Option<&'b Path>) -> Context<'b>
    where
        'a: 'b,
    {
        Context { var_dir, ..self }
    }

    /// Returns the context with another host name.
    #[must_use]
    pub fn with_hostname<'b>(self, hostname: &'b str) -> Context<'b>
    where
        'a: 'b,
    {
        Context { hostname, ..self }
    }

    /// Returns the context with another device.
    #[must_use]
    pub fn with_device<'b>(self, device: Option<&'b Device>) -> Context<'b>
    where
        'a: 'b,
    {
        Context { device, ..self }
    }

    /// Returns the context with a log of the processes that the provider starts.
    #[must_use]
    pub fn with_processes<'b>(self, processes: Option<&'b ProcessLog<'b>>) -> Context<'b>
    where
        'a: 'b,
    {
        Context { processes, ..self }
    }

    /// Returns the context for the resource `name` of a call for several resources. Its processes belong to it.
    #[must_use]
    pub fn about<'b>(self, name: &'b str) -> Context<'b>
    where
        'a: 'b,
    {
        Context { subject: Some(name), ..self }
    }

    /// Returns the context with another durability.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Context<'a> {
        Context { durability, ..self }
    }

    /// Returns the context with another flag for [`Context::is_stopping`].
    #[must_use]
    pub fn with_ending<'b>(self, ending: &'b AtomicBool) -> Context<'b>
    where
        'a: 'b,
    {
        Context { ending, ..self }
    }

    /// Returns the context for a dry run or a normal run.
    #[must_use]
    pub fn with_noop(self, noop: bool) -> Context<'a> {
        Context { noop, ..self }
    }

    /// Returns the context with another preview context.
    #[must_use]
    pub fn with_preview_context<'b>(self, preview_context: &'b dyn PreviewContext) -> Context<'b>
    where
        'a: 'b,
    {
        Context { preview_context, ..self }
    }

    /// Returns the context with another strictness.
    #[must_use]
    pub fn with_strictness(self, strictness: Strictness) -> Context<'a> {
        Context { strictness, ..self }
    }

    /// Returns the context with requested lazy attributes.
    #[must_use]
    pub fn with_requested_attributes<'b>(self, asked: &'b [EcoString]) -> Context<'b>
    where
        'a: 'b,
    {
        Context { asked, ..self }
    }

    /// Returns the reaction to providers that violate their contract.
    pub fn strictness(&self) -> Strictness {
        self.strictness
    }

    /// Returns true if a lazy attribute must be read, because it is requested or managed.
    pub fn must_read(&self, wanted: Option<&Wanted<'_>>, attribute: &str) -> bool {
        self.asked.iter().any(|asked| asked == attribute) || wanted.is_some_and(|wanted| wanted.manages(attribute))
    }

    /// Returns true if the run is about to end. Current operations finish, but are not retried.
    pub fn is_stopping(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Returns true in a dry run. Resources that earlier resources would create do not exist then.
    pub fn is_noop(&self) -> bool {
        self.noop
    }

    /// Returns the predicted effects of resources that run earlier, in a dry run.
    pub fn preview_context(&self) -> &'a dyn PreviewContext {
        self.preview_context
    }

    /// Writes a line about the resource `name` of `type_name`.
    pub fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        self.log.log(level, type_name, name, message);
    }

    /// Reports an event. The log also receives its text.
    pub fn event(&self, event: &ProviderEvent<'_>) {
        self.log.event(event);
    }

    /// Returns true if the run records the processes that providers start.
    pub fn records_processes(&self) -> bool {
        self.processes.is_some()
    }

    /// Records a process that has ended. A provider that knows secrets of the call redacts them before.
    pub fn record_process(&self, record: ProcessRecord) {
        if let Some(log) = self.processes {
            log.add(ProcessRecord { subject: self.subject.map(Into::into), ..record });
        }
    }

    /// Returns the processes that were recorded since the last call of this function.
    pub fn take_processes(&self) -> ProcessList {
        self.processes.map(ProcessLog::take).unwrap_or_default()
    }

    /// Returns the request to cancel in-flight calls.
    pub fn interrupt(&self) -> Interrupt<'a> {
        self.interrupt
    }

    /// Returns true if the catalog declares a resource of the provider's type with this `name`.
    pub fn manages(&self, name: &str) -> bool {
        (self.managed)(name)
    }

    /// Returns true if the catalog declares a resource of the provider's type whose name is a path below
    /// `path`.
    pub fn manages_below(&self, path: &str) -> bool {
        (self.managed_below)(path)
    }

    /// Returns the directory for persistent data of providers, mode 0700. It may not exist yet. None if the run
    /// keeps no data.
    pub fn var_dir(&self) -> Option<&'a Path> {
        self.var_dir
    }

    /// Returns the name of this machine for values shared with other machines: its host name, or the value of
    /// `--hostname`. It does not change while a provider is open.
    pub fn hostname(&self) -> &'a str {
        self.hostname
    }

    /// Returns the connection to the device on which the provider works. Only providers of types with the feature
    /// `remote_resource` have one. The first call connects.
    ///
    /// # Errors
    /// If the device does not answer, or if there is none.
    pub fn transport(&self) -> Result<&'a dyn Transport, ProviderError> {
        transport::of_context(self.device, self)
    }

    /// Returns the name of the program that runs the provider.
    pub fn program(&self) -> &'static str {
        PROGRAM
    }

    /// Returns the required durability of changes.
    pub fn durability(&self) -> Durability {
        self.durability
    }
}
