//! Events that wait for the next transaction.

use ecow::EcoString;
use kilter_history::{EventKind, NewEvent, ResourceKey};

/// Event that waits for the next transaction.
pub(super) struct QueuedEvent {
    pub(super) at: i64,
    pub(super) kind: EventKind,
    /// Type and title.
    pub(super) resource: Option<(EcoString, EcoString)>,
    pub(super) body: String,
}

impl QueuedEvent {
    pub(super) fn as_new(&self) -> NewEvent<'_> {
        let resource = self.resource.as_ref().map(|(type_name, title)| key(type_name, title));
        NewEvent { at: self.at, kind: self.kind, resource, body: &self.body }
    }
}

/// Returns the key of a resource that the history knows already.
pub(super) fn key<'a>(type_name: &'a str, title: &'a str) -> ResourceKey<'a> {
    ResourceKey { type_name, title, name: title }
}
