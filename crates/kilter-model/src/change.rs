//! States found on the system, requested changes, and their outcomes.

use ecow::{EcoString, eco_format};

use crate::names::{AttributeName, ResourceRef};
use crate::schema::Attributes;
use crate::value::Value;

/// State of a resource on the system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Name on the system, as in the query.
    pub name: EcoString,
    /// Title of a resource with several namevars: a text that a title pattern of its type splits into them.
    /// None if the title is the name.
    pub title: Option<EcoString>,
    /// True if the resource exists. An absent resource may still have attributes (`ensure: absent`).
    pub exists: bool,
    /// True if the resource does not exist and cannot be created. It cannot be declared, not even as absent.
    pub is_unknown: bool,
    /// Attributes on the system.
    pub attributes: Attributes,
    /// Drift that the provider found outside the attributes, such as entries of a directory tree that is
    /// managed as one resource. Empty if the tree is in sync.
    pub drift: Vec<Difference>,
    /// Outputs for other resources that are available without a change.
    pub outputs: Attributes,
    /// Reason why this resource could not be read. The other resources of the same call are unaffected.
    pub unreadable: Option<EcoString>,
    /// Attributes that a plan cannot predict. Always empty outside of a plan.
    pub unknown: Vec<Unknown>,
}

/// An attribute that a plan cannot predict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The attribute.
    pub attribute: AttributeName,
    /// Why it cannot be predicted.
    pub because: UnknownCause,
}

/// The reason why a plan cannot predict an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownCause {
    /// An earlier resource determines the attribute.
    Resource(Because),
    /// The check needs more than a dry run permits. The text completes "known …".
    Refused(EcoString),
}

impl UnknownCause {
    /// Returns the reason in the form that follows the word "known" in messages.
    pub fn reason(&self) -> EcoString {
        match self {
            UnknownCause::Resource(because) => because.reason(),
            UnknownCause::Refused(why) => why.clone(),
        }
    }

    /// Returns the resource that determines the attribute, if any.
    pub fn resource(&self) -> Option<&ResourceRef> {
        match self {
            UnknownCause::Resource(because) => Some(&because.resource),
            UnknownCause::Refused(_) => None,
        }
    }
}

impl From<Because> for UnknownCause {
    fn from(because: Because) -> UnknownCause {
        UnknownCause::Resource(because)
    }
}

/// The resource that makes a prediction impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Because {
    /// The resource.
    pub resource: ResourceRef,
    /// True if the resource certainly runs first. False if no relation orders the two resources.
    pub is_ordered: bool,
}

impl Because {
    /// Returns the reason in the form that follows the word "known" in messages.
    pub fn reason(&self) -> EcoString {
        match self.is_ordered {
            true => eco_format!("after {}", self.resource),
            false => eco_format!("after {}, and no relation says which of the two comes first", self.resource),
        }
    }
}

impl State {
    /// Returns the title, or the name if there is no title.
    pub fn label(&self) -> &EcoString {
        self.title.as_ref().unwrap_or(&self.name)
    }

    /// Creates the state of an absent resource.
    pub fn absent(name: impl Into<EcoString>) -> State {
        State { name: name.into(), ..State::default() }
    }

    /// Creates the state of an existing resource.
    pub fn present(name: impl Into<EcoString>, attributes: Attributes) -> State {
        State { name: name.into(), exists: true, attributes, ..State::default() }
    }
}

/// An attribute that is out of sync, or an entry inside the resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The attribute.
    pub attribute: AttributeName,
    /// Entry inside the resource, such as a path below a managed directory.
    pub entry: Option<EcoString>,
    /// Current value.
    pub is: Value,
    /// Desired value.
    pub should: Value,
    /// Text to show instead of "is → should".
    pub message: Option<EcoString>,
    /// Unified diff, if the provider allows the content to be shown.
    pub diff: Option<EcoString>,
}

impl Difference {
    /// Creates a difference between the current and the desired value of an attribute.
    pub fn new(attribute: impl Into<AttributeName>, is: Value, should: Value) -> Difference {
        Difference { attribute: attribute.into(), entry: None, is, should, message: None, diff: None }
    }

    /// Sets the entry inside the resource.
    #[must_use]
    pub fn of_entry(mut self, entry: impl Into<EcoString>) -> Difference {
        self.entry = Some(entry.into());
        self
    }

    /// Sets the text to show.
    #[must_use]
    pub fn saying(mut self, message: impl Into<EcoString>) -> Difference {
        self.message = Some(message.into());
        self
    }

    /// Sets the unified diff.
    #[must_use]
    pub fn showing(mut self, diff: impl Into<EcoString>) -> Difference {
        self.diff = Some(diff.into());
        self
    }
}

/// The change of one resource from its current to its desired state, as passed to a provider.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Name on the system.
    pub name: &'a EcoString,
    /// Current state.
    pub is: &'a State,
    /// Desired attributes in canonical form. None requests removal.
    pub should: Option<&'a Attributes>,
    /// Attributes that are out of sync.
    pub differences: &'a [Difference],
    /// True if a refresh of the resource is pending.
    pub refresh: bool,
    /// Attributes with values from other resources.
    pub received: &'a [ReceivedValue],
}

/// An attribute whose value comes from other resources (mgmt's resource guide, "Send/Recv").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedValue {
    /// The attribute.
    pub attribute: AttributeName,
    /// Outputs that the value is made from, each with its resource.
    pub from: Box<[(ResourceRef, EcoString)]>,
    /// True if the value has changed since the resource was last in sync in this run. It stays true until the
    /// resource is in sync.
    pub changed: bool,
}

impl ReceivedValue {
    /// Returns the outputs in manifest notation: `exec[token].stdout`.
    pub fn sources(&self) -> Vec<String> {
        self.from.iter().map(|(resource, output)| format!("{resource}.{output}")).collect()
    }
}

impl<'a> Change<'a> {
    /// Creates a change without a pending refresh and without values from other resources.
    pub fn new(
        name: &'a EcoString,
        is: &'a State,
        should: Option<&'a Attributes>,
        differences: &'a [Difference],
    ) -> Change<'a> {
        Change { name, is, should, differences, refresh: false, received: &[] }
    }

    /// Returns true if `attribute` is out of sync.
    pub fn differs(&self, attribute: &str) -> bool {
        self.differences.iter().any(|difference| difference.attribute == attribute)
    }
}

/// Result of a change, a refresh or an action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Reason of the failure, or none on success.
    pub failure: Option<EcoString>,
    /// True if the failure must end the run in an orderly way.
    pub fatal: bool,
    /// True if the provider crashed: it ended without an answer in its convention. An error that it reports is no
    /// crash.
    pub crashed: bool,
    /// Changes that the provider reports, or would make in a preview, with secrets redacted. An empty list does
    /// not mean that nothing was changed.
    pub changed: Vec<Difference>,
    /// True if the change also did the pending refresh.
    pub refreshed: bool,
    /// Outputs for other resources.
    pub outputs: Attributes,
    /// Lines for the report, such as the output of a command.
    pub notes: Vec<EcoString>,
    /// Document printed by an action, or none.
    pub document: Option<Value>,
    /// Description of the program that made the change and of its exit. It is shown if the change turns out to
    /// have no effect. Empty if there is nothing to add.
    pub by: EcoString,
}

impl Outcome {
    /// Creates a successful outcome.
    pub fn done() -> Outcome {
        Outcome::default()
    }

    /// Creates a failed outcome.
    pub fn failed(why: impl Into<EcoString>) -> Outcome {
        Outcome { failure: Some(why.into()), ..Outcome::default() }
    }

    /// Returns true if the operation succeeded.
    pub fn is_done(&self) -> bool {
        self.failure.is_none()
    }
}
