//! Events of a provider, as data and as text.

use std::time::Duration;

use ecow::EcoString;
use kilter_model::{Difference, Value};

use super::status::{FinalStatus, Misuse};
use crate::context::Level;
use crate::contract::Mode;

/// Maximum length of a value in texts, in characters. Events contain whole values.
const MAX_VALUE_CHARS: usize = 120;

/// Kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Creates resources.
    Creating,
    /// Updates resources.
    Updating,
    /// Deletes resources.
    Deleting,
    /// Brings resources to their desired state by any changes.
    Processing,
    /// Reports that resources cannot reach their desired state.
    Failing,
}

impl Action {
    /// Returns the keyword in events, which is also the method name: `creating`.
    pub fn word(self) -> &'static str {
        match self {
            Action::Creating => "creating",
            Action::Updating => "updating",
            Action::Deleting => "deleting",
            Action::Processing => "processing",
            Action::Failing => "failing",
        }
    }

    /// Returns the default start of its messages: `Creating`.
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

/// A block: its action, and the start of its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Kind of the block.
    pub action: Action,
    /// Start of its messages: `Updating`, or the given message.
    pub label: EcoString,
}

/// An event of a provider.
#[derive(Clone, Debug)]
pub struct ProviderEvent<'a> {
    /// Severity.
    pub level: Level,
    /// Type of the provider.
    pub type_name: &'a str,
    /// Name of the provider.
    pub provider: &'a str,
    /// Names of the resources. Empty for an event of the provider itself.
    pub titles: &'a [EcoString],
    /// Mode of the `set`: apply or preview.
    pub mode: Mode,
    /// The surrounding block.
    pub block: Option<&'a Block>,
    /// Kind of the event.
    pub what: EventKind<'a>,
}

/// Kind of an event.
#[derive(Clone, Debug)]
pub enum EventKind<'a> {
    /// A message of the provider.
    Message(&'a str),
    /// A message about a resource that is not among the changes.
    Unmanaged(&'a str),
    /// A block was opened.
    Started,
    /// A block succeeded.
    Finished {
        /// Duration of the block.
        duration: Duration,
        /// Status of its resources.
        status: FinalStatus,
    },
    /// A block failed.
    Failed {
        /// Duration of the block.
        duration: Duration,
        /// Reason of the failure.
        why: Option<&'a str>,
        /// True if the failure ends the run.
        fatal: bool,
    },
    /// Resources have their final status.
    Ended {
        /// The status.
        status: FinalStatus,
        /// Text of the event.
        message: &'a str,
    },
    /// An attribute has changed. Secrets are redacted.
    AttributeChanged(&'a Difference),
    /// The provider violated a rule.
    Misuse(&'a Misuse),
    /// The provider aborted the `set`.
    Aborted {
        /// Reason.
        why: &'a str,
        /// True if the failure ends the run.
        fatal: bool,
    },
}

impl ProviderEvent<'_> {
    /// Returns the text without level and title. Secrets are redacted.
    pub fn text(&self) -> String {
        let label = self.block.map_or("", |block| block.label.as_str());
        let text = match &self.what {
            EventKind::Message(message) if label.is_empty() => (*message).to_owned(),
            EventKind::Message(message) => format!("{label}: {message}"),
            EventKind::Unmanaged(message) => format!("not managed: {message}"),
            EventKind::Started => format!("{label}: Start"),
            EventKind::Finished { duration, .. } => format!("{label}: Finished in {} seconds", seconds(*duration)),
            EventKind::Failed { duration, why, .. } => {
                let why = why.map_or(String::new(), |why| format!(": {why}"));
                format!("{label}: Failed after {} seconds{why}", seconds(*duration))
            }
            EventKind::Ended { message, .. } => (*message).to_owned(),
            EventKind::AttributeChanged(difference) if label.is_empty() => changed(difference),
            EventKind::AttributeChanged(difference) => format!("{label} {}", changed(difference)),
            EventKind::Misuse(misuse) => misuse.to_string(),
            EventKind::Aborted { why, .. } => format!("Aborted: {why}"),
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
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
