//! Changes of a run that repaired a drift.

use std::collections::HashMap;

use kilter_model::ResourceRef;
use serde_json::{Map, Value as Json};

/// Number of repairs of a drift since the last intentional change, per resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Corrections {
    total: u64,
    /// Resources whose last change was one. Most resources never drift.
    of: HashMap<ResourceRef, u64>,
    /// True if the history knows the kind of a change.
    is_known: bool,
}

impl Corrections {
    /// Counts a change. After an edit, the run counts the changes of the resource anew.
    pub(crate) fn add(&mut self, reference: &ResourceRef, is_corrective: bool) {
        self.is_known = true;
        if is_corrective {
            self.total += 1;
            *self.of.entry(reference.clone()).or_default() += 1;
        } else {
            self.of.remove(reference);
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Adds the corrections of a resource to its status, if it was changed and the history knows how.
    pub(super) fn put(&self, reference: &ResourceRef, json: &mut Map<String, Json>) {
        let count = self.of.get(reference).copied().unwrap_or_default();
        if let Some(last) = json.get_mut("last_change").filter(|_| self.is_known) {
            last["corrected"] = (count > 0).into();
            json.insert("corrections".into(), count.into());
        }
    }
}
