//! Calls of scripts, and who stands between a script and kilter.

use std::path::Path;

use kilter_process::{Cancel, Finished, Invocation, Observer, SpawnError, run_observed};
use kilter_provider::{Context, Seal};

/// What ends a call.
pub(crate) fn cancel<'a>(cx: &Context<'a>) -> Cancel<'a> {
    let interrupt = cx.interrupt();
    Cancel { flag: interrupt.flag(), fd: interrupt.fd(), urgent: interrupt.urgent() }
}

/// One call of a script: who is called, what for, and the process that is to be started.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    /// The type of the provider; empty while nobody knows it (`describe`), and for scripts that are no provider's.
    pub type_name: &'a str,
    /// The provider, or the role of a script of mold: `facts/os`.
    pub provider: &'a str,
    /// How it is called: `simple`, `json` or `mold`.
    pub convention: &'static str,
    /// What it is called for: `list`, `set`, `inspect`, `restart`.
    pub action: &'a str,
    /// The script.
    pub path: &'a Path,
    /// The process.
    pub invocation: &'a Invocation,
    /// Takes out what is secret in the call.
    pub seal: &'a Seal,
}

impl Exchange<'_> {
    /// Whether it goes on until somebody ends it, as a watch does.
    pub fn is_endless(&self) -> bool {
        self.invocation.deadline.is_none()
    }
}

/// Runs scripts. There is one for all scripts of a run: it may look at each call, or answer in a script's place.
///
/// Calls come from several threads.
pub trait Exchanges: Send + Sync {
    /// Runs a script to its end.
    ///
    /// # Errors
    /// When it cannot be started or waited for. How it ended is never an error.
    fn run<'a>(
        &self,
        exchange: &Exchange<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Finished, SpawnError>;
}

/// Starts processes, and nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

impl Exchanges for Live {
    fn run<'a>(
        &self,
        exchange: &Exchange<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Finished, SpawnError> {
        run_observed(exchange.invocation, cancel, observer)
    }
}
