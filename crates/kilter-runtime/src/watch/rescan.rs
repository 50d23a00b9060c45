//! Synchronisation of the map with the file system.
//!
//! It always works from top to bottom, and adds a watch before it reads. So a later change is an event.

use std::ffi::{OsStr, OsString};
use std::fs::read_dir;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::hub_events::HubEvents;
use super::kernel::{FoundKind, FoundObject, Refusal, WatchId, WatchLevel, named};
use super::link::targets;
use super::slab::Id;
use super::subscriptions::SubscriptionOwner;
use super::watch_tree::WatchTree;
use super::{Scope, WatchError};

/// Maximum number of consecutive links, as in the kernel.
const MOST_LINKS: u32 = 40;

/// Maximum depth of directories in watched trees, from the root. A user who can write there could create a depth
/// that exceeds any stack.
const MOST_LEVELS: usize = 256;

/// Result for a path, with the reason if a needed watch failed.
struct ScanResult {
    seen: SeenKind,
    refused: Option<WatchError>,
}

/// Kind of an object, for the paths below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeenKind {
    /// A directory.
    Directory,
    /// A symbolic link to a directory.
    Way,
    /// No object, or one without paths below it.
    End,
}

impl WatchTree {
    /// Adds the watches of a new subscription: for the directories above without sufficient watches, and for the
    /// object at the path.
    pub(super) fn look_down_to(&mut self, id: Id, scope: Scope, heard: &mut HubEvents) -> Result<(), WatchError> {
        let mut above: Vec<Id> = self.nodes.upward(id).skip(1).collect();
        above.reverse();
        let mut path = Vec::with_capacity(64);
        let mut refused = None;
        for at in above {
            self.push_name(at, &mut path);
            let node = &self.nodes[at];
            if node.has < node.want || node.watch.is_none() {
                let look = self.look_at(at, &path, heard);
                // Directories below an unwatchable one may still be watchable.
                refused = refused.or(look.refused);
                if look.seen == SeenKind::End {
                    return refused.map_or(Ok(()), Err);
                }
            }
        }
        self.push_name(id, &mut path);
        if scope == Scope::Tree {
            self.rescan(id, &mut path, heard);
        } else {
            refused = refused.or(self.look_at(id, &path, heard).refused);
        }
        refused.map_or(Ok(()), Err)
    }

    fn push_name(&self, id: Id, path: &mut Vec<u8>) {
        if self.nodes[id].parent.is_some() {
            path.push(b'/');
            path.extend_from_slice(self.nodes.name(id));
        }
    }

    /// Updates a path and all nodes below it. Subscribers that a failed watch affects are reported as lost.
    pub(super) fn rescan(&mut self, id: Id, path: &mut Vec<u8>, heard: &mut HubEvents) {
        let ScanResult { seen, refused } = self.look_at(id, path, heard);
        if let Some(why) = refused {
            self.lose(id, why, heard);
        } else if seen != SeenKind::End && self.is_covered(id) {
            self.grow(id, path, heard);
        }
        for child in self.nodes.children(id).collect::<Vec<_>>() {
            // Following a link may have removed other nodes.
            if self.nodes.get(child).is_none_or(|node| node.parent != Some(id)) {
                continue;
            }
            if seen == SeenKind::End {
                self.vanish(child);
            } else {
                let length = path.len();
                self.push_name(child, path);
                self.rescan(child, path, heard);
                path.truncate(length);
            }
        }
        if seen != SeenKind::Directory && self.nodes[id].is_grown {
            self.ungrow(id);
        }
    }

    /// Updates one path, and watches the object as far as needed.
    fn look_at(&mut self, id: Id, path: &[u8], heard: &mut HubEvents) -> ScanResult {
        let found = match self.kernel.object_at(path) {
            Ok(found) => found,
            Err(refusal) => {
                self.release(id);
                self.forget_link(id);
                return ScanResult { seen: SeenKind::End, refused: refusal.why() };
            }
        };
        if found.kind == FoundKind::Link {
            self.follow(id, path, heard);
        } else {
            self.forget_link(id);
        }
        if found.kind == FoundKind::Directory && self.nodes[id].parent.is_some_and(|parent| self.is_covered(parent)) {
            self.join_tree(id);
        }
        let refused = match self.watch_found(id, found, path) {
            None => {
                self.release(id);
                return ScanResult { seen: SeenKind::End, refused: None };
            }
            Some(Ok(watch)) => self.bind(id, watch).err(),
            Some(Err(refusal)) => {
                self.release(id);
                let refused = refusal.why();
                if refused.is_none() {
                    // A link without a target, or to a file; or the object is gone, which is an event.
                    return ScanResult { seen: SeenKind::End, refused };
                }
                refused
            }
        };
        let seen = match found.kind {
            FoundKind::Directory => SeenKind::Directory,
            FoundKind::Link => SeenKind::Way,
            FoundKind::Other => SeenKind::End,
        };
        ScanResult { seen, refused }
    }

    /// Adds the kernel watch for an object, if one is needed.
    fn watch_found(&self, id: Id, found: FoundObject, path: &[u8]) -> Option<Result<WatchId, Refusal>> {
        let want = self.nodes[id].want;
        let is_elsewhere = found.is_elsewhere && self.nodes[id].first_subscription.is_some();
        match found.kind {
            FoundKind::Directory if is_elsewhere => Some(self.kernel.watch_directory(path, WatchLevel::Content)),
            FoundKind::Other if is_elsewhere => Some(self.kernel.watch_file(path)),
            FoundKind::Directory | FoundKind::Link if want > WatchLevel::Nothing => {
                Some(self.kernel.watch_directory(path, want))
            }
            _ => None,
        }
    }

    /// Watches the target of a link. The link is registered before its target is read, so that links to each other
    /// do not cause an endless recursion.
    fn follow(&mut self, id: Id, path: &[u8], heard: &mut HubEvents) {
        let directory = &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or_default()];
        let Ok(text) = rustix::fs::readlink(named(path), Vec::new()) else { return self.forget_link(id) };
        let targets = targets(directory, text.as_bytes());
        let is_known = self.links.get(&id).is_some_and(|known| {
            let paths = known.iter().map(|at| self.nodes.path(self.subscriptions.get(*at).node));
            paths.eq(targets.iter().cloned())
        });
        if is_known || self.following == MOST_LINKS {
            return;
        }
        let nodes: Vec<Id> = targets.iter().filter_map(|target| self.place(named(target))).collect();
        let new = nodes.iter().map(|node| self.attach(*node, SubscriptionOwner::Link(id), Scope::This)).collect();
        let old = self.links.insert(id, new);
        self.following += 1;
        for node in nodes {
            if let Err(why) = self.look_down_to(node, Scope::This, heard) {
                self.lose(id, why, heard);
            }
        }
        self.following -= 1;
        for subscription in old.unwrap_or_default() {
            self.detach(subscription);
        }
    }

    /// Adds nodes for the directories in a directory of a watched tree.
    fn grow(&mut self, id: Id, path: &[u8], heard: &mut HubEvents) {
        let Ok(entries) = read_dir(OsStr::from_bytes(named(path))) else { return };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.grow_child(id, entry.file_name().as_bytes(), heard);
            }
        }
    }

    /// Adds a node for one directory of a watched tree; the caller must update it.
    pub(super) fn grow_child(&mut self, id: Id, name: &[u8], heard: &mut HubEvents) -> Option<Id> {
        if self.nodes.upward(id).nth(MOST_LEVELS).is_some() {
            let path = OsString::from_vec(self.nodes.path(id)).into();
            self.lose(id, WatchError::Depth(path), heard);
            return None;
        }
        let child = self.nodes.child_or_new(id, name);
        self.join_tree(child);
        Some(child)
    }

    fn join_tree(&mut self, id: Id) {
        self.nodes[id].is_grown = true;
        self.raise(id, WatchLevel::Content);
    }

    /// Handles a path without an object, because a directory above is missing.
    fn vanish(&mut self, id: Id) {
        self.release(id);
        self.forget_link(id);
        for child in self.nodes.children(id).collect::<Vec<_>>() {
            if self.nodes.get(child).is_some_and(|node| node.parent == Some(id)) {
                self.vanish(child);
            }
        }
        if self.nodes[id].is_grown {
            self.ungrow(id);
        }
    }
}
