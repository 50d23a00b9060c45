//! Keys of resources over all edits of a run.

/// Key of a resource in a run. It is never reused.
///
/// A generational index: the slot is the index of the resource in dense tables, and the generation counts the
/// declarations that have used the slot. A declaration that changes gets the next generation of its slot, so that an
/// answer or an event for the former declaration is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId {
    slot: u32,
    generation: u32,
}

impl ResourceId {
    /// Returns the first id of a slot. In the first graph of a run, the slot is the index in manifest order.
    pub const fn first(slot: u32) -> ResourceId {
        ResourceId { slot, generation: 0 }
    }

    /// Returns the id of the next declaration in the same slot.
    #[must_use]
    pub fn next(self) -> ResourceId {
        ResourceId { generation: self.generation.wrapping_add(1), ..self }
    }

    /// Index in dense tables.
    pub fn slot(self) -> usize {
        self.slot as usize
    }

    /// Returns the id as a number, for interfaces that take numbers.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// Returns the id of a number from [`ResourceId::to_bits`].
    pub fn from_bits(bits: u64) -> ResourceId {
        ResourceId { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Issues the ids of a run. It reuses the slots of removed resources, so that edits do not grow the tables.
#[derive(Clone, Debug, Default)]
pub struct IdAllocator {
    /// Id of each slot: of its resource, or of the next one if the slot is free.
    ids: Vec<ResourceId>,
    free: Vec<u32>,
}

impl IdAllocator {
    /// Returns an allocator for a first graph of `count` resources, which have the first ids.
    pub fn of_first(count: usize) -> IdAllocator {
        IdAllocator { ids: (0..).map(ResourceId::first).take(count).collect(), free: Vec::new() }
    }

    /// Issues the id of an added resource.
    pub fn add(&mut self) -> ResourceId {
        if let Some(slot) = self.free.pop() {
            return self.ids[slot as usize];
        }
        let id = ResourceId::first(self.ids.len() as u32);
        self.ids.push(id);
        id
    }

    /// Issues the id of a resource with a changed declaration.
    pub fn change(&mut self, id: ResourceId) -> ResourceId {
        self.ids[id.slot()] = id.next();
        id.next()
    }

    /// Frees the slot of a removed resource, unless all generations of the slot are used.
    pub fn remove(&mut self, id: ResourceId) {
        if id.generation < u32::MAX {
            self.ids[id.slot()] = id.next();
            self.free.push(id.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocator_reuses_slots_and_never_ids() {
        let mut ids = IdAllocator::of_first(2);
        let [first, second] = [0, 1].map(ResourceId::first);
        let changed = ids.change(first);
        ids.remove(second);
        let (added, other) = (ids.add(), ids.add());
        assert_eq!((changed.slot(), added.slot(), other.slot()), (0, 1, 2));
        ids.remove(changed);
        let all = [first, second, changed, added, other, ids.add()];
        assert!((0..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
        assert!(all.iter().all(|id| ResourceId::from_bits(id.to_bits()) == *id));
    }

    #[test]
    fn allocator_retires_a_slot_after_its_last_generation() {
        for (generation, slot) in [(u32::MAX - 1, 0), (u32::MAX, 1)] {
            let id = ResourceId { slot: 0, generation };
            let mut ids = IdAllocator { ids: vec![id], free: Vec::new() };
            ids.remove(id);
            assert_eq!(ids.add().slot(), slot);
        }
    }
}
