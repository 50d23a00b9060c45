//! Tree of the names of all relevant paths.

use std::hash::{BuildHasher, RandomState};

use rustc_hash::FxHashMap;

use super::kernel::{WatchId, WatchLevel};
use super::slab::{Id, Slab};

/// Subscribed path, an ancestor of one, or a directory in a watched tree.
pub(super) struct WatchNode {
    pub(super) parent: Option<Id>,
    name: Box<[u8]>,
    first_child: Option<Id>,
    next: Option<Id>,
    previous: Option<Id>,
    /// Another node of the same parent whose name has the same hash.
    same_hash: Option<Id>,
    /// Watch on the object.
    pub(super) watch: Option<WatchId>,
    /// Another node with the same watch: a path to the same inode.
    pub(super) twin: Option<Id>,
    pub(super) first_subscription: Option<Id>,
    /// Number of subscriptions to the tree below.
    pub(super) trees: u32,
    /// Needed and current watch level of the directory.
    pub(super) want: WatchLevel,
    pub(super) has: WatchLevel,
    /// True if the node exists because it is a directory in a watched tree.
    pub(super) is_grown: bool,
}

/// All nodes. The one at [`Nodes::ROOT`] always exists.
pub(super) struct Nodes {
    slab: Slab<WatchNode>,
    /// First node for each parent and hash of a name. It is one map for all directories, because a map for each
    /// would cost more than its content.
    index: FxHashMap<(Id, u32), Id>,
    /// Randomised hash: any user who can create directories chooses names.
    hasher: RandomState,
}

impl Nodes {
    pub(super) const ROOT: Id = Id::FIRST;

    pub(super) fn new() -> Nodes {
        let mut slab = Slab::default();
        let root = slab.insert(WatchNode::new(None, b""));
        debug_assert_eq!(root, Nodes::ROOT);
        Nodes { slab, index: FxHashMap::default(), hasher: RandomState::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn get(&self, id: Id) -> Option<&WatchNode> {
        self.slab.get(id)
    }

    fn key(&self, parent: Id, name: &[u8]) -> (Id, u32) {
        (parent, self.hasher.hash_one(name) as u32)
    }

    /// Returns the child with a name.
    pub(super) fn child(&self, parent: Id, name: &[u8]) -> Option<Id> {
        let mut at = self.index.get(&self.key(parent, name)).copied();
        while let Some(id) = at
            && *self[id].name != *name
        {
            at = self[id].same_hash;
        }
        at
    }

    /// Returns the child with a name, and creates it if needed.
    pub(super) fn child_or_new(&mut self, parent: Id, name: &[u8]) -> Id {
        if let Some(id) = self.child(parent, name) {
            return id;
        }
        let mut node = WatchNode::new(Some(parent), name);
        node.next = self[parent].first_child;
        let next = node.next;
        let key = self.key(parent, name);
        node.same_hash = self.index.get(&key).copied();
        let id = self.slab.insert(node);
        self.index.insert(key, id);
        self[parent].first_child = Some(id);
        if let Some(next) = next {
            self[next].previous = Some(id);
        }
        id
    }

    /// Removes a node without children.
    pub(super) fn remove(&mut self, id: Id) {
        let node = self.slab.remove(id);
        let parent = node.parent.expect("the root stays");
        debug_assert!(node.first_child.is_none() && node.watch.is_none() && node.first_subscription.is_none());
        match node.previous {
            Some(previous) => self[previous].next = node.next,
            None => self[parent].first_child = node.next,
        }
        if let Some(next) = node.next {
            self[next].previous = node.previous;
        }
        self.unindex(parent, id, &node);
    }

    fn unindex(&mut self, parent: Id, id: Id, node: &WatchNode) {
        let key = self.key(parent, &node.name);
        let first = self.index[&key];
        if first != id {
            let mut before = first;
            while let Some(next) = self[before].same_hash
                && next != id
            {
                before = next;
            }
            self[before].same_hash = node.same_hash;
        } else if let Some(other) = node.same_hash {
            self.index.insert(key, other);
        } else {
            self.index.remove(&key);
        }
    }

    pub(super) fn children(&self, id: Id) -> impl Iterator<Item = Id> {
        std::iter::successors(self[id].first_child, |child| self[*child].next)
    }

    pub(super) fn has_children(&self, id: Id) -> bool {
        self[id].first_child.is_some()
    }

    pub(super) fn name(&self, id: Id) -> &[u8] {
        &self[id].name
    }

    /// Returns the node and its ancestors; the root is last.
    pub(super) fn upward(&self, id: Id) -> impl Iterator<Item = Id> {
        std::iter::successors(Some(id), |id| self[*id].parent)
    }

    /// Returns the path of a node; that of the root is empty.
    pub(super) fn path(&self, id: Id) -> Vec<u8> {
        let mut chain: Vec<Id> = self.upward(id).collect();
        chain.pop();
        let mut path = Vec::with_capacity(64);
        for id in chain.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(&self[id].name);
        }
        path
    }
}

impl std::ops::Index<Id> for Nodes {
    type Output = WatchNode;

    fn index(&self, id: Id) -> &WatchNode {
        &self.slab[id]
    }
}

impl std::ops::IndexMut<Id> for Nodes {
    fn index_mut(&mut self, id: Id) -> &mut WatchNode {
        &mut self.slab[id]
    }
}

impl WatchNode {
    fn new(parent: Option<Id>, name: &[u8]) -> WatchNode {
        WatchNode {
            parent,
            name: name.into(),
            first_child: None,
            next: None,
            previous: None,
            same_hash: None,
            watch: None,
            twin: None,
            first_subscription: None,
            trees: 0,
            want: WatchLevel::Nothing,
            has: WatchLevel::Nothing,
            is_grown: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_node_is_found_until_removed() {
        let mut nodes = Nodes::new();
        let names: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let ids: Vec<Id> = names.iter().map(|name| nodes.child_or_new(Nodes::ROOT, name.as_bytes())).collect();
        let below = nodes.child_or_new(ids[7], b"x");
        assert_eq!(nodes.path(below), b"/7/x");
        assert_eq!(nodes.child_or_new(ids[7], b"x"), below);
        for id in ids.iter().filter(|id| **id != ids[7]) {
            nodes.remove(*id);
        }
        assert_eq!(nodes.children(Nodes::ROOT).collect::<Vec<_>>(), [ids[7]]);
        assert_eq!(nodes.child(Nodes::ROOT, b"7"), Some(ids[7]));
        assert_eq!(nodes.child(Nodes::ROOT, b"8"), None);
        assert_eq!((nodes.len(), nodes.index.len()), (3, 2));
    }

    #[test]
    fn names_with_equal_hashes_are_distinguished() {
        let mut nodes = Nodes::new();
        let ids: Vec<Id> = (0..3).map(|n| nodes.child_or_new(Nodes::ROOT, &[n])).collect();
        // This is the index that results if all three names have the same hash.
        nodes.index.clear();
        nodes.hasher = RandomState::new();
        let keys: Vec<(Id, u32)> = (0..3).map(|n| nodes.key(Nodes::ROOT, &[n])).collect();
        for key in keys {
            nodes.index.insert(key, ids[2]);
        }
        (nodes[ids[2]].same_hash, nodes[ids[1]].same_hash) = (Some(ids[1]), Some(ids[0]));
        assert_eq!((0..3).map(|n| nodes.child(Nodes::ROOT, &[n]).unwrap()).collect::<Vec<_>>(), ids);
        nodes.remove(ids[1]);
        assert_eq!(nodes.child(Nodes::ROOT, &[0]), Some(ids[0]));
        assert_eq!(nodes.child(Nodes::ROOT, &[1]), None);
    }
}
