//! Block functions: log, time and handle the failures of an action.

use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Attributes, Difference};

use super::change_log::{ChangeLog, ResourceEntry};
use super::event::{Action, Block, EventKind};
use super::failure::Failure;
use super::processed::{differences, status_of};
use super::status::{FinalStatus, Phase, Rule};
use super::titles::Titles;
use crate::context::Level;

/// An open block.
pub(super) struct Open {
    pub(super) block: Block,
    /// Indexes of its resources.
    pub(super) at: Vec<usize>,
    /// Status of its resources after success.
    status: FinalStatus,
    /// Changes to report after success.
    differences: Vec<Difference>,
    start: Duration,
    /// Index of the first provider error while this was the innermost block.
    pub(super) misused: Option<usize>,
}

impl Open {
    pub(super) fn names(&self, entries: &[ResourceEntry<'_>]) -> Vec<EcoString> {
        self.at.iter().map(|&at| entries[at].name.clone()).collect()
    }
}

impl<'a> ChangeLog<'a> {
    /// Creates resources in a block. The end of the block sets their final status. `message` replaces
    /// `Creating`. Returns true on success.
    ///
    /// A failure returned by `body` applies to all of `titles` and is consumed. After a fatal failure, no other
    /// block starts.
    pub fn creating<'m>(
        &mut self,
        titles: impl Titles,
        message: impl Into<Option<&'m str>>,
        body: impl FnOnce(&mut ChangeLog<'a>) -> Result<(), Failure>,
    ) -> bool {
        self.block(Action::Creating, titles, message.into(), body)
    }

    /// Updates resources in a block. See [`ChangeLog::creating`].
    pub fn updating<'m>(
        &mut self,
        titles: impl Titles,
        message: impl Into<Option<&'m str>>,
        body: impl FnOnce(&mut ChangeLog<'a>) -> Result<(), Failure>,
    ) -> bool {
        self.block(Action::Updating, titles, message.into(), body)
    }

    /// Deletes resources in a block. See [`ChangeLog::creating`].
    pub fn deleting<'m>(
        &mut self,
        titles: impl Titles,
        message: impl Into<Option<&'m str>>,
        body: impl FnOnce(&mut ChangeLog<'a>) -> Result<(), Failure>,
    ) -> bool {
        self.block(Action::Deleting, titles, message.into(), body)
    }

    /// Brings a resource from `is` to `should` in a block. On success, reports each differing attribute as
    /// changed. None stands for a resource that is absent or must be removed.
    pub fn processing<'m>(
        &mut self,
        title: impl Titles,
        is: Option<&Attributes>,
        should: Option<&Attributes>,
        message: impl Into<Option<&'m str>>,
        body: impl FnOnce(&mut ChangeLog<'a>) -> Result<(), Failure>,
    ) -> bool {
        if !self.open(Action::Processing, title, message) {
            return false;
        }
        let differences = differences(self.schema(), is, should);
        if let Some(open) = self.blocks.last_mut() {
            open.status = status_of(is, should, &differences);
            open.differences = differences;
        }
        let result = body(self);
        self.close(result)
    }

    /// Records a failure for any result of `body`. `message` replaces `Failing`. Returns false.
    pub fn failing<'m>(
        &mut self,
        titles: impl Titles,
        message: impl Into<Option<&'m str>>,
        body: impl FnOnce(&mut ChangeLog<'a>) -> Result<(), Failure>,
    ) -> bool {
        self.block(Action::Failing, titles, message.into(), body)
    }

    fn block(
        &mut self,
        action: Action,
        titles: impl Titles,
        message: Option<&str>,
        body: impl FnOnce(&mut ChangeLog<'a>) -> Result<(), Failure>,
    ) -> bool {
        if !self.open(action, titles, message) {
            return false;
        }
        let result = body(self);
        self.close(result)
    }

    /// Opens a block that [`ChangeLog::close`] ends. Use this if a closure does not fit, such as for a provider
    /// in another process. Returns true if the block is open. Otherwise, do nothing: a fatal failure happened,
    /// or a rule forbids the block.
    pub fn open<'m>(&mut self, action: Action, titles: impl Titles, message: impl Into<Option<&'m str>>) -> bool {
        if self.is_stopping() {
            return false;
        }
        let (method, misuses) = (action.word(), self.misuses.len());
        let at = self.resolve(method, &titles);
        let at = self.advance(method, at, Phase::opened);
        if self.misuses.len() > misuses {
            // The action applies to all resources or none.
            at.iter().for_each(|&at| self.entries[at].phase = Phase::Untouched);
            return false;
        }
        let label = message.into().unwrap_or(action.label()).into();
        let status = match action {
            Action::Creating => FinalStatus::Created,
            Action::Updating | Action::Processing => FinalStatus::Updated,
            Action::Deleting => FinalStatus::Deleted,
            Action::Failing => FinalStatus::Failed,
        };
        let block = Block { action, label };
        self.emit(Level::Debug, &self.names(&at), Some(&block), EventKind::Started);
        let start = self.now();
        self.blocks.push(Open { block, at, status, differences: Vec::new(), start, misused: None });
        true
    }

    /// Closes the innermost block. Returns true on success, and false after a provider error or a fatal failure
    /// inside it.
    pub fn close(&mut self, result: Result<(), Failure>) -> bool {
        let Some(open) = self.blocks.pop() else {
            self.misuse("close", None, Rule::NoBlock);
            return false;
        };
        let duration = self.now().saturating_sub(open.start);
        match self.verdict(&open, result) {
            Ok(()) if open.status != FinalStatus::Failed => self.succeeded(&open, duration),
            verdict => {
                self.failed_in(&open, duration, verdict.err());
                false
            }
        }
    }

    /// Returns the result of a block, including failures inside it.
    fn verdict(&self, open: &Open, result: Result<(), Failure>) -> Result<(), Failure> {
        result?;
        // No block starts after a fatal failure, so it happened inside this block.
        if let Some(why) = &self.fatal {
            return Err(Failure::Fatal(why.clone()));
        }
        match open.misused {
            Some(at) => Err(Failure::new(self.misuses[at].to_string())),
            None => Ok(()),
        }
    }

    /// Returns true if any of the resources succeeded. All may have failed inside the block.
    fn succeeded(&mut self, open: &Open, duration: Duration) -> bool {
        let at: Vec<usize> = open.at.iter().copied().filter(|&at| self.entries[at].phase == Phase::Open).collect();
        if at.is_empty() && !open.at.is_empty() {
            return false;
        }
        for difference in &open.differences {
            self.log_difference(&at, Some(&open.block), difference);
        }
        at.iter().for_each(|&at| self.entries[at].phase = Phase::Final(open.status));
        let what = EventKind::Finished { duration, status: open.status };
        self.emit(Level::Notice, &self.names(&at), Some(&open.block), what);
        true
    }

    fn failed_in(&mut self, open: &Open, duration: Duration, failure: Option<Failure>) {
        let fatal = failure.as_ref().is_some_and(Failure::is_fatal);
        let why = failure.as_ref().map(|failure| failure.why().clone());
        let what = EventKind::Failed { duration, why: why.as_deref(), fatal };
        self.emit(Level::Err, &open.names(&self.entries), Some(&open.block), what);
        let why = why.unwrap_or_else(|| open.block.label.clone());
        self.fail(&open.at, &why, fatal);
        if fatal {
            self.fatal.get_or_insert_with(|| why.clone());
        }
        if open.at.is_empty() {
            self.strays.push(why);
        }
    }
}
