//! Answers from a recording.
//!
//! Concurrent calls make queries in another order than in the recording, and may read once more or less. The order
//! of a read and a change of another resource depends on microseconds. So a change is answered once. A query gets
//! the answer after which exactly the changes made so far had been made, or the nearest one. It never gets an
//! answer from after a later change of its own resource.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kilter_script::recorded::RecordedExchange;
use serde_json::Value as Json;

use crate::file::{Entry, Recording};
use crate::recordable::Recordable;
use crate::subject::RecordedSubject;

/// Maximum size of a query in messages, in bytes.
const MAX_SHOWN_BYTES: usize = 2000;

/// Answers queries and replays scripts from a recording.
pub struct Player {
    state: Mutex<PlayerState>,
}

struct PlayerState {
    events: Vec<RecordedQuery>,
    /// Events of each query, in order.
    same: HashMap<Vec<u8>, Vec<usize>>,
    /// Events that are changes, in order.
    changes: Vec<usize>,
    divergences: Vec<String>,
}

/// Query with its answer.
struct RecordedQuery {
    entry: Entry,
    subject: RecordedSubject,
    /// Number of changes before it.
    before: usize,
    is_made: bool,
}

impl Player {
    /// Creates a player for a recording.
    pub fn new(recording: Recording) -> Player {
        let mut state =
            PlayerState { events: Vec::new(), same: HashMap::new(), changes: Vec::new(), divergences: Vec::new() };
        for entry in recording.entries {
            let (at, subject) = (state.events.len(), RecordedSubject::of(&entry));
            state.same.entry(key(&entry)).or_default().push(at);
            let (before, is_change) = (state.changes.len(), subject.is_change);
            state.events.push(RecordedQuery { entry, subject, before, is_made: false });
            if is_change {
                state.changes.push(at);
            }
        }
        Player { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, PlayerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the recorded reply to a query.
    pub(crate) fn answer<T: Recordable>(&self, what: &str, of: &Json) -> T {
        let mut state = self.state();
        let found = state.take(&key_asked(what, of)).map(|at| match &state.events[at].entry {
            Entry::Query { answer, .. } => T::from_json(answer),
            Entry::Exchange { .. } => None,
        });
        match found {
            Some(Some(answer)) => return answer,
            Some(None) => {
                let told = format!("the recorded reply to `{what}` {} cannot be read", clipped(&of.to_string()));
                state.divergences.push(told);
            }
            None if T::is_optional(what) => {}
            None => {
                let told = state.not_asked(what, of);
                state.divergences.push(told);
            }
        }
        T::missing()
    }

    /// Returns the recorded exchange with the same call.
    ///
    /// # Errors
    /// If there is none: the message for the error of the call.
    pub(crate) fn exchange(&self, asked: &RecordedExchange) -> Result<RecordedExchange, String> {
        let mut state = self.state();
        if let Some(at) = state.take(&key_called(asked))
            && let Entry::Exchange { exchange, .. } = &state.events[at].entry
        {
            return Ok((**exchange).clone());
        }
        let told = state.not_called(asked);
        state.divergences.push(told);
        Err("the recording has no such call".to_owned())
    }

    /// Returns the deviations from the recording, missing calls included.
    pub fn divergences(&self) -> Vec<String> {
        let mut state = self.state();
        let mut told = std::mem::take(&mut state.divergences);
        told.extend(state.events.iter().filter(|event| state.is_missed(event)).filter_map(
            |event| match &event.entry {
                Entry::Exchange { number, exchange } => Some(format!(
                    "call {number} of the recording was not made: {}\n    {}",
                    exchange.summary(),
                    clipped(&exchange.words())
                )),
                Entry::Query { what, of, .. } if event.subject.is_change => {
                    Some(format!("`{what}` of the recording was not requested: {}", clipped(&of.to_string())))
                }
                Entry::Query { .. } => None,
            },
        ));
        told
    }
}

impl PlayerState {
    /// Returns the event that answers a query now, and marks it as used.
    fn take(&mut self, key: &[u8]) -> Option<usize> {
        let same = self.same.get(key)?;
        let is_change = self.events[*same.first()?].subject.is_change;
        let at = if is_change { self.next_change(same) } else { self.current(same) }?;
        self.events[at].is_made = true;
        Some(at)
    }

    /// Returns the first unused event.
    fn next_change(&self, same: &[usize]) -> Option<usize> {
        same.iter().copied().find(|at| !self.events[*at].is_made)
    }

    /// Returns the event that matches the current state best: the same changes precede it, or nearly the same.
    /// Among several, the first unused event wins, or the last event.
    fn current(&self, same: &[usize]) -> Option<usize> {
        let fits: Vec<usize> = same.iter().copied().filter(|at| self.fits(*at)).collect();
        let among = if fits.is_empty() { same } else { &fits };
        let distance = self.distances();
        let nearest = among.iter().map(|at| distance[self.events[*at].before]).min()?;
        let near = || among.iter().copied().filter(|at| distance[self.events[*at].before] == nearest);
        near().find(|at| !self.events[*at].is_made).or_else(|| near().next_back())
    }

    /// Returns, for each number of recorded changes, the number of changes by which the current state differs from
    /// it.
    fn distances(&self) -> Vec<usize> {
        let is_made = |at: &usize| self.events[*at].is_made;
        let all = self.changes.iter().filter(|at| is_made(at)).count();
        let mut distances = vec![all];
        for change in &self.changes {
            let last = distances.last().copied().unwrap_or_default();
            distances.push(if is_made(change) { last - 1 } else { last + 1 });
        }
        distances
    }

    /// Returns true if, of the changes of the same resource, exactly the preceding ones have been made.
    fn fits(&self, at: usize) -> bool {
        let event = &self.events[at];
        let mut changes = self.changes.iter().map(|change| &self.events[*change]).enumerate();
        changes.all(|(number, change)| {
            change.is_made == (number < event.before) || !change.subject.concerns(&event.subject)
        })
    }

    /// Returns true if it is missing: an unused change, or a call that was never made. Metadata calls do not count,
    /// because a cache may replace them.
    fn is_missed(&self, event: &RecordedQuery) -> bool {
        let is_description = matches!(&event.entry, Entry::Exchange { exchange, .. } if exchange.action == "describe");
        let others = self.same.get(&key(&event.entry)).into_iter().flatten();
        let was_made =
            event.is_made || !event.subject.is_change && others.into_iter().any(|at| self.events[*at].is_made);
        !was_made && !is_description
    }

    /// Describes a query that is not recorded, with the expected query.
    fn not_asked(&self, what: &str, of: &Json) -> String {
        let mut told = format!(
            "`{what}` was requested with other arguments than in the recording\n  + {}",
            clipped(&of.to_string())
        );
        let call = |of: &Json| (of.get("type").cloned(), of.get("call").cloned());
        let next = self.events.iter().find_map(|event| match &event.entry {
            Entry::Query { what: known, of: other, .. }
                if !event.is_made && known == what && call(of) == call(other) =>
            {
                Some(other)
            }
            _ => None,
        });
        told.extend(next.map(|next| format!("\n  - {}", clipped(&next.to_string()))));
        told
    }

    /// Describes a call that is not recorded, with the expected call.
    fn not_called(&self, asked: &RecordedExchange) -> String {
        let of = if asked.type_name.is_empty() { String::new() } else { format!(" of {}", asked.type_name) };
        let how = "was called in a way that is not in the recording";
        let mut told = format!("`{}`{of} by `{}` {how}", asked.action, asked.provider);
        let left: Vec<(usize, &RecordedExchange)> = self.left(asked).collect();
        let names = asked.names();
        let next = left
            .iter()
            .find(|(_, one)| one.action == asked.action && one.names() == names)
            .or_else(|| left.iter().find(|(_, one)| one.action == asked.action))
            .or_else(|| left.first());
        match next {
            Some((number, recorded)) => {
                told += &format!(" (expected was call {number})");
                difference(&mut told, recorded, asked);
            }
            None => {
                told += &format!(", and no call of it is left\n  + {}", clipped(&asked.words()));
                told.extend(input(asked).map(|input| format!("\n  + stdin: {input}")));
            }
        }
        told
    }

    /// Returns the unused calls of the same script.
    fn left<'a>(&'a self, asked: &'a RecordedExchange) -> impl Iterator<Item = (usize, &'a RecordedExchange)> {
        self.events.iter().filter(|event| !event.is_made).filter_map(|event| match &event.entry {
            Entry::Exchange { number, exchange } if exchange.is_for_the_same(asked) => Some((*number, &**exchange)),
            _ => None,
        })
    }
}

fn key(entry: &Entry) -> Vec<u8> {
    match entry {
        Entry::Query { what, of, .. } => key_asked(what, of),
        Entry::Exchange { exchange, .. } => key_called(exchange),
    }
}

fn key_asked(what: &str, of: &Json) -> Vec<u8> {
    format!("asked\0{what}\0{of}").into_bytes()
}

fn key_called(of: &RecordedExchange) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let who = [&of.type_name, &of.provider, &of.convention, &of.action].map(|text| text.as_bytes());
    let words = of.argv.iter().map(|word| word.as_bytes());
    let parts = who.into_iter().chain(words).chain([&b"\0"[..], of.stdin.as_deref().unwrap_or_default()]);
    parts.flat_map(|part| part.iter().copied().chain([0])).collect()
}

/// Describes the difference of two calls: words, then input.
fn difference(told: &mut String, recorded: &RecordedExchange, asked: &RecordedExchange) {
    if recorded.argv == asked.argv {
        *told += &format!("\n    {}", clipped(&asked.words()));
    } else {
        *told += &format!("\n  - {}\n  + {}", clipped(&recorded.words()), clipped(&asked.words()));
    }
    let (was, is) = (input(recorded), input(asked));
    if was != is {
        told.extend(was.map(|input| format!("\n  - stdin: {input}")));
        told.extend(is.map(|input| format!("\n  + stdin: {input}")));
    }
}

fn input(of: &RecordedExchange) -> Option<String> {
    let stdin = of.stdin.as_deref()?;
    Some(clipped(&kilter_script::recorded::shell_quoted(stdin)))
}

fn clipped(text: &str) -> String {
    match text.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_SHOWN_BYTES) {
        Some(end) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
