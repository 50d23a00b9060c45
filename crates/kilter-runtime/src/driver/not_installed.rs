//! Resources of a plan that depend on software which the run installs first.

use ecow::{EcoString, eco_format};
use kilter_engine::CheckResult;
use kilter_model::Value;
use kilter_provider::Found;

use super::Driver;
use crate::options::Mode;
use crate::step::CallResult;

impl Driver<'_, '_, '_, '_> {
    /// Answers a check in a plan that may depend on software of an earlier resource, such as a package.
    ///
    /// The check needs a program of the provider, or a resource that the provider cannot create, such as a unit.
    pub(super) fn unknown_until_installed(&mut self, done: &CallResult) -> Option<CheckResult> {
        if self.options.mode != Mode::Noop {
            return None;
        }
        let (why, required) = match &done.result {
            Err(why) => (
                self.environment.opened.refusal(self.prepared.provider_index(done.vertex)).filter(|it| it == why)?,
                None,
            ),
            Ok(found) => (self.cannot_be_created(done, found)?, self.preview_context.required_before(done.vertex)),
        };
        let first = required.or_else(|| self.preview_context.pending_before(done.vertex))?;
        let first = self.prepared.resource(first).reference.clone();
        Some(self.state.unknown_as_a_whole(done.vertex, eco_format!("after {first} ({why})"), first))
    }

    /// Returns the reason why a missing resource cannot be created: its type has an `ensure` that cannot be
    /// `absent`.
    fn cannot_be_created(&self, done: &CallResult, found: &Found) -> Option<EcoString> {
        let schema = self.prepared.provider(done.vertex).schema();
        let ensure = schema.find("ensure").filter(|_| !found.state.exists && !found.differences.is_empty())?;
        let can_be_absent = ensure.data_type.check(&Value::from("absent")).is_ok();
        (!can_be_absent).then(|| "it does not exist yet".into())
    }
}
