//! Verification and removal of events.

use std::time::SystemTime;

use kilter_history::{History, Retention};

use crate::exit::Exit;
use crate::past::{refuse, time};
use crate::recorder;
use crate::session::Session;
use crate::{output, recorder::milliseconds};

/// Verifies the chain.
pub(super) fn run(history: &History, expected: Option<&str>) -> Result<Exit, Exit> {
    let found = history.verify(expected).map_err(|error| refuse(&error))?;
    for problem in &found.problems {
        output::error(problem);
    }
    if !found.has_expected {
        output::error(format_args!("the chain does not contain the head {}", expected.unwrap_or_default()));
    }
    if !found.problems.is_empty() || !found.has_expected {
        output::hint("keep a copy of the history, and find out which program or user changed it");
        return Ok(Exit::Failed);
    }
    let pruned = match found.pruned {
        0 => String::new(),
        n => format!("; {} removed earlier by age or size", counted(n, "transaction")),
    };
    let head = if found.head.is_empty() { "none" } else { &found.head };
    let (events, links) = (found.events, found.links - found.pruned);
    let (unchanged, links) = (counted(events, "event"), counted(links, "transaction"));
    let are = if events == 1 { "is" } else { "are" };
    let text = format!("{unchanged} in {links} {are} unchanged{pruned}\nhead {head}\n");
    Ok(output::data(&text))
}

/// Removes events before a time.
pub(super) fn prune(session: &Session, before: &str) -> Result<Exit, Exit> {
    let before = time::parsed(before)?;
    let directory = recorder::directory(&session.state_dir()?);
    // A reader does not create the history.
    crate::past::open(session)?;
    let mut history = History::open(&directory).map_err(|error| refuse(&error))?;
    let limits = Retention { before, max_bytes: u64::MAX };
    let removed = history.prune(milliseconds(SystemTime::now()), limits).map_err(|error| refuse(&error))?;
    let (events, states) = (counted(removed.events, "event"), counted(removed.states, "saved state"));
    Ok(output::data(&format!("removed {events} and {states}\n")))
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_has_no_plural() {
        assert_eq!(counted(1, "event"), "1 event");
        assert_eq!(counted(2, "event"), "2 events");
    }
}
