//! What resources were before, to be restored when they are declared no longer.

use ecow::{EcoString, eco_format};
use kilter_engine::VertexId;
use kilter_model::Meta;

use super::Board;
use crate::driver::{Mode, Options};
use crate::prepare::Prepared;
use crate::report::Status;
use crate::reversals::Reversals;
use crate::step::guarded;

impl Board<'_> {
    /// Keeps what a resource is that is to be restored later, when it is first looked at.
    pub(super) fn keep_before(&self, vertex: VertexId) -> Result<(), EcoString> {
        let resource = self.prepared.resource(vertex);
        let is_reversed = resource.meta().is_some_and(|meta| meta.reverse);
        if !is_reversed || self.is_looked_at(vertex) {
            return Ok(());
        }
        let provider = self.prepared.provider(vertex);
        let kept = match &self.reversals {
            Some(reversals) => guarded(provider, || reversals.keep(provider, resource)).and_then(|kept| kept),
            None => Err("there is nowhere to keep it: what is declared is no file, or a recording is made".into()),
        };
        kept.map_err(|why| {
            eco_format!("what it was could not be restored later (`reverse`), so it is not changed: {why}")
        })
    }

    /// What is said of a resource that is declared no longer.
    pub(super) fn reversal_note(&self, vertex: VertexId, status: Status) -> EcoString {
        let resource = self.prepared.resource(vertex);
        let kept = self.reversals.as_ref().filter(|_| status == Status::Failed);
        match kept.map(|kept| kept.path(resource.reference.type_name.as_str(), &resource.name)) {
            Some(path) => eco_format!(
                "it is declared no longer, and what was there before cannot be restored; to give that up, remove {}",
                path.display()
            ),
            None => "it is declared no longer: what was there before is restored (`reverse`)".into(),
        }
    }

    /// What was restored, and what is to stay, is not kept any longer.
    pub(super) fn forget_before(&self, vertex: VertexId, status: Status) {
        let resource = self.prepared.resource(vertex);
        let is_done = matches!(status, Status::InSync | Status::Changed | Status::Refreshed);
        let is_to_stay = |meta: &Meta| !meta.reverse && !meta.hidden && !meta.only_looks();
        let is_over = resource.is_reversal() || resource.meta().is_none_or(is_to_stay);
        if let Some(reversals) = self.reversals.as_ref().filter(|_| self.options.mode == Mode::Apply)
            && is_done
            && is_over
        {
            reversals.forget(resource);
        }
    }
}

/// What resources were before, if any is kept or may have to be.
pub(super) fn reversals(prepared: &Prepared<'_>, options: &Options) -> Option<Reversals> {
    let kept = Reversals::of(options.state_dir.as_ref()?, &prepared.catalog.origin)?;
    let is_reversed =
        || prepared.resources().iter().any(|one| one.is_reversal() || one.meta().is_some_and(|meta| meta.reverse));
    (kept.exists() || is_reversed()).then_some(kept)
}
