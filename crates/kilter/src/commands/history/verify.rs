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
        n => format!("; {n} older transactions were removed by age or size"),
    };
    let head = if found.head.is_empty() { "none" } else { &found.head };
    let (events, links) = (found.events, found.links - found.pruned);
    let text = format!("{events} events in {links} transactions are unchanged{pruned}\nhead {head}\n");
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
    Ok(output::data(&format!("removed {} events and {} saved states\n", removed.events, removed.states)))
}
