//! Saved pre-change state of a manifest.

use kilter_engine::ResourceId;
use kilter_model::{Meta, Resource};
use rustc_hash::FxHashSet;

use crate::options::Options;
use crate::prepare::Prepared;
use crate::revert_store::RevertStore;

/// Saved pre-change state of this manifest.
pub(super) struct RevertTracker {
    pub(super) kept: RevertStore,
    /// Resources whose saved state is removed when they are in sync.
    pub(super) over: FxHashSet<ResourceId>,
}

impl RevertTracker {
    /// Returns none if no state is saved and no resource may need one.
    pub(super) fn of(prepared: &Prepared, options: &Options) -> Option<RevertTracker> {
        let kept = RevertStore::of(options.state_dir.as_ref()?, &prepared.catalog.origin)?;
        let is_reversed = |one: &Resource| one.is_reversal() || one.meta().is_some_and(|meta| meta.reverse);
        if !kept.exists() && !prepared.resources().iter().any(|one| is_reversed(one)) {
            return None;
        }
        let is_to_stay = |meta: &Meta| !meta.reverse && !meta.hidden && !meta.is_observe_only();
        let is_over = |one: &Resource| one.is_reversal() || one.meta().is_none_or(is_to_stay);
        let paths = kept.paths();
        let is_kept =
            |one: &Resource, vertex| !paths.is_empty() && paths.contains(&kept.path(prepared.provider(vertex), one));
        let all = prepared.each();
        let over =
            all.filter(|(one, vertex)| is_over(one) && is_kept(one, *vertex)).map(|(_, vertex)| vertex).collect();
        Some(RevertTracker { kept, over })
    }
}
