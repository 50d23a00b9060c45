//! Manifests of a run on another target, with their edits.

use std::cell::RefCell;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use kilter_model::Hash;
use kilter_provider::POLL;

use super::RemoteRun;
use crate::commands::run::PREVIOUS_IS_USED;
use crate::load::InputFiles;
use crate::remote::plans::NoPlan;
use crate::{output, signals};

/// Interval of the checks for edits.
const INTERVAL: Duration = Duration::from_secs(1);

/// Manifests that a target holds.
pub(super) struct HeldManifests<'a> {
    run: &'a RemoteRun<'a>,
    host: usize,
    state: RefCell<HeldVersion>,
}

/// The version of the manifests that a target holds.
struct HeldVersion {
    /// Facts of the target.
    facts: Hash,
    /// The compiled manifests, as the target receives them.
    text: String,
    /// The text that the target has received last.
    sent: String,
    /// The text that the target has accepted last.
    accepted: Option<String>,
    /// Interval of the checks of a device.
    interval: Duration,
    /// True if the target has not received the text.
    is_pending: bool,
    /// True if the last read found errors.
    is_wrong: bool,
    /// Files of the last read.
    files: InputFiles,
    /// Time of the last check for edits.
    checked: Instant,
}

impl<'a> HeldManifests<'a> {
    /// Compiles the manifests for a target for the first time.
    ///
    /// # Errors
    /// The failure, or the missing answer.
    pub(super) fn first(run: &'a RemoteRun<'a>, host: usize) -> Result<HeldManifests<'a>, NoPlan> {
        let facts = run.planner.facts(host)?;
        let files = InputFiles::default();
        let (made, _) = run.planner.compile(host, facts.clone(), &files)?;
        let state = HeldVersion {
            facts,
            text: made.received.text(),
            sent: String::new(),
            accepted: None,
            interval: made.poll.unwrap_or(POLL),
            is_pending: true,
            is_wrong: false,
            files,
            checked: Instant::now(),
        };
        Ok(HeldManifests { run, host, state: state.into() })
    }

    /// Returns the text for the target.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut state = self.state.borrow_mut();
        state.is_pending = false;
        state.sent = state.text.clone();
        state.text.clone().into_bytes()
    }

    /// Records that the target has accepted the version that it has received.
    pub(super) fn accept(&self) {
        let state = &mut *self.state.borrow_mut();
        state.accepted = Some(std::mem::take(&mut state.sent));
    }

    /// Returns to the version before an edit that the target has refused. Returns false if there is none.
    pub(super) fn go_back(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        let Some(accepted) = state.accepted.take().filter(|accepted| *accepted != state.sent) else { return false };
        state.text = accepted;
        state.is_pending = true;
        output::warning(PREVIOUS_IS_USED);
        true
    }

    /// Returns the interval of the checks of a device: the shortest `poll` of its resources, or five minutes.
    pub(super) fn interval(&self) -> Duration {
        self.state.borrow().interval
    }

    /// Returns true if the target has not received the last edit.
    pub(super) fn is_pending(&self) -> bool {
        self.state.borrow().is_pending
    }

    /// Returns true if there is an edit that the target has not received. Reads the manifests again if a file has
    /// changed, at most once per second, and reports errors.
    pub(super) fn is_edited(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        if !state.is_pending && state.checked.elapsed() >= INTERVAL {
            state.checked = Instant::now();
            if state.files.may_have_changed() {
                self.read_again(state);
            }
        }
        state.is_pending
    }

    /// Compiles the manifests again if the target has other facts.
    pub(super) fn take_facts(&self, facts: Hash) {
        let state = &mut *self.state.borrow_mut();
        if state.facts != facts {
            state.facts = facts;
            self.read_again(state);
        }
    }

    fn read_again(&self, state: &mut HeldVersion) {
        let files = InputFiles::default();
        let made = self.run.planner.compile(self.host, state.facts.clone(), &files);
        // The files are still being written.
        if files.has_changed_file() {
            return;
        }
        state.files = files;
        match made {
            Ok((made, _)) => {
                let text = made.received.text();
                state.interval = made.poll.unwrap_or(POLL);
                state.is_pending |= text != state.text;
                state.text = text;
                if std::mem::take(&mut state.is_wrong) {
                    self.report(Vec::new());
                }
            }
            Err(NoPlan::Failed(wrong)) if !signals::is_raised() => {
                state.is_wrong = true;
                self.report(wrong.lines);
            }
            Err(_) => {}
        }
    }

    /// Reports the problems of the manifests, or that there are none any more, unless another target has done it.
    fn report(&self, problems: Vec<String>) {
        let mut reported = self.run.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported == problems {
            return;
        }
        problems.iter().for_each(output::line);
        match problems.is_empty() {
            true => output::line("the manifest is valid again"),
            false => output::warning(PREVIOUS_IS_USED),
        }
        *reported = problems;
    }
}
