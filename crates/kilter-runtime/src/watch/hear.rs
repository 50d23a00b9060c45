//! Events, and who is told of them.
//!
//! First all events that were read at once, then one look at each place that they name: what is seen then
//! is newer than all of them.

use std::ffi::OsStr;
use std::mem::take;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustc_hash::FxHashSet;
use rustix::fs::inotify::ReadFlags;

use super::kernel::{Happening, Level, NAMES};
use super::link::names;
use super::map::Map;
use super::nodes::Nodes;
use super::slab::Id;
use super::subscriptions::Holder;
use super::{Lost, Scope, Subscriber, Told, Why};

/// What came of the events that were read at once.
#[derive(Default)]
pub(super) struct Heard {
    told: Vec<Subscriber>,
    pub(super) lost: Vec<Lost>,
    /// Names that may lead elsewhere now.
    stale: Vec<Id>,
    everything: bool,
    /// What was dealt with: names that were stale, paths whose content changed, directories with entries.
    seen_stale: FxHashSet<Id>,
    touched: FxHashSet<Id>,
    entered: FxHashSet<Id>,
}

impl Heard {
    /// What is to be told; each subscriber once.
    pub(super) fn into_told(mut self) -> Vec<Told> {
        let mut all: Vec<Told> = take(&mut self.lost).into_iter().map(Told::Lost).collect();
        if self.everything {
            all.push(Told::Everything);
        } else if !self.told.is_empty() {
            self.told.sort_unstable();
            self.told.dedup();
            all.push(Told::Changed(self.told));
        }
        all
    }
}

impl Map {
    /// Takes in one event.
    pub(super) fn hear(&mut self, happening: Happening<'_>, heard: &mut Heard) {
        let Happening { watch, what, name } = happening;
        if what.contains(ReadFlags::QUEUE_OVERFLOW) {
            heard.everything = true;
        } else if what.contains(ReadFlags::IGNORED) {
            if !self.retiring.remove(&watch) {
                self.ended(happening, heard);
            }
        } else if !self.retiring.contains(&watch) {
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

    /// Something was mounted or unmounted at a path: what is there is something else now, and so it is for
    /// links that lead to it or through it.
    pub(super) fn mounted(&self, path: &[u8], heard: &mut Heard) {
        let mut names = names(path).into_iter().flatten();
        heard.stale.extend(names.try_fold(Nodes::ROOT, |at, name| self.nodes.child(at, name)));
        let path = Path::new(OsStr::from_bytes(path));
        heard.stale.extend(self.links.keys().copied().filter(|link| {
            let link = self.nodes.path(*link);
            Path::new(OsStr::from_bytes(&link)).canonicalize().is_ok_and(|real| path.starts_with(real))
        }));
    }

    /// The kernel ended a watch: the inode is gone, or its file system.
    fn ended(&mut self, happening: Happening<'_>, heard: &mut Heard) {
        let ids: Vec<Id> = self.nodes_of(happening.watch).collect();
        self.watches.remove(&happening.watch);
        for id in ids {
            let node = &mut self.nodes[id];
            (node.watch, node.twin, node.has) = (None, None, Level::Nothing);
            heard.stale.push(id);
        }
    }

    /// Something happened to a name in a directory.
    fn hear_in(&mut self, id: Id, what: ReadFlags, name: &[u8], heard: &mut Heard) {
        self.enter(id, heard);
        let child = self.nodes.child(id, name);
        let is_directory = what.contains(ReadFlags::ISDIR);
        if !what.intersects(NAMES) {
            let Some(child) = child else { return };
            self.touch(child, heard);
            if !self.kernel.is_root && is_directory {
                // Who may enter it may have changed, and with it what is below.
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

    /// Something happened in a directory.
    fn enter(&self, id: Id, heard: &mut Heard) {
        if !heard.entered.insert(id) {
            return;
        }
        for at in self.subscriptions.at(&self.nodes, id) {
            if at.scope == Scope::Entries {
                self.tell(at.holder, heard);
            }
        }
        for tree in self.trees_around(id) {
            for at in self.subscriptions.at(&self.nodes, tree) {
                if at.scope == Scope::Tree {
                    self.tell(at.holder, heard);
                }
            }
        }
    }

    /// The content or the attributes of what is at a path changed, seen from the directory or from the
    /// file itself.
    fn touch(&self, id: Id, heard: &mut Heard) {
        if !heard.touched.insert(id) {
            return;
        }
        for at in self.subscriptions.at(&self.nodes, id) {
            match at.holder {
                Holder::Subscriber(_) => self.tell(at.holder, heard),
                Holder::Link(link) => self.touch(link, heard),
            }
        }
        if let Some(parent) = self.nodes[id].parent {
            self.enter(parent, heard);
        }
    }

    fn tell(&self, holder: Holder, heard: &mut Heard) {
        if let Holder::Subscriber(subscriber) = holder {
            heard.told.push(subscriber);
        }
    }

    /// Looks at what the events left in doubt.
    pub(super) fn settle(&mut self, heard: &mut Heard) {
        if heard.everything {
            self.overflows += 1;
            // The ends of watches may be among what was lost.
            self.retiring.clear();
            heard.stale.clear();
            self.look(Nodes::ROOT, &mut Vec::new(), heard);
        }
        while let Some(id) = heard.stale.pop() {
            if self.nodes.get(id).is_some() && heard.seen_stale.insert(id) {
                self.renew(id, heard);
            }
        }
    }

    /// A name may lead elsewhere: looks where, and tells all that are there and below, and those that
    /// come there by links.
    fn renew(&mut self, id: Id, heard: &mut Heard) {
        let mut path = self.nodes.path(id);
        self.look(id, &mut path, heard);
        if self.nodes.get(id).is_none() {
            return;
        }
        for id in self.node_and_below(id) {
            for at in self.subscriptions.at(&self.nodes, id) {
                match at.holder {
                    Holder::Subscriber(_) => self.tell(at.holder, heard),
                    Holder::Link(link) => heard.stale.push(link),
                }
            }
        }
        if let Some(parent) = self.nodes[id].parent {
            self.enter(parent, heard);
        }
    }

    /// What is at a path cannot be watched: nor is all that is below, that comes there by links, or that
    /// has it in its tree.
    pub(super) fn lose(&self, id: Id, why: Why, heard: &mut Heard) {
        let mut subscribers: Vec<Subscriber> = self.affected(id, &mut FxHashSet::default()).collect();
        for tree in self.trees_around(id) {
            for at in self.subscriptions.at(&self.nodes, tree).filter(|at| at.scope == Scope::Tree) {
                if let Holder::Subscriber(subscriber) = at.holder {
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
            heard.lost.push(Lost { subscribers, why });
        }
    }
}
