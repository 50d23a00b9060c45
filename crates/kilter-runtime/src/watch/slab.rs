//! Numbered items in one piece of memory; the numbers of removed items are reused.

use std::num::NonZeroU32;

/// Number of an item. `Option<Id>` has the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(NonZeroU32);

impl Id {
    pub(super) const FIRST: Id = Id(NonZeroU32::MIN);

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<Id>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, item: T) -> Id {
        if let Some(id) = self.free.pop() {
            self.items[id.index()] = Some(item);
            return id;
        }
        self.items.push(Some(item));
        let number = u32::try_from(self.items.len()).expect("memory ends before four thousand million things");
        Id(NonZeroU32::new(number).expect("one was just put in"))
    }

    pub(super) fn remove(&mut self, id: Id) -> T {
        self.free.push(id);
        self.items[id.index()].take().expect("only what is there is removed")
    }

    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.items[id.index()].as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<Id> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        self.items[id.index()].as_ref().expect("numbers of what is gone are not kept")
    }
}

impl<T> std::ops::IndexMut<Id> for Slab<T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        self.items[id.index()].as_mut().expect("numbers of what is gone are not kept")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_and_nothing_grows() {
        let mut slab = Slab::default();
        let first = slab.insert("a");
        let second = slab.insert("b");
        assert_eq!(first, Id::FIRST);
        assert_eq!(slab.remove(first), "a");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.insert("c"), first);
        assert_eq!((slab[first], slab[second], slab.len(), slab.items.len()), ("c", "b", 2, 2));
        assert_eq!(size_of::<Option<Id>>(), 4);
    }
}
