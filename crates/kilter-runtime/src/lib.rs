//! Drives the engine: calls the providers as the machine decides, and reports the results.
//!
//! [`plan_of`] turns a catalog into a [`Prepared`] run: canonical attributes, and the complete graph, without
//! cycles. [`Prepared::execute`] carries it out once. Cheap checks run on the calling thread, all calls that may
//! block run on workers. The journal of a [`StateDir`] records a refresh before the change that causes it. An
//! [`Observer`] receives events during the run, and the result is a [`Report`].
//!
//! This crate knows no native type and no script: the caller provides the providers. It renders nothing.
//!
//! | thread | does | ends |
//! |---|---|---|
//! | the caller's | the machine, inline checks and changes, the journal | at the end of the pass |
//! | up to `jobs` workers | calls that may block, one batch each; a channel has the results | at the end of the run |
//! | one for each watch of a [provider][p] or of one [resource][r] | runs the watch | when no graph needs it any more |
//! | that of a [`watch::Hub`] | reads file system events, notifies subscribers | when the hub is dropped |
//! | one, while files are held | records the processes that change them | after the end of the run |
//!
//! Only the end of the run waits for a thread that watches.
//!
//! *Start from* [`plan_of`] and [`Prepared::execute`].
//!
//! [p]: kilter_provider::WatchSource::Provider
//! [r]: kilter_provider::WatchSource::ProviderPerResource

mod conditions;
mod driver;
mod edges;
mod journal;
mod lookup;
mod observer;
mod one_time;
mod options;
mod outputs;
mod owners;
mod pending_change;
mod plan;
mod predict;
mod prepare;
mod preview_context;
mod process_tracker;
mod records;
mod report;
mod revert_store;
mod run_lock;
mod run_report;
mod saved_state;
mod sealing;
mod state_dir;
mod step;
pub mod watch;
mod worker;

pub use conditions::{Conditions, Outdated, SourceFailure, SourceVersion, Stale};
pub use driver::{
    ChangeCounters, CompositeStatus, Contest, Hold, InFlightCall, ManifestSource, Pause, Paused, Reload,
    ReloadNotifier, ResourceStatus, ShutdownHandle, StatusError, StatusFilter, StatusHandle, StatusSnapshot, Watched,
};
pub use journal::{Journal, JournalError};
pub use observer::{Event, InFlight, NullObserver, Observer};
pub use one_time::{Perform, one_time};
pub use options::{Mode, Options, RunError};
pub use pending_change::PendingChange;
pub use plan::document::{InputSecrecy, PLAN_VERSION, PlanDocument, PlanFormatError, PlanInputs, PlanSource};
pub use plan::integrity::{self, Integrity, IntegrityError, Maker};
pub use plan::keys::{PlanKeyError, PrivateKey, PublicKey};
pub use plan::provenance::PlanProvenance;
pub use plan::{Plan, SecretDigests};
pub use prepare::{IneffectiveNotification, Prepared, Rejected, plan_of, survey};
pub use process_tracker::{ChangedBy, ChangingProcess, ProcessDetails};
pub use report::{Counts, Deviation, ResourceReport, Status};
pub use revert_store::RevertStore;
pub use run_report::Report;
pub use saved_state::SavedState;
pub use sealing::{SealingKey, SealingKeyError, bound};
pub use state_dir::{LentLock, Lock, StateDir, StateDirError};
