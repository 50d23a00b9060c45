//! Calls of scripts, and the interface to intercept them.

use std::path::Path;
use std::time::Duration;

use ecow::EcoString;
use kilter_process::{Cancel, Invocation, Observer, Output, SpawnError, Status, run_observed};
use kilter_provider::{Context, ProcessEnd, ProcessRecord, Redactor};

/// Returns the cancellation of a call.
pub(crate) fn cancel<'a>(cx: &Context<'a>) -> Cancel<'a> {
    let interrupt = cx.interrupt();
    Cancel { flag: interrupt.flag(), fd: interrupt.fd(), urgent: interrupt.urgent() }
}

/// Returns the record of a process for the history, without outputs.
pub fn process_record(
    invocation: &Invocation,
    result: Result<&Output, &SpawnError>,
    duration: Duration,
) -> ProcessRecord {
    let words = std::iter::once(&invocation.program).chain(&invocation.args);
    let argv = words.map(|word| EcoString::from(word.to_string_lossy().as_ref()));
    let end = match result {
        Ok(Output { status: Status::Code(code), .. }) => ProcessEnd::Code(*code),
        Ok(Output { status: Status::Signal(signal), .. }) => ProcessEnd::Signal(*signal),
        Err(error) => ProcessEnd::NotStarted(error.with_sources().into()),
    };
    let cut_short = result.ok().and_then(|output| output.ending.word());
    ProcessRecord { duration, cut_short, ..ProcessRecord::new(argv, end) }
}

/// A call of a script.
#[derive(Clone, Copy)]
pub struct ScriptCall<'a> {
    /// Type of the provider. Empty if it is unknown (`describe`), and for scripts that are not providers.
    pub type_name: &'a str,
    /// Name of the provider, or the role of a mold script: `facts/os`.
    pub provider: &'a str,
    /// Calling convention: `simple`, `json` or `mold`.
    pub convention: &'static str,
    /// Action: `list`, `set`, `inspect`, `restart`.
    pub action: &'a str,
    /// Path of the script.
    pub path: &'a Path,
    /// The process to start.
    pub invocation: &'a Invocation,
    /// Redacts the secrets of the call.
    pub seal: &'a Redactor,
}

impl ScriptCall<'_> {
    /// Returns true if the call runs until it is cancelled, as a watch does.
    pub fn is_endless(&self) -> bool {
        self.invocation.deadline.is_none()
    }
}

/// Runner of scripts. All scripts of a run share an instance, which can inspect calls or answer instead of a
/// script.
///
/// Calls come from several threads.
pub trait ScriptRunner: Send + Sync {
    /// Runs a script until it exits.
    ///
    /// # Errors
    /// If the script cannot be started or awaited. Its exit status is never an error here.
    fn run<'a>(
        &self,
        exchange: &ScriptCall<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Output, SpawnError>;
}

/// Runner that starts the processes without interception.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessRunner;

impl ScriptRunner for ProcessRunner {
    fn run<'a>(
        &self,
        exchange: &ScriptCall<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Output, SpawnError> {
        run_observed(exchange.invocation, cancel, observer)
    }
}
