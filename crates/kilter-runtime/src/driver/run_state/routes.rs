//! Outputs that resources use of each other.

use kilter_engine::ResourceId;
use rustc_hash::FxHashMap;

use crate::prepare::Prepared;

/// Senders and receivers of outputs in a catalog.
#[derive(Default)]
pub(in super::super) struct Routes {
    /// Resources whose outputs other resources use, with true if an output is used as a secret.
    producers: FxHashMap<ResourceId, bool>,
    /// Receivers of each sender.
    receivers: FxHashMap<ResourceId, Vec<ResourceId>>,
}

impl Routes {
    /// Finds the senders and receivers of a catalog.
    pub(in super::super) fn of(prepared: &Prepared) -> Routes {
        let lookup = prepared.lookup();
        let mut routes = Routes::default();
        for (resource, receiver) in prepared.each() {
            for deferred in resource.deferred() {
                let is_secret = deferred.sensitive || deferred.template.is_sealed();
                for sender in deferred.template.references().iter().filter_map(|reference| lookup.referred(reference)) {
                    *routes.producers.entry(sender).or_default() |= is_secret;
                    let receivers = routes.receivers.entry(sender).or_default();
                    if receivers.last() != Some(&receiver) {
                        receivers.push(receiver);
                    }
                }
            }
        }
        routes
    }

    /// Returns the same routes for other ids of the resources, in manifest order. The current ids are places.
    #[must_use]
    pub(in super::super) fn with_ids(self, order: &[ResourceId]) -> Routes {
        let id = |place: ResourceId| order[place.slot()];
        let producers = self.producers.into_iter().map(|(sender, is_secret)| (id(sender), is_secret)).collect();
        let receivers = self
            .receivers
            .into_iter()
            .map(|(sender, receivers)| (id(sender), receivers.into_iter().map(id).collect()))
            .collect();
        Routes { producers, receivers }
    }

    /// Returns true if no resource uses an output.
    pub(super) fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// Returns true if other resources use outputs of a resource.
    pub(super) fn has(&self, sender: ResourceId) -> bool {
        self.producers.contains_key(&sender)
    }

    /// Returns true if an output of a resource is used as a secret; none if no output is used.
    pub(super) fn is_secret(&self, sender: ResourceId) -> Option<bool> {
        self.producers.get(&sender).copied()
    }

    /// Returns all senders, each with true if an output is used as a secret.
    pub(super) fn senders(&self) -> impl Iterator<Item = (ResourceId, bool)> {
        self.producers.iter().map(|(sender, is_secret)| (*sender, *is_secret))
    }

    /// Returns the receivers of a sender.
    pub(super) fn receivers(&self, sender: ResourceId) -> &[ResourceId] {
        self.receivers.get(&sender).map_or(&[], Vec::as_slice)
    }
}
