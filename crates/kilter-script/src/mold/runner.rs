//! One script, run the same wherever it is asked for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{REDACTED, TypeSchema, Value, to_json, to_json_clear};
use kilter_process::{Capture, Confinement, Event, Finished, Invocation, Leftovers};
use kilter_provider::{Context, Level, Seal};

use super::error::{MoldCause, MoldError};
use super::recorder::Recorder;
use crate::confined::{Confining, Lifted, Watch};
use crate::convention::size::{self, Room};
use crate::exchange::{Exchange, cancel};
use crate::provider::last_words;
use crate::secrets::{self, HeldLines, has_secrets};
use crate::spoken::Spoken;
use crate::surroundings::Surroundings;

/// The action that tells what changes, for as long as somebody listens.
pub(super) const WATCH: &str = "watch";

/// Runs scripts, and tells a historian everything that happens.
pub(super) struct Runner {
    pub(super) surroundings: Arc<Surroundings>,
    /// How many scripts were started so far.
    started: AtomicU64,
    watch: Watch,
}

/// What a script is to do.
pub(super) struct Call<'a> {
    /// The script.
    pub(super) path: &'a Path,
    /// What it is called in messages: `resources/file`.
    pub(super) role: EcoString,
    /// Where it keeps things, below the directory of all scripts.
    pub(super) keeps: EcoString,
    /// What it is called for, for people.
    pub(super) task: EcoString,
    /// The type and the name of the resource that it is about, for its lines.
    pub(super) about: (&'a str, &'a str),
    /// Its argument.
    pub(super) action: Option<&'a str>,
    /// The document that it reads.
    pub(super) input: Option<&'a Value>,
    /// What it is kept from.
    pub(super) confinement: Confinement,
    /// Whether it only reads, or tells what it would do.
    pub(super) is_read: bool,
    /// What must not be told, beside what is secret in the document.
    pub(super) known: Seal,
    /// The types of the resources that it is about.
    pub(super) schemas: Vec<&'a TypeSchema>,
    /// How long it may take.
    pub(super) deadline: Duration,
    /// How many bytes it may print.
    pub(super) output: usize,
}

impl Call<'_> {
    /// What is secret before the script has answered.
    pub(super) fn given(&self) -> Seal {
        secrets::written(Seal::of_values(self.input).and(self.known.clone()))
    }

    /// Whether it may tell secrets that nobody knows before its answer has been read.
    fn tells_secrets(&self) -> bool {
        self.action != Some(WATCH) && self.schemas.iter().any(|schema| has_secrets(schema))
    }

    /// The secrets in what the script has printed; none where nobody can tell which these are.
    fn told(&self, finished: &Finished) -> Option<Seal> {
        let text = finished.stdout.text();
        // Lines for people are no document.
        let begins = text.trim_start_matches('\u{feff}').trim_start().starts_with('{');
        let is_document = begins || matches!(self.action, None | Some("inspect" | "list"));
        if !self.tells_secrets() || !is_document || text.trim().is_empty() {
            return Some(Seal::default());
        }
        Room::of(self.output).holds_tree(&text).ok()?;
        let document = serde_json::from_str(&text).ok()?;
        Some(secrets::of_document(&self.schemas, &document))
    }

    /// What is secret in the call and its answer; none where nobody can tell that.
    pub(super) fn secrets(&self, finished: &Finished) -> Option<Seal> {
        self.told(finished).map(|told| self.given().and(told))
    }

    /// Who can let the script write, where it is confined. What brings a resource to a state is confined in a preview only.
    fn lifted(&self) -> Lifted {
        if self.action == Some("conform") { Lifted::Never } else { Lifted::ByMetadata }
    }

    /// What it was, and how it ended.
    pub(super) fn made(&self, finished: &Finished) -> EcoString {
        let last_words = match last_words(finished, self.secrets(finished).as_ref()) {
            words if words.is_empty() => words,
            words => eco_format!("; last on its standard error: {words}"),
        };
        eco_format!("{}, mold, {}: {}{last_words}", self.task, self.path.display(), finished.status)
    }

    /// The error of this call.
    pub(super) fn error(&self, cause: MoldCause, finished: Option<&Finished>) -> MoldError {
        let seal = finished.map_or_else(|| Some(self.given()), |finished| self.secrets(finished));
        let hide = |text: EcoString| seal.iter().fold(text, |text, seal| seal.hide(text));
        let details = finished.map(|finished| {
            MoldError::details_of(&cause, finished, seal.as_ref(), (self.lifted(), Some(self.deadline)))
        });
        let details = details.unwrap_or_default().into_iter().map(hide).collect();
        let cause = cause.reworded(|why| if seal.is_none() { REDACTED.into() } else { hide(why) });
        MoldError { task: self.task.clone(), path: PathBuf::from(self.path), cause, details }
    }
}

impl Runner {
    pub(super) fn new(surroundings: Arc<Surroundings>) -> Runner {
        Runner { surroundings, started: AtomicU64::new(0), watch: Watch::default() }
    }

    /// Runs a script to its end, passes on what it writes, and judges nothing.
    pub(super) fn run(&self, cx: &Context<'_>, call: &Call<'_>) -> Result<Finished, MoldError> {
        self.run_observed(cx, call, &mut |_| {})
    }

    /// The same, and `observe` sees what the script does while it does it.
    pub(super) fn run_observed(
        &self,
        cx: &Context<'_>,
        call: &Call<'_>,
        observe: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Finished, MoldError> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("{}#{number}", call.role);
        let seal = call.given();
        let told = call.input.filter(|input| input.holds_sensitive()).map(|input| line(&to_json(input)));
        let tell = |level: Level, message: &str| cx.log(level, call.about.0, call.about.1, message);
        let (tells_secrets, held) = (call.tells_secrets(), HeldLines::default());
        let log = |level: Level, message: &str| match (seal.hide(message.into()), tells_secrets) {
            (message, true) => held.hold(level, message),
            (message, false) => tell(level, &message),
        };
        // What kilter says of itself is not held back: it may be all that is told.
        let remark = |level: Level, message: &str| tell(level, &seal.hide(message.into()));
        let warn = |why: &str| remark(Level::Warning, why);
        let invocation =
            self.surroundings.keeping(self.surroundings.introducing(self.invocation(call)), &call.keeps, warn);
        let mut recorder = Recorder::new(&name, &*self.surroundings.historian, &seal, &invocation, told);
        if tells_secrets {
            recorder.hold(call.output);
        }
        // Of itself it means neither success nor failure.
        let mut spoken = Spoken::new(self.surroundings.limits.error, Level::Info, &seal, &log);
        let exchange = Exchange {
            type_name: call.about.0,
            provider: &call.role,
            convention: "mold",
            action: call.action.unwrap_or_default(),
            path: call.path,
            invocation: &invocation,
            seal: &seal,
        };
        let finished = self.surroundings.exchanges.run(&exchange, Some(cancel(cx)), &mut |event| {
            recorder.observe(&event);
            spoken.observe(&event);
            observe(&event);
        });
        let finished = finished.map_err(|error| {
            recorder.release(Some(&Seal::default()));
            held.tell(Some(&Seal::default()), &tell);
            call.error(MoldCause::NotStarted(error), None)
        })?;
        let found = call.told(&finished);
        recorder.release(found.clone().map(|found| seal.clone().and(found)).as_ref());
        let damages = std::mem::take(&mut recorder.damages);
        for damage in damages {
            log(Level::Warning, &format!("channel 3 of {}: {damage}", call.path.display()));
        }
        held.tell(found.as_ref(), &tell);
        if finished.leaked {
            remark(Level::Warning, "the script has ended and left a process behind that keeps its output open");
        }
        let who = format!("the script {}", call.path.display());
        let (action, lifted) = (call.action.unwrap_or_default(), call.lifted());
        let confining = Confining { who: &who, action, is_preview: lifted == Lifted::Never, lifted };
        self.watch.notes(confining, &finished).for_each(|message| remark(Level::Warning, &message));
        Ok(finished)
    }

    fn invocation(&self, call: &Call<'_>) -> Invocation {
        let mut invocation = self.surroundings.invocation(call.path).args(call.action);
        invocation.stdin = call.input.map(|input| line(&to_json_clear(input)));
        invocation.deadline = Some(call.deadline);
        invocation.stdout = Capture::AtMost(call.output);
        if call.action == Some(WATCH) {
            // It is read as it comes, and goes on until it is ended.
            (invocation.stdout, invocation.deadline) = (Capture::First(0), None);
        }
        let leftovers = if call.is_read { Leftovers::Ended } else { Leftovers::LeftAlone };
        // The recorder sees all of it, and keeps nothing.
        invocation.channel(Capture::First(0)).confined(call.confinement).leftovers(leftovers)
    }

    /// How many bytes a script may print about one resource: what its metadata says, or what all may.
    pub(super) fn output(&self, said: Option<usize>) -> usize {
        size::of_one(said.unwrap_or(self.surroundings.limits.output))
    }
}

/// A document on a line.
fn line(document: &serde_json::Value) -> Vec<u8> {
    format!("{document}\n").into_bytes()
}
