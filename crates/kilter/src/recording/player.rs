//! Answering from a recording.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kilter_script::recorded::RecordedExchange;
use serde_json::Value as Json;

use super::file::Recording;
use super::kept::Kept;

/// So much of a question is shown, in bytes.
const SHOWN: usize = 2000;

/// Answers questions and plays scripts from a recording.
pub(crate) struct Player {
    state: Mutex<State>,
}

struct State {
    answers: HashMap<(String, String), Answers>,
    exchanges: Vec<Call>,
    divergences: Vec<String>,
}

/// The answers to a question, in their order. The last one holds from then on.
struct Answers {
    next: VecDeque<Json>,
    last: Option<Json>,
}

struct Call {
    number: usize,
    exchange: RecordedExchange,
    is_made: bool,
}

impl Player {
    /// Answers from a recording.
    pub(crate) fn new(recording: Recording) -> Player {
        let mut answers: HashMap<(String, String), Answers> = HashMap::new();
        for (what, of, answer) in recording.asked {
            let known = answers.entry((what, of.to_string()));
            known.or_insert_with(|| Answers { next: VecDeque::new(), last: None }).next.push_back(answer);
        }
        let call = |(number, exchange)| Call { number, exchange, is_made: false };
        let exchanges = recording.exchanges.into_iter().map(call).collect();
        Player { state: Mutex::new(State { answers, exchanges, divergences: Vec::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded answer to a question.
    pub(super) fn answer<T: Kept>(&self, what: &str, of: &Json) -> T {
        let mut state = self.state();
        let found = state.answers.get_mut(&(what.to_owned(), of.to_string())).and_then(|answers| {
            answers.last = answers.next.pop_front().or_else(|| answers.last.take());
            answers.last.clone()
        });
        match found.as_ref().map(T::kept) {
            Some(Some(answer)) => answer,
            Some(None) => {
                state
                    .divergences
                    .push(format!("the recorded answer to `{what}` {} cannot be read", shown(&of.to_string())));
                T::missing()
            }
            None => {
                if !T::is_optional(what) {
                    let told = state.not_asked(what, of);
                    state.divergences.push(told);
                }
                T::missing()
            }
        }
    }

    /// The recorded exchange that asks the same, the first that was not made yet.
    ///
    /// # Errors
    /// When there is none: says so for the error of the call.
    pub(super) fn exchange(&self, asked: &RecordedExchange) -> Result<RecordedExchange, String> {
        let mut state = self.state();
        let is_it = |call: &&mut Call| !call.is_made && call.exchange.asks_the_same(asked);
        if let Some(call) = state.exchanges.iter_mut().find(is_it) {
            call.is_made = true;
            return Ok(call.exchange.clone());
        }
        let told = state.not_called(asked);
        state.divergences.push(told);
        Err("the recording holds no such call".to_owned())
    }

    /// What went another way than the recording, and which calls of it were not made.
    pub(crate) fn divergences(&self) -> Vec<String> {
        let mut state = self.state();
        let mut told = std::mem::take(&mut state.divergences);
        // What scripts say of themselves is recorded as well, and asked only where it was not known.
        let left = state.exchanges.iter().filter(|call| !call.is_made && call.exchange.action != "describe");
        told.extend(left.map(|call| {
            let of = call.exchange.summary();
            format!("call {} of the recording was not made: {of}\n    {}", call.number, clipped(&call.exchange.words()))
        }));
        told
    }
}

impl State {
    /// Says what was asked that is not recorded, and what is that was not asked.
    fn not_asked(&self, what: &str, of: &Json) -> String {
        let mut told = format!("`{what}` was asked of {}, which is not in the recording", shown(&of.to_string()));
        let next = self.answers.iter().find(|((kind, _), answers)| kind == what && answers.last.is_none());
        if let Some(((_, of), _)) = next {
            told += &format!("\n  - recorded: {}\n  + asked:    {}", shown(of), "see above");
        }
        told
    }

    /// Says which call was made that is not recorded, and which was expected.
    fn not_called(&self, asked: &RecordedExchange) -> String {
        let of = if asked.type_name.is_empty() { String::new() } else { format!(" of {}", asked.type_name) };
        let mut told =
            format!("`{}`{of} by `{}` was called in a way that is not in the recording", asked.action, asked.provider);
        let left: Vec<&Call> = self.exchanges.iter().filter(|call| !call.is_made).collect();
        let same_action =
            left.iter().find(|call| call.exchange.is_for_the_same(asked) && call.exchange.action == asked.action);
        let next = same_action.or_else(|| left.iter().find(|call| call.exchange.is_for_the_same(asked)));
        match next {
            Some(call) => {
                told += &format!(" (expected was call {})", call.number);
                difference(&mut told, &call.exchange, asked);
            }
            None => {
                told += "; no call of it is left";
                told += &format!("\n  + {}", clipped(&asked.words()));
                told.extend(input(asked).map(|input| format!("\n  + stdin: {input}")));
            }
        }
        told
    }
}

/// Shows in what two calls differ: words, then the input.
fn difference(told: &mut String, recorded: &RecordedExchange, asked: &RecordedExchange) {
    if recorded.argv != asked.argv {
        *told += &format!("\n  - {}\n  + {}", clipped(&recorded.words()), clipped(&asked.words()));
    } else {
        *told += &format!("\n    {}", clipped(&asked.words()));
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

fn shown(text: &str) -> String {
    clipped(&crate::render::diff::visible(text))
}

fn clipped(text: &str) -> String {
    match text.char_indices().map(|(at, _)| at).find(|at| *at >= SHOWN) {
        Some(end) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
