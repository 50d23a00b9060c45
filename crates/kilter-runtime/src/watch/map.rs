//! Who subscribes to what, and what has to be watched for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use rustc_hash::{FxHashMap, FxHashSet};

use super::hear::Heard;
use super::kernel::{Kernel, Level, WatchId, named};
use super::link::names;
use super::nodes::Nodes;
use super::slab::Id;
use super::subscriptions::{Holder, Subscriptions};
use super::{Counts, Lost, PathWatch, Scope, Subscriber, Why};

/// Paths, subscriptions and watches.
///
/// Whenever no event is pending, each node of a path that leads to a directory has the watch of the inode
/// that is there now. Events keep it so: what a name leads to can only change by an event in the
/// directory that has the name, which is watched, and so on up to the root, which never changes.
pub(super) struct Map {
    pub(super) nodes: Nodes,
    pub(super) subscriptions: Subscriptions,
    /// The first node with a watch; the others are its twins.
    pub(super) watches: FxHashMap<WatchId, Id>,
    /// The nodes that are symbolic links, with the subscriptions to what they lead to.
    pub(super) links: FxHashMap<Id, Vec<Id>>,
    /// Watches that were ended, until the kernel says so: what it tells of them before is of old.
    pub(super) retiring: FxHashSet<WatchId>,
    /// How many subscriptions are to whole trees.
    trees: usize,
    /// How many links are being followed, one from another.
    pub(super) following: u32,
    pub(super) kernel: Kernel,
    descriptors: usize,
    pub(super) overflows: u64,
}

impl Map {
    pub(super) fn new(kernel: Kernel, descriptors: usize) -> Map {
        Map {
            nodes: Nodes::new(),
            subscriptions: Subscriptions::default(),
            watches: FxHashMap::default(),
            links: FxHashMap::default(),
            retiring: FxHashSet::default(),
            trees: 0,
            following: 0,
            kernel,
            descriptors,
            overflows: 0,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            watches: self.watches.len(),
            subscribers: self.subscriptions.subscribers(),
            paths: self.nodes.len(),
            descriptors: self.descriptors,
            overflows: self.overflows,
        }
    }

    /// Watches paths for a subscriber, instead of those that were watched for it. The new ones are there
    /// before the old ones go, so that what both have in common is never out of sight.
    pub(super) fn subscribe(&mut self, subscriber: Subscriber, watches: Vec<PathWatch>, heard: &mut Heard) {
        let old = self.subscriptions.take(subscriber);
        for PathWatch { path, scope } in watches {
            let Some(node) = self.place(path.as_os_str().as_bytes()) else {
                heard.lost.push(Lost { subscribers: vec![subscriber], why: Why::Path(path) });
                continue;
            };
            self.attach(node, Holder::Subscriber(subscriber), scope);
            if let Err(why) = self.look_down_to(node, scope, heard) {
                heard.lost.push(Lost { subscribers: vec![subscriber], why });
            }
        }
        for id in old {
            self.detach(id);
        }
    }

    /// Watches the paths of a subscriber once more, as far as they are not.
    pub(super) fn subscribe_again(&mut self, subscriber: Subscriber, heard: &mut Heard) {
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

    /// The node of a path, made with those above it if it is not there; none if the path is not plain.
    pub(super) fn place(&mut self, path: &[u8]) -> Option<Id> {
        let mut at = Nodes::ROOT;
        for name in names(path)? {
            self.raise(at, Level::Names);
            at = self.nodes.child_or_new(at, name);
        }
        Some(at)
    }

    /// Enters a subscription, and what has to be watched for it.
    pub(super) fn attach(&mut self, node: Id, holder: Holder, scope: Scope) -> Id {
        if let Some(parent) = self.nodes[node].parent {
            self.raise(parent, Level::Content);
        }
        if scope != Scope::This || node == Nodes::ROOT {
            self.raise(node, Level::Content);
        }
        if scope == Scope::Tree {
            self.nodes[node].trees += 1;
            self.trees += 1;
        }
        self.subscriptions.add(&mut self.nodes, node, holder, scope)
    }

    /// Has a directory watched for at least this.
    pub(super) fn raise(&mut self, node: Id, level: Level) {
        let node = &mut self.nodes[node];
        node.want = node.want.max(level);
    }

    /// Takes out a subscription that is in no list of a subscriber, and what was there for it alone.
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

    /// The subscriptions to whole trees that a directory belongs to are at these nodes. A tree ends at a
    /// symbolic link, unless it begins there.
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

    /// A directory of a watched tree is gone.
    pub(super) fn ungrow(&mut self, node: Id) {
        self.nodes[node].is_grown = false;
        self.ungrow_below(node);
        self.drop_if_idle(node);
    }

    /// Removes a node and those above it that nobody has an interest in; where that ends.
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

    /// Removes a node that nobody has an interest in. What a link leads to goes before it, which may be
    /// the link itself.
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

    /// Ends the watch of a directory that is no longer above anything.
    fn relax(&mut self, id: Id) {
        let node = &self.nodes[id];
        let is_directory = node.is_grown || self.subscriptions.at(&self.nodes, id).any(|at| at.scope != Scope::This);
        if self.nodes.has_children(id) || is_directory {
            return;
        }
        let had = node.has;
        self.nodes[id].want = Level::Nothing;
        if had != Level::Nothing {
            self.release(id);
        }
    }

    /// Links that lead to each other keep each other; they go when nobody else has an interest in them.
    fn prune_links(&mut self, node: Id) {
        let mut passed = FxHashSet::default();
        if !self.is_covered(node) && self.affected(node, &mut passed).next().is_none() {
            for id in passed {
                self.forget_link(id);
            }
        }
    }

    /// The link is none any more.
    pub(super) fn forget_link(&mut self, id: Id) {
        for subscription in self.links.remove(&id).unwrap_or_default() {
            self.detach(subscription);
        }
    }

    /// Ends the watch of a node, if no twin needs it.
    pub(super) fn release(&mut self, id: Id) {
        self.nodes[id].has = Level::Nothing;
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
            self.retiring.insert(watch);
        }
    }

    /// Enters the watch that the kernel gave for what is at a node.
    pub(super) fn bind(&mut self, id: Id, watch: WatchId) -> Result<(), Why> {
        if self.nodes[id].watch != Some(watch) {
            self.release(id);
            if !self.watches.contains_key(&watch) && self.watches.len() >= self.kernel.limit {
                self.retire(watch);
                return Err(Why::LimitOfHub(self.kernel.limit));
            }
            self.nodes[id].twin = self.watches.insert(watch, id);
            self.nodes[id].watch = Some(watch);
        }
        self.nodes[id].has = self.nodes[id].want;
        Ok(())
    }

    /// The nodes with a watch.
    pub(super) fn nodes_of(&self, watch: WatchId) -> impl Iterator<Item = Id> {
        std::iter::successors(self.watches.get(&watch).copied(), |id| self.nodes[*id].twin)
    }

    /// The node and all below it.
    pub(super) fn node_and_below(&self, id: Id) -> impl Iterator<Item = Id> {
        let mut open = vec![id];
        std::iter::from_fn(move || {
            let id = open.pop()?;
            open.extend(self.nodes.children(id));
            Some(id)
        })
    }

    /// The subscribers at a node and below, and of links that lead there; the nodes that were passed are
    /// put in a set.
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
                    match at.holder {
                        Holder::Subscriber(subscriber) => found.push(subscriber),
                        Holder::Link(link) => open.push(link),
                    }
                }
            }
            found.pop()
        })
    }
}
