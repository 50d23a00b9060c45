//! What must hold of every run, one named function for each.

pub(crate) mod blocking;
pub(crate) mod debts;
pub(crate) mod ending;
pub(crate) mod entitled;
pub(crate) mod order;
pub(crate) mod plan;
pub(crate) mod retries;

use std::fmt;

use kilter_engine::VertexId;

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Property {
    /// Nothing is done to a vertex before every parent has settled and lets pass.
    ParentsFirst,
    /// Never two commands are in flight for one vertex.
    OneAtATime,
    /// An apply follows a difference, a refresh a debt; neither touches what is only looked at, and
    /// nothing begins after an interrupt.
    Entitled,
    /// Blocked is exactly what is behind a failure, and it names that failure.
    Blocking,
    /// Every change is followed by a refresh of what it notifies, across crashes.
    Refreshes,
    /// A run over what is in its state writes nothing and changes nothing.
    Calm,
    /// A run ends, every vertex settles once for each time it is taken up, and the settlement is true.
    Ending,
    /// The same seed gives the same commands.
    Determinism,
    /// Manifest order decides between what is ready.
    ManifestOrder,
    /// Failures are tried again as often and as late as was asked for, and no more.
    Retries,
    /// A plan shows what an apply does.
    Plan,
    /// Nothing is looked at before its watch has started, and every event is followed by a look.
    Watched,
    /// What nobody disturbs any longer comes to its state and stays there.
    Converges,
    /// Limits, budgets and semaphores are kept.
    Limits,
    /// What is ready is begun, whatever goes on elsewhere.
    Begins,
    /// What is ready and of one group is one batch, but for what is alone; the result is the same without batches.
    Batches,
    /// At rest is what has nothing under way and nothing to wait for, since the last thing that was done.
    Rests,
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
        }
    }
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub property: Property,
    /// Where.
    pub vertex: Option<VertexId>,
    /// How.
    pub what: String,
}

impl Violation {
    pub(crate) fn at(property: Property, vertex: VertexId, what: impl Into<String>) -> Violation {
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
            write!(f, "vertex {}: ", vertex.0)?;
        }
        f.write_str(&self.what)
    }
}

/// An error unless something holds.
pub(crate) fn ensure(
    holds: bool,
    property: Property,
    vertex: VertexId,
    what: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::at(property, vertex, what())) }
}
