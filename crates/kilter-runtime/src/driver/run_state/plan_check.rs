//! Stale plan: compares resources with the steps of the plan that is carried out, and refuses stale steps.

use std::fs::symlink_metadata;
use std::io::ErrorKind;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_engine::ResourceId;
use kilter_model::Difference;
use rustc_hash::FxHashSet;

use super::RunState;
use super::unplanned_changes::unplanned_changes;
use crate::owners::canonical;
use crate::plan::{Plan, Step};
use crate::prepare::Prepared;
use crate::report::Deviation;

/// Advice for a stale step.
const REMEDY: &str = "make a new plan with `kilter plan -o FILE`";

/// Returns the resources that a package may bring, and whose paths do not exist.
pub(super) fn missing_at_start(prepared: &Prepared) -> FxHashSet<ResourceId> {
    let Some(plan) = &prepared.plan else { return FxHashSet::default() };
    let is_missing = |vertex: &ResourceId| {
        let resource = prepared.resource(*vertex);
        let may_be_brought = |step: &Step| step.may_be_brought() || step.was_absent() || step.may_be_removed();
        plan.step(&resource.reference).is_some_and(may_be_brought)
            && prepared.provider(*vertex).capabilities().relations().names_are_paths()
            && symlink_metadata(&*resource.name)
                .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
    };
    prepared.graph.vertices().filter(is_missing).collect()
}

impl RunState<'_> {
    /// Returns true if the resource must not be changed, because the plan does not show the change.
    ///
    /// A resource is compared once. A change of an earlier attempt of this run is no drift.
    pub(super) fn is_refused(&mut self, vertex: ResourceId, differences: &[Difference], is_owed: bool) -> bool {
        let prepared = Arc::clone(&self.prepared);
        let Some(plan) = prepared.plan.as_ref().filter(|_| !self.is_left(vertex)) else { return false };
        if self.drafts.get(&vertex).is_some_and(|draft| draft.is_compared) {
            return false;
        }
        match self.drift(plan, vertex, differences, is_owed) {
            Ok(None) => {
                if !differences.is_empty() {
                    self.draft(vertex).is_compared = true;
                }
                false
            }
            Ok(Some((deviation, note))) => {
                let draft = self.draft(vertex);
                draft.is_compared = true;
                draft.deviation = Some(deviation);
                draft.plan_note = Some(note);
                false
            }
            Err(why) => {
                let differences = self.redacted_differences(vertex, differences.to_vec());
                self.fail(vertex, eco_format!("its step of the plan is stale: {why}. To change it, {REMEDY}"));
                let draft = self.draft(vertex);
                draft.differences = differences;
                draft.deviation = Some(Deviation::Stale);
                true
            }
        }
    }

    /// Returns true if the plan shows the change of the resource.
    pub(super) fn is_shown_in_plan(&self, vertex: ResourceId) -> bool {
        let step = self.prepared.plan.as_ref().and_then(|plan| plan.step(&self.prepared.resource(vertex).reference));
        step.is_some_and(|step| step.changes() && !step.is_unknown)
    }

    /// Compares a resource with its step. Returns a deviation that permits the change.
    ///
    /// # Errors
    /// If the plan does not show the change, with the reason.
    fn drift(
        &self,
        plan: &Plan,
        vertex: ResourceId,
        differences: &[Difference],
        is_owed: bool,
    ) -> Result<Option<(Deviation, EcoString)>, EcoString> {
        let reference = &self.prepared.resource(vertex).reference;
        let step = plan.step(reference);
        let basis = || self.drafts.get(&vertex).and_then(|draft| draft.basis.as_ref());
        if let Some(step) = step.filter(|step| step.is_unknown && !step.is_refresh_unknown()) {
            let drift = match differences {
                [] => None,
                _ if step.may_be_removed() && !self.missing_at_start.contains(&vertex) => {
                    Some("it was absent when the plan was made, and existed when the run began".into())
                }
                differences => {
                    let seal = self.seal(vertex);
                    let told: Vec<Difference> =
                        differences.iter().map(|one| seal.redact_difference(one.clone())).collect();
                    plan.known_drift(reference, step, &told, basis())
                }
            };
            let unshown = self.unshown_removal(step, vertex, differences);
            return match drift.filter(|_| unshown.is_none()) {
                Some(why) => self.permit_brought(plan, vertex, differences).map(Some).ok_or(why),
                None if unshown.is_some() => Err(unshown.unwrap_or_default()),
                None => Ok(Some((Deviation::Unknown, "it was unknown in the plan".into()))),
            };
        }
        let drift = match step.filter(|step| !step.is_unknown) {
            // The differences of the plan are gone.
            _ if differences.is_empty() => None,
            None => Some("it was in sync when the plan was made, and now it is not".into()),
            Some(step) => {
                let seal = self.seal(vertex);
                let told: Vec<Difference> = differences.iter().map(|one| seal.redact_difference(one.clone())).collect();
                let draft = self.drafts.get(&vertex);
                let said = draft.map(|draft| draft.told.as_slice()).unwrap_or_default();
                let otherwise = unplanned_changes(self.prepared.provider(vertex).schema(), said, &told);
                plan.drift(reference, step, &told, &otherwise, basis())
            }
        };
        if let Some(why) = drift {
            return self.permit_brought(plan, vertex, differences).map(Some).ok_or(why);
        }
        let is_shown = step.is_some_and(|step| step.is_refreshed || step.is_unknown);
        if is_owed && !is_shown && self.prepared.is_refreshable(vertex) {
            let Some(cause) = self.unknown_notifier(plan, vertex) else {
                return Err("it would be refreshed, which the plan did not show".into());
            };
            let cause = &self.prepared.resource(cause).reference;
            let note = eco_format!("the plan did not show its refresh: {cause} notifies it, which was unknown");
            return Ok(Some((Deviation::Unknown, note)));
        }
        Ok(match step {
            Some(step) if step.is_unknown => Some((Deviation::Unknown, "it was unknown in the plan".into())),
            Some(step) if step.changes() && differences.is_empty() => {
                Some((Deviation::NotNeeded, "the plan had a change of it: nothing is left to do".into()))
            }
            _ => None,
        })
    }

    /// Permits the change of an object that the step has as absent, if a package of this run has brought the object.
    fn permit_brought(
        &self,
        plan: &Plan,
        vertex: ResourceId,
        differences: &[Difference],
    ) -> Option<(Deviation, EcoString)> {
        let reference = &self.prepared.resource(vertex).reference;
        let seal = self.seal(vertex);
        let told: Vec<Difference> = differences.iter().map(|one| seal.redact_difference(one.clone())).collect();
        let step = plan.step(reference)?;
        let package = plan.permits_brought(reference, step, &told).then(|| self.brought_by(vertex))??;
        let package = &self.prepared.resource(package).reference;
        Some((Deviation::Unknown, eco_format!("the plan did not show what differs: {package} has brought it")))
    }

    /// Describes a removal or replacement that an unknown step does not show.
    ///
    /// If the existence was unknown, only the removal of entries is unplanned.
    fn unshown_removal(&self, step: &Step, vertex: ResourceId, differences: &[Difference]) -> Option<EcoString> {
        let is_entry_removal = |one: &&Difference| one.attribute == "ensure" && one.should.as_str() == Some("absent");
        let mut removals = differences.iter().filter(is_entry_removal).filter_map(|one| one.entry.as_ref()).peekable();
        let shown = if removals.peek().is_some() { step.removed_entries() } else { FxHashSet::default() };
        let unshown = removals.find(|entry| !shown.contains(entry.as_str()));
        if let Some(entry) = unshown {
            let entry = self.seal(vertex).redact(entry.clone());
            return Some(eco_format!("{entry} would be removed, which the plan did not show"));
        }
        if step.is_existence_unknown() {
            return None;
        }
        let removed = differences.iter().find(|one| one.attribute == "ensure" && one.entry.is_none())?;
        let (is, should) = (removed.is.as_str()?, removed.should.as_str()?);
        // The `ensure` of a file is its kind: a change removes the existing entry.
        let is_removal = should == "absent" || self.prepared.resource(vertex).reference.type_name.as_str() == "file";
        (is != "absent" && is_removal && !step.found(is))
            .then(|| eco_format!("`ensure` would change from {is} to {should}, which the plan did not show"))
    }

    /// Returns a package that comes before a resource, has been changed in this run and owns the path of the
    /// resource, which did not exist when the run started.
    fn brought_by(&self, vertex: ResourceId) -> Option<ResourceId> {
        if !self.prepared.provider(vertex).capabilities().relations().names_are_paths() {
            return None;
        }
        let path = canonical(&self.prepared.resource(vertex).name);
        let owns = |package: ResourceId| {
            let resource = self.prepared.resource(package);
            let is_path = |owned: &str| canonical(owned) == path;
            let owner =
                self.prepared.provider(package).capabilities().owner.filter(|_| self.causes.has_changed(package));
            owner.is_some_and(|owner| !owner.owned(&resource.name, &resource.attributes, &is_path).is_empty())
        };
        let graph = &self.prepared.graph;
        let (mut open, mut seen) = (vec![vertex], FxHashSet::default());
        while let Some(at) = open.pop() {
            for first in graph.incoming(at).iter().map(|edge| graph.edge(*edge).from) {
                if seen.insert(first) {
                    if owns(first) {
                        return self.missing_at_start.contains(&vertex).then_some(first);
                    }
                    open.push(first);
                }
            }
        }
        None
    }

    /// Returns a resource that was unknown in the plan, has changed and notifies the vertex.
    fn unknown_notifier(&self, plan: &Plan, vertex: ResourceId) -> Option<ResourceId> {
        let graph = &self.prepared.graph;
        let (mut open, mut seen) = (vec![vertex], FxHashSet::default());
        while let Some(at) = open.pop() {
            let edges = graph.incoming(at).iter().map(|edge| graph.edge(*edge)).filter(|edge| edge.notify);
            for first in edges.map(|edge| edge.from) {
                let is_unknown =
                    || plan.step(&self.prepared.resource(first).reference).is_some_and(|step| step.is_unknown);
                if self.causes.has_changed(first) && is_unknown() {
                    return Some(first);
                }
                if seen.insert(first) {
                    open.push(first);
                }
            }
        }
        None
    }
}
