//! Subscriptions to paths.

use rustc_hash::FxHashMap;

use super::nodes::Nodes;
use super::slab::{Id, Slab};
use super::{Scope, Subscriber};

/// Owner of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionOwner {
    /// A subscriber of the hub.
    Subscriber(Subscriber),
    /// A node that is a symbolic link, whose target is here.
    Link(Id),
}

/// Subscription to one path. It is in two lists: that of its node, and that of its subscriber.
pub(super) struct Subscription {
    pub(super) node: Id,
    pub(super) owner: SubscriptionOwner,
    pub(super) scope: Scope,
    next: Option<Id>,
    previous: Option<Id>,
    next_of_subscriber: Option<Id>,
}

#[derive(Default)]
pub(super) struct Subscriptions {
    slab: Slab<Subscription>,
    first: FxHashMap<Subscriber, Id>,
}

impl Subscriptions {
    /// Returns the number of subscribers.
    pub(super) fn subscribers(&self) -> usize {
        self.first.len()
    }

    /// Returns all subscribers, unsorted.
    pub(super) fn all(&self) -> impl Iterator<Item = Subscriber> {
        self.first.keys().copied()
    }

    /// Returns the subscriptions of a subscriber.
    pub(super) fn of(&self, subscriber: Subscriber) -> impl Iterator<Item = &Subscription> {
        let first = self.first.get(&subscriber).map(|id| &self.slab[*id]);
        std::iter::successors(first, |at| at.next_of_subscriber.map(|id| &self.slab[id]))
    }

    pub(super) fn get(&self, id: Id) -> &Subscription {
        &self.slab[id]
    }

    pub(super) fn add(&mut self, nodes: &mut Nodes, node: Id, owner: SubscriptionOwner, scope: Scope) -> Id {
        let next = nodes[node].first_subscription;
        let next_of_subscriber = match owner {
            SubscriptionOwner::Subscriber(subscriber) => self.first.get(&subscriber).copied(),
            SubscriptionOwner::Link(_) => None,
        };
        let id = self.slab.insert(Subscription { node, owner, scope, next, previous: None, next_of_subscriber });
        if let Some(next) = next {
            self.slab[next].previous = Some(id);
        }
        nodes[node].first_subscription = Some(id);
        if let SubscriptionOwner::Subscriber(subscriber) = owner {
            self.first.insert(subscriber, id);
        }
        id
    }

    /// Takes the list of a subscriber. The caller must then remove each subscription.
    pub(super) fn take(&mut self, subscriber: Subscriber) -> Vec<Id> {
        let first = self.first.remove(&subscriber);
        std::iter::successors(first, |id| self.slab[*id].next_of_subscriber).collect()
    }

    /// Removes a subscription that its subscriber no longer lists.
    pub(super) fn remove(&mut self, nodes: &mut Nodes, id: Id) -> Subscription {
        let removed = self.slab.remove(id);
        match removed.previous {
            Some(previous) => self.slab[previous].next = removed.next,
            None => nodes[removed.node].first_subscription = removed.next,
        }
        if let Some(next) = removed.next {
            self.slab[next].previous = removed.previous;
        }
        removed
    }

    /// Returns the subscriptions to a path.
    pub(super) fn at<'a>(&'a self, nodes: &Nodes, node: Id) -> impl Iterator<Item = &'a Subscription> + use<'a> {
        let first = nodes[node].first_subscription.map(|id| &self.slab[id]);
        std::iter::successors(first, |at| at.next.map(|id| &self.slab[id]))
    }
}
