//! Drives the engine: asks the providers what the machine decides, and reports.
//!
//! [`plan_of`] turns a catalog into a [`Prepared`] run: attributes canonical, the graph with every
//! edge, cycles refused. [`Prepared::execute`] carries it out once: cheap checks on the calling
//! thread, everything that may wait on workers; refreshes in the journal of a [`StateDir`] before
//! the change that causes them. What happens is told to an [`Observer`] as it happens and comes back
//! as a [`Report`].
//!
//! The engine room knows no native type and no script: providers are injected. It renders nothing.
//!
//! | thread | does | ends |
//! |---|---|---|
//! | the caller's | the machine, inline checks and changes, the journal | when the pass is over |
//! | up to `jobs` workers | calls that may wait, one batch each; results by channel to the caller's | with the pass; where another graph is held next, with the call that they were in |
//! | one for each provider that [tells itself](kilter_provider::Watch::Told), and for each resource that one tells of [alone](kilter_provider::Watch::ToldAlone) | listens to it | when nothing is asked of it any more: nobody waits for that before the end of the run |
//! | that of a [`watch::Hub`] | reads events of the file system, tells who subscribed | when the hub is dropped |
//!
//! *Start from* [`plan_of`] and [`Prepared::execute`].

mod driver;
mod edges;
mod journal;
mod lookup;
mod observer;
mod outlook;
mod outputs;
mod owners;
mod plan;
mod predict;
mod prepare;
mod records;
mod report;
mod reversals;
mod run_lock;
mod sealing;
mod state_dir;
mod step;
pub mod watch;
mod worker;

pub use driver::{
    Anew, Begun, CompositeStanding, Conditions, Contest, Declared, Fate, Handover, Held, Hold, Mode, Options, Outdated,
    Pause, Paused, Ring, RunError, Stale, Standing, Standings, Stop, Takeover, Tally, Unseen, Watched, Which, Window,
};
pub use journal::{Journal, JournalError};
pub use observer::{Event, Observer, Silent};
pub use plan::integrity::{self, Integrity, IntegrityError, Maker};
pub use plan::keys::{PlanKeyError, PrivateKey, PublicKey};
pub use plan::provenance::PlanProvenance;
pub use plan::{Plan, SecretDigests};
pub use prepare::{IneffectiveNotification, Prepared, Rejected, plan_of, survey};
pub use report::{Counts, Deviation, Report, ResourceReport, Status};
pub use reversals::Reversals;
pub use sealing::{SealingKey, SealingKeyError, bound};
pub use state_dir::{Lock, StateDir, StateDirError};
