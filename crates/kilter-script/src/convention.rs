//! Requests, replies and the trait of a calling convention.

mod error;
mod keys;
pub(crate) mod size;
mod unique;

use std::fmt;

use ecow::EcoString;
use kilter_model::{Attributes, ReceivedValue, Value};
use kilter_process::{Invocation, Output};
use kilter_provider::Mode;

pub use error::{ProtocolError, Refusal};

/// Name of a calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConventionName {
    /// Command-line arguments in, lines on standard output.
    Simple,
    /// JSON in both directions.
    Json,
    /// One command-line argument, documents in both directions, and channel 3.
    Mold,
}

impl ConventionName {
    /// Returns the keyword in metadata.
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

/// A request to a provider.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Return the metadata.
    Describe,
    /// List all resources.
    List,
    /// Find the resources with these names.
    Find(&'a [&'a str]),
    /// Find the resources with these names, with the declared identifying attributes of each.
    FindAs(&'a [&'a str], &'a [Attributes]),
    /// Make or preview changes.
    Update(&'a [Update<'a>], Mode),
    /// Refresh a resource. [`Update::should`] contains all declared attributes.
    Refresh(&'a Update<'a>),
    /// Report changes until cancelled.
    Watch,
}

/// A change of a resource.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Name of the resource.
    pub name: &'a str,
    /// Current attributes. None if the resource is absent.
    pub is: Option<&'a Attributes>,
    /// Attributes to change and declared parameters. For a refresh, all declared attributes.
    pub should: &'a Attributes,
    /// Attributes with values from other resources.
    pub received: &'a [ReceivedValue],
}

/// A calling convention: converts requests to processes, and finished processes to replies.
///
/// Both functions are pure. Another module starts the process.
pub trait Convention: Send + Sync {
    /// Returns the process to start for `request`.
    ///
    /// # Errors
    /// If the convention cannot represent the request, such as a NUL byte on a command line.
    fn encode(&self, request: &Request<'_>) -> Result<Invocation, Refusal>;

    /// Returns the reply of a finished process to `request`.
    ///
    /// # Errors
    /// If the process gave no valid reply, or reported a failure.
    fn decode(&self, request: &Request<'_>, finished: &Output) -> Result<Reply, ProtocolError>;

    /// Returns a parser for the lines that answer [`Request::Watch`], in order of arrival.
    fn listener(&self) -> LineParser;
}

/// Parser for the lines of a watch. The line number starts at 1.
pub type LineParser = Box<dyn FnMut(usize, &str) -> Result<WatchLine, ProtocolError> + Send>;

/// Meaning of a line of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchLine {
    /// No information.
    Nothing,
    /// The watch has started.
    Watching,
    /// These resources may have changed.
    Changed(Vec<EcoString>),
    /// Any resource may have changed.
    Anything,
}

/// Reply of a provider.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Reply to [`Request::Describe`]: unparsed metadata.
    Described(EcoString),
    /// Reply to [`Request::List`] and [`Request::Find`]: resources with values as written.
    Resources(Vec<Record>),
    /// Reply to [`Request::Update`] and [`Request::Refresh`]: actual or previewed changes.
    Changed(ChangeReport),
    /// Reply to [`Request::Watch`]: the watch has ended without an error message.
    Watched,
}

/// A resource as a provider wrote it, with value types of the convention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Name of the resource.
    pub name: EcoString,
    /// Attributes, except the name.
    pub attributes: Attributes,
    /// Attributes written more than once. The last value counts. For JSON, set only in an answer without
    /// errors.
    pub repeated: Vec<EcoString>,
    /// True if the answer contains the same resource more than once.
    pub is_double: bool,
    /// Error of the resource: unreadable, or nonexistent and impossible to create.
    pub error: Option<RecordError>,
}

/// Error of a single resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Message of the provider.
    pub message: EcoString,
}

/// Kind of an error reported by a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorKind {
    /// The resource does not exist and cannot be created.
    Unknown,
    /// The user lacks the permission.
    Forbidden,
    /// Any other error.
    #[default]
    Failed,
}

impl ErrorKind {
    /// Returns the kind of a keyword.
    pub fn from_word(word: &str) -> Option<ErrorKind> {
        match word {
            "unknown" => Some(ErrorKind::Unknown),
            "forbidden" => Some(ErrorKind::Forbidden),
            "failed" => Some(ErrorKind::Failed),
            _ => None,
        }
    }
}

/// Changes that a provider reports or previews.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeReport {
    /// Reported changes of attributes.
    pub changes: Vec<AttributeChange>,
    /// Resources that could not be changed, with the reasons.
    pub errors: Vec<(EcoString, RecordError)>,
    /// Resources mentioned in the report.
    pub told: Vec<EcoString>,
    /// True if unmentioned changes are derived from the current and desired state.
    pub derive: bool,
}

/// A change of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeChange {
    /// The resource.
    pub name: EcoString,
    /// The attribute.
    pub attribute: EcoString,
    /// New value.
    pub is: Value,
    /// Old value, or undef if it was not reported.
    pub was: Value,
}

pub(crate) use error::{attribute_name, beginning, line, message_text, text};
pub(crate) use keys::Keys;
pub(crate) use unique::unique;

/// Returns the metadata that a process printed.
pub(crate) fn described(finished: &Output) -> Result<Reply, ProtocolError> {
    if !finished.status.is_success() {
        return Err(ProtocolError::Status(finished.status));
    }
    let text = error::text(&finished.stdout.bytes)?;
    match text.trim().is_empty() {
        true => Err(ProtocolError::Nothing { expected: "YAML that describes the provider" }),
        false => Ok(Reply::Described(text.into())),
    }
}
