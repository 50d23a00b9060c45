//! Interning of attribute names.

use kilter_model::AttributeName;

/// Keys of the previous resource. Most resources have the same keys in the same order.
#[derive(Default)]
pub(crate) struct Keys {
    known: Vec<AttributeName>,
    next: usize,
}

impl Keys {
    /// Starts a resource.
    pub(crate) fn begin(&mut self) {
        self.next = 0;
    }

    /// Returns the attribute name of a key.
    pub(crate) fn get(&mut self, key: &str) -> AttributeName {
        let at = self.next;
        self.next += 1;
        match self.known.get(at) {
            Some(known) if known == key => known.clone(),
            Some(_) => {
                self.known[at] = AttributeName::from(key);
                self.known[at].clone()
            }
            None => {
                let name = AttributeName::from(key);
                self.known.push(name.clone());
                name
            }
        }
    }
}
