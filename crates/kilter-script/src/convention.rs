//! Requests, replies, and what a calling convention is.

mod error;
mod keys;
pub(crate) mod size;
mod unique;

use std::fmt;

use ecow::EcoString;
use kilter_model::{Attributes, Receipt, Value};
use kilter_process::{Finished, Invocation};
use kilter_provider::Mode;

pub use error::{ProtocolError, Refusal};

/// The name of a calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConventionName {
    /// Words on the command line, lines on standard output.
    Simple,
    /// JSON both ways.
    Json,
    /// A word on the command line, a document both ways, and channel 3.
    Mold,
}

impl ConventionName {
    /// The word for it in metadata.
    pub fn word(self) -> &'static str {
        match self {
            ConventionName::Simple => "simple",
            ConventionName::Json => "json",
            ConventionName::Mold => "mold",
        }
    }
}

impl fmt::Display for ConventionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What a provider is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Its metadata.
    Describe,
    /// All resources.
    List,
    /// The resources of these names.
    Find(&'a [&'a str]),
    /// The same, with the declared attributes that identify each beside its name.
    FindAs(&'a [&'a str], &'a [Attributes]),
    /// To make changes, or to tell which it would make.
    Update(&'a [Update<'a>], Mode),
    /// To act on a refresh of one resource: [`Update::should`] has all that is declared.
    Refresh(&'a Update<'a>),
    /// To tell what changes, until it is ended.
    Watch,
}

/// One resource's way to what should be.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Its name.
    pub name: &'a str,
    /// What was found; none where there is nothing.
    pub is: Option<&'a Attributes>,
    /// What has to be changed, and the parameters that were given; for a refresh all that is declared.
    pub should: &'a Attributes,
    /// Which attributes others have sent.
    pub received: &'a [Receipt],
}

/// A calling convention: which process asks, and what its end answers.
///
/// Both functions are pure; the process between them is started elsewhere.
pub trait Convention: Send + Sync {
    /// The process to start for `request`.
    ///
    /// # Errors
    /// When the convention cannot carry the request: a NUL byte on a command line.
    fn encode(&self, request: &Request<'_>) -> Result<Invocation, Refusal>;

    /// The reply that a finished process gave to `request`.
    ///
    /// # Errors
    /// When it gave none, or said that it failed.
    fn decode(&self, request: &Request<'_>, finished: &Finished) -> Result<Reply, ProtocolError>;

    /// Reads the lines that answer [`Request::Watch`], one after the other as they come.
    fn listener(&self) -> Listener;
}

/// Makes sense of a line of a watch, which has a number, from 1.
pub type Listener = Box<dyn FnMut(usize, &str) -> Result<Heard, ProtocolError> + Send>;

/// What a line of a watch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing yet.
    Nothing,
    /// From now on it is told what changes.
    Watching,
    /// These resources may have changed.
    Changed(Vec<EcoString>),
    /// Any may have changed.
    Anything,
}

/// What a provider answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To [`Request::Describe`]: its metadata, not read yet.
    Described(EcoString),
    /// To [`Request::List`] and [`Request::Find`]: resources, their values as they were written.
    Resources(Vec<Record>),
    /// To [`Request::Update`] and [`Request::Refresh`]: what was, or would be, changed.
    Changed(ChangeReport),
    /// To [`Request::Watch`]: it has ended, and does not say why.
    Watched,
}

/// A resource as a provider wrote it: values are of the types that the convention has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Its name.
    pub name: EcoString,
    /// Its attributes, without the name.
    pub attributes: Attributes,
    /// Attributes that were written more than once; the last value counts. In JSON those of an answer in which all went well.
    pub repeated: Vec<EcoString>,
    /// Whether the answer has it more than once, in the same words.
    pub is_double: bool,
    /// Why it could not be read, or that it does not exist and cannot be created.
    pub error: Option<RecordError>,
}

/// What is wrong with one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Of which kind it is.
    pub kind: ErrorKind,
    /// What the provider says.
    pub message: EcoString,
}

/// The kinds of errors that providers tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorKind {
    /// The resource does not exist and cannot be created.
    Unknown,
    /// Whoever runs kilter may not do it.
    Forbidden,
    /// Anything else.
    #[default]
    Failed,
}

impl ErrorKind {
    /// The kind of a word.
    pub fn from_word(word: &str) -> Option<ErrorKind> {
        match word {
            "unknown" => Some(ErrorKind::Unknown),
            "forbidden" => Some(ErrorKind::Forbidden),
            "failed" => Some(ErrorKind::Failed),
            _ => None,
        }
    }
}

/// What a provider says it has changed, or would change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeReport {
    /// Each change of an attribute that it tells.
    pub changes: Vec<AttributeChange>,
    /// Resources that could not be changed, and why.
    pub errors: Vec<(EcoString, RecordError)>,
    /// Resources that it tells something of.
    pub told: Vec<EcoString>,
    /// Whether what it does not mention is to be derived from what was and what should be.
    pub derive: bool,
}

/// A change of one attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeChange {
    /// The resource.
    pub name: EcoString,
    /// The attribute.
    pub attribute: EcoString,
    /// Its value now.
    pub is: Value,
    /// Its value before; undef if it is not told.
    pub was: Value,
}

pub(crate) use error::{attribute_name, beginning, line, said, text};
pub(crate) use keys::Keys;
pub(crate) use unique::unique;

/// The metadata that a process printed.
pub(crate) fn described(finished: &Finished) -> Result<Reply, ProtocolError> {
    if !finished.status.is_success() {
        return Err(ProtocolError::Status(finished.status));
    }
    let text = error::text(&finished.stdout.bytes)?;
    match text.trim().is_empty() {
        true => Err(ProtocolError::Nothing { expected: "YAML that describes the provider" }),
        false => Ok(Reply::Described(text.into())),
    }
}
