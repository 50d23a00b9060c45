//! Log messages, action functions and attribute changes.

use ecow::EcoString;
use kilter_model::{AttributeName, Attributes, Difference, Value};

use super::change_log::ChangeLog;
use super::event::{Block, EventKind};
use super::processed::{differences, sealed, status_of};
use super::status::{FinalStatus, Phase, Rule};
use super::titles::Titles;
use crate::context::Level;

macro_rules! level {
    ($level:ident, $plain:ident, $for:ident, $use:literal) => {
        #[doc = concat!("Says ", $use, ": inside a block of its resources, otherwise of the provider.")]
        pub fn $plain(&mut self, message: &str) {
            self.say(Level::$level, message);
        }

        #[doc = concat!("Says ", $use, " of these resources.")]
        pub fn $for(&mut self, titles: impl Titles, message: &str) {
            self.say_as(stringify!($plain), Level::$level, titles, message);
        }
    };
}

macro_rules! status {
    ($name:ident, $status:ident, $what:literal) => {
        #[doc = concat!("Gives resources their final status: ", $what, ". A message takes the place of the default \
                                                            text.")]
        pub fn $name<'m>(&mut self, titles: impl Titles, message: impl Into<Option<&'m str>>) {
            self.ended(stringify!($name), titles, FinalStatus::$status, message.into());
        }
    };
}

impl ChangeLog<'_> {
    level!(Debug, debug, debug_for, "what is needed to understand everything that happens");
    level!(Info, info, info_for, "how it goes, before what takes long or may fail");
    level!(Notice, notice, notice_for, "something of notice from the regular work");
    level!(Warning, warning, warning_for, "what does not (yet) prevent the work");
    level!(Err, err, err_for, "what made the work fail; the status stays as it is");

    status!(created, Created, "they are there now");
    status!(updated, Updated, "they are as they should be now");
    status!(deleted, Deleted, "they are gone");
    status!(unchanged, Unchanged, "there was nothing to do");

    /// Logs a message at any level. It applies to the resources of the open block, otherwise to the provider.
    /// Levels above [`Level::Err`] are reduced to it.
    pub fn say(&mut self, level: Level, message: &str) {
        match self.blocks.last() {
            Some(_) => self.say_as(level.word(), level, super::InScope, message),
            None => self.emit(level.min(Level::Err), &[], None, EventKind::Message(message)),
        }
    }

    /// Logs a message about these resources at any level. See [`ChangeLog::say`].
    pub fn say_for(&mut self, level: Level, titles: impl Titles, message: &str) {
        self.say_as(level.word(), level, titles, message);
    }

    /// Logs a message about a resource of the type that is not among the changes, such as an obstacle. It need
    /// not be declared.
    pub fn unmanaged(&mut self, title: &str, level: Level, message: &str) {
        if self.manages(title) {
            return self.misuse("unmanaged", Some(title.into()), Rule::Managed);
        }
        self.emit(level.min(Level::Err), &[title.into()], None, EventKind::Unmanaged(message));
    }

    /// Sets the final status of resources to failed, with the reason. The only action function that is allowed
    /// inside the block of the resource.
    pub fn failed(&mut self, titles: impl Titles, message: &str) {
        self.ended("failed", titles, FinalStatus::Failed, Some(message));
    }

    /// Reports a changed attribute. [`Value::Undef`] stands for no value; `message` replaces `is → should`.
    /// Sensitive values, and values of attributes with a sensitive type, are redacted. A message that contains
    /// a secret is omitted.
    pub fn attribute_changed<'m>(
        &mut self,
        title: impl Titles,
        attribute: impl Into<AttributeName>,
        is: Value,
        should: Value,
        message: impl Into<Option<&'m str>>,
    ) {
        let mut difference = Difference::new(attribute, is, should);
        difference.message = message.into().map(EcoString::from);
        let difference = sealed(self.schema(), difference);
        let asked = self.resolve("attribute_changed", &title);
        let at = self.advance("attribute_changed", asked, Phase::logged);
        if !at.is_empty() {
            let block = self.block_of(&at);
            self.log_difference(&at, block.as_ref(), &difference);
        }
    }

    /// Sets the final status of a resource that was brought from `is` to `should` outside of a block. Reports
    /// each differing attribute as changed. None stands for a resource that is absent or must be removed.
    pub fn processed(&mut self, title: impl Titles, is: Option<&Attributes>, should: Option<&Attributes>) {
        let differences = differences(self.schema(), is, should);
        let status = status_of(is, should, &differences);
        let asked = self.resolve("processed", &title);
        let at = self.advance("processed", asked, |phase| phase.ended(status));
        if at.is_empty() {
            return;
        }
        for difference in &differences {
            self.log_difference(&at, None, difference);
        }
        self.emit_ended(&at, status, status.text());
    }

    /// Adds a line about these resources to the report.
    pub fn note(&mut self, titles: impl Titles, line: &str) {
        for at in self.resolve("note", &titles) {
            self.entries[at].outcome.notes.push(line.into());
        }
    }

    /// Sets an output for other resources.
    pub fn send(&mut self, title: impl Titles, output: &str, value: impl Into<Value>) {
        let value = value.into();
        for at in self.resolve("send", &title) {
            self.entries[at].outcome.outputs.set(output, value.clone());
        }
    }

    /// Reports that the pending refresh of these resources has been done too.
    pub fn refreshed(&mut self, titles: impl Titles) {
        for at in self.resolve("refreshed", &titles) {
            self.entries[at].outcome.refreshed = true;
        }
    }

    fn say_as(&mut self, method: &'static str, level: Level, titles: impl Titles, message: &str) {
        let misuses = self.misuses.len();
        let asked = self.resolve(method, &titles);
        let at = self.advance(method, asked, Phase::logged);
        if at.is_empty() && self.misuses.len() > misuses {
            return;
        }
        let block = self.block_of(&at);
        self.emit(level.min(Level::Err), &self.names(&at), block.as_ref(), EventKind::Message(message));
    }

    fn ended(&mut self, method: &'static str, titles: impl Titles, status: FinalStatus, message: Option<&str>) {
        let asked = self.resolve(method, &titles);
        let at = self.advance(method, asked, |phase| phase.ended(status));
        if at.is_empty() {
            return;
        }
        let message = message.unwrap_or(status.text());
        if status == FinalStatus::Failed {
            self.fail(&at, &message.into(), false);
        }
        self.emit_ended(&at, status, message);
    }

    fn emit_ended(&self, at: &[usize], status: FinalStatus, message: &str) {
        let level = match status {
            FinalStatus::Failed => Level::Err,
            FinalStatus::Unchanged => Level::Info,
            FinalStatus::Created | FinalStatus::Updated | FinalStatus::Deleted => Level::Notice,
        };
        let block = self.block_of(at);
        self.emit(level, &self.names(at), block.as_ref(), EventKind::Ended { status, message });
    }

    /// Reports a changed attribute, and adds it to the outcomes.
    pub(super) fn log_difference(&mut self, at: &[usize], block: Option<&Block>, difference: &Difference) {
        for &at in at {
            self.entries[at].outcome.changed.push(difference.clone());
        }
        self.emit(Level::Notice, &self.names(at), block, EventKind::AttributeChanged(difference));
    }

    /// Returns the innermost block that contains all of these resources. Messages about other resources do not
    /// belong to it.
    fn block_of(&self, at: &[usize]) -> Option<Block> {
        let holds = |block: &&super::blocks::Open| at.iter().all(|at| block.at.contains(at));
        self.blocks.iter().rev().find(holds).map(|open| open.block.clone())
    }
}
