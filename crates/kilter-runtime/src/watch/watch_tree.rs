//! Subscriptions, and the watches they need.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use rustc_hash::{FxHashMap, FxHashSet};

use super::hub_events::HubEvents;
use super::kernel::{Kernel, WatchId, WatchLevel, named};
use super::link::names;
use super::nodes::Nodes;
use super::slab::Id;
use super::subscriptions::{SubscriptionOwner, Subscriptions};
use super::{PathWatch, Scope, Subscriber, WatchCounts, WatchError, WatchLost};

/// Paths, subscriptions and watches.
///
/// *Invariant:* if no event is pending, each node whose path leads to a directory has the watch of its current
/// inode. Only an event in the directory that contains the name can change the inode. That directory is watched as
/// well, up to the root, which never changes.
pub(super) struct WatchTree {
    pub(super) nodes: Nodes,
    pub(super) subscriptions: Subscriptions,
    /// First node of each watch; its twins share the watch.
    pub(super) watches: FxHashMap<WatchId, Id>,
    /// Nodes that are symbolic links, with the subscriptions to their targets.
    pub(super) links: FxHashMap<Id, Vec<Id>>,
    /// Ended watches that the kernel has not confirmed: their events are outdated.
    pub(super) removing: FxHashSet<WatchId>,
    /// Number of subscriptions to trees.
    trees: usize,
    /// Depth of the links that are being followed.
    pub(super) following: u32,
    pub(super) kernel: Kernel,
    descriptors: usize,
    pub(super) overflows: u64,
}

impl WatchTree {
    pub(super) fn new(kernel: Kernel, descriptors: usize) -> WatchTree {
        WatchTree {
            nodes: Nodes::new(),
            subscriptions: Subscriptions::default(),
            watches: FxHashMap::default(),
            links: FxHashMap::default(),
            removing: FxHashSet::default(),
            trees: 0,
            following: 0,
            kernel,
            descriptors,
            overflows: 0,
        }
    }

    pub(super) fn counts(&self) -> WatchCounts {
        WatchCounts {
            watches: self.watches.len(),
            subscribers: self.subscriptions.subscribers(),
            paths: self.nodes.len(),
            descriptors: self.descriptors,
            overflows: self.overflows,
        }
    }

    /// Replaces the paths of a subscriber. It adds the new ones before it removes the old ones, so that common
    /// paths stay watched.
    pub(super) fn subscribe(&mut self, subscriber: Subscriber, watches: Vec<PathWatch>, heard: &mut HubEvents) {
        let old = self.subscriptions.take(subscriber);
        for PathWatch { path, scope } in watches {
            let Some(node) = self.place(path.as_os_str().as_bytes()) else {
                heard.lost.push(WatchLost { subscribers: vec![subscriber], why: WatchError::Path(path) });
                continue;
            };
            self.attach(node, SubscriptionOwner::Subscriber(subscriber), scope);
            if let Err(why) = self.look_down_to(node, scope, heard) {
                heard.lost.push(WatchLost { subscribers: vec![subscriber], why });
            }
        }
        for id in old {
            self.detach(id);
        }
    }

    /// Retries the failed watches of a subscriber.
    pub(super) fn subscribe_again(&mut self, subscriber: Subscriber, heard: &mut HubEvents) {
        let watches = self.subscriptions.of(subscriber).map(|at| {
            let path = self.nodes.path(at.node);
            PathWatch { path: OsStr::from_bytes(named(&path)).into(), scope: at.scope }
        });
        let watches = watches.collect();
        self.subscribe(subscriber, watches, heard);
    }

    pub(super) fn unsubscribe(&mut self, subscriber: Subscriber) {
        for id in self.subscriptions.take(subscriber) {
            self.detach(id);
        }
    }

    /// Returns the node of a path, and creates it and its ancestors if needed; none if the path is not plain.
    pub(super) fn place(&mut self, path: &[u8]) -> Option<Id> {
        let mut at = Nodes::ROOT;
        for name in names(path)? {
            self.raise(at, WatchLevel::Names);
            at = self.nodes.child_or_new(at, name);
        }
        Some(at)
    }

    /// Adds a subscription, and the needed watch levels.
    pub(super) fn attach(&mut self, node: Id, owner: SubscriptionOwner, scope: Scope) -> Id {
        if let Some(parent) = self.nodes[node].parent {
            self.raise(parent, WatchLevel::Content);
        }
        if scope != Scope::This || node == Nodes::ROOT {
            self.raise(node, WatchLevel::Content);
        }
        if scope == Scope::Tree {
            self.nodes[node].trees += 1;
            self.trees += 1;
        }
        self.subscriptions.add(&mut self.nodes, node, owner, scope)
    }

    /// Raises the needed watch level of a directory.
    pub(super) fn raise(&mut self, node: Id, level: WatchLevel) {
        let node = &mut self.nodes[node];
        node.want = node.want.max(level);
    }

    /// Removes a subscription that its subscriber no longer lists, and all nodes that only it needed.
    pub(super) fn detach(&mut self, id: Id) {
        let removed = self.subscriptions.remove(&mut self.nodes, id);
        if removed.scope == Scope::Tree {
            self.nodes[removed.node].trees -= 1;
            self.trees -= 1;
            if !self.is_covered(removed.node) {
                self.ungrow_below(removed.node);
            }
        }
        if let Some(kept) = self.prune(removed.node)
            && !self.links.is_empty()
        {
            self.prune_links(kept);
        }
    }

    /// Returns the nodes with subscriptions to trees that contain a directory. A tree ends at a symbolic link,
    /// unless it begins there.
    pub(super) fn trees_around(&self, node: Id) -> impl Iterator<Item = Id> {
        let from = (self.trees > 0).then_some(node);
        let upward =
            std::iter::successors(from, |id| if self.links.contains_key(id) { None } else { self.nodes[*id].parent });
        upward.filter(|id| self.nodes[*id].trees > 0)
    }

    pub(super) fn is_covered(&self, node: Id) -> bool {
        self.trees_around(node).next().is_some()
    }

    fn ungrow_below(&mut self, node: Id) {
        for child in self.nodes.children(node).collect::<Vec<_>>() {
            if self.nodes[child].is_grown {
                self.nodes[child].is_grown = false;
                if self.nodes[child].trees == 0 {
                    self.ungrow_below(child);
                }
                self.drop_if_idle(child);
            }
        }
    }

    /// Handles the removal of a directory of a watched tree.
    pub(super) fn ungrow(&mut self, node: Id) {
        self.nodes[node].is_grown = false;
        self.ungrow_below(node);
        self.drop_if_idle(node);
    }

    /// Removes unused nodes from a node upwards; returns the first one that is still used.
    fn prune(&mut self, node: Id) -> Option<Id> {
        let mut at = Some(node);
        while let Some(id) = at
            && let Some(node) = self.nodes.get(id)
        {
            at = node.parent;
            if !self.drop_if_idle(id) {
                self.relax(id);
                return Some(id);
            }
        }
        None
    }

    /// Removes an unused node. It removes the subscriptions to a link's target first, which may be the link itself.
    fn drop_if_idle(&mut self, id: Id) -> bool {
        let node = &self.nodes[id];
        if node.parent.is_none() || node.is_grown || node.first_subscription.is_some() || self.nodes.has_children(id) {
            return false;
        }
        self.forget_link(id);
        if self.nodes.get(id).is_some() {
            self.release(id);
            self.nodes.remove(id);
        }
        true
    }

    /// Ends the watch of a directory that is no longer above any path.
    fn relax(&mut self, id: Id) {
        let node = &self.nodes[id];
        let is_directory = node.is_grown || self.subscriptions.at(&self.nodes, id).any(|at| at.scope != Scope::This);
        if self.nodes.has_children(id) || is_directory {
            return;
        }
        let had = node.has;
        self.nodes[id].want = WatchLevel::Nothing;
        if had != WatchLevel::Nothing {
            self.release(id);
        }
    }

    /// Removes links that lead to each other and have no other subscriber.
    fn prune_links(&mut self, node: Id) {
        let mut passed = FxHashSet::default();
        if !self.is_covered(node) && self.affected(node, &mut passed).next().is_none() {
            for id in passed {
                self.forget_link(id);
            }
        }
    }

    /// Removes the subscriptions of a node that is no longer a link.
    pub(super) fn forget_link(&mut self, id: Id) {
        for subscription in self.links.remove(&id).unwrap_or_default() {
            self.detach(subscription);
        }
    }

    /// Ends the watch of a node, unless a twin needs it.
    pub(super) fn release(&mut self, id: Id) {
        self.nodes[id].has = WatchLevel::Nothing;
        let twin = self.nodes[id].twin.take();
        let Some(watch) = self.nodes[id].watch.take() else { return };
        let first = self.watches[&watch];
        if first != id {
            let mut before = first;
            while let Some(next) = self.nodes[before].twin
                && next != id
            {
                before = next;
            }
            self.nodes[before].twin = twin;
        } else if let Some(twin) = twin {
            self.watches.insert(watch, twin);
        } else {
            self.watches.remove(&watch);
            self.retire(watch);
        }
    }

    fn retire(&mut self, watch: WatchId) {
        if self.kernel.unwatch(watch) {
            self.removing.insert(watch);
        }
    }

    /// Records the watch that the kernel assigned to the object of a node.
    pub(super) fn bind(&mut self, id: Id, watch: WatchId) -> Result<(), WatchError> {
        if self.nodes[id].watch != Some(watch) {
            self.release(id);
            if !self.watches.contains_key(&watch) && self.watches.len() >= self.kernel.limit {
                self.retire(watch);
                return Err(WatchError::LimitOfHub(self.kernel.limit));
            }
            self.nodes[id].twin = self.watches.insert(watch, id);
            self.nodes[id].watch = Some(watch);
        }
        self.nodes[id].has = self.nodes[id].want;
        Ok(())
    }

    /// Returns the nodes of a watch.
    pub(super) fn nodes_of(&self, watch: WatchId) -> impl Iterator<Item = Id> {
        std::iter::successors(self.watches.get(&watch).copied(), |id| self.nodes[*id].twin)
    }

    /// Returns the node and all nodes below it.
    pub(super) fn node_and_below(&self, id: Id) -> impl Iterator<Item = Id> {
        let mut open = vec![id];
        std::iter::from_fn(move || {
            let id = open.pop()?;
            open.extend(self.nodes.children(id));
            Some(id)
        })
    }

    /// Returns the subscribers of a node, of nodes below it, and of links that lead there. `passed` receives the
    /// visited nodes.
    pub(super) fn affected(&self, id: Id, passed: &mut FxHashSet<Id>) -> impl Iterator<Item = Subscriber> {
        let (mut found, mut open) = (Vec::new(), vec![id]);
        std::iter::from_fn(move || {
            while found.is_empty() {
                let id = open.pop()?;
                if !passed.insert(id) {
                    continue;
                }
                open.extend(self.nodes.children(id));
                for at in self.subscriptions.at(&self.nodes, id) {
                    match at.owner {
                        SubscriptionOwner::Subscriber(subscriber) => found.push(subscriber),
                        SubscriptionOwner::Link(link) => open.push(link),
                    }
                }
            }
            found.pop()
        })
    }
}
