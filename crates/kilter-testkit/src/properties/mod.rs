//! Properties that must hold for every run, each with its own function.

pub(crate) mod blocking;
pub(crate) mod ending;
pub(crate) mod entitled;
pub(crate) mod order;
pub(crate) mod owed_refreshes;
pub(crate) mod plan;
pub(crate) mod retries;

use std::fmt;

use kilter_engine::ResourceId;

/// A property of all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Property {
    /// A vertex starts only when every parent has settled so that children may run.
    ParentsFirst,
    /// A vertex has at most one call in flight.
    OneAtATime,
    /// An apply follows a difference, and a refresh is pending. Noop vertices are never changed, and no call starts
    /// after an interrupt.
    Entitled,
    /// Exactly the descendants of a failure are blocked, and they name that failure.
    Blocking,
    /// Every change is followed by a refresh of the notified vertices, across crashes.
    Refreshes,
    /// A run over a system in sync writes and changes nothing.
    Calm,
    /// A run ends, every vertex settles once per start, and its settlement is true.
    Ending,
    /// The same seed gives the same commands.
    Determinism,
    /// Ready vertices start in manifest order.
    ManifestOrder,
    /// Failures are retried as often and as late as configured.
    Retries,
    /// A plan shows the changes of the following apply.
    Plan,
    /// A check starts only after its watch has started, and every event is followed by a check.
    Watched,
    /// Without disturbances all vertices come in sync and stay so.
    Converges,
    /// Rate limits, budgets and semaphores are respected.
    Limits,
    /// Ready vertices start, independently of other vertices.
    Begins,
    /// Ready vertices of a group form one batch, except single ones. The result is the same without batches.
    Batches,
    /// A quiet machine has no call in flight, waits for nothing, and was last active before the reported time.
    Rests,
    /// Each answer is for the call that its vertex has in flight. The answer to a call of a removed or changed vertex
    /// only releases semaphores.
    Answers,
}

impl Property {
    fn sentence(self) -> &'static str {
        match self {
            Property::ParentsFirst => "parents come first",
            Property::OneAtATime => "one command at a time for one vertex",
            Property::Entitled => "every act has its reason",
            Property::Blocking => "blocked exactly behind a failure",
            Property::Refreshes => "no refresh is lost",
            Property::Calm => "nothing to do means nothing done",
            Property::Ending => "every run ends, and says what is true",
            Property::Determinism => "same seed, same commands",
            Property::ManifestOrder => "manifest order is the tie-break",
            Property::Retries => "as many tries as asked for",
            Property::Plan => "a plan shows what an apply does",
            Property::Watched => "no look before the watch, and one after every event",
            Property::Converges => "left in peace, everything comes to its state",
            Property::Limits => "limits, budgets and semaphores are kept",
            Property::Begins => "what is ready begins",
            Property::Batches => "what is ready together goes together, and comes to the same alone",
            Property::Rests => "at rest means that nothing is under way",
            Property::Answers => "an answer counts only for the declaration that its call was for",
        }
    }
}

/// A violated property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property.
    pub property: Property,
    /// The vertex, if there is one.
    pub vertex: Option<ResourceId>,
    /// Description of the violation.
    pub what: String,
}

impl Violation {
    pub(crate) fn at(property: Property, vertex: ResourceId, what: impl Into<String>) -> Violation {
        Violation { property, vertex: Some(vertex), what: what.into() }
    }

    pub(crate) fn of(property: Property, what: impl Into<String>) -> Violation {
        Violation { property, vertex: None, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.property.sentence())?;
        if let Some(vertex) = self.vertex {
            write!(f, "vertex {}: ", vertex.slot())?;
        }
        f.write_str(&self.what)
    }
}

/// Returns an error unless the condition holds.
pub(crate) fn ensure(
    holds: bool,
    property: Property,
    vertex: ResourceId,
    what: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::at(property, vertex, what())) }
}
