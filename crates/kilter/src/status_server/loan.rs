//! Loans of the state directory to commands that make changes.

use std::io::{self, Read, Write};
use std::time::Duration;

use ecow::EcoString;
use kilter_runtime::{LentLock, Pause, StateDir, StateDirError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value as Json, json};

use super::{QUERY_TIMEOUT, StatusShared, line, retry_during_reload, send};
use crate::execute::fail_text;
use crate::server::Stream;
use crate::{loan, output};

/// Interval between two attempts while calls are in flight, or while another process holds the lock.
const RETRY: Duration = Duration::from_millis(20);

impl StatusShared {
    /// Pauses the run, lets the client lock the state directory until it closes the connection, and resumes.
    pub(super) fn lend(&self, by: &str, declared: &Json, stream: &Stream) {
        let _one = self.loans.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match self.conflicts(declared) {
            Ok(conflicts) if conflicts.is_empty() => {}
            Ok(conflicts) => return send(stream, &json!({ "conflicts": conflicts })),
            Err(why) => return send(stream, &json!({ "error": why })),
        }
        if let Err(why) = self.set_borrower(Some(by.into())) {
            return send(stream, &json!({ "error": why }));
        }
        match self.lent(stream) {
            Ok(Some(lent)) => {
                let mut out = stream;
                if out.write_all(line(&json!({ "lent": true })).as_bytes()).is_ok() {
                    wait_for_end(stream);
                }
                take_back(&lent);
                if let Err(error) = retry_during_reload(|| self.status_handle.take_back(QUERY_TIMEOUT)) {
                    output::warning(format_args!("the run does not take its state directory back: {error}"));
                }
            }
            Ok(None) => {}
            Err(why) => send(stream, &json!({ "error": why })),
        }
        if let Err(why) = self.set_borrower(None) {
            output::warning(format_args!("the run cannot be resumed: {why}"));
        }
    }

    /// Returns the resources that the run declares differently. A paused run does not undo changes.
    fn conflicts(&self, declared: &Json) -> Result<Vec<String>, String> {
        if self.pauses().as_one().is_some() {
            return Ok(Vec::new());
        }
        let held = retry_during_reload(|| self.status_handle.catalog(QUERY_TIMEOUT)).map_err(|why| why.to_string())?;
        loan::conflicts(&self.state_dir, &held, declared).ok_or_else(|| "the request is damaged".to_owned())
    }

    /// Pauses or resumes the run for a client, beside the stored pauses.
    fn set_borrower(&self, by: Option<EcoString>) -> Result<(), String> {
        let _turn = self.turn();
        *self.borrower() = by;
        let asked = match self.effective_pause() {
            Some(pause) => retry_during_reload(|| self.status_handle.pause(pause.clone(), QUERY_TIMEOUT)).map(drop),
            None => retry_during_reload(|| self.status_handle.resume(QUERY_TIMEOUT)).map(drop),
        };
        if asked.is_err() {
            *self.borrower() = None;
        }
        asked.map_err(|why| why.to_string())
    }

    /// Returns the stored pauses and the loan as one pause.
    pub(super) fn effective_pause(&self) -> Option<Pause> {
        let stored = self.pauses().as_one();
        let Some(by) = self.borrower().clone() else { return stored };
        let is_loan = stored.is_none();
        let whys = stored.into_iter().map(|stored| stored.why).filter(|why| !why.is_empty());
        let whys: Vec<EcoString> = whys.chain([by]).collect();
        Some(Pause { longest: None, why: whys.join("; ").into(), is_loan })
    }

    /// Waits until no call is in flight, and releases the locks; none if the client has closed the connection.
    fn lent(&self, stream: &Stream) -> Result<Option<LentLock>, String> {
        loop {
            match retry_during_reload(|| self.status_handle.lend(QUERY_TIMEOUT)) {
                Ok(Ok(true)) => break,
                Ok(Ok(false)) => {}
                Ok(Err(why)) => return Err(why.into()),
                Err(why) => return Err(why.to_string()),
            }
            if has_ended(stream, Some(RETRY)) {
                return Ok(None);
            }
        }
        let lent = StateDir::new(&self.state_dir).lend();
        lent.map(Some).ok_or_else(|| "it does not hold the lock itself".to_owned())
    }
}

/// Waits until the client closes its connection, at its end at the latest.
fn wait_for_end(stream: &Stream) {
    while !has_ended(stream, None) {}
}

/// Returns true if the client has closed its connection. Waits for an event on it, up to a time.
fn has_ended(stream: &Stream, longest: Option<Duration>) -> bool {
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    match poll(&mut [PollFd::new(stream, PollFlags::IN)], longest.as_ref()) {
        Ok(0) | Err(rustix::io::Errno::INTR) => false,
        Ok(_) => {
            let mut source = stream;
            match source.read(&mut [0; 64]) {
                Ok(count) => count == 0,
                Err(error) => !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock),
            }
        }
        Err(_) => true,
    }
}

/// Takes the locks back. Another process may have locked the directory in between: the run waits for its end.
fn take_back(lent: &LentLock) {
    let mut is_told = false;
    loop {
        match lent.take_back() {
            Ok(()) => return,
            Err(error @ StateDirError::Locked { .. }) => {
                if !std::mem::replace(&mut is_told, true) {
                    output::warning(format_args!("the run waits: {}", fail_text(&error)));
                }
                std::thread::sleep(RETRY);
            }
            Err(error) => {
                let why = fail_text(&error);
                return output::warning(format_args!("the run cannot lock its state directory again: {why}"));
            }
        }
    }
}
