//! What is said of a script that is not to change the machine.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kilter_process::{Attempt, Attempts, Confined, Finished};

use crate::convention::beginning;

/// How many different attempts of one script are told.
const TOLD: usize = 50;

/// How much of one attempt is told, in characters.
const LONGEST: usize = 200;

/// Who can let a script write in a call that is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifted {
    /// Its metadata, with `confine: false`.
    ByMetadata,
    /// Nobody: it previews, or describes itself.
    Never,
}

/// A call that is confined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confining<'a> {
    /// Whose it is: ``the provider `x` ``.
    pub(crate) who: &'a str,
    /// What it was made for; empty where a script has one task only.
    pub(crate) action: &'a str,
    /// Whether it only tells what it would change.
    pub(crate) is_preview: bool,
    pub(crate) lifted: Lifted,
}

/// Says what there is to say of calls that are confined.
#[derive(Default)]
pub(crate) struct Watch {
    told: Mutex<Told>,
}

/// What has been told: once is enough.
#[derive(Default)]
struct Told {
    /// That the kernel does not confine, or not fully.
    is_open: bool,
    /// Who said that it was refused something.
    hints: BTreeSet<String>,
    /// What each has tried.
    attempts: BTreeMap<String, HashSet<(String, Attempt)>>,
}

impl Watch {
    /// What there is to say of a call: that the kernel did not keep it from everything, and what it has tried.
    pub(crate) fn notes(&self, call: Confining<'_>, finished: &Finished) -> impl Iterator<Item = String> {
        self.gap(call, finished).into_iter().chain(self.tried(call, finished))
    }

    /// That the kernel confines nobody, or nobody fully: the same for all, and told once.
    pub(crate) fn gap(&self, call: Confining<'_>, finished: &Finished) -> Option<String> {
        let Confining { who, .. } = call;
        let confined = &finished.confined;
        if confined.is_as_asked() || std::mem::replace(&mut self.told().is_open, true) {
            return None;
        }
        Some(format!("{who} could change the machine: {confined}"))
    }

    /// What a call has tried, and was refused.
    pub(crate) fn tried(&self, call: Confining<'_>, finished: &Finished) -> Option<String> {
        let mut told = self.told();
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

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    /// The attempts of a call that nobody knows of yet.
    fn news(&mut self, call: Confining<'_>, attempts: &Attempts) -> Option<String> {
        let known = self.attempts.entry(call.who.to_owned()).or_default();
        if known.len() >= TOLD {
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
        let last = if known.len() >= TOLD { "; what else it tries is not told" } else { "" };
        Some(format!("{} tried to {tried} {occasion}{action}, and was refused{}{last}", call.who, call.way()))
    }
}

impl Confining<'_> {
    /// How it may write all the same.
    fn way(&self) -> &'static str {
        match self.lifted {
            Lifted::ByMetadata => "; `confine: false` in its metadata lets it while it reads",
            Lifted::Never => "",
        }
    }
}

/// What was tried, in a line of bounded length: `write /etc/motd, remove /etc/passwd and 3 more`.
pub(crate) fn tried(attempts: &Attempts) -> String {
    let first: Vec<String> =
        attempts.first.iter().map(|attempt| beginning(&attempt.to_string(), LONGEST).to_string()).collect();
    let more = if attempts.more > 0 { format!(" and {} more", attempts.more) } else { String::new() };
    format!("{}{more}", first.join(", "))
}
