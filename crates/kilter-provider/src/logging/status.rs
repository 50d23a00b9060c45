//! The rules about what may be said of a resource, and when.

use std::fmt;

use ecow::EcoString;

/// How a resource has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is there now.
    Created,
    /// It is as it should be now.
    Updated,
    /// It is gone.
    Deleted,
    /// There was nothing to do.
    Unchanged,
    /// It could not be brought to what should be.
    Failed,
}

impl Status {
    /// The word for it in events: `created`.
    pub fn word(self) -> &'static str {
        match self {
            Status::Created => "created",
            Status::Updated => "updated",
            Status::Deleted => "deleted",
            Status::Unchanged => "unchanged",
            Status::Failed => "failed",
        }
    }

    /// The text for it: `Created`.
    pub(super) fn text(self) -> &'static str {
        match self {
            Status::Created => "Created",
            Status::Updated => "Updated",
            Status::Deleted => "Deleted",
            Status::Unchanged => "Unchanged",
            Status::Failed => "Failed",
        }
    }
}

/// How far a resource has come within one `set`.
///
/// `Untouched → Logged → Final`, or `Untouched → Open → Final`; nothing comes after `Final`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing was said of it.
    Untouched,
    /// Something was, outside of a block.
    Logged,
    /// A block is open for it.
    Open,
    /// It has its final status.
    Final(Status),
}

impl Phase {
    /// A message, or a change of an attribute.
    pub(super) fn logged(self) -> Result<Phase, Rule> {
        match self {
            Phase::Untouched | Phase::Logged => Ok(Phase::Logged),
            Phase::Open => Ok(Phase::Open),
            Phase::Final(status) => Err(Rule::Final(status)),
        }
    }

    /// A block is opened.
    pub(super) fn opened(self) -> Result<Phase, Rule> {
        match self {
            Phase::Untouched => Ok(Phase::Open),
            Phase::Logged => Err(Rule::Late),
            Phase::Open => Err(Rule::Nested),
            Phase::Final(status) => Err(Rule::Final(status)),
        }
    }

    /// An action function. A block gives the status by its end; only a failure may come before.
    pub(super) fn ended(self, status: Status) -> Result<Phase, Rule> {
        match self {
            Phase::Untouched | Phase::Logged => Ok(Phase::Final(status)),
            Phase::Open if status == Status::Failed => Ok(Phase::Final(status)),
            Phase::Open => Err(Rule::InBlock),
            Phase::Final(before) => Err(Rule::Final(before)),
        }
    }

    pub(super) fn is_final(self) -> bool {
        matches!(self, Phase::Final(_))
    }
}

/// The rule that a provider did not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The resource is not among the changes of the call.
    Outside,
    /// The resource has its final status.
    Final(Status),
    /// A block is opened before anything else is said of its resources.
    Late,
    /// Blocks for one resource do not nest.
    Nested,
    /// Within its block, a resource gets its status by the end of the block.
    InBlock,
    /// Without a title there has to be an open block.
    NoBlock,
    /// A block that was opened has to be closed.
    LeftOpen,
    /// A resource among the changes is not an unmanaged one.
    Managed,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Outside => "which is not among the changes of this call",
            Rule::Final(status) => return write!(f, "which has its final status already ({})", status.word()),
            Rule::Late => "of which something was logged before: its block has to come first",
            Rule::Nested => "which is inside of another block",
            Rule::InBlock => "which is inside of a block: it gets its status when the block ends",
            Rule::NoBlock => "outside of a block",
            Rule::LeftOpen => "whose block was never closed",
            Rule::Managed => "which is among the changes of this call: it is managed",
        })
    }
}

/// An error of a provider: something said where it must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// The provider's name.
    pub provider: EcoString,
    /// Its type.
    pub type_name: EcoString,
    /// What was called: `updated`.
    pub method: &'static str,
    /// The resource it was called for, if it named any.
    pub title: Option<EcoString>,
    /// The rule.
    pub rule: Rule,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Misuse { provider, type_name, method, title, rule } = self;
        write!(f, "error of the provider `{provider}`: `{method}` ")?;
        match title {
            Some(title) => write!(f, "for {type_name}[{title}], {rule}"),
            None => write!(f, "of {type_name} without a title {rule}"),
        }
    }
}
