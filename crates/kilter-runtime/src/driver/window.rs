//! A look at a run from outside: what is held, and why anything is not in its state.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ecow::EcoString;
use kilter_model::{AttributeName, Difference, Receipt, ResourceRef};

use super::Conditions;
use super::paused::{Pause, Paused};
use super::stop::Message;
use crate::report::{Counts, ResourceReport};

/// Through it other threads look at a run that holds a state.
#[derive(Debug, Default)]
pub struct Window {
    driver: Mutex<Option<Sender<Message>>>,
}

/// Which resources somebody wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that are not in their state, and those that something is done to.
    Notable,
    /// All.
    All,
    /// These.
    Named(Vec<ResourceRef>),
}

/// What somebody wants of a run, and where the answer goes.
#[derive(Debug)]
pub(super) enum Question {
    /// To see resources.
    Look(Which, Sender<Standings>),
    /// That nothing further is begun: whether that was so already.
    Pause(Pause, Sender<bool>),
    /// That it goes on: whether it was paused.
    Resume(Sender<bool>),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unseen {
    /// There is no run, or one that is between what was declared and what is.
    #[error("nothing is held just now: what is declared is read anew, or the run is about to end")]
    NoRun,
    /// The run is at something that cannot be left alone for so long.
    #[error("the run is busy and does not answer")]
    Busy,
}

impl Window {
    /// Looks; waits no longer than this.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn look(&self, which: Which, longest: Duration) -> Result<Standings, Unseen> {
        self.ask(|answer| Question::Look(which, answer), longest)
    }

    /// Has the run begin nothing further. Says whether it was paused already. What is under way goes on: [`Standings::in_flight`] tells whether anything is.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn pause(&self, pause: Pause, longest: Duration) -> Result<bool, Unseen> {
        self.ask(|answer| Question::Pause(pause, answer), longest)
    }

    /// Has the run begin what it held back. Says whether it was paused.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn resume(&self, longest: Duration) -> Result<bool, Unseen> {
        self.ask(Question::Resume, longest)
    }

    fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> Question, longest: Duration) -> Result<T, Unseen> {
        let (sender, receiver) = channel();
        let question = question(sender);
        match &*self.driver.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(driver) => driver.send(Message::Asked(question)).map_err(|_| Unseen::NoRun)?,
            None => return Err(Unseen::NoRun),
        }
        receiver.recv_timeout(longest).map_err(|error| match error {
            std::sync::mpsc::RecvTimeoutError::Timeout => Unseen::Busy,
            std::sync::mpsc::RecvTimeoutError::Disconnected => Unseen::NoRun,
        })
    }

    pub(super) fn opens(&self, driver: Option<Sender<Message>>) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = driver;
    }
}

/// What is held, at one moment.
#[derive(Clone, Debug)]
pub struct Standings {
    /// For how long a state has been held, through all graphs.
    pub held_for: Duration,
    /// Whether everything is only looked at.
    pub noop: bool,
    /// For how long nothing has happened but that resources were found in their state; none while something does.
    pub quiet_for: Option<Duration>,
    /// Whether somebody wants nothing further to be begun.
    pub paused: Option<Paused>,
    /// How many calls are under way. Those for former graphs count, and those that wait for a worker do not.
    pub in_flight: usize,
    /// How many resources there are, and in which states they settled last.
    pub counts: Counts,
    /// How many are in their state, and nothing is to be done to them.
    pub in_sync_now: usize,
    /// Conditions that keep the run from holding the declared state as usual.
    pub conditions: Conditions,
    /// Number of resources that are polled, as their type or the manifest says or because they cannot be watched.
    pub polled: usize,
    /// Time since the last check of the polled resource that was checked least recently.
    pub oldest_check: Option<Duration>,
    /// Of how many resources it is not known yet, or not any more, whether they are in their state.
    pub under_way: usize,
    /// How often anything has settled since the run began, and how.
    pub settled: Counts,
    /// What the kernel watches: directories, mostly.
    pub watches: usize,
    /// How often events were lost, each time everything was looked at.
    pub overflows: u64,
    /// What was begun for resources that are declared in another way now, or no longer, and has not ended.
    pub begun_before: Vec<Begun>,
    /// The composite resources that were asked for: those that were named, with the composite ones among their parts; otherwise
    /// those that the resources are parts of, and where all were asked for those that have none. In manifest order.
    pub composites: Vec<CompositeStanding>,
    /// The resources that were asked for, the parts of composite ones that were named included.
    pub resources: Vec<Standing>,
    /// Those that were named and are not declared.
    pub unknown: Vec<ResourceRef>,
}

/// Where the parts of a composite resource stand.
#[derive(Clone, Debug)]
pub struct CompositeStanding {
    /// The composite resource.
    pub reference: ResourceRef,
    /// The composite resource that it is itself a part of.
    pub owner: Option<ResourceRef>,
    /// The word of the part that is worst off; `in_sync` where there are none.
    pub word: &'static str,
    /// How many of the resources that it stands for, or has entries in, have which word, the worst first.
    pub counts: Vec<(&'static str, usize)>,
    /// What it stands for: resources, and composite ones with parts of their own.
    pub parts: Vec<ResourceRef>,
    /// Other resources of which parts of it are entries.
    pub entries_in: Vec<ResourceRef>,
}

/// Where a resource stands.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The resource.
    pub reference: ResourceRef,
    /// The composite resource that it is a part of, the nearest of several.
    pub owner: Option<ResourceRef>,
    /// A word for it: that of its [`Status`](crate::Status) when it has settled, otherwise `unwatched`, `waiting`, `ready`, `queued`,
    /// `checking`, `changing`, `refreshing` or `delayed`.
    pub word: &'static str,
    /// What it waits for, or is blocked by.
    pub because_of: Option<ResourceRef>,
    /// The semaphore that it waits for; the former has it.
    pub semaphore: Option<EcoString>,
    /// What it waits for that was begun before what is declared was edited.
    pub awaits: Option<Begun>,
    /// Why the last try failed.
    pub failure: Option<EcoString>,
    /// The resources whose changes it is still to be refreshed for, or is being.
    pub owed_by: Vec<ResourceRef>,
    /// What is to be told of it, when it has settled and is not in its state.
    pub report: Option<ResourceReport>,
    /// Which of its attributes others have sent, and whether it has yet to become what they have sent.
    pub received: Vec<Receipt>,
    /// True if it was repaired too often and yields: it is only watched.
    pub watched_only: bool,
    /// Contest over it, if another program undoes its repairs.
    pub contest: Option<Contest>,
    /// What tells that it may have changed.
    pub watched: Watched,
    /// Why its provider does not tell of it, though it should.
    pub unwatched: Option<EcoString>,
    /// When it is looked at even if nothing happens to it.
    pub next_look: Option<Duration>,
    /// Time since its state was checked, in whole seconds.
    pub last_check: Option<Duration>,
    /// What was done to it since the run began, or since it is declared as it is.
    pub tally: Tally,
}

/// A resource whose repairs another program undoes: they come at growing intervals.
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
}

/// Something that was begun for a resource and goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The resource, as it was declared then.
    pub reference: ResourceRef,
    /// What is done: `checking`, `changing`, `refreshing`.
    pub doing: &'static str,
    /// For how long.
    pub since: Duration,
}

/// What tells that a resource may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Events.
    ByEvents,
    /// Nothing: it is looked at every so often.
    Polled(Duration),
    /// Nothing: it is looked at once, and when what it depends on changes.
    Once,
}

impl Watched {
    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Watched::ByEvents => "events",
            Watched::Polled(_) => "poll",
            Watched::Once => "once",
        }
    }
}

/// What was done to a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// How often it was changed.
    pub changes: u64,
    /// How often it was refreshed.
    pub refreshes: u64,
    /// How often it failed.
    pub failures: u64,
    /// When it was changed last, and which attributes.
    pub last_change: Option<(SystemTime, Box<[AttributeName]>)>,
    /// When it was refreshed last, and because of which resources.
    pub last_refresh: Option<(SystemTime, Box<[ResourceRef]>)>,
}
