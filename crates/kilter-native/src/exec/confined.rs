//! Warnings about confined guards that tried to change the machine.

use std::sync::atomic::{AtomicBool, Ordering};

use ecow::{EcoString, eco_format};
use kilter_process::{Attempts, Confined, Output};
use kilter_provider::{Context, Level};

use super::command::CommandLine;
use super::secrets::SensitiveTexts;

/// Maximum number of attempts that one warning lists.
const MAX_LISTED_ATTEMPTS: usize = 5;
/// Maximum number of characters of one attempt, or of one line of a guard's error output.
const MAX_CHARS: usize = 200;

/// The remedy that each warning names.
const REMEDY: &str = "a guard that has to write needs `confine: false`";

/// State that the warnings of all guards share.
#[derive(Default)]
pub(super) struct ConfinedGuards {
    /// True after the warning that this kernel does not confine completely. The warning is the same for all guards.
    warned_of_gap: AtomicBool,
}

/// Resource whose guards run, for warnings about them.
#[derive(Clone, Copy)]
pub(super) struct Naming<'a> {
    pub(super) confined: &'a ConfinedGuards,
    pub(super) name: &'a EcoString,
}

impl Naming<'_> {
    /// Warns if a guard tried to change the machine or may have tried. Returns the refusal, because the answer of
    /// the guard may then differ from that of an unconfined guard.
    pub(super) fn report(
        self,
        cx: &Context<'_>,
        (guard, attribute): (&CommandLine, &str),
        finished: &Output,
        secrets: &SensitiveTexts,
    ) -> Option<EcoString> {
        let who = eco_format!("the guard `{}` ({attribute})", guard.shown);
        let warn = |message: String| cx.log(Level::Warning, "exec", self.name, &secrets.redact(&message));
        let confined = &finished.confined;
        if !confined.is_as_asked() && !self.confined.warned_of_gap.swap(true, Ordering::Relaxed) {
            warn(format!("{who} could change the machine: {confined}"));
        }
        if matches!(confined, Confined::NotAsked | Confined::No { .. }) {
            return None;
        }
        let refused = match (finished.attempts.is_empty(), &finished.refusal_hint) {
            (true, None) => return None,
            (false, _) if guard.is_sealed => "tried to change the machine and was refused".to_owned(),
            (false, _) => format!("tried to {} and was refused", listed(&finished.attempts)),
            (true, Some(_)) if guard.is_sealed => "was probably refused an operation".to_owned(),
            (true, Some(hint)) => format!("was probably refused an operation ({})", beginning(hint)),
        };
        warn(format!("{who} {refused}, because its resource is only checked; {REMEDY}"));
        let why = format!("if the guard may change the machine: {who} {refused}; {REMEDY}");
        Some(secrets.redact(&why))
    }
}

/// Returns the first attempts and the number of the others: `write /etc/motd, remove /etc/passwd and 3 more`.
fn listed(attempts: &Attempts) -> String {
    let mut first = attempts.first.iter();
    let shown: Vec<String> =
        first.by_ref().take(MAX_LISTED_ATTEMPTS).map(|attempt| beginning(&attempt.to_string())).collect();
    let more = first.count() as u32 + attempts.more;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

fn beginning(text: &str) -> String {
    let mut characters = text.chars();
    let beginning: String = characters.by_ref().take(MAX_CHARS).collect();
    if characters.next().is_some() { format!("{beginning}…") } else { beginning }
}
