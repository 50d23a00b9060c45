//! A recorded call of a script.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ecow::EcoString;
use kilter_process::{
    Attempt, Attempts, Capture, Captured, Confinement, Event, Invocation, Observer, Output, SpawnError, Stream,
    Termination,
};

use super::masker::SecretMasker;
use crate::exchange::ScriptCall;

/// Maximum recorded size of the start of stderr and of descriptor 3, in bytes.
const HEAD: usize = 16 << 20;

/// A recorded call of a script: request, answer and context.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedExchange {
    /// Type of the provider. Empty if there is none.
    pub type_name: EcoString,
    /// Name of the provider, or the role of a mold script.
    pub provider: EcoString,
    /// Calling convention.
    pub convention: EcoString,
    /// Action of the call.
    pub action: EcoString,
    /// Path of the script.
    pub path: PathBuf,
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: Option<PathBuf>,
    /// Standard input.
    pub stdin: Option<Vec<u8>>,
    /// Timeout.
    pub deadline: Option<Duration>,
    /// Requested confinement.
    pub confinement: Confinement,
    /// Duration of the call.
    pub duration: Duration,
    /// Start of stderr, if stderr was truncated.
    pub stderr_head: Vec<u8>,
    /// The finished process, or the reason why it was not started. Data on descriptor 3 is complete,
    /// independent of the capture.
    pub answer: Result<Output, String>,
}

/// Observer of a running script. Records data that is not captured.
#[derive(Default)]
pub struct CallRecorder {
    stderr: Vec<u8>,
    channel: Vec<u8>,
    channel_dropped: u64,
}

impl CallRecorder {
    /// Handles an event.
    pub fn observe(&mut self, event: &Event<'_>) {
        match event {
            Event::Chunk { stream: Stream::Stderr, bytes } => {
                let room = HEAD.saturating_sub(self.stderr.len()).min(bytes.len());
                self.stderr.extend_from_slice(&bytes[..room]);
            }
            Event::Chunk { stream: Stream::Channel, bytes } => {
                let room = HEAD.saturating_sub(self.channel.len()).min(bytes.len());
                self.channel.extend_from_slice(&bytes[..room]);
                self.channel_dropped += (bytes.len() - room) as u64;
            }
            _ => {}
        }
    }
}

impl RecordedExchange {
    /// Creates a record of a request, without an answer.
    pub fn asked(exchange: &ScriptCall<'_>) -> RecordedExchange {
        let invocation: &Invocation = exchange.invocation;
        let program = std::iter::once(invocation.program.clone());
        RecordedExchange {
            type_name: exchange.type_name.into(),
            provider: exchange.provider.into(),
            convention: exchange.convention.into(),
            action: exchange.action.into(),
            path: exchange.path.to_owned(),
            argv: program.chain(invocation.args.iter().cloned()).collect(),
            env: invocation.env.clone(),
            cwd: invocation.cwd.clone(),
            stdin: invocation.stdin.clone(),
            deadline: invocation.deadline,
            confinement: invocation.confinement,
            duration: Duration::ZERO,
            stderr_head: Vec::new(),
            answer: Err("it was not started".to_owned()),
        }
    }

    /// Adds the answer.
    #[must_use]
    pub fn answered(
        mut self,
        result: &Result<Output, SpawnError>,
        overheard: CallRecorder,
        duration: Duration,
    ) -> RecordedExchange {
        self.duration = duration;
        self.answer = match result {
            Err(error) => Err(error.with_sources()),
            Ok(finished) => {
                if finished.stderr.is_truncated() {
                    self.stderr_head = overheard.stderr;
                }
                let channel = Captured { bytes: overheard.channel, dropped: overheard.channel_dropped };
                Ok(Output { channel, ..finished.clone() })
            }
        };
        self
    }

    /// Returns true if both are calls of the same script.
    pub fn is_for_the_same(&self, other: &RecordedExchange) -> bool {
        (&self.type_name, &self.provider, &self.convention) == (&other.type_name, &other.provider, &other.convention)
    }

    /// Replaces the secrets in the call with placeholders.
    #[must_use]
    pub fn masked(&self, masker: &SecretMasker) -> RecordedExchange {
        let word = |word: &OsString| OsString::from_vec(masker.mask_bytes(word.as_bytes()));
        let text = |text: &EcoString| EcoString::from(masker.mask(text));
        let path = |path: &Path| PathBuf::from(OsString::from_vec(masker.mask_bytes(path.as_os_str().as_bytes())));
        let captured = |of: &Captured| Captured { bytes: masker.mask_bytes(&of.bytes), dropped: of.dropped };
        RecordedExchange {
            type_name: self.type_name.clone(),
            provider: text(&self.provider),
            convention: self.convention.clone(),
            action: text(&self.action),
            path: path(&self.path),
            argv: self.argv.iter().map(word).collect(),
            env: self.env.iter().map(|(name, value)| (word(name), word(value))).collect(),
            cwd: self.cwd.as_deref().map(path),
            stdin: self.stdin.as_deref().map(|bytes| masker.mask_bytes(bytes)),
            deadline: self.deadline,
            confinement: self.confinement,
            duration: self.duration,
            stderr_head: masker.mask_bytes(&self.stderr_head),
            answer: match &self.answer {
                Err(why) => Err(masker.mask(why)),
                Ok(finished) => Ok(Output {
                    stdout: captured(&finished.stdout),
                    stderr: captured(&finished.stderr),
                    channel: captured(&finished.channel),
                    attempts: attempts(&finished.attempts, path),
                    refusal_hint: finished.refusal_hint.as_deref().map(|hint| masker.mask(hint)),
                    ..finished.clone()
                }),
            },
        }
    }

    /// Replays the answer. `observer` receives the recorded output, one stream after another.
    ///
    /// # Errors
    /// If the script was not started.
    pub fn play(&self, invocation: &Invocation, observer: Observer<'_>) -> Result<Output, SpawnError> {
        let finished = self.answer.as_ref().map_err(|text| SpawnError::Reported { text: text.clone() })?;
        observer(Event::Spawned { pid: 0, confined: &finished.confined });
        if let Some(stdin) = invocation.stdin.as_deref() {
            stdin.chunks(CHUNK).for_each(|bytes| observer(Event::StdinWritten { bytes }));
        }
        self.play_stderr(finished, observer);
        for (stream, captured, capture) in [
            (Stream::Stdout, &finished.stdout, invocation.stdout),
            (Stream::Channel, &finished.channel, invocation.channel),
        ] {
            if capture != Capture::Nothing {
                captured.bytes.chunks(CHUNK).for_each(|bytes| observer(Event::Chunk { stream, bytes }));
                observer(Event::Closed { stream });
            }
        }
        observer(Event::Exited { status: finished.status, ending: finished.ending });
        Ok(Output { channel: captured(&finished.channel, invocation.channel), ..finished.clone() })
    }

    fn play_stderr(&self, finished: &Output, observer: Observer<'_>) {
        let stream = Stream::Stderr;
        let total = finished.stderr.dropped.saturating_add(finished.stderr.bytes.len() as u64);
        let head = if self.stderr_head.is_empty() { &finished.stderr.bytes } else { &self.stderr_head };
        head.chunks(CHUNK).for_each(|bytes| observer(Event::Chunk { stream, bytes }));
        // The data between the recorded start and end is unknown; only its size is reported.
        let bytes = total.saturating_sub(head.len() as u64);
        if bytes > 0 {
            observer(Event::Unseen { stream, bytes });
        }
        observer(Event::Closed { stream });
    }

    /// Describes the end of the call: `exit code 0`, `its time was up`.
    pub fn ended(&self) -> String {
        match &self.answer {
            Err(_) => "not started".to_owned(),
            Ok(finished) => match finished.ending {
                Termination::Exited => finished.status.to_string(),
                Termination::Deadline => "its time was up".to_owned(),
                Termination::Cancelled => "cancelled".to_owned(),
                Termination::OutputLimit => "it wrote too much".to_owned(),
            },
        }
    }
}

/// Returns the attempts with converted paths.
fn attempts(of: &Attempts, path: impl Fn(&Path) -> PathBuf) -> Attempts {
    let first = of.first.iter().map(|one| Attempt { operation: one.operation, path: one.path.as_deref().map(&path) });
    Attempts { first: first.collect(), more: of.more }
}

/// Size of an output chunk in a replay, in bytes.
const CHUNK: usize = 64 << 10;

/// Returns the part of a complete output that would be captured.
fn captured(of: &Captured, capture: Capture) -> Captured {
    let (from, to) = match capture {
        Capture::Nothing => return Captured::default(),
        Capture::First(most) | Capture::AtMost(most) => (0, of.bytes.len().min(most)),
        Capture::Last(most) => (of.bytes.len().saturating_sub(most), of.bytes.len()),
    };
    let dropped = of.dropped.saturating_add((of.bytes.len() - (to - from)) as u64);
    Captured { bytes: of.bytes[from..to].to_vec(), dropped }
}
