//! Rules for the order of log calls about a resource.

use std::fmt;

use ecow::EcoString;

/// Final status of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinalStatus {
    /// The resource was created.
    Created,
    /// The resource was changed.
    Updated,
    /// The resource was removed.
    Deleted,
    /// The resource was already in sync.
    Unchanged,
    /// The resource could not be brought to its desired state.
    Failed,
}

impl FinalStatus {
    /// Returns the keyword in events: `created`.
    pub fn word(self) -> &'static str {
        match self {
            FinalStatus::Created => "created",
            FinalStatus::Updated => "updated",
            FinalStatus::Deleted => "deleted",
            FinalStatus::Unchanged => "unchanged",
            FinalStatus::Failed => "failed",
        }
    }

    /// Returns the text: `Created`.
    pub(super) fn text(self) -> &'static str {
        match self {
            FinalStatus::Created => "Created",
            FinalStatus::Updated => "Updated",
            FinalStatus::Deleted => "Deleted",
            FinalStatus::Unchanged => "Unchanged",
            FinalStatus::Failed => "Failed",
        }
    }
}

/// Phase of a resource within a `set`.
///
/// `Untouched → Logged → Final`, or `Untouched → Open → Final`. `Final` is the last phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No log call yet.
    Untouched,
    /// A log call outside of a block.
    Logged,
    /// A block of the resource is open.
    Open,
    /// The resource has its final status.
    Final(FinalStatus),
}

impl Phase {
    /// Returns the phase after a message or an attribute change.
    pub(super) fn logged(self) -> Result<Phase, Rule> {
        match self {
            Phase::Untouched | Phase::Logged => Ok(Phase::Logged),
            Phase::Open => Ok(Phase::Open),
            Phase::Final(status) => Err(Rule::Final(status)),
        }
    }

    /// Returns the phase after a block was opened.
    pub(super) fn opened(self) -> Result<Phase, Rule> {
        match self {
            Phase::Untouched => Ok(Phase::Open),
            Phase::Logged => Err(Rule::Late),
            Phase::Open => Err(Rule::Nested),
            Phase::Final(status) => Err(Rule::Final(status)),
        }
    }

    /// Returns the phase after an action function. Inside a block, only a failure is allowed, because the end
    /// of the block sets the status.
    pub(super) fn ended(self, status: FinalStatus) -> Result<Phase, Rule> {
        match self {
            Phase::Untouched | Phase::Logged => Ok(Phase::Final(status)),
            Phase::Open if status == FinalStatus::Failed => Ok(Phase::Final(status)),
            Phase::Open => Err(Rule::InBlock),
            Phase::Final(before) => Err(Rule::Final(before)),
        }
    }

    pub(super) fn is_final(self) -> bool {
        matches!(self, Phase::Final(_))
    }
}

/// A rule that a provider violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The resource must be among the changes of the call.
    Outside,
    /// No call may follow the final status.
    Final(FinalStatus),
    /// A block must come before all other calls about its resources.
    Late,
    /// Blocks of one resource must not be nested.
    Nested,
    /// Inside a block, only the end of the block sets the status.
    InBlock,
    /// A call without a title needs an open block.
    NoBlock,
    /// Every block must be closed.
    LeftOpen,
    /// An unmanaged resource must not be among the changes.
    Managed,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Outside => "which is not among the changes of this call",
            Rule::Final(status) => return write!(f, "which has its final status already ({})", status.word()),
            Rule::Late => "about which messages were logged before: its block must come first",
            Rule::Nested => "which is inside of another block",
            Rule::InBlock => "which is inside of a block: it gets its status when the block ends",
            Rule::NoBlock => "outside of a block",
            Rule::LeftOpen => "whose block was never closed",
            Rule::Managed => "which is among the changes of this call: it is managed",
        })
    }
}

/// An error of a provider: a log call that violates a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misuse {
    /// Name of the provider.
    pub provider: EcoString,
    /// Type of the provider.
    pub type_name: EcoString,
    /// Name of the called method: `updated`.
    pub method: &'static str,
    /// The resource of the call, if any.
    pub title: Option<EcoString>,
    /// The violated rule.
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
