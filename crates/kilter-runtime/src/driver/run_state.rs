//! State of each resource during a pass, and the report that is built from it.

mod change_counters;
mod contests;
mod edit;
mod flushes;
mod known_secrets;
mod origins;
mod output_store;
mod plan_check;
mod redaction;
mod refresh_causes;
mod reports;
mod revert;
mod revert_tracker;
mod routes;
mod settle;
mod status;
mod unplanned_changes;

use std::sync::Arc;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_engine::{ApplyResult, CheckResult, Disposition, Machine, ResourceId, Timestamp};
use kilter_model::{Because, Behaviour, Difference, Meta, ResourceRef, Unknown, Value};
use kilter_provider::{Context, Found, ProcessList};
use rustc_hash::{FxHashMap, FxHashSet};

use contests::Contests;
use flushes::PendingFlushes;
use known_secrets::KnownSecrets;
use origins::DriftOrigins;
use output_store::OutputStore;
use refresh_causes::RefreshCauses;
use reports::Reports;
use revert_tracker::RevertTracker;
pub(super) use routes::Routes;
pub(super) use status::HeldStatus;

use super::resolve::Resolution;
use crate::observer::{Event, Observer};
use crate::options::{Mode, Options};
use crate::prepare::Prepared;
use crate::process_tracker::RecordedProcess;
use crate::report::{Counts, Deviation, ResourceReport, Status};
use crate::run_report::Report;
use crate::step::{CallResult, Job};

/// State of each resource during a pass. Resources that are in sync have no entry.
pub(super) struct RunState<'run> {
    prepared: Arc<Prepared>,
    options: &'run Options,
    pub(super) outputs: OutputStore<'run>,
    secrets: KnownSecrets,
    found: FxHashMap<ResourceId, Found>,
    drafts: FxHashMap<ResourceId, Box<PendingReport>>,
    /// Processes of resources that have not settled yet.
    processes: FxHashMap<ResourceId, ProcessList>,
    /// Resources that the plan creates and that did not exist when the run started. Only these may be brought by a
    /// package.
    missing_at_start: FxHashSet<ResourceId>,
    causes: RefreshCauses,
    reports: Reports,
    pub(super) contests: Contests,
    pub(super) origins: DriftOrigins,
    pub(super) flushes: PendingFlushes,
    /// Saved pre-change state; none if the run saves none.
    before: Option<RevertTracker>,
}

/// Collected results of one resource, from which its report is made.
#[derive(Default)]
pub(super) struct PendingReport {
    differences: Vec<Difference>,
    told: Vec<Difference>,
    is_unsettled: bool,
    unknown: Vec<(EcoString, EcoString)>,
    /// Resource that makes it unknown.
    unknown_by: Option<ResourceRef>,
    failure: Option<EcoString>,
    /// True if a change failed, not a check. Only a change that succeeds, or a check that finds the resource in
    /// sync, ends such a failure.
    is_change_failure: bool,
    notes: Vec<EcoString>,
    /// Document that a one-time action printed.
    document: Option<Value>,
    /// Digest of the state that its change reads and replaces.
    basis: Option<Value>,
    /// Found `ensure` of a resource that a plan knows only in part.
    found: Option<Value>,
    /// Deviation of the resource from the plan.
    deviation: Option<Deviation>,
    /// Note about the deviation.
    plan_note: Option<EcoString>,
    /// True if the resource has been compared with its step of the plan.
    is_compared: bool,
    changed: bool,
    refreshed: bool,
    tries: u32,
    duration: Duration,
    /// True if earlier changes have been reported already, because the resource did not settle after them.
    is_continued: bool,
    /// Differences before these changes.
    repaired: Vec<Difference>,
    /// True if a refresh does nothing after the change.
    is_idle: bool,
    /// Last process that changed the resource.
    changed_by: Option<Arc<RecordedProcess>>,
}

impl<'run> RunState<'run> {
    pub(super) fn new(prepared: &Arc<Prepared>, options: &'run Options) -> RunState<'run> {
        RunState {
            prepared: Arc::clone(prepared),
            options,
            outputs: OutputStore::new(Routes::of(prepared), options),
            secrets: KnownSecrets::default(),
            found: FxHashMap::default(),
            drafts: FxHashMap::default(),
            processes: FxHashMap::default(),
            missing_at_start: plan_check::missing_at_start(prepared),
            causes: RefreshCauses::default(),
            reports: Reports::default(),
            contests: Contests::default(),
            origins: DriftOrigins::default(),
            flushes: PendingFlushes::default(),
            before: RevertTracker::of(prepared, options),
        }
    }

    fn item(&self, vertex: ResourceId) -> Job {
        let resource = self.prepared.resource(vertex);
        let sends = !self.outputs.is_unused() && self.outputs.is_sender(vertex);
        Job {
            vertex,
            resource: Arc::clone(resource),
            resolved: self.outputs.resolved(vertex).cloned(),
            found: None,
            refresh: false,
            sends,
            noop: self.is_noop(vertex),
            based: self.prepared.is_kept || self.prepared.plan.is_some(),
            previewed: self.is_noop(vertex) || self.is_shown_in_plan(vertex),
            left: self.is_left(vertex),
        }
    }

    pub(super) fn items(&self, vertices: &[ResourceId]) -> Vec<Job> {
        vertices.iter().map(|vertex| self.item(*vertex)).collect()
    }

    /// Adds the resources of a batch that can be checked to `items`; returns the answers for the others. The context
    /// `cx` is that of their provider.
    pub(super) fn checkable(
        &mut self,
        cx: &Context<'_>,
        vertices: &[ResourceId],
        items: &mut Vec<Job>,
    ) -> Vec<(ResourceId, CheckResult)> {
        let mut answers = Vec::new();
        for &vertex in vertices {
            if self.prepared.resource(vertex).is_hidden() {
                answers.push((vertex, CheckResult::InSync));
                continue;
            }
            if !self.prepared.resource(vertex).deferred().is_empty() {
                match self.outputs.resolve(&self.prepared, cx, vertex) {
                    Resolution::Known(attributes, sent) => {
                        self.outputs.receive(&self.prepared, vertex, attributes, sent);
                        self.secrets.forget_types();
                    }
                    Resolution::Unknown(unknown) => {
                        answers.push((vertex, self.unknown(vertex, unknown)));
                        continue;
                    }
                    Resolution::Failed(why, sent) => {
                        self.outputs.refuse(&self.prepared, vertex, &sent);
                        self.fail(vertex, why);
                        answers.push((vertex, CheckResult::Failed));
                        continue;
                    }
                }
            }
            items.push(self.item(vertex));
        }
        answers
    }

    fn unknown(&mut self, vertex: ResourceId, unknown: Vec<(EcoString, EcoString)>) -> CheckResult {
        let lost = self.outputs.lost_to(&self.prepared, vertex);
        if self.is_noop(vertex) {
            let draft = self.draft(vertex);
            draft.unknown = unknown;
            draft.notes.extend(lost);
            return CheckResult::Unknown;
        }
        let (attribute, reason) = &unknown[0];
        let why = lost.unwrap_or_else(|| {
            "that one is only looked at (noop), or in its state already, and what it sent then is not kept: the state \
             directory or its declaration is another one, or the run was cut short"
                .into()
        });
        let hint = "Undo what its guard looks for, so that it runs again";
        self.fail(vertex, eco_format!("`{attribute}` is known only {reason}; {why}. {hint}"));
        CheckResult::Failed
    }

    /// Records that a package may install the object that a resource would create.
    pub(super) fn may_be_brought(&mut self, vertex: ResourceId, because: &Because) {
        self.draft(vertex).unknown = vec![("ensure".into(), because.reason())];
    }

    /// Records that the whole resource is unknown, for a reason that completes "known …".
    pub(super) fn unknown_as_a_whole(
        &mut self,
        vertex: ResourceId,
        reason: EcoString,
        because: ResourceRef,
    ) -> CheckResult {
        let reason = self.seal(vertex).redact(reason);
        let draft = self.draft(vertex);
        draft.unknown = vec![(EcoString::new(), reason)];
        draft.unknown_by = Some(because);
        CheckResult::Unknown
    }

    /// Returns the resources of a batch with the results of their checks.
    pub(super) fn changes(&mut self, vertices: &[ResourceId], machine: &Machine) -> Vec<Job> {
        vertices
            .iter()
            .map(|&vertex| {
                self.outputs.forget(&self.prepared, vertex);
                let mut item = self.item(vertex);
                item.found = self.found.remove(&vertex);
                item.refresh = machine.is_owed_to(vertex);
                item
            })
            .collect()
    }

    fn draft(&mut self, vertex: ResourceId) -> &mut PendingReport {
        self.drafts.entry(vertex).or_default()
    }

    fn fail(&mut self, vertex: ResourceId, why: EcoString) {
        let why = self.seal(vertex).redact(why);
        let draft = self.draft(vertex);
        draft.failure = Some(why);
        draft.is_change_failure = false;
        draft.tries += 1;
    }

    /// Handles the result of a check. A refresh may be pending for the resource.
    pub(super) fn checked(&mut self, mut done: CallResult, now: Timestamp, is_owed: bool) -> CheckResult {
        self.has_checked(&mut done, now);
        if let Some(outcome) = done.outcome {
            let seal = self.seal(done.vertex);
            let draft = self.draft(done.vertex);
            draft.notes = outcome.notes.into_iter().map(|note| seal.redact(note)).collect();
            draft.told = outcome.changed.into_iter().map(|each| seal.redact_difference(each)).collect();
        }
        if let Some(basis) = done.basis {
            self.draft(done.vertex).basis = Some(basis);
        }
        match done.result {
            Err(why) => {
                self.fail(done.vertex, why);
                CheckResult::Failed
            }
            Ok(mut found) if !found.state.unknown.is_empty() => {
                let is_unknown = |name: &str| found.state.unknown.iter().any(|one| one.attribute == *name);
                let is_certain = found.state.exists && !is_unknown("ensure");
                let decides_property = |unknown: &Unknown| {
                    let attribute = self.prepared.provider(done.vertex).schema().known(unknown.attribute.as_str());
                    attribute.is_some_and(|one| matches!(one.behaviour, Behaviour::Property | Behaviour::InitOnly))
                };
                // If a guard is unknown, all differences are. A resource without `ensure` counts as present.
                let is_compared = is_certain && found.state.unknown.iter().all(decides_property);
                let present = || is_compared.then(|| Value::from("present"));
                let ensure = found.state.attributes.get("ensure").cloned().or_else(present);
                let is_known = |one: &Difference| is_certain && !is_unknown(one.attribute.as_str());
                // The provider reports only entries that it knows, or that it may remove.
                found.differences.retain(|one| one.entry.is_some() || is_known(one));
                let differences = self.redacted_differences(done.vertex, found.differences);
                let seal = self.seal(done.vertex);
                let draft = self.draft(done.vertex);
                // An apply of the plan removes or replaces nothing else.
                draft.found = ensure;
                draft.differences = differences;
                draft.unknown_by = found.state.unknown.iter().find_map(|unknown| unknown.because.resource().cloned());
                let unknown = found.state.unknown.into_iter();
                draft.unknown = unknown
                    .map(|unknown| (unknown.attribute.text().clone(), seal.redact(unknown.because.reason())))
                    .collect();
                CheckResult::Unknown
            }
            Ok(found) if found.differences.is_empty() => {
                if self.is_refused(done.vertex, &[], is_owed && found.acts_on_refresh) {
                    return CheckResult::Refused;
                }
                // A state that cannot be saved is no failure while the resource needs no change.
                let _ = self.keep_before(done.vertex);
                // A pending refresh may change the outputs.
                let acts = found.acts_on_refresh;
                let will_refresh = || acts && self.is_noop(done.vertex) && self.is_to_be_refreshed(done.vertex);
                if !self.outputs.is_unused() && !will_refresh() {
                    let sent = self.outputs.sent_before(&self.prepared, done.vertex, found.state.outputs);
                    self.has_sent(done.vertex, sent);
                    self.outputs.accept(done.vertex);
                }
                if found.acts_on_refresh { CheckResult::InSync } else { CheckResult::Idle }
            }
            Ok(found) => {
                self.search_process(done.vertex);
                if let Some(draft) = self.drafts.get_mut(&done.vertex).filter(|draft| !draft.is_change_failure) {
                    draft.failure = None;
                }
                if self.is_refused(done.vertex, &found.differences, is_owed && found.acts_on_refresh) {
                    return CheckResult::Refused;
                }
                if self.is_noop(done.vertex) {
                    self.draft(done.vertex).is_idle = !found.acts_on_refresh;
                    self.draft(done.vertex).differences = self.redacted_differences(done.vertex, found.differences);
                } else if let Err(why) = self.keep_before(done.vertex) {
                    self.fail(done.vertex, why);
                    return CheckResult::Failed;
                } else {
                    self.found.insert(done.vertex, found);
                }
                CheckResult::Differs
            }
        }
    }

    /// Returns the resources to read ahead: not ready yet, and with attributes that depend on no output.
    pub(super) fn prefetchable(&self, vertices: Vec<ResourceId>) -> Vec<Job> {
        let is_known = |vertex: &ResourceId| {
            let resource = self.prepared.resource(*vertex);
            resource.deferred().is_empty() && !resource.is_hidden()
        };
        vertices.into_iter().filter(is_known).map(|vertex| self.item(vertex)).collect()
    }

    /// Returns true if a check of the resource has failed in this pass.
    pub(super) fn is_tried_again(&self, vertex: ResourceId) -> bool {
        self.drafts.get(&vertex).is_some_and(|draft| draft.tries > 0)
    }

    /// Returns true if this run never changes the resource.
    fn is_noop(&self, vertex: ResourceId) -> bool {
        self.options.mode == Mode::Noop || self.is_left(vertex)
    }

    /// Returns true if the resource declares that it is never changed.
    fn is_left(&self, vertex: ResourceId) -> bool {
        self.prepared.resource(vertex).meta().is_some_and(Meta::is_observe_only)
    }

    /// Handles the result of a change, and of a refresh that the resources `owed_by` sent.
    pub(super) fn applied(&mut self, mut done: CallResult, now: Timestamp, owed_by: Vec<ResourceRef>) -> ApplyResult {
        self.has_checked(&mut done, now);
        let outcome = done.outcome.unwrap_or_default();
        self.flushes.add(self.prepared.provider_index(done.vertex));
        let is_idle = done.result.as_ref().is_ok_and(|found| !found.acts_on_refresh);
        let refreshed = outcome.refreshed && !is_idle;
        let ran = match &done.result {
            Ok(_) => ApplyResult::Done { refreshed: refreshed || is_idle },
            Err(_) => ApplyResult::Failed,
        };
        let seal = self.seal(done.vertex);
        let draft = self.draft(done.vertex);
        draft.tries += 1;
        draft.duration += done.duration;
        draft.notes = outcome.notes.into_iter().map(|note| seal.redact(note)).collect();
        draft.document = outcome.document;
        draft.refreshed |= refreshed;
        draft.is_idle = is_idle;
        draft.differences = done.differences.into_iter().map(|each| seal.redact_difference(each)).collect();
        draft.told = outcome.changed.into_iter().map(|each| seal.redact_difference(each)).collect();
        draft.is_unsettled = done.result.is_err() && outcome.failure.is_none();
        draft.is_change_failure = done.result.is_err();
        draft.failure = done.result.err().map(|why| seal.redact(why));
        draft.changed |= ran != ApplyResult::Failed;
        if ran != ApplyResult::Failed {
            self.count_change(done.vertex, refreshed.then_some(owed_by));
            let sent = self.outputs.send(&self.prepared, done.vertex, outcome.outputs);
            self.has_sent(done.vertex, sent);
            self.outputs.accept(done.vertex);
        }
        ran
    }

    /// Handles the result of a refresh that the resources `owed_by` sent.
    pub(super) fn refreshed(&mut self, mut done: CallResult, owed_by: Vec<ResourceRef>) -> bool {
        self.keep_processes(&mut done);
        let outcome = done.outcome.unwrap_or_default();
        self.flushes.add(self.prepared.provider_index(done.vertex));
        let seal = self.seal(done.vertex);
        let draft = self.draft(done.vertex);
        draft.duration += done.duration;
        draft.notes.extend(outcome.notes.into_iter().map(|note| seal.redact(note)));
        match done.result {
            Ok(_) => {
                draft.refreshed = true;
                self.count_refresh(done.vertex, owed_by);
                let sent = self.outputs.send(&self.prepared, done.vertex, outcome.outputs);
                self.has_sent(done.vertex, sent);
                true
            }
            Err(why) => {
                self.fail(done.vertex, eco_format!("refresh failed: {why}"));
                false
            }
        }
    }

    /// Reports the retry of a failed resource. Vertices without a failure wait for their rate limit and are not
    /// reported.
    pub(super) fn tell_retry(&mut self, vertex: ResourceId, observer: &mut dyn Observer) {
        let resource = self.prepared.resource(vertex);
        let Some(failure) = self.drafts.get(&vertex).and_then(|draft| draft.failure.as_deref()) else { return };
        let delay = resource.meta().map_or(0, |meta| meta.delay);
        observer.event(Event::Retrying { reference: &resource.reference, failure, delay });
    }

    /// Returns the state of the resources while a state is held.
    pub(super) fn held_status(&self) -> Option<&HeldStatus> {
        self.reports.held_status.as_ref()
    }

    /// Returns the report of a resource that is out of sync, while a state is held.
    pub(super) fn standing_report(&self, vertex: ResourceId) -> Option<&ResourceReport> {
        self.held_status()?.report(vertex)
    }

    pub(super) fn standing_mut(&mut self) -> Option<&mut HeldStatus> {
        self.reports.held_status.as_mut()
    }

    /// Starts to hold a state: from now on only resources out of sync have a report.
    pub(super) fn holds(&mut self) {
        self.reports.held_status = Some(HeldStatus::new(self.prepared.graph.slots()));
        self.outputs.holds();
    }

    /// Counts the resources by state while a state is held.
    pub(super) fn standing_counts(&self) -> Counts {
        let (total, left_out) = (self.prepared.resources().len(), self.prepared.catalog.left_out);
        self.held_status().map_or_else(Counts::default, |held_status| held_status.counts(total, left_out))
    }

    /// Returns the numbers of settlements, by status.
    pub(super) fn settled(&self) -> Counts {
        self.reports.settled()
    }

    /// Returns the failure of a resource with a pending retry.
    pub(super) fn failure_under_way(&self, vertex: ResourceId) -> Option<EcoString> {
        self.drafts.get(&vertex)?.failure.clone()
    }

    /// Keeps the processes of a call until the resource settles.
    fn keep_processes(&mut self, done: &mut CallResult) {
        if !done.processes.is_empty() {
            self.processes.entry(done.vertex).or_default().extend(std::mem::take(&mut done.processes));
        }
    }

    /// Records the time of a successful check, and the processes of a call.
    fn has_checked(&mut self, done: &mut CallResult, now: Timestamp) {
        self.keep_processes(done);
        if let (Some(held_status), Ok(_)) = (&mut self.reports.held_status, &done.result) {
            held_status.checked(done.vertex, now);
        }
    }

    pub(super) fn report(self) -> Report {
        self.reports.finish(&self.prepared)
    }
}

fn status(settlement: Disposition) -> Status {
    match settlement {
        Disposition::InSync => Status::InSync,
        Disposition::Changed => Status::Changed,
        Disposition::Refreshed => Status::Refreshed,
        Disposition::WouldChange => Status::WouldChange,
        Disposition::WouldRefresh => Status::WouldRefresh,
        Disposition::Unknown => Status::Unknown,
        Disposition::Failed => Status::Failed,
        Disposition::Blocked(_) => Status::Skipped,
        Disposition::Interrupted => Status::Interrupted,
    }
}
