//! One exchange with a script, whole.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ecow::EcoString;
use kilter_process::{
    Attempt, Attempts, Capture, Captured, Confinement, Ending, Event, Finished, Invocation, Observer, SpawnError,
    Stream,
};

use super::veil::Veil;
use crate::exchange::Exchange;

/// So much of the beginning of an error output is kept where the end alone was captured, and of descriptor 3, in bytes.
const HEAD: usize = 16 << 20;

/// One exchange with a script, whole: what was asked, of whom, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedExchange {
    /// The type of the provider; empty where there is none.
    pub type_name: EcoString,
    /// The provider, or the role of a script of mold.
    pub provider: EcoString,
    /// How it is called.
    pub convention: EcoString,
    /// What it was called for.
    pub action: EcoString,
    /// The script.
    pub path: PathBuf,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// What it could read.
    pub stdin: Option<Vec<u8>>,
    /// How long it could take.
    pub deadline: Option<Duration>,
    /// What it was to be kept from.
    pub confinement: Confinement,
    /// How long it took.
    pub duration: Duration,
    /// The beginning of its error output, where more was written than is kept.
    pub stderr_head: Vec<u8>,
    /// What became of it, or why it was not started. What it wrote to descriptor 3 is whole, whatever was captured.
    pub answer: Result<Finished, String>,
}

/// Looks on while a script runs, for what is not captured.
#[derive(Default)]
pub struct Overheard {
    stderr: Vec<u8>,
    channel: Vec<u8>,
    channel_dropped: u64,
}

impl Overheard {
    /// Takes an event.
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
    /// What is asked of a script; nothing has come of it yet.
    pub fn asked(exchange: &Exchange<'_>) -> RecordedExchange {
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

    /// Adds what came of it.
    #[must_use]
    pub fn answered(
        mut self,
        result: &Result<Finished, SpawnError>,
        overheard: Overheard,
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
                Ok(Finished { channel, ..finished.clone() })
            }
        };
        self
    }

    /// Whether it asks the same of the same script.
    pub fn asks_the_same(&self, other: &RecordedExchange) -> bool {
        self.is_for_the_same(other)
            && self.action == other.action
            && self.argv == other.argv
            && self.stdin.as_deref().unwrap_or_default() == other.stdin.as_deref().unwrap_or_default()
    }

    /// Whether it is an exchange with the same script.
    pub fn is_for_the_same(&self, other: &RecordedExchange) -> bool {
        (&self.type_name, &self.provider, &self.convention) == (&other.type_name, &other.provider, &other.convention)
    }

    /// The exchange with other texts in the place of secrets.
    #[must_use]
    pub fn veiled(&self, veil: &Veil) -> RecordedExchange {
        let word = |word: &OsString| OsString::from_vec(veil.hide_bytes(word.as_bytes()));
        let text = |text: &EcoString| EcoString::from(veil.hide(text));
        let path = |path: &Path| PathBuf::from(OsString::from_vec(veil.hide_bytes(path.as_os_str().as_bytes())));
        let captured = |of: &Captured| Captured { bytes: veil.hide_bytes(&of.bytes), dropped: of.dropped };
        RecordedExchange {
            type_name: self.type_name.clone(),
            provider: text(&self.provider),
            convention: self.convention.clone(),
            action: text(&self.action),
            path: path(&self.path),
            argv: self.argv.iter().map(word).collect(),
            env: self.env.iter().map(|(name, value)| (word(name), word(value))).collect(),
            cwd: self.cwd.as_deref().map(path),
            stdin: self.stdin.as_deref().map(|bytes| veil.hide_bytes(bytes)),
            deadline: self.deadline,
            confinement: self.confinement,
            duration: self.duration,
            stderr_head: veil.hide_bytes(&self.stderr_head),
            answer: match &self.answer {
                Err(why) => Err(veil.hide(why)),
                Ok(finished) => Ok(Finished {
                    stdout: captured(&finished.stdout),
                    stderr: captured(&finished.stderr),
                    channel: captured(&finished.channel),
                    attempts: attempts(&finished.attempts, path),
                    refusal_hint: finished.refusal_hint.as_deref().map(|hint| veil.hide(hint)),
                    ..finished.clone()
                }),
            },
        }
    }

    /// Gives the answer once more, as the script did: what it wrote is told to `observer`, each stream by itself.
    ///
    /// # Errors
    /// When the script was not started.
    pub fn play(&self, invocation: &Invocation, observer: Observer<'_>) -> Result<Finished, SpawnError> {
        let finished = self.answer.as_ref().map_err(|text| SpawnError::Told { text: text.clone() })?;
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
        Ok(Finished { channel: captured(&finished.channel, invocation.channel), ..finished.clone() })
    }

    fn play_stderr(&self, finished: &Finished, observer: Observer<'_>) {
        let stream = Stream::Stderr;
        let total = finished.stderr.dropped.saturating_add(finished.stderr.bytes.len() as u64);
        let head = if self.stderr_head.is_empty() { &finished.stderr.bytes } else { &self.stderr_head };
        head.chunks(CHUNK).for_each(|bytes| observer(Event::Chunk { stream, bytes }));
        // Nobody has seen what was between the beginning and the end; only how much it was counts.
        let bytes = total.saturating_sub(head.len() as u64);
        if bytes > 0 {
            observer(Event::Unseen { stream, bytes });
        }
        observer(Event::Closed { stream });
    }

    /// How it ended, in a few words: `exit code 0`, `ended at its deadline`.
    pub fn ended(&self) -> String {
        match &self.answer {
            Err(_) => "not started".to_owned(),
            Ok(finished) => match finished.ending {
                Ending::Exited => finished.status.to_string(),
                Ending::Deadline => "its time was up".to_owned(),
                Ending::Cancelled => "cancelled".to_owned(),
                Ending::Flooded => "it wrote too much".to_owned(),
            },
        }
    }
}

/// The same with other paths.
fn attempts(of: &Attempts, path: impl Fn(&Path) -> PathBuf) -> Attempts {
    let first = of.first.iter().map(|one| Attempt { deed: one.deed, path: one.path.as_deref().map(&path) });
    Attempts { first: first.collect(), more: of.more }
}

/// The size of the parts in which an output is told.
const CHUNK: usize = 64 << 10;

/// What of an output that is known whole is captured.
fn captured(of: &Captured, capture: Capture) -> Captured {
    let (from, to) = match capture {
        Capture::Nothing => return Captured::default(),
        Capture::First(most) | Capture::AtMost(most) => (0, of.bytes.len().min(most)),
        Capture::Last(most) => (of.bytes.len().saturating_sub(most), of.bytes.len()),
    };
    let dropped = of.dropped.saturating_add((of.bytes.len() - (to - from)) as u64);
    Captured { bytes: of.bytes[from..to].to_vec(), dropped }
}
