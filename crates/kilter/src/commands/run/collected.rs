//! Collected resources of a run, and their age.

use kilter_provider::{Unreachable, World};
use kilter_runtime::Stale;

use crate::collected::Collected;
use crate::collected::Keeper;
use crate::load::Loaded;

/// Stores collected resources for a start while the world is unreachable, and frees their memory.
pub(super) fn keep(keeper: Option<&Keeper>, loaded: &mut Loaded) {
    match (keeper, &mut loaded.collected) {
        (Some(keeper), Some(collected)) => keeper.keep(collected),
        (None, Some(collected)) => drop(std::mem::take(&mut collected.offered)),
        (_, None) => {}
    }
}

/// Source of the collected resources in the held graph.
#[derive(Clone, Debug)]
pub(super) struct SourceOfCollected {
    /// True if the manifests collect resources.
    is_any: bool,
    /// Age of stored resources, which were used because the world was unreachable.
    kept: Option<Stale>,
}

impl SourceOfCollected {
    pub(super) fn of(loaded: &Loaded) -> SourceOfCollected {
        let kept = |collected: &Collected| collected.unreachable.clone().map(|why| Stale { at: collected.at, why });
        SourceOfCollected { is_any: loaded.collected.is_some(), kept: loaded.collected.as_ref().and_then(kept) }
    }

    /// Returns the reason why the held collected resources may be too old. `is_wrong`: a later read of the manifest
    /// found errors.
    pub(super) fn stale(&self, world: &dyn World, is_wrong: bool) -> Option<Stale> {
        let unreachable = world.unreachable().filter(|_| self.is_any);
        match (&self.kept, unreachable) {
            (None, None) => None,
            (None, Some(Unreachable { since, why })) => Some(Stale { at: since, why: why.0 }),
            (Some(kept), Some(Unreachable { why, .. })) => Some(Stale { at: kept.at, why: why.0 }),
            (Some(kept), None) if is_wrong => {
                Some(Stale { at: kept.at, why: "with the current exports, the manifest has errors".into() })
            }
            (Some(kept), None) => Some(kept.clone()),
        }
    }
}
