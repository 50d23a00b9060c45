//! What a provider is given of its surroundings.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::contract::Wanted;
use crate::logging::ProviderEvent;
use crate::outlook::{Alone, Outlook};
use ecow::EcoString;

/// Severities of RFC 5424, the gravest last.
///
/// Providers use those up to [`Level::Err`]: what fails in a provider concerns its resources. The
/// graver ones are there so that lines of others can be carried as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For the author of a provider.
    Debug,
    /// Regular progress.
    Info,
    /// A change of state, or another event of notice.
    Notice,
    /// Something that does not yet prevent the work.
    Warning,
    /// Something that prevented it.
    Err,
    /// A critical condition. Not for providers.
    Critical,
    /// Somebody has to act at once. Not for providers.
    Alert,
    /// The system is unusable. Not for providers.
    Emerg,
}

impl Level {
    /// The word for it.
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

    /// Its number in RFC 5424: 7 for debug down to 0 for emerg.
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

/// Takes the lines that providers write.
pub trait Log: Send + Sync {
    /// One line about a resource, or about the provider when `name` is empty.
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str);

    /// What a provider reports through a [`ChangeLog`](crate::ChangeLog). As long as nobody wants
    /// more, it becomes one line for each resource that it is about.
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

/// Drops every line.
pub struct NoLog;

impl Log for NoLog {
    fn log(&self, _: Level, _: &str, _: &str, _: &str) {}

    fn event(&self, _: &ProviderEvent<'_>) {}
}

/// The wish of the person at the terminal that what is in flight be ended too.
#[derive(Clone, Copy)]
pub struct Interrupt<'a> {
    flag: &'a AtomicBool,
    fd: Option<BorrowedFd<'a>>,
    urgent: Option<&'a AtomicBool>,
}

impl<'a> Interrupt<'a> {
    /// An interrupt that is read from `flag`; `fd` becomes readable when the flag is set.
    pub fn new(flag: &'a AtomicBool, fd: Option<BorrowedFd<'a>>) -> Interrupt<'a> {
        Interrupt { flag, fd, urgent: None }
    }

    /// The same, and `urgent` says when what is being ended is to be killed.
    #[must_use]
    pub fn or_urgent(self, urgent: &'a AtomicBool) -> Interrupt<'a> {
        Interrupt { urgent: Some(urgent), ..self }
    }

    /// Says when what is being ended is not to have any more time to end by itself.
    pub fn urgent(&self) -> Option<&'a AtomicBool> {
        self.urgent
    }

    /// Whether to stop.
    pub fn is_raised(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// What it is read from.
    pub fn flag(&self) -> &'a AtomicBool {
        self.flag
    }

    /// A descriptor that becomes readable when it is raised, for polling.
    pub fn fd(&self) -> Option<BorrowedFd<'a>> {
        self.fd
    }
}

/// Whether changes are to survive a crash of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// They survive once the run has reported success.
    #[default]
    Flushed,
    /// They survive when the system gets to it.
    Unflushed,
}

/// What becomes of a provider that does not keep its promises: states with values that
/// canonicalisation would change, titles that do not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// Nothing.
    Off,
    /// It is warned of.
    #[default]
    Warning,
    /// The resource fails.
    Error,
}

/// What the program is called that runs providers, as it is told to them.
pub const PROGRAM: &str = "kilter";

/// What a machine is called that nobody has named.
pub(crate) const NAMELESS: &str = "localhost";

static NEVER: AtomicBool = AtomicBool::new(false);

/// What a provider is given of its surroundings for one call.
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
    only_looks: bool,
    outlook: &'a dyn Outlook,
    strictness: Strictness,
    asked: &'a [EcoString],
}

impl Context<'static> {
    /// Surroundings in which nothing is logged, nothing else is managed and nobody interrupts.
    pub fn bare() -> Context<'static> {
        Context {
            log: &NoLog,
            interrupt: Interrupt::new(&NEVER, None),
            managed: &|_| false,
            managed_below: &|_| false,
            var_dir: None,
            hostname: NAMELESS,
            durability: Durability::Flushed,
            ending: &NEVER,
            only_looks: false,
            outlook: &Alone,
            strictness: Strictness::default(),
            asked: &[],
        }
    }
}

impl<'a> Context<'a> {
    /// The same surroundings with another log.
    #[must_use]
    pub fn with_log<'b>(self, log: &'b dyn Log) -> Context<'b>
    where
        'a: 'b,
    {
        Context { log, ..self }
    }

    /// The same surroundings with another interrupt.
    #[must_use]
    pub fn with_interrupt<'b>(self, interrupt: Interrupt<'b>) -> Context<'b>
    where
        'a: 'b,
    {
        Context { interrupt, ..self }
    }

    /// The same surroundings with another answer to [`Context::manages`].
    #[must_use]
    pub fn with_managed<'b>(self, managed: &'b (dyn Fn(&str) -> bool + Sync)) -> Context<'b>
    where
        'a: 'b,
    {
        Context { managed, ..self }
    }

    /// The same surroundings with another answer to [`Context::manages_below`].
    #[must_use]
    pub fn with_managed_below<'b>(self, managed_below: &'b (dyn Fn(&str) -> bool + Sync)) -> Context<'b>
    where
        'a: 'b,
    {
        Context { managed_below, ..self }
    }

    /// The same surroundings with another var directory.
    #[must_use]
    pub fn with_var_dir<'b>(self, var_dir: Option<&'b Path>) -> Context<'b>
    where
        'a: 'b,
    {
        Context { var_dir, ..self }
    }

    /// The same surroundings on a machine of this name.
    #[must_use]
    pub fn with_hostname<'b>(self, hostname: &'b str) -> Context<'b>
    where
        'a: 'b,
    {
        Context { hostname, ..self }
    }

    /// The same surroundings with another durability.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Context<'a> {
        Context { durability, ..self }
    }

    /// The same surroundings with another answer to [`Context::is_ending`].
    #[must_use]
    pub fn with_ending<'b>(self, ending: &'b AtomicBool) -> Context<'b>
    where
        'a: 'b,
    {
        Context { ending, ..self }
    }

    /// The same surroundings in a run that only looks, or does not.
    #[must_use]
    pub fn with_only_looks(self, only_looks: bool) -> Context<'a> {
        Context { only_looks, ..self }
    }

    /// The same surroundings with another outlook.
    #[must_use]
    pub fn with_outlook<'b>(self, outlook: &'b dyn Outlook) -> Context<'b>
    where
        'a: 'b,
    {
        Context { outlook, ..self }
    }

    /// The same surroundings with another strictness.
    #[must_use]
    pub fn with_strictness(self, strictness: Strictness) -> Context<'a> {
        Context { strictness, ..self }
    }

    /// The same surroundings in which lazy attributes are asked for.
    #[must_use]
    pub fn with_asked<'b>(self, asked: &'b [EcoString]) -> Context<'b>
    where
        'a: 'b,
    {
        Context { asked, ..self }
    }

    /// How strictly a provider is held to its promises.
    pub fn strictness(&self) -> Strictness {
        self.strictness
    }

    /// Whether a lazy attribute is to be read: it was asked for, or something is wanted of it.
    pub fn wants(&self, wanted: Option<&Wanted<'_>>, attribute: &str) -> bool {
        self.asked.iter().any(|asked| asked == attribute) || wanted.is_some_and(|wanted| wanted.manages(attribute))
    }

    /// Whether the run is to end: what has begun is finished, but not tried again.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Whether nothing is changed in this run: what another resource would make first is not there.
    pub fn only_looks(&self) -> bool {
        self.only_looks
    }

    /// What may have happened by the turn of a resource, in a run that only looks.
    pub fn outlook(&self) -> &'a dyn Outlook {
        self.outlook
    }

    /// Writes a line about the resource `name` of `type_name`.
    pub fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        self.log.log(level, type_name, name, message);
    }

    /// Reports an event; its text goes to where lines go.
    pub fn event(&self, event: &ProviderEvent<'_>) {
        self.log.event(event);
    }

    /// The wish that calls in flight end.
    pub fn interrupt(&self) -> Interrupt<'a> {
        self.interrupt
    }

    /// Whether the catalog declares a resource of the provider's type under `name`.
    pub fn manages(&self, name: &str) -> bool {
        (self.managed)(name)
    }

    /// Whether the catalog declares a resource of the provider's type whose name is a path below
    /// `path`.
    pub fn manages_below(&self, path: &str) -> bool {
        (self.managed_below)(path)
    }

    /// The directory in which kilter keeps what providers want to keep, mode 0700. It need not
    /// exist yet. None when nothing is kept.
    pub fn var_dir(&self) -> Option<&'a Path> {
        self.var_dir
    }

    /// What this machine is called among those that it shares things with: its host name, unless `--hostname` says otherwise. It
    /// stays the same for as long as a provider is open.
    pub fn hostname(&self) -> &'a str {
        self.hostname
    }

    /// What the program is called that runs the provider.
    pub fn program(&self) -> &'static str {
        PROGRAM
    }

    /// Whether changes are to survive a crash.
    pub fn durability(&self) -> Durability {
        self.durability
    }
}
