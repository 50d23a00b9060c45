//! Recorder of the calls of a script during the trial of a law.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kilter_process::{Attempt, Cancel, Observer, Output, SpawnError};
use kilter_provider::Redactor;
use kilter_script::recorded::{CallRecorder, RecordedExchange};
use kilter_script::{ProcessRunner, ScriptCall, ScriptRunner};

/// Maximum number of stored calls per law; the last ones are kept.
const MAX_KEPT_CALLS: usize = 64;

/// Number of these that are shown.
const MAX_SHOWN_CALLS: usize = 2;

/// Number of earlier calls among which a failed one is shown as well.
const LOOKED_BACK: usize = 4;

/// Maximum number of stored bytes per stream.
const MAX_STREAM_BYTES: usize = 64 << 10;

/// Returns true if a call seems to have failed, according to its status or output.
fn has_failed(kept: &RecordedExchange) -> bool {
    let Ok(finished) = &kept.answer else { return true };
    let text = finished.stdout.text();
    !finished.is_success() || text.contains("ral_error:") || text.contains("\"error\":")
}

/// Returns true if a call was to change the system.
fn is_change(kept: &RecordedExchange) -> bool {
    !matches!(kept.action.as_str(), "list" | "find" | "get" | "inspect" | "describe")
}

/// Calls of a trial, with their secrets.
#[derive(Default)]
pub(super) struct Trial {
    kept: VecDeque<RecordedExchange>,
    seals: Vec<Redactor>,
    /// Attempts of confined calls that were not reported yet; at most as many as stored calls.
    tried: Vec<Attempt>,
}

impl Trial {
    /// Returns the calls that explain the end of the trial: the last ones, the last change before them with the
    /// following call, and a failed one shortly before.
    pub(super) fn telling(&self) -> Vec<&RecordedExchange> {
        let first = self.kept.len().saturating_sub(MAX_SHOWN_CALLS);
        let before = |is_meant: fn(&RecordedExchange) -> bool| (0..first).rev().find(|at| is_meant(&self.kept[*at]));
        let has_change = self.kept.iter().skip(first).any(is_change);
        let change = before(is_change).filter(|_| !has_change);
        let failed = before(has_failed).filter(|at| at + LOOKED_BACK >= first);
        // The call after a change reads its result.
        let change = change.into_iter().flat_map(|at| [at, at + 1]);
        let mut telling: Vec<usize> = change.chain(failed).chain(first..self.kept.len()).collect();
        telling.sort_unstable();
        telling.dedup();
        telling.into_iter().map(|at| &self.kept[at]).collect()
    }

    /// Takes the attempts since the last call.
    pub(super) fn tried(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.tried)
    }

    pub(super) fn seals(&self) -> &[Redactor] {
        &self.seals
    }

    fn keep(&mut self, kept: RecordedExchange, seal: &Redactor) {
        if self.kept.len() == MAX_KEPT_CALLS {
            self.kept.pop_front();
        }
        for attempt in kept.answer.iter().flat_map(|finished| &finished.attempts.first) {
            if self.tried.len() < MAX_KEPT_CALLS && !self.tried.contains(attempt) {
                self.tried.push(attempt.clone());
            }
        }
        self.kept.push_back(kept);
        if !seal.is_empty() && !self.seals.contains(seal) {
            self.seals.push(seal.clone());
        }
    }
}

/// Trials of a suite.
pub(super) struct Trials {
    current: Mutex<Arc<Mutex<Trial>>>,
    /// Start of the current trial, and its time limit.
    begun: Mutex<Instant>,
    limit: Duration,
    cancelled: Option<&'static AtomicBool>,
}

impl Trials {
    /// Creates the first trial. No call starts while `cancelled` is set.
    pub(super) fn new(limit: Duration, cancelled: Option<&'static AtomicBool>) -> Trials {
        Trials { current: Mutex::default(), begun: Mutex::new(Instant::now()), limit, cancelled }
    }

    /// Returns the time limit of a command of the author. It ends before the trial does, because the suite does not
    /// wait for running commands then.
    pub(super) fn left(&self) -> Duration {
        let begun = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        (self.limit / 10 * 9).saturating_sub(begun.elapsed())
    }

    /// Starts a trial: new recorders belong to it. Calls of earlier trials that are still running do not.
    pub(super) fn begin(&self) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns the record of the current trial.
    pub(super) fn current(&self) -> Arc<Mutex<Trial>> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a runner of scripts that records for the current trial.
    pub(super) fn recorder(&self) -> Arc<dyn ScriptRunner> {
        Arc::new(RecordingRunner { trial: self.current(), cancelled: self.cancelled })
    }

    /// Returns the last call of the current trial.
    pub(super) fn last(&self) -> Option<RecordedExchange> {
        self.current().lock().unwrap_or_else(PoisonError::into_inner).kept.back().cloned()
    }
}

struct RecordingRunner {
    trial: Arc<Mutex<Trial>>,
    cancelled: Option<&'static AtomicBool>,
}

impl ScriptRunner for RecordingRunner {
    fn run<'a>(
        &self,
        exchange: &ScriptCall<'a>,
        cancel: Option<Cancel<'_>>,
        observer: Observer<'a>,
    ) -> Result<Output, SpawnError> {
        if self.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Acquire)) {
            return Err(SpawnError::Cancelled { program: exchange.invocation.program.clone() });
        }
        let asked = RecordedExchange::asked(exchange);
        let begun = Instant::now();
        let result = ProcessRunner.run(exchange, cancel, observer);
        let kept = asked.answered(&result, CallRecorder::default(), begun.elapsed());
        self.trial.lock().unwrap_or_else(PoisonError::into_inner).keep(shortened(kept), exchange.seal);
        result
    }
}

/// Cuts the streams of a call to the stored size.
fn shortened(mut kept: RecordedExchange) -> RecordedExchange {
    if let Some(stdin) = &mut kept.stdin {
        stdin.truncate(MAX_STREAM_BYTES);
    }
    if let Ok(finished) = &mut kept.answer {
        for stream in [&mut finished.stdout, &mut finished.stderr] {
            stream.dropped += stream.bytes.len().saturating_sub(MAX_STREAM_BYTES) as u64;
            stream.bytes.truncate(MAX_STREAM_BYTES);
        }
    }
    kept
}
