//! States that are found, changes that are asked for, and what became of them.

use ecow::{EcoString, eco_format};

use crate::names::{AttributeName, ResourceRef};
use crate::schema::Attributes;
use crate::value::Value;

/// The state of one resource, as it was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The name on the system, as the query named it.
    pub name: EcoString,
    /// How people know a resource with several namevars: one text that a title pattern of its type takes
    /// apart into them. None for the name.
    pub title: Option<EcoString>,
    /// Whether the resource is there. One that is not may still have attributes to tell
    /// (`ensure: absent`).
    pub exists: bool,
    /// Whether it does not exist and cannot be created: nothing can be declared of it, and it is not absent.
    pub is_unknown: bool,
    /// What was found.
    pub attributes: Attributes,
    /// What the provider found to differ beyond its attributes: entries of a directory tree that is
    /// managed as one resource. Empty when all is as wanted.
    pub drift: Vec<Difference>,
    /// Values for other resources, when the resource has them without being changed.
    pub outputs: Attributes,
    /// Why it could not be read, where others of the same call could: it fails, they do not.
    pub unreadable: Option<EcoString>,
    /// Attributes that a plan cannot predict, because an earlier resource decides them. Always empty outside of a plan.
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
    /// An earlier resource decides the attribute.
    Resource(Because),
    /// The check needs more than a dry run permits. The text completes "known …".
    Refused(EcoString),
}

impl UnknownCause {
    /// Returns the reason as people read it after the word "known".
    pub fn reason(&self) -> EcoString {
        match self {
            UnknownCause::Resource(because) => because.reason(),
            UnknownCause::Refused(why) => why.clone(),
        }
    }

    /// Returns the resource that decides the attribute, if one does.
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
    /// True if that resource is certain to run first; no relation orders the two otherwise.
    pub is_ordered: bool,
}

impl Because {
    /// Returns the reason as people read it after the word "known".
    pub fn reason(&self) -> EcoString {
        match self.is_ordered {
            true => eco_format!("after {}", self.resource),
            false => eco_format!("after {}, and no relation says which of the two comes first", self.resource),
        }
    }
}

impl State {
    /// How people know it: by its title, or else by its name.
    pub fn label(&self) -> &EcoString {
        self.title.as_ref().unwrap_or(&self.name)
    }

    /// A resource that is not there.
    pub fn absent(name: impl Into<EcoString>) -> State {
        State { name: name.into(), ..State::default() }
    }

    /// A resource that is there.
    pub fn present(name: impl Into<EcoString>, attributes: Attributes) -> State {
        State { name: name.into(), exists: true, attributes, ..State::default() }
    }
}

/// One attribute (or one entry inside of a resource) that is not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The attribute.
    pub attribute: AttributeName,
    /// The entry inside of the resource, such as a path below a managed directory.
    pub entry: Option<EcoString>,
    /// What is.
    pub is: Value,
    /// What should be.
    pub should: Value,
    /// What is said in the place of "is → should".
    pub message: Option<EcoString>,
    /// A unified diff, where the provider allows its content to be shown.
    pub diff: Option<EcoString>,
}

impl Difference {
    /// An attribute that should change from `is` to `should`.
    pub fn new(attribute: impl Into<AttributeName>, is: Value, should: Value) -> Difference {
        Difference { attribute: attribute.into(), entry: None, is, should, message: None, diff: None }
    }

    /// Adds the entry inside of the resource.
    #[must_use]
    pub fn of_entry(mut self, entry: impl Into<EcoString>) -> Difference {
        self.entry = Some(entry.into());
        self
    }

    /// Adds what is said about it.
    #[must_use]
    pub fn saying(mut self, message: impl Into<EcoString>) -> Difference {
        self.message = Some(message.into());
        self
    }

    /// Adds a unified diff.
    #[must_use]
    pub fn showing(mut self, diff: impl Into<EcoString>) -> Difference {
        self.diff = Some(diff.into());
        self
    }
}

/// One resource's way from what is to what should be, as handed to a provider.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The name on the system.
    pub name: &'a EcoString,
    /// What was found.
    pub is: &'a State,
    /// What is wanted, canonical. None asks for removal.
    pub should: Option<&'a Attributes>,
    /// What differs.
    pub differences: &'a [Difference],
    /// Whether a refresh is owed to the resource as well.
    pub refresh: bool,
    /// Which of its attributes hold values that other resources have sent.
    pub received: &'a [Receipt],
}

/// An attribute that holds what other resources have sent (mgmt's resource guide, "Send/Recv").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The attribute.
    pub attribute: AttributeName,
    /// The outputs that its value is made of, each with its resource.
    pub from: Box<[(ResourceRef, EcoString)]>,
    /// Whether the value is another one than when the resource was last found in its state or brought there, in this run. It
    /// stays so as long as that fails.
    pub changed: bool,
}

impl Receipt {
    /// The outputs that its value is made of, as a manifest names them: `exec[token].stdout`.
    pub fn sources(&self) -> Vec<String> {
        self.from.iter().map(|(resource, output)| format!("{resource}.{output}")).collect()
    }
}

impl<'a> Change<'a> {
    /// A change to which no refresh is owed, of what nobody else has sent.
    pub fn new(
        name: &'a EcoString,
        is: &'a State,
        should: Option<&'a Attributes>,
        differences: &'a [Difference],
    ) -> Change<'a> {
        Change { name, is, should, differences, refresh: false, received: &[] }
    }

    /// Whether `attribute` is among what differs.
    pub fn differs(&self, attribute: &str) -> bool {
        self.differences.iter().any(|difference| difference.attribute == attribute)
    }
}

/// What became of one change, refresh or action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Why it failed; none when it succeeded.
    pub failure: Option<EcoString>,
    /// Whether the failure is of a kind after which the run is to end, in order.
    pub fatal: bool,
    /// What the provider itself says it has changed, or would in a preview, sealed where it is secret. Empty where
    /// it says nothing, which is no claim that nothing was changed.
    pub changed: Vec<Difference>,
    /// Whether an owed refresh was served by it too.
    pub refreshed: bool,
    /// Values for other resources.
    pub outputs: Attributes,
    /// Lines for the person who reads the report, such as the output of a command.
    pub notes: Vec<EcoString>,
    /// The document that an action printed; none if it printed none.
    pub document: Option<Value>,
    /// What has made the change and how that ended, for who finds that it is not so; empty where there is nothing to say.
    pub by: EcoString,
}

impl Outcome {
    /// It succeeded.
    pub fn done() -> Outcome {
        Outcome::default()
    }

    /// It failed.
    pub fn failed(why: impl Into<EcoString>) -> Outcome {
        Outcome { failure: Some(why.into()), ..Outcome::default() }
    }

    /// Whether it succeeded.
    pub fn is_done(&self) -> bool {
        self.failure.is_none()
    }
}
