//! Watch of a provider, shared between its thread and the driver.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ecow::EcoString;
use kilter_engine::ResourceId;
use kilter_model::Attributes;

use super::cancel::CancelToken;

/// Resources by name, sorted.
pub(super) type Names = Vec<(EcoString, ResourceId)>;

/// Events of a provider that the driver has not handled yet. Their number is bounded by the number of resources.
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    pub(super) status: Option<WatchStatus>,
    /// True if any resource may have changed.
    pub(super) any: bool,
    pub(super) changed: BTreeSet<EcoString>,
    /// Status of the watches of single resources.
    pub(super) of: BTreeMap<EcoString, WatchStatus>,
}

impl PendingEvents {
    pub(super) fn is_empty(&self) -> bool {
        self.status.is_none() && !self.any && self.changed.is_empty() && self.of.is_empty()
    }
}

#[derive(Clone, Debug)]
pub(super) enum WatchStatus {
    Watching,
    /// The watch does not run, with the reason.
    Lost(EcoString),
}

/// Resource with its own watch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WatchedResource {
    pub(super) name: EcoString,
    pub(super) should: Attributes,
    /// True if its metaparameters forbid changes, so that its watch must not change anything either.
    pub(super) noop: bool,
}

/// Watch of a provider, shared between its thread and the driver.
#[derive(Debug)]
pub(super) struct WatchChannel {
    pub(super) provider: u16,
    /// The watched resource; none if the watch covers all resources of the provider.
    pub(super) alone: Option<WatchedResource>,
    pub(super) inbox: Mutex<Inbox>,
    pub(super) ending: CancelToken,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) names: Names,
    pub(super) news: PendingEvents,
}

impl WatchChannel {
    /// Returns true if this is the watch for these arguments.
    pub(super) fn is_asked(&self, provider: u16, alone: Option<&WatchedResource>) -> bool {
        self.provider == provider && self.alone.as_ref() == alone
    }

    pub(super) fn asked(&self) -> (u16, Option<EcoString>) {
        (self.provider, self.alone.as_ref().map(|alone| alone.name.clone()))
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the events since the last call.
    pub(super) fn news(&self) -> PendingEvents {
        std::mem::take(&mut self.inbox().news)
    }

    /// Replaces the watched names; returns the previous ones.
    pub(super) fn tells_of(&self, mut names: Names) -> Names {
        names.sort_unstable();
        std::mem::replace(&mut self.inbox().names, names)
    }

    pub(super) fn names(&self) -> Names {
        self.inbox().names.clone()
    }

    pub(super) fn vertices(&self) -> Vec<ResourceId> {
        self.inbox().names.iter().map(|(_, vertex)| *vertex).collect()
    }

    pub(super) fn has(&self, vertex: ResourceId) -> bool {
        self.inbox().names.iter().any(|(_, known)| *known == vertex)
    }

    /// Returns the resources of this name.
    pub(super) fn named(&self, name: &str) -> Vec<ResourceId> {
        of_name(&self.inbox().names, name).map(|(_, vertex)| *vertex).collect()
    }
}

/// Returns the entries of this name.
pub(super) fn of_name<'a>(names: &'a Names, name: &'a str) -> impl Iterator<Item = &'a (EcoString, ResourceId)> {
    let first = names.partition_point(|(known, _)| known.as_str() < name);
    names[first..].iter().take_while(move |(known, _)| known == name)
}
