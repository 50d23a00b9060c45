//! What happens, told while it happens.

use kilter_model::{Difference, ResourceRef};
use kilter_provider::Level;

use crate::driver::{Conditions, Fate};
use crate::report::{Counts, ResourceReport};

/// Something that happened during a run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Work on a resource that may take long has begun.
    Begun {
        /// The resource.
        reference: &'a ResourceRef,
        /// What is done: `checking`, `changing`, `refreshing`.
        doing: &'static str,
    },
    /// Calls that take long are still going on. Told about twice a second.
    Waiting {
        /// The resource that has been worked on for longest.
        reference: &'a ResourceRef,
        /// Whether it is declared in another way by now, or no longer.
        is_former: bool,
        /// How many calls there are.
        calls: usize,
        /// For how long.
        since: std::time::Duration,
    },
    /// The run waits for something: what was held back to be shown together is shown now.
    Idle,
    /// A resource has settled and was not simply in its state.
    Settled(&'a ResourceReport),
    /// So many of all resources have settled.
    Progress {
        /// Settled ones.
        settled: usize,
        /// All.
        total: usize,
    },
    /// A try failed; another follows.
    Retrying {
        /// The resource.
        reference: &'a ResourceRef,
        /// Why.
        failure: &'a str,
        /// In how many milliseconds.
        delay: u64,
    },
    /// A provider wrote a line.
    Log {
        /// How grave it is.
        level: Level,
        /// The provider's type.
        type_name: &'a str,
        /// The resource's name; empty when it is about none.
        name: &'a str,
        /// The line.
        message: &'a str,
    },
    /// A state is held: everything has settled for as long as was asked for, or no longer has.
    Converged(bool),
    /// A state is held: for now nothing is left to be done, and so many resources are in which state.
    Quiet(Counts),
    /// A state is held: conditions that keep the run from holding it as usual have begun or ended.
    Conditions(&'a Conditions),
    /// A state is held: what was done so far was made durable, and what it took to do it is given up.
    Flushed,
    /// A state is held, and the run is well: told as often as was asked for, however little happens.
    Alive,
    /// Another program undoes the repairs of a resource, which has been repaired once more. Later repairs come at growing intervals.
    Contested {
        /// The resource.
        reference: &'a ResourceRef,
        /// Number of repairs so far.
        repairs: u32,
        /// Time until the next repair, at the earliest.
        next: std::time::Duration,
        /// Differences that the last repair removed: the values of the other program, and the declared ones.
        differences: &'a [Difference],
    },
    /// No program undoes the repairs of a resource any more.
    Uncontested {
        /// The resource.
        reference: &'a ResourceRef,
    },
    /// A resource was repaired too often and yields (`contested: observe`): it is only watched from now on.
    Demoted {
        /// The resource.
        reference: &'a ResourceRef,
        /// So many repairs
        repairs: u32,
        /// in so many milliseconds.
        within: u64,
        /// What the last of them brought back: as somebody else wants it, and as it is declared.
        differences: &'a [Difference],
    },
    /// Watches cannot be had for some resources.
    Unwatched {
        /// How many resources.
        count: usize,
        /// Why.
        why: &'a str,
        /// How often these are looked at instead, if they are.
        every: Option<std::time::Duration>,
    },
    /// Watches cannot be had for what is declared.
    DeclaredUnwatched {
        /// Why.
        why: &'a str,
        /// How often it is looked at instead.
        every: std::time::Duration,
    },
    /// Resources that could not be watched are watched again.
    Rewatched {
        /// How many.
        count: usize,
    },
    /// A state is held, and somebody wants nothing further to be begun.
    Paused {
        /// Why, in their words; empty if they did not say.
        why: &'a str,
        /// For how long at most.
        longest: Option<std::time::Duration>,
    },
    /// What was held back by a pause is begun.
    Resumed,
    /// Something may have happened to the [path](crate::Hold::door) that others need who look on.
    Door,
    /// Something declared has changed, and is read anew.
    Reloading,
    /// The run is to end.
    Interrupted {
        /// How many calls are in flight.
        in_flight: usize,
        /// What becomes of them.
        fate: Fate,
    },
}

/// Takes what happens during a run, on the thread that runs it.
pub trait Observer {
    /// Takes one event.
    fn event(&mut self, event: Event<'_>);
}

/// Takes every event and does nothing.
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: Event<'_>) {}
}
