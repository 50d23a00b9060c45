//! Status snapshots of a run: its resources, and the reasons why they are out of sync.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

use ecow::EcoString;
use kilter_model::{AttributeName, Difference, ReceivedValue, ResourceRef};

use super::pause_state::{Pause, Paused};
use crate::conditions::{Conditions, SourceVersion};
use crate::prepare::Prepared;
use crate::process_tracker::ChangingProcess;
use crate::report::{Counts, ResourceReport};

/// Selection of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    /// Resources that are out of sync or active.
    Notable,
    /// All resources.
    All,
    /// The named resources.
    Named(Vec<ResourceRef>),
}

/// Request to a run, with the channel for the answer.
#[derive(Debug)]
pub(super) enum StatusRequest {
    /// Requests a snapshot.
    Status(StatusFilter, Sender<StatusSnapshot>),
    /// Requests a pause; the answer is true if the run was paused already.
    Pause(Pause, Sender<bool>),
    /// Requests a resume; the answer is true if the run was paused.
    Resume(Sender<bool>),
    /// Requests the held catalog.
    Catalog(Sender<Arc<Prepared>>),
    /// Requests the loan of the state directory; the answer is false while calls are in flight.
    Lend(Sender<Result<bool, EcoString>>),
    /// The state directory belongs to the run again.
    TakeBack(Sender<()>),
}

/// Snapshot of a run.
#[derive(Clone, Debug)]
pub struct StatusSnapshot {
    /// Time since the start of the run, through all edits.
    pub held_for: Duration,
    /// True if the run changes nothing.
    pub noop: bool,
    /// Time since the last activity other than checks that found resources in sync; none while there is activity.
    pub quiet_for: Option<Duration>,
    /// Pause, if the run is paused.
    pub paused: Option<Paused>,
    /// Number of running calls, with those of changed and removed resources and without those that wait for a worker.
    pub in_flight: usize,
    /// Number of resources, in total and by their last status.
    pub counts: Counts,
    /// Number of resources that are in sync and inactive.
    pub in_sync_now: usize,
    /// Conditions that keep the run from holding the declared state as usual.
    pub conditions: Conditions,
    /// Version of the manifests, if the run fetches them from a source.
    pub source: Option<SourceVersion>,
    /// Number of resources that are polled, as their type or the manifest says or because they cannot be watched.
    pub polled: usize,
    /// Time since the last check of the polled resource that was checked least recently.
    pub oldest_check: Option<Duration>,
    /// Number of active resources, whose state is not known at the moment.
    pub under_way: usize,
    /// Number of settlements since the start of the run, by status.
    pub settled: Counts,
    /// Number of kernel watches, mostly of directories.
    pub watches: usize,
    /// Number of event queue overflows. After each, the run checked everything.
    pub overflows: u64,
    /// Running calls for resources that have changed or been removed since.
    pub superseded_calls: Vec<InFlightCall>,
    /// Requested composite resources, in manifest order.
    ///
    /// A request by name returns the named ones and those among their parts. Other requests return the owners of
    /// the requested resources, and a request for everything also returns those without parts.
    pub composites: Vec<CompositeStatus>,
    /// Requested resources, with the parts of the named composite resources.
    pub resources: Vec<ResourceStatus>,
    /// Requested names that are not declared.
    pub unknown: Vec<ResourceRef>,
}

/// State of a composite resource.
#[derive(Clone, Debug)]
pub struct CompositeStatus {
    /// The composite resource.
    pub reference: ResourceRef,
    /// The composite resource that contains it.
    pub owner: Option<ResourceRef>,
    /// State of its worst part; `in_sync` if it has no parts.
    pub word: &'static str,
    /// Number of its resources in each state, the worst first. Resources that contain its entries count as well.
    pub counts: Vec<(&'static str, usize)>,
    /// Its direct parts: resources, and composite resources.
    pub parts: Vec<ResourceRef>,
    /// Other resources that contain entries of its parts.
    pub entries_in: Vec<ResourceRef>,
}

/// State of a resource.
#[derive(Clone, Debug)]
pub struct ResourceStatus {
    /// The resource.
    pub reference: ResourceRef,
    /// The innermost composite resource that contains it.
    pub owner: Option<ResourceRef>,
    /// Word for its state: that of its [`Status`](crate::Status) when it has settled, otherwise `unwatched`,
    /// `waiting`, `ready`, `queued`, `checking`, `changing`, `refreshing` or `delayed`.
    pub word: &'static str,
    /// Resource that it waits for, or that blocks it.
    pub because_of: Option<ResourceRef>,
    /// Semaphore that it waits for; `because_of` is the holder.
    pub semaphore: Option<EcoString>,
    /// Running call of a changed or removed resource that it waits for.
    pub awaits: Option<InFlightCall>,
    /// Reason of the last failure.
    pub failure: Option<EcoString>,
    /// Resources whose changes have a pending or running refresh of it.
    pub owed_by: Vec<ResourceRef>,
    /// Its report, if it has settled out of sync.
    pub report: Option<ResourceReport>,
    /// Its attributes from outputs of others, with true for those that it has not applied yet.
    pub received: Vec<ReceivedValue>,
    /// True if it was repaired too often and yields: it is only watched.
    pub watched_only: bool,
    /// Contest over it, if another program undoes its repairs.
    pub contest: Option<Contest>,
    /// Source of its events.
    pub watched: Watched,
    /// Reason why its provider does not watch it.
    pub unwatched: Option<EcoString>,
    /// Time until its next check without an event.
    pub next_look: Option<Duration>,
    /// Time since its state was checked, in whole seconds.
    pub last_check: Option<Duration>,
    /// Changes and refreshes since the run started, or since its declaration last changed.
    pub tally: ChangeCounters,
}

/// Contest over a resource: another program undoes its repairs, which follow at growing intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Contest {
    /// Number of repairs, those that used up the budget included.
    pub repairs: u32,
    /// Time since the budget was used up.
    pub since: Duration,
    /// Time until the next repair, at the earliest.
    pub next_repair: Duration,
    /// Differences that the last repair removed: the values of the other program, and the declared ones.
    pub differences: Vec<Difference>,
    /// Last process that undid a repair, if the kernel reports it.
    pub opponent: Option<ChangingProcess>,
}

/// Running call for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightCall {
    /// The resource, as it was declared when the call started.
    pub reference: ResourceRef,
    /// Kind of the call: `checking`, `changing`, `refreshing`.
    pub doing: &'static str,
    /// Time since its start.
    pub since: Duration,
}

/// Source of the events of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Watches.
    ByEvents,
    /// None: the resource is polled at this interval.
    Polled(Duration),
    /// None: the resource is checked once, and after changes of its dependencies.
    Once,
}

impl Watched {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Watched::ByEvents => "events",
            Watched::Polled(_) => "poll",
            Watched::Once => "once",
        }
    }
}

/// Changes and refreshes of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeCounters {
    /// Number of changes.
    pub changes: u64,
    /// Number of refreshes.
    pub refreshes: u64,
    /// Number of failures.
    pub failures: u64,
    /// Time and attributes of the last change.
    pub last_change: Option<(SystemTime, Box<[AttributeName]>)>,
    /// Time and causes of the last refresh.
    pub last_refresh: Option<(SystemTime, Box<[ResourceRef]>)>,
}
