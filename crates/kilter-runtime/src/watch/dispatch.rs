//! Handling of events, and selection of the subscribers to notify.
//!
//! The map first records all events of one read, and then reads the file system once for each affected path. So the
//! result is newer than all these events.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustc_hash::FxHashSet;
use rustix::fs::inotify::ReadFlags;

use super::hub_events::HubEvents;
use super::kernel::{KernelEvent, NAMES, WatchLevel};
use super::link::names;
use super::nodes::Nodes;
use super::slab::Id;
use super::subscriptions::SubscriptionOwner;
use super::watch_tree::WatchTree;
use super::{Scope, Subscriber, WatchError, WatchLost};

impl WatchTree {
    /// Records one event.
    pub(super) fn dispatch(&mut self, kernel_event: KernelEvent<'_>, heard: &mut HubEvents) {
        let KernelEvent { watch, what, name } = kernel_event;
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            heard.everything = true;
        } else if what.contains(ReadFlags::IGNORED) {
            if !self.removing.remove(&watch) {
                self.ended(kernel_event, heard);
            }
        } else if !self.removing.contains(&watch) {
            let mut at = self.watches.get(&watch).copied();
            while let Some(id) = at {
                at = self.nodes[id].twin;
                match name {
                    Some(name) => self.hear_in(id, what, name, heard),
                    None => self.touch(id, heard),
                }
            }
        }
    }

    /// Handles a mount or unmount: the path, and all links that lead to it or through it, may refer to other
    /// objects.
    pub(super) fn mounted(&self, path: &[u8], heard: &mut HubEvents) {
        let mut names = names(path).into_iter().flatten();
        heard.stale.extend(names.try_fold(Nodes::ROOT, |at, name| self.nodes.child(at, name)));
        let path = Path::new(OsStr::from_bytes(path));
        heard.stale.extend(self.links.keys().copied().filter(|link| {
            let link = self.nodes.path(*link);
            Path::new(OsStr::from_bytes(&link)).canonicalize().is_ok_and(|real| path.starts_with(real))
        }));
    }

    /// Handles the end of a watch by the kernel: the inode or its file system is gone.
    fn ended(&mut self, kernel_event: KernelEvent<'_>, heard: &mut HubEvents) {
        let ids: Vec<Id> = self.nodes_of(kernel_event.watch).collect();
        self.watches.remove(&kernel_event.watch);
        for id in ids {
            let node = &mut self.nodes[id];
            (node.watch, node.twin, node.has) = (None, None, WatchLevel::Nothing);
            heard.stale.push(id);
        }
    }

    /// Handles an event on a name in a directory.
    fn hear_in(&mut self, id: Id, what: ReadFlags, name: &[u8], heard: &mut HubEvents) {
        self.enter(id, heard);
        let child = self.nodes.child(id, name);
        let is_directory = what.contains(ReadFlags::ISDIR);
        if !what.intersects(NAMES) {
            let Some(child) = child else { return };
            self.touch(child, heard);
            if !self.kernel.is_root && is_directory {
                // A change of the search permission affects everything below.
                heard.stale.push(child);
            }
        } else if let Some(child) = child {
            heard.stale.push(child);
        } else if is_directory
            && what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO)
            && self.is_covered(id)
            && let Some(child) = self.grow_child(id, name, heard)
        {
            heard.stale.push(child);
        }
    }

    /// Handles an event in a directory.
    fn enter(&self, id: Id, heard: &mut HubEvents) {
        if !heard.entered.insert(id) {
            return;
        }
        for at in self.subscriptions.at(&self.nodes, id) {
            if at.scope == Scope::Entries {
                self.notify(at.owner, heard);
            }
        }
        for tree in self.trees_around(id) {
            for at in self.subscriptions.at(&self.nodes, tree) {
                if at.scope == Scope::Tree {
                    self.notify(at.owner, heard);
                }
            }
        }
    }

    /// Handles a change of content or attributes, reported by the directory or by the file itself.
    fn touch(&self, id: Id, heard: &mut HubEvents) {
        if !heard.touched.insert(id) {
            return;
        }
        for at in self.subscriptions.at(&self.nodes, id) {
            match at.owner {
                SubscriptionOwner::Subscriber(_) => self.notify(at.owner, heard),
                SubscriptionOwner::Link(link) => self.touch(link, heard),
            }
        }
        if let Some(parent) = self.nodes[id].parent {
            self.enter(parent, heard);
        }
    }

    fn notify(&self, owner: SubscriptionOwner, heard: &mut HubEvents) {
        if let SubscriptionOwner::Subscriber(subscriber) = owner {
            heard.told.push(subscriber);
        }
    }

    /// Reads the file system for all paths that the events left stale.
    pub(super) fn settle(&mut self, heard: &mut HubEvents) {
        if heard.everything {
            self.overflows += 1;
            // The ends of watches may be among the lost events.
            self.removing.clear();
            heard.stale.clear();
            self.rescan(Nodes::ROOT, &mut Vec::new(), heard);
        }
        while let Some(id) = heard.stale.pop() {
            if self.nodes.get(id).is_some() && heard.seen_stale.insert(id) {
                self.renew(id, heard);
            }
        }
    }

    /// Updates a stale name, and notifies the subscribers of it, of all paths below, and of links that lead there.
    fn renew(&mut self, id: Id, heard: &mut HubEvents) {
        let mut path = self.nodes.path(id);
        self.rescan(id, &mut path, heard);
        if self.nodes.get(id).is_none() {
            return;
        }
        for id in self.node_and_below(id) {
            for at in self.subscriptions.at(&self.nodes, id) {
                match at.owner {
                    SubscriptionOwner::Subscriber(_) => self.notify(at.owner, heard),
                    SubscriptionOwner::Link(link) => heard.stale.push(link),
                }
            }
        }
        if let Some(parent) = self.nodes[id].parent {
            self.enter(parent, heard);
        }
    }

    /// Reports a path that cannot be watched to all affected subscribers: of paths below, of links that lead there,
    /// and of trees around it.
    pub(super) fn lose(&self, id: Id, why: WatchError, heard: &mut HubEvents) {
        let mut subscribers: Vec<Subscriber> = self.affected(id, &mut FxHashSet::default()).collect();
        for tree in self.trees_around(id) {
            for at in self.subscriptions.at(&self.nodes, tree).filter(|at| at.scope == Scope::Tree) {
                if let SubscriptionOwner::Subscriber(subscriber) = at.owner {
                    subscribers.push(subscriber);
                }
            }
        }
        if let Some(known) = heard.lost.iter_mut().find(|lost| lost.why == why) {
            subscribers.append(&mut known.subscribers);
            heard.lost.retain(|lost| lost.why != why);
        }
        subscribers.sort_unstable();
        subscribers.dedup();
        if !subscribers.is_empty() {
            heard.lost.push(WatchLost { subscribers, why });
        }
    }
}
