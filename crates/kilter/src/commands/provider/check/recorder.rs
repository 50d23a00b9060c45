//! Every call of a script, kept for as long as the law is tried that it was made for.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kilter_process::{Cancel, Finished, Observer, SpawnError, run_observed};
use kilter_provider::Seal;
use kilter_script::{Exchange, Exchanges};

use crate::signals;

/// How many calls of a law are kept, the last ones.
const KEPT: usize = 64;

/// How many of them are shown.
const SHOWN: usize = 2;

/// How far back one that failed is looked for.
const LOOKED_BACK: usize = 4;

/// How many bytes are kept of each stream.
const LONGEST: usize = 64 << 10;

/// A call of a script.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) convention: &'static str,
    pub(super) action: String,
    pub(super) path: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) stdin: Option<Vec<u8>>,
    /// How it ended, or why it was not started.
    pub(super) finished: Result<Finished, String>,
    pub(super) took: Duration,
}

impl Kept {
    /// What it printed.
    pub(super) fn stdout(&self) -> Option<&[u8]> {
        self.finished.as_ref().ok().map(|finished| finished.stdout.bytes.as_slice())
    }

    /// Whether it looks as if it had failed, by its status or by what it printed.
    fn has_failed(&self) -> bool {
        let Ok(finished) = &self.finished else { return true };
        let text = finished.stdout.text();
        !finished.is_success() || text.contains("ral_error:") || text.contains("\"error\":")
    }

    /// Whether it was to change something.
    fn is_change(&self) -> bool {
        !matches!(self.action.as_str(), "list" | "find" | "get" | "inspect" | "describe")
    }
}

/// What was called in a trial, and what is secret in it.
#[derive(Default)]
pub(super) struct Trial {
    kept: VecDeque<Kept>,
    seals: Vec<Seal>,
}

impl Trial {
    /// The calls that tell why the trial ended as it did: the last ones, the last change before them with the call that
    /// followed it, and the last that failed not long before.
    pub(super) fn telling(&self) -> Vec<&Kept> {
        let first = self.kept.len().saturating_sub(SHOWN);
        let before = |is_meant: fn(&Kept) -> bool| (0..first).rev().find(|at| is_meant(&self.kept[*at]));
        let has_change = self.kept.iter().skip(first).any(Kept::is_change);
        let change = before(Kept::is_change).filter(|_| !has_change);
        let failed = before(Kept::has_failed).filter(|at| at + LOOKED_BACK >= first);
        // Behind a change stands what was read to see whether it holds.
        let change = change.into_iter().flat_map(|at| [at, at + 1]);
        let mut telling: Vec<usize> = change.chain(failed).chain(first..self.kept.len()).collect();
        telling.sort_unstable();
        telling.dedup();
        telling.into_iter().map(|at| &self.kept[at]).collect()
    }

    pub(super) fn seals(&self) -> &[Seal] {
        &self.seals
    }

    fn keep(&mut self, kept: Kept, seal: &Seal) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(kept);
        if !seal.is_empty() && !self.seals.contains(seal) {
            self.seals.push(seal.clone());
        }
    }
}

/// The trials of a suite.
pub(super) struct Trials {
    current: Mutex<Arc<Mutex<Trial>>>,
    /// When the one that is under way began, and how long it may take.
    begun: Mutex<Instant>,
    limit: Duration,
}

impl Trials {
    pub(super) fn new(limit: Duration) -> Trials {
        Trials { current: Mutex::default(), begun: Mutex::new(Instant::now()), limit }
    }

    /// How long a command of the author may take now: it ends before the trial does, since nobody waits for what is under way then.
    pub(super) fn left(&self) -> Duration {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        (self.limit / 10 * 9).saturating_sub(begun.elapsed())
    }

    /// Begins a trial: those who are made from now on record for it. A call that hangs on from another is not among its own.
    pub(super) fn begin(&self, _law: &'static str) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// What is recorded for the trial that is under way.
    pub(super) fn current(&self) -> Arc<Mutex<Trial>> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs scripts, and records that for the trial that is under way.
    pub(super) fn recorder(&self) -> Arc<dyn Exchanges> {
        Arc::new(Recorder { trial: self.current() })
    }

    /// The last call of the trial that is under way.
    pub(super) fn last(&self) -> Option<Kept> {
        self.current().lock().unwrap_or_else(PoisonError::into_inner).kept.back().cloned()
    }
}

struct Recorder {
    trial: Arc<Mutex<Trial>>,
}

impl Exchanges for Recorder {
    fn run<'a>(
        &self,
        exchange: &Exchange<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Finished, SpawnError> {
        let invocation = exchange.invocation;
        if signals::RAISED.load(Ordering::Acquire) {
            return Err(SpawnError::Cancelled { program: invocation.program.clone() });
        }
        let begun = Instant::now();
        let result = run_observed(invocation, cancel, observer);
        let kept = Kept {
            convention: exchange.convention,
            action: exchange.action.to_owned(),
            path: exchange.path.to_owned(),
            args: invocation.args.clone(),
            stdin: invocation.stdin.as_ref().map(|bytes| short(bytes)),
            finished: result.as_ref().map(shortened).map_err(SpawnError::with_sources),
            took: begun.elapsed(),
        };
        self.trial.lock().unwrap_or_else(PoisonError::into_inner).keep(kept, exchange.seal);
        result
    }
}

fn short(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(LONGEST)].to_vec()
}

/// What is kept of how a call ended.
fn shortened(finished: &Finished) -> Finished {
    let mut kept = Finished { ..finished.clone() };
    for stream in [&mut kept.stdout, &mut kept.stderr, &mut kept.channel] {
        stream.dropped += stream.bytes.len().saturating_sub(LONGEST) as u64;
        stream.bytes.truncate(LONGEST);
    }
    kept
}
