//! Names of attributes, made once.

use kilter_model::AttributeName;

/// The keys of the resource before, which mostly come again in their order.
#[derive(Default)]
pub(crate) struct Keys {
    known: Vec<AttributeName>,
    next: usize,
}

impl Keys {
    /// A resource begins.
    pub(crate) fn begin(&mut self) {
        self.next = 0;
    }

    /// The name that a key is.
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
