//! Conditions that keep a run from holding the declared state as usual.

use std::time::SystemTime;

use ecow::EcoString;

/// Conditions that keep a run from holding the declared state as usual. None of them ends the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The manifest has errors, so the run holds an older state.
    pub outdated: Option<Outdated>,
    /// Reason why the journal of pending refreshes cannot be written: changes that cause a refresh wait.
    pub journal: Option<EcoString>,
    /// The source of collected resources is unreachable: the run holds the resources collected last.
    pub collected: Option<Stale>,
    /// The source of the manifests has no usable newer version, or cannot be reached: the run holds the last one.
    pub source: Option<SourceVersion>,
    /// The manifest cannot be watched: it is polled.
    pub is_declared_polled: bool,
    /// Number of resources that are polled because they cannot be watched.
    pub unwatched: usize,
    /// Number of resources whose repairs another program undoes.
    pub contested: usize,
    /// Number of contested resources that are no longer repaired (`contested: observe`).
    pub watched_only: usize,
}

/// Held state that is older than the manifest, because the manifest has errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outdated {
    /// Last time at which the manifest declared the held state, as far as is known.
    pub held: SystemTime,
    /// Number of errors in the current manifest.
    pub errors: usize,
    /// Errors, as they are shown to people.
    pub messages: Vec<EcoString>,
}

/// Collected resources that may be older than the exported ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Time of the export, as far as is known.
    pub at: SystemTime,
    /// Reason why newer resources cannot be collected.
    pub why: EcoString,
}

/// Version of the manifests that a run holds, if it fetches them from a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceVersion {
    /// The source, and the branch or tag in it.
    pub source: EcoString,
    /// Identity of the held version: a commit, or the digest of a directory.
    pub held: EcoString,
    /// Identity of the newest usable version. It differs from the held one if its manifests have errors.
    pub newest: EcoString,
    /// Last time at which the source offered the newest usable version.
    pub seen: SystemTime,
    /// Failure of the last fetch.
    pub failure: Option<SourceFailure>,
}

/// Failure of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFailure {
    /// Reason, for people.
    pub why: EcoString,
    /// True if the source offers a version that must not be used. Otherwise the source cannot be reached or read.
    pub is_rejected: bool,
}
