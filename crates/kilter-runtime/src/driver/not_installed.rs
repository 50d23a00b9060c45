//! Resources of a plan that depend on software which the run installs first.

use ecow::{EcoString, eco_format};
use kilter_engine::CheckResult;
use kilter_model::Value;
use kilter_provider::Found;

use super::Driver;
use crate::options::Mode;
use crate::step::CallResult;

impl Driver<'_, '_, '_, '_> {
    /// Answers a check in a plan that may depend on software of an earlier resource, such as a package or a file.
    ///
    /// The check needs a program of the provider, or a resource that the provider cannot create, such as a unit.
    pub(super) fn unknown_until_installed(&mut self, done: &CallResult) -> Option<CheckResult> {
        if self.options.mode != Mode::Noop {
            return None;
        }
        let (vertex, context) = (done.vertex, &self.preview_context);
        let (why, first) = match &done.result {
            Err(why) => {
                let refusal = self.environment.opened.refusal(self.prepared.provider_index(vertex));
                // A file may be the program that the provider needs.
                let first = context.pending_before(vertex).or_else(|| context.declared_before(vertex))?;
                (refusal.filter(|refusal| refusal == why)?, first)
            }
            Ok(found) => {
                let why = self.cannot_be_created(done, found)?;
                let first = match found.differences.is_empty() {
                    true => context.required_before(vertex).or_else(|| context.predicted()?.bringer_before(vertex)),
                    false => context.required_before(vertex).or_else(|| context.pending_before(vertex)),
                };
                (why, first?)
            }
        };
        let first = self.prepared.resource(first).reference.clone();
        Some(self.state.unknown_as_a_whole(done.vertex, eco_format!("after {first} ({why})"), first))
    }

    /// Returns the reason why a missing resource cannot be created: its type has an `ensure` that cannot be
    /// `absent`. If it is in sync, as a stopped service without a unit, an earlier resource may still bring it in
    /// another state.
    fn cannot_be_created(&self, done: &CallResult, found: &Found) -> Option<EcoString> {
        let schema = self.prepared.provider(done.vertex).schema();
        let is_open = !found.differences.is_empty() || found.state.is_unknown;
        let ensure = schema.find("ensure").filter(|_| !found.state.exists && is_open)?;
        let can_be_absent = ensure.data_type.check(&Value::from("absent")).is_ok();
        (!can_be_absent).then(|| "it does not exist yet".into())
    }
}
