//! Every call of a script, kept for as long as the law is tried that it was made for.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kilter_process::{Attempt, Cancel, Finished, Observer, SpawnError};
use kilter_provider::Seal;
use kilter_script::recorded::{Overheard, RecordedExchange};
use kilter_script::{Exchange, Exchanges, Live};

use crate::signals;

/// How many calls of a law are kept, the last ones.
const KEPT: usize = 64;

/// How many of them are shown.
const SHOWN: usize = 2;

/// How far back one that failed is looked for.
const LOOKED_BACK: usize = 4;

/// How many bytes are kept of each stream.
const LONGEST: usize = 64 << 10;

/// Whether a call looks as if it had failed, by its status or by what it printed.
fn has_failed(kept: &RecordedExchange) -> bool {
    let Ok(finished) = &kept.answer else { return true };
    let text = finished.stdout.text();
    !finished.is_success() || text.contains("ral_error:") || text.contains("\"error\":")
}

/// Whether a call was to change something.
fn is_change(kept: &RecordedExchange) -> bool {
    !matches!(kept.action.as_str(), "list" | "find" | "get" | "inspect" | "describe")
}

/// What was called in a trial, and what is secret in it.
#[derive(Default)]
pub(super) struct Trial {
    kept: VecDeque<RecordedExchange>,
    seals: Vec<Seal>,
    /// What was tried in calls that are confined and was not yet asked for; so many as calls are kept.
    tried: Vec<Attempt>,
}

impl Trial {
    /// The calls that tell why the trial ended as it did: the last ones, the last change before them with the call that
    /// followed it, and the last that failed not long before.
    pub(super) fn telling(&self) -> Vec<&RecordedExchange> {
        let first = self.kept.len().saturating_sub(SHOWN);
        let before = |is_meant: fn(&RecordedExchange) -> bool| (0..first).rev().find(|at| is_meant(&self.kept[*at]));
        let has_change = self.kept.iter().skip(first).any(is_change);
        let change = before(is_change).filter(|_| !has_change);
        let failed = before(has_failed).filter(|at| at + LOOKED_BACK >= first);
        // Behind a change stands what was read to see whether it holds.
        let change = change.into_iter().flat_map(|at| [at, at + 1]);
        let mut telling: Vec<usize> = change.chain(failed).chain(first..self.kept.len()).collect();
        telling.sort_unstable();
        telling.dedup();
        telling.into_iter().map(|at| &self.kept[at]).collect()
    }

    /// What was tried since this was last asked.
    pub(super) fn tried(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.tried)
    }

    pub(super) fn seals(&self) -> &[Seal] {
        &self.seals
    }

    fn keep(&mut self, kept: RecordedExchange, seal: &Seal) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        for attempt in kept.answer.iter().flat_map(|finished| &finished.attempts.first) {
            if self.tried.len() < KEPT && !self.tried.contains(attempt) {
                self.tried.push(attempt.clone());
            }
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
    pub(super) fn last(&self) -> Option<RecordedExchange> {
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
        if signals::raised().load(Ordering::Acquire) {
            return Err(SpawnError::Cancelled { program: exchange.invocation.program.clone() });
        }
        let asked = RecordedExchange::asked(exchange);
        let begun = Instant::now();
        let result = Live.run(exchange, cancel, observer);
        let kept = asked.answered(&result, Overheard::default(), begun.elapsed());
        self.trial.lock().unwrap_or_else(PoisonError::into_inner).keep(shortened(kept), exchange.seal);
        result
    }
}

/// What is kept of a call.
fn shortened(mut kept: RecordedExchange) -> RecordedExchange {
    if let Some(stdin) = &mut kept.stdin {
        stdin.truncate(LONGEST);
    }
    if let Ok(finished) = &mut kept.answer {
        for stream in [&mut finished.stdout, &mut finished.stderr] {
            stream.dropped += stream.bytes.len().saturating_sub(LONGEST) as u64;
            stream.bytes.truncate(LONGEST);
        }
    }
    kept
}
