//! Saves the state of resources before their first change, and restores it when they are no longer declared.

use ecow::{EcoString, eco_format};
use kilter_engine::ResourceId;
use kilter_provider::{Context, RevertTo};

use super::RunState;
use crate::options::Mode;
use crate::prepare::reverts_to;
use crate::report::Status;
use crate::step::catch_panic;

impl RunState<'_> {
    /// Saves the state of a resource with `reverse` at its first check.
    pub(super) fn keep_before(&self, vertex: ResourceId) -> Result<(), EcoString> {
        let resource = self.prepared.resource(vertex);
        let is_reversed = resource.meta().is_some_and(|meta| meta.reverse);
        if !is_reversed || self.is_noop(vertex) {
            return Ok(());
        }
        let provider = self.prepared.provider(vertex);
        let cx = Context::empty().with_hostname(self.prepared.registry.hostname());
        let kept = match &self.before {
            Some(before) => catch_panic(provider, || before.kept.keep(&cx, provider, resource)).and_then(|kept| kept),
            // Restoring the absence needs no saved state.
            None if reverts_to(provider) == Some(RevertTo::Absence) => Ok(()),
            None => Err("there is no manifest file to save it for, or the command is being recorded".into()),
        };
        kept.map_err(|why| eco_format!("not changed, because its earlier state cannot be saved (`reverse`): {why}"))
    }

    /// Returns the note for a resource that is no longer declared.
    pub(super) fn reversal_note(&self, vertex: ResourceId, status: Status) -> EcoString {
        let resource = self.prepared.resource(vertex);
        let before = self.before.as_ref().filter(|_| status == Status::Failed);
        match before.map(|before| before.kept.path(self.prepared.provider(vertex), resource)) {
            Some(path) => eco_format!(
                "it is no longer declared, and its earlier state cannot be restored; to give that state up, remove {}",
                path.display()
            ),
            None if reverts_to(self.prepared.provider(vertex)) == Some(RevertTo::Absence) => {
                "it is no longer declared".into()
            }
            None => "it is no longer declared: its earlier state is restored".into(),
        }
    }

    /// Removes the saved state of a resource that was restored, or that is to stay.
    pub(super) fn forget_before(&mut self, vertex: ResourceId, status: Status) {
        let is_done = matches!(status, Status::InSync | Status::Changed | Status::Refreshed);
        if let Some(before) = self.before.as_mut().filter(|_| is_done && self.options.mode == Mode::Apply)
            && before.over.remove(&vertex)
        {
            before.kept.forget(self.prepared.provider(vertex), self.prepared.resource(vertex));
        }
    }
}
