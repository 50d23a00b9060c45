//! Warnings about confined scripts that tried to write.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kilter_process::{Attempt, Attempts, Confined, Output};

use crate::convention::beginning;

/// Maximum number of different attempts reported per script.
const MAX_REPORTED_ATTEMPTS: usize = 50;

/// Maximum length of a reported attempt, in characters.
const MAX_ATTEMPT_CHARS: usize = 200;

/// Way to lift the confinement of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfinementPolicy {
    /// `confine: false` in the metadata.
    ByMetadata,
    /// None: the call previews a change, or describes the script.
    Never,
}

/// A confined call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confining<'a> {
    /// Caller in messages: ``the provider `x` ``.
    pub(crate) who: &'a str,
    /// Purpose of the call. Empty if the script has only one task.
    pub(crate) action: &'a str,
    /// True if the call is a preview.
    pub(crate) is_preview: bool,
    pub(crate) lifted: ConfinementPolicy,
}

/// Generator of warnings about confined calls.
#[derive(Default)]
pub(crate) struct ConfinementReporter {
    told: Mutex<ReportedWarnings>,
}

/// Warnings that have been reported. Each is reported once.
#[derive(Default)]
struct ReportedWarnings {
    /// True after a warning that the kernel cannot confine fully.
    is_open: bool,
    /// Callers with a reported refusal.
    hints: BTreeSet<String>,
    /// Reported attempts per caller.
    attempts: BTreeMap<String, HashSet<(String, Attempt)>>,
}

impl ConfinementReporter {
    /// Returns the new warnings of a call: incomplete confinement, and attempts to write.
    pub(crate) fn notes(&self, call: Confining<'_>, finished: &Output) -> impl Iterator<Item = String> {
        self.gap(call, finished).into_iter().chain(self.tried(call, finished))
    }

    /// Returns the warning about incomplete confinement by the kernel. It applies to all scripts and is
    /// reported once.
    pub(crate) fn gap(&self, call: Confining<'_>, finished: &Output) -> Option<String> {
        let Confining { who, .. } = call;
        let confined = &finished.confined;
        if confined.is_as_asked() || std::mem::replace(&mut self.reported().is_open, true) {
            return None;
        }
        Some(format!("{who} could change the machine: {confined}"))
    }

    /// Returns the warning about refused attempts of a call.
    pub(crate) fn tried(&self, call: Confining<'_>, finished: &Output) -> Option<String> {
        let mut told = self.reported();
        match (&finished.confined, &finished.refusal_hint) {
            (Confined::NotAsked | Confined::No { .. }, _) => None,
            _ if !finished.attempts.is_empty() => told.news(call, &finished.attempts),
            (_, Some(hint)) => told.hints.insert(call.who.to_owned()).then(|| {
                let tried = "seems to have tried to change the machine in a call that must not, and could not";
                format!("{} {tried} ({hint}){}", call.who, call.way())
            }),
            _ => None,
        }
    }

    fn reported(&self) -> MutexGuard<'_, ReportedWarnings> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReportedWarnings {
    /// Returns the warning about attempts that have not been reported.
    fn news(&mut self, call: Confining<'_>, attempts: &Attempts) -> Option<String> {
        let known = self.attempts.entry(call.who.to_owned()).or_default();
        if known.len() >= MAX_REPORTED_ATTEMPTS {
            return None;
        }
        let mut first = attempts.first.clone();
        first.retain(|attempt| known.insert((call.action.to_owned(), attempt.clone())));
        if first.is_empty() {
            return None;
        }
        let tried = tried(&Attempts { first, more: attempts.more });
        let action = if call.action.is_empty() { String::new() } else { format!(" ({})", call.action) };
        let occasion = if call.is_preview { "in a preview" } else { "while it was only read" };
        let last = if known.len() >= MAX_REPORTED_ATTEMPTS { "; further attempts are not reported" } else { "" };
        Some(format!("{} tried to {tried} {occasion}{action}, and was refused{}{last}", call.who, call.way()))
    }
}

impl Confining<'_> {
    /// Returns the hint on lifting the confinement.
    fn way(&self) -> &'static str {
        match self.lifted {
            ConfinementPolicy::ByMetadata => "; `confine: false` in its metadata lets it while it reads",
            ConfinementPolicy::Never => "",
        }
    }
}

/// Formats attempts in a line of limited length: `write /etc/motd, remove /etc/passwd and 3 more`.
pub(crate) fn tried(attempts: &Attempts) -> String {
    let first: Vec<String> =
        attempts.first.iter().map(|attempt| beginning(&attempt.to_string(), MAX_ATTEMPT_CHARS).to_string()).collect();
    let more = if attempts.more > 0 { format!(" and {} more", attempts.more) } else { String::new() };
    format!("{}{more}", first.join(", "))
}
