//! Part of the driver in the predictions of a plan: reports the results of checks, and delays checks that read
//! unknown objects.

use ecow::eco_format;
use kilter_engine::{Batch, CheckResult, Group, ResourceId};
use kilter_model::Unknown;
use kilter_provider::{Effect, PathState};

use super::Driver;
use crate::step::CallResult;

/// Makes the effect of a creation unknown, if a package may create the object first.
///
/// A directory exists in both cases. The resources below it may be brought themselves.
fn degrade(effect: &mut Effect) {
    if let Effect::Path { node, .. } = effect
        && *node != PathState::Directory
    {
        *node = PathState::Unknown;
    }
}

impl Driver<'_, '_, '_, '_> {
    /// Answers a check if a plan cannot know the state of the resource; otherwise hands the effects of its change
    /// to the prediction.
    pub(super) fn unknown(&mut self, done: &mut CallResult) -> Option<CheckResult> {
        if let Some(verdict) = self.unknown_until_installed(done) {
            return Some(verdict);
        }
        let predicted = self.preview_context.predicted()?;
        let why = match &mut done.result {
            Err(why) => why,
            Ok(found) => {
                let names_are_paths =
                    || self.prepared.provider(done.vertex).capabilities().relations().names_are_paths();
                // A package can bring the path that the resource removes. Of other objects, the apply cannot know if
                // the package has brought them.
                let is_open = match found.state.unknown.is_empty() {
                    true => found.differences.is_empty() && names_are_paths(),
                    false => !names_are_paths(),
                };
                if !found.state.exists
                    && is_open
                    && let Some(because) = predicted.brought_before(done.vertex)
                {
                    found.state.unknown.push(Unknown { attribute: "ensure".into(), because: because.into() });
                    // A plan records that the path was missing.
                    if names_are_paths() {
                        found.state.attributes.set("ensure", "absent");
                    }
                }
                let is_created = !found.state.exists && found.state.unknown.is_empty() && !found.differences.is_empty();
                let brought_by = if is_created { predicted.brought_before(done.vertex) } else { None };
                let is_account = |effect: &Effect| matches!(effect, Effect::Account { .. });
                if let Some(because) = brought_by {
                    // A package that creates the account chooses its attributes.
                    if done.effects.iter().any(is_account) {
                        return Some(self.state.unknown_as_a_whole(done.vertex, because.reason(), because.resource));
                    }
                    self.state.may_be_brought(done.vertex, &because);
                    done.effects.iter_mut().for_each(degrade);
                }
                predicted.expect(done.vertex, std::mem::take(&mut done.effects));
                return None;
            }
        };
        // An earlier resource may remove the cause.
        let because = predicted.bringer(done.vertex)?;
        let reason = eco_format!("{} ({why})", because.reason());
        Some(self.state.unknown_as_a_whole(done.vertex, reason, because.resource))
    }

    /// Delays the checks of a batch that read objects which an unordered resource may still change. Returns the others.
    pub(super) fn hold_back(&mut self, group: Group, mut vertices: Vec<ResourceId>) -> Vec<ResourceId> {
        let Some(predicted) = self.preview_context.predicted() else { return vertices };
        let held_back = &mut self.held_back;
        vertices.retain(|vertex| {
            let waits = predicted.has_to_wait(*vertex);
            if waits {
                held_back.push((group, *vertex));
            }
            !waits
        });
        vertices
    }

    /// Starts one delayed check that no longer has to wait. Returns true if it started one.
    ///
    /// If no call is running, the delayed checks wait for each other. The first one then starts, preferably one
    /// that only waits for its own paths.
    pub(super) fn release_held_back(&mut self) -> bool {
        let Some(predicted) = self.preview_context.predicted() else { return false };
        if self.held_back.is_empty() || self.is_stopping() {
            return false;
        }
        self.held_back.sort_unstable_by_key(|(_, vertex)| *vertex);
        let at = match self.held_back.iter().position(|(_, vertex)| !predicted.has_to_wait(*vertex)) {
            Some(at) => at,
            None if self.calls.is_empty() => {
                let at = self.held_back.iter().position(|(_, vertex)| predicted.waits_for_own_paths(*vertex));
                let at = at.unwrap_or_default();
                predicted.goes_ahead(self.held_back[at].1);
                at
            }
            None => return false,
        };
        let (group, vertex) = self.held_back.remove(at);
        self.check_now(Batch { group, vertices: vec![vertex] });
        true
    }
}
