//! Events of a run.

use ecow::EcoString;
use kilter_model::{Difference, ResourceRef};
use kilter_provider::Level;

use crate::conditions::Conditions;
use crate::pending_change::PendingChange;
use crate::process_tracker::ChangingProcess;
use crate::report::{Counts, ResourceReport};

/// Event of a run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A call that may take long has started for a resource.
    Begun {
        /// The resource.
        reference: &'a ResourceRef,
        /// Kind of the call: `checking`, `changing`, `refreshing`.
        doing: &'static str,
    },
    /// A call that may take long has ended.
    Called {
        /// First resource of the call.
        reference: &'a ResourceRef,
        /// Number of its resources.
        resources: usize,
        /// Kind of the call, as at its start.
        doing: &'static str,
        /// Time since the call was given to a worker.
        duration: std::time::Duration,
    },
    /// Long calls are still running. Sent about twice a second.
    Waiting {
        /// Resource with the longest call.
        reference: &'a ResourceRef,
        /// True if the current graph does not contain the resource as it was when the call started.
        is_former: bool,
        /// Number of calls.
        calls: usize,
        /// Duration of the longest call.
        since: std::time::Duration,
    },
    /// The run waits: the observer should show collected output now.
    Idle,
    /// A resource has settled, and was not simply in sync.
    Settled(&'a ResourceReport),
    /// Progress of the run.
    Progress {
        /// Number of settled resources.
        settled: usize,
        /// Number of all resources.
        total: usize,
    },
    /// An attempt failed, and a retry follows.
    Retrying {
        /// The resource.
        reference: &'a ResourceRef,
        /// Reason of the failure.
        failure: &'a str,
        /// Delay of the retry in milliseconds.
        delay: u64,
    },
    /// A provider wrote a log line.
    Log {
        /// Severity.
        level: Level,
        /// Type of the provider.
        type_name: &'a str,
        /// Name of the resource; empty for a line about no resource.
        name: &'a str,
        /// The line.
        message: &'a str,
    },
    /// Holding: the run has been converged for the requested time, or has become active again.
    Converged(bool),
    /// Holding: nothing is left to do at the moment. The counts are by state.
    Quiet(Counts),
    /// Holding: conditions that keep the run from holding the state as usual have begun or ended.
    Conditions(&'a Conditions),
    /// Holding: all changes so far have been flushed, and memory has been freed.
    Flushed,
    /// Holding: sign of life, sent at the requested interval.
    Watchdog,
    /// Another program undoes the repairs of a resource, which has been repaired once more. Later repairs come at
    /// growing intervals.
    Contested {
        /// The resource.
        reference: &'a ResourceRef,
        /// Number of repairs so far.
        repairs: u32,
        /// Time until the next repair, at the earliest.
        next: std::time::Duration,
        /// Differences that the last repair removed: the values of the other program, and the declared ones.
        differences: &'a [Difference],
        /// Last process that undid the repair before, if the kernel reports it.
        opponent: Option<&'a ChangingProcess>,
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
        /// Number of repairs.
        repairs: u32,
        /// Period of these repairs in milliseconds.
        within: u64,
        /// Differences that the last repair removed: the values of the other program, and the declared ones.
        differences: &'a [Difference],
    },
    /// Some resources cannot be watched.
    Unwatched {
        /// Number of resources.
        count: usize,
        /// Reason.
        why: &'a str,
        /// Poll interval, if they are polled instead.
        every: Option<std::time::Duration>,
    },
    /// The manifest cannot be watched.
    DeclaredUnwatched {
        /// Reason.
        why: &'a str,
        /// Poll interval.
        every: std::time::Duration,
    },
    /// Resources that could not be watched are watched again.
    Rewatched {
        /// Number of resources.
        count: usize,
    },
    /// Holding: the run was paused.
    Paused {
        /// Reason, as the requester wrote it; empty without one.
        why: &'a str,
        /// Maximum duration.
        longest: Option<std::time::Duration>,
        /// True if it ends with the command named by the reason.
        is_loan: bool,
    },
    /// The run was resumed.
    Resumed,
    /// The [path](crate::Hold::status_socket) that status clients need may have changed, or the state directory
    /// around it.
    StatusSocketChanged,
    /// The manifest has changed, and the run reloads it.
    Reloading,
    /// The run was requested to stop.
    Interrupted {
        /// Number of calls in flight.
        in_flight: usize,
        /// Effect on these calls.
        fate: InFlight,
    },
}

/// Receiver of the events of a run, on the thread of the run.
pub trait Observer {
    /// Handles one event.
    fn event(&mut self, event: Event<'_>);

    /// Records the state of resources that are about to be changed. An observer of an observer must forward it.
    ///
    /// # Errors
    /// The reason why they must not be changed. The run ends then.
    fn before_changes(&mut self, changes: &[PendingChange<'_>]) -> Result<(), EcoString>;
}

/// Observer that ignores all events.
pub struct NullObserver;

impl Observer for NullObserver {
    fn event(&mut self, _: Event<'_>) {}

    fn before_changes(&mut self, _: &[PendingChange<'_>]) -> Result<(), EcoString> {
        Ok(())
    }
}

/// Effect of a stop request on calls in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// They run to completion.
    Finished,
    /// They are cancelled.
    Ended,
    /// Their processes are killed.
    Killed,
}
