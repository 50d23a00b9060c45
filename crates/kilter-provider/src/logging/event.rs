//! What a provider reports, as data, and the text for it.

use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Difference, Value};

use super::status::{Misuse, Status};
use crate::context::Level;
use crate::contract::Mode;

/// Values longer than this are shortened in texts; events keep them whole.
const SHOWN: usize = 120;

/// What a block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Creates resources.
    Creating,
    /// Updates resources.
    Updating,
    /// Deletes resources.
    Deleting,
    /// Brings resources to what should be, whatever it takes.
    Processing,
    /// Finds that resources cannot be brought to what should be.
    Failing,
}

impl Action {
    /// The word for it in events, and the method's name: `creating`.
    pub fn word(self) -> &'static str {
        match self {
            Action::Creating => "creating",
            Action::Updating => "updating",
            Action::Deleting => "deleting",
            Action::Processing => "processing",
            Action::Failing => "failing",
        }
    }

    /// What its texts begin with: `Creating`.
    pub(super) fn label(self) -> &'static str {
        match self {
            Action::Creating => "Creating",
            Action::Updating => "Updating",
            Action::Deleting => "Deleting",
            Action::Processing => "Processing",
            Action::Failing => "Failing",
        }
    }
}

/// A block: what it does, and what its texts begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it does.
    pub action: Action,
    /// What its texts begin with: `Updating`, or the message it was given.
    pub label: EcoString,
}

/// Something that a provider reports.
#[derive(Clone, Debug)]
pub struct ProviderEvent<'a> {
    /// How grave it is.
    pub level: Level,
    /// The provider's type.
    pub type_name: &'a str,
    /// The provider's name.
    pub provider: &'a str,
    /// The resources it is about, by name; empty when it is about the provider.
    pub titles: &'a [EcoString],
    /// Whether it was done, or only told.
    pub mode: Mode,
    /// The block in which it happened.
    pub block: Option<&'a Block>,
    /// What happened.
    pub what: Happening<'a>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Happening<'a> {
    /// The provider said something.
    Message(&'a str),
    /// It said something about an instance that nobody asked to change.
    Unmanaged(&'a str),
    /// The block was opened.
    Started,
    /// The block ended well.
    Finished {
        /// How long it took.
        duration: Duration,
        /// What became of its resources.
        status: Status,
    },
    /// The block failed.
    Failed {
        /// How long it took.
        duration: Duration,
        /// Why.
        why: Option<&'a str>,
        /// Whether the run is to end.
        fatal: bool,
    },
    /// The resources have their final status.
    Ended {
        /// The status.
        status: Status,
        /// The text for it.
        message: &'a str,
    },
    /// An attribute has changed; secrets are sealed.
    AttributeChanged(&'a Difference),
    /// The provider did not keep a rule.
    Misuse(&'a Misuse),
    /// The provider gave up.
    Aborted {
        /// Why.
        why: &'a str,
        /// Whether the run is to end.
        fatal: bool,
    },
}

impl ProviderEvent<'_> {
    /// The text for it, without level and title. Secrets are redacted.
    pub fn text(&self) -> String {
        let label = self.block.map_or("", |block| block.label.as_str());
        let text = match &self.what {
            Happening::Message(message) if label.is_empty() => (*message).to_owned(),
            Happening::Message(message) => format!("{label}: {message}"),
            Happening::Unmanaged(message) => format!("not managed: {message}"),
            Happening::Started => format!("{label}: Start"),
            Happening::Finished { duration, .. } => format!("{label}: Finished in {} seconds", seconds(*duration)),
            Happening::Failed { duration, why, .. } => {
                let why = why.map_or(String::new(), |why| format!(": {why}"));
                format!("{label}: Failed after {} seconds{why}", seconds(*duration))
            }
            Happening::Ended { message, .. } => (*message).to_owned(),
            Happening::AttributeChanged(difference) if label.is_empty() => changed(difference),
            Happening::AttributeChanged(difference) => format!("{label} {}", changed(difference)),
            Happening::Misuse(misuse) => misuse.to_string(),
            Happening::Aborted { why, .. } => format!("Aborted: {why}"),
        };
        match self.mode {
            Mode::Apply => text,
            Mode::Preview => format!("noop: {text}"),
        }
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.6}", duration.as_secs_f64())
}

fn changed(difference: &Difference) -> String {
    match &difference.message {
        Some(message) => format!("{}: {message}", difference.attribute),
        None => format!("{}: {} → {}", difference.attribute, shown(&difference.is), shown(&difference.should)),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
