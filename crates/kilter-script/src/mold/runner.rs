//! Runs mold scripts.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ecow::{EcoString, eco_format};
use kilter_model::{REDACTED, TypeSchema, Value, to_json, to_json_clear};
use kilter_process::{Capture, Confinement, Event, Invocation, KillMode, Output};
use kilter_provider::{Context, Level, ProcessRecord, Redactor};

use super::error::{MoldCause, MoldError};
use super::recorder::EventRecorder;
use crate::confined::{ConfinementPolicy, ConfinementReporter, Confining};
use crate::convention::size::{self, MemoryBudget};
use crate::exchange::{ScriptCall, cancel, process_record};
use crate::provider::last_words;
use crate::script_environment::ScriptEnvironment;
use crate::secrets::{self, BufferedLines, has_secrets};
use crate::stderr_forwarder::StderrForwarder;

/// Action that reports changes until cancelled.
pub(super) const WATCH: &str = "watch";

/// Runner of scripts. Reports all events to a historian.
pub(super) struct Runner {
    pub(super) surroundings: Arc<ScriptEnvironment>,
    /// Number of scripts started so far.
    started: AtomicU64,
    watch: ConfinementReporter,
}

/// A call of a script.
pub(super) struct ActorCall<'a> {
    /// The script.
    pub(super) path: &'a Path,
    /// Name of the script in messages: `resources/file`.
    pub(super) role: EcoString,
    /// Directory of the script for persistent data, relative to that of all scripts.
    pub(super) keeps: EcoString,
    /// Description of the call for messages.
    pub(super) task: EcoString,
    /// Type and name of the resource in log lines.
    pub(super) about: (&'a str, &'a str),
    /// Argument of the script.
    pub(super) action: Option<&'a str>,
    /// Input document.
    pub(super) input: Option<&'a Value>,
    /// Confinement of the script.
    pub(super) confinement: Confinement,
    /// True if the call reads or previews.
    pub(super) is_read: bool,
    /// Known secrets, in addition to the secrets in the input.
    pub(super) known: Redactor,
    /// Types of the resources in the call.
    pub(super) schemas: Vec<&'a TypeSchema>,
    /// Timeout.
    pub(super) deadline: Duration,
    /// Output limit in bytes.
    pub(super) output: usize,
}

impl ActorCall<'_> {
    /// Returns the secrets that are known before the script answers.
    pub(super) fn given(&self) -> Redactor {
        secrets::written(Redactor::of_values(self.input).and(self.known.clone()))
    }

    /// Returns true if the answer may contain secrets that are unknown before it is parsed.
    fn tells_secrets(&self) -> bool {
        self.action != Some(WATCH) && self.schemas.iter().any(|schema| has_secrets(schema))
    }

    /// Returns the secrets in the output of the script. None if they cannot be determined.
    fn secrets_in_output(&self, finished: &Output) -> Option<Redactor> {
        let text = finished.stdout.text();
        // Lines for people are not a document.
        let begins = text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
        let is_document = begins || matches!(self.action, None | Some("inspect" | "list"));
        if !self.tells_secrets() || !is_document || text.trim().is_empty() {
            return Some(Redactor::default());
        }
        MemoryBudget::of(self.output).holds_tree(&text).ok()?;
        let document = serde_json::from_str(&text).ok()?;
        Some(secrets::of_document(&self.schemas, &document))
    }

    /// Returns the secrets in the call and its answer. None if they cannot be determined.
    pub(super) fn secrets(&self, finished: &Output) -> Option<Redactor> {
        self.secrets_in_output(finished).map(|told| self.given().and(told))
    }

    /// Adds the outputs to a record for the history. The answer of a query is no part of it.
    fn with_outputs(&self, record: ProcessRecord, finished: &Output) -> ProcessRecord {
        let stdout = if self.is_read && finished.is_success() { &[] } else { &*finished.stdout.bytes };
        record.with_outputs(stdout, &finished.stderr.bytes)
    }

    /// Returns the way to lift the confinement. `conform` is confined only in a preview.
    fn lifted(&self) -> ConfinementPolicy {
        if self.action == Some("conform") { ConfinementPolicy::Never } else { ConfinementPolicy::ByMetadata }
    }

    /// Describes the call that made a change. Its exit status is left out if it succeeded.
    pub(super) fn made(&self, finished: &Output) -> EcoString {
        let last_words = match last_words(finished, self.secrets(finished).as_ref()) {
            words if words.is_empty() => words,
            words => eco_format!("; last on its standard error: {words}"),
        };
        let status = match finished.status.is_success() {
            true => EcoString::new(),
            false => eco_format!(": {}", finished.status),
        };
        eco_format!("{}, mold, {}{status}{last_words}", self.task, self.path.display())
    }

    /// Creates an error of this call.
    pub(super) fn error(&self, cause: MoldCause, finished: Option<&Output>) -> MoldError {
        let seal = finished.map_or_else(|| Some(self.given()), |finished| self.secrets(finished));
        let hide = |text: EcoString| seal.iter().fold(text, |text, seal| seal.redact(text));
        let details = finished.map(|finished| {
            MoldError::details_of(&cause, finished, seal.as_ref(), (self.lifted(), Some(self.deadline)))
        });
        let details = details.unwrap_or_default().into_iter().map(hide).collect();
        let cause = cause.reworded(|why| if seal.is_none() { REDACTED.into() } else { hide(why) });
        MoldError { task: self.task.clone(), path: PathBuf::from(self.path), cause, details }
    }
}

impl Runner {
    pub(super) fn new(surroundings: Arc<ScriptEnvironment>) -> Runner {
        Runner { surroundings, started: AtomicU64::new(0), watch: ConfinementReporter::default() }
    }

    /// Runs a script until it exits and forwards its output. Does not interpret the result.
    pub(super) fn run(&self, cx: &Context<'_>, call: &ActorCall<'_>) -> Result<Output, MoldError> {
        self.run_observed(cx, call, &mut |_| {})
    }

    /// Like [`Runner::run`]; `observe` receives the events of the process.
    pub(super) fn run_observed(
        &self,
        cx: &Context<'_>,
        call: &ActorCall<'_>,
        observe: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Output, MoldError> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{}#{number}", call.role);
        let seal = call.given();
        let told = call.input.filter(|input| input.holds_sensitive()).map(|input| line(&to_json(input)));
        let log_now = |level: Level, message: &str| cx.log(level, call.about.0, call.about.1, message);
        let (tells_secrets, held) = (call.tells_secrets(), BufferedLines::default());
        let log = |level: Level, message: &str| match (seal.redact(message.into()), tells_secrets) {
            (message, true) => held.hold(level, message),
            (message, false) => log_now(level, &message),
        };
        // kilter's own remarks contain no secrets of the answer, so they are logged immediately. They may be
        // the only message.
        let remark = |level: Level, message: &str| log_now(level, &seal.redact(message.into()));
        let warn = |why: &str| remark(Level::Warning, why);
        let invocation =
            self.surroundings.keeping(self.surroundings.introducing(self.invocation(call)), &call.keeps, warn);
        let mut recorder = EventRecorder::new(&name, &*self.surroundings.historian, &seal, &invocation, told);
        let is_recorded = cx.records_processes() && call.action != Some(WATCH);
        recorder.messages = is_recorded.then(RefCell::default);
        if tells_secrets {
            recorder.hold(call.output);
        }
        // Output on stderr indicates neither success nor failure.
        let mut spoken = StderrForwarder::new(self.surroundings.limits.error, Level::Info, &seal, &log);
        let exchange = ScriptCall {
            type_name: call.about.0,
            provider: &call.role,
            convention: "mold",
            action: call.action.unwrap_or_default(),
            path: call.path,
            invocation: &invocation,
            seal: &seal,
        };
        let begun = Instant::now();
        let finished = self.surroundings.exchanges.run(&exchange, Some(cancel(cx)), &mut |event| {
            recorder.observe(&event);
            spoken.observe(&event);
            observe(&event);
        });
        let finished = finished.map_err(|error| {
            recorder.release(Some(&Redactor::default()));
            held.log(Some(&Redactor::default()), &log_now);
            cx.record_process(process_record(&invocation, Err(&error), begun.elapsed()).redacted(&seal));
            call.error(MoldCause::NotStarted(error), None)
        })?;
        let found = call.secrets_in_output(&finished);
        recorder.release(found.clone().map(|found| seal.clone().and(found)).as_ref());
        if let Some(messages) = recorder.messages.take() {
            let record = process_record(&invocation, Ok(&finished), begun.elapsed());
            let record = ProcessRecord { messages: messages.into_inner(), ..record };
            let all = found.clone().map(|found| seal.clone().and(found));
            let cx = if call.about.1.is_empty() { *cx } else { cx.about(call.about.1) };
            cx.record_process(match &all {
                Some(all) => call.with_outputs(record, &finished).redacted(all),
                None => record.redacted(&seal),
            });
        }
        let damages = std::mem::take(&mut recorder.damages);
        for damage in damages {
            log(Level::Warning, &format!("channel 3 of {}: {damage}", call.path.display()));
        }
        held.log(found.as_ref(), &log_now);
        if finished.leaked {
            remark(Level::Warning, "the script has ended and left a process that keeps its output open");
        }
        let who = format!("the script {}", call.path.display());
        let (action, lifted) = (call.action.unwrap_or_default(), call.lifted());
        let confining = Confining { who: &who, action, is_preview: lifted == ConfinementPolicy::Never, lifted };
        self.watch.notes(confining, &finished).for_each(|message| remark(Level::Warning, &message));
        Ok(finished)
    }

    fn invocation(&self, call: &ActorCall<'_>) -> Invocation {
        let mut invocation = self.surroundings.invocation(call.path).args(call.action);
        invocation.stdin = call.input.map(|input| line(&to_json_clear(input)));
        invocation.deadline = Some(call.deadline);
        invocation.stdout = Capture::AtMost(call.output);
        if call.action == Some(WATCH) {
            // The output is processed as a stream until the watch is cancelled.
            (invocation.stdout, invocation.deadline) = (Capture::First(0), None);
        }
        let leftovers = if call.is_read { KillMode::Ended } else { KillMode::LeftAlone };
        // The recorder processes the whole stream, so nothing is captured.
        invocation.channel(Capture::First(0)).confined(call.confinement).leftovers(leftovers)
    }

    /// Returns the output limit for a call about one resource: the declared limit, otherwise the default.
    pub(super) fn output(&self, said: Option<usize>) -> usize {
        size::of_one(said.unwrap_or(self.surroundings.limits.output))
    }
}

/// Returns a document as a line.
fn line(document: &serde_json::Value) -> Vec<u8> {
    format!("{document}\n").into_bytes()
}
