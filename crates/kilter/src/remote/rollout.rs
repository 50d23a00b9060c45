//! Roll-out of approved plans, in stages and with limits of failures.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::ask;
use super::health::{self, HealthChecks};
use super::host_apply::HostApply;
use super::plans;
use super::results::{HostResult, HostState};
use super::store::RolloutJournal;
use crate::cli::{RolloutArgs, Share};
use crate::target_results::on_each;
use crate::{output, signals};

/// Maximum number of hosts whose health is checked at the same time.
const PARALLEL_CHECKS: u32 = 200;

/// Roll-out of approved plans.
pub(super) struct Rollout<'a> {
    apply: HostApply<'a>,
    args: &'a RolloutArgs,
    journal: &'a RolloutJournal,
    /// True if the journal cannot be written.
    is_unstored: AtomicBool,
}

/// Progress of a roll-out before its next stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RolloutProgress {
    /// Number of hosts with a result.
    pub(super) asked: usize,
    /// Number of hosts that have no plan and count as failures.
    pub(super) without_plan: usize,
    /// Number of other failures.
    pub(super) failures: usize,
}

/// Failures of a roll-out, or of a stage, and their limit.
struct FailureLimit {
    failures: AtomicUsize,
    most: usize,
    option: &'static str,
}

impl FailureLimit {
    fn new(failures: usize, shares: &[Share], hosts: usize, usual: usize, option: &'static str) -> FailureLimit {
        let most = shares.iter().map(|share| share.at_most(hosts)).min().unwrap_or(usual);
        FailureLimit { failures: AtomicUsize::new(failures), most, option }
    }

    fn add(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    fn is_exceeded(&self) -> bool {
        self.failures.load(Ordering::Relaxed) > self.most
    }

    fn report(&self) {
        if self.is_exceeded() {
            let (failures, most) = (self.failures.load(Ordering::Relaxed), self.most);
            let option = self.option;
            output::error(format_args!(
                "the roll-out has ended: {failures} failed, and at most {most} may fail ({option})"
            ));
        }
    }
}

impl<'a> Rollout<'a> {
    pub(super) fn new(apply: HostApply<'a>, journal: &'a RolloutJournal) -> Rollout<'a> {
        let args = &apply.args.rollout;
        Rollout { apply, args, journal, is_unstored: AtomicBool::new(false) }
    }

    /// Applies the plans of these hosts, stage by stage. Returns the result of each host.
    pub(super) fn run(&self, approved: &[usize], before: RolloutProgress) -> Vec<(usize, HostResult)> {
        let all = before.asked + approved.len();
        // A limit of the stages replaces the usual limit of the whole.
        let usual =
            if self.args.stage.is_empty() || !self.args.max_failures_per_stage.is_empty() { usize::MAX } else { 0 };
        let failures = before.failures + before.without_plan;
        let hosts = all + before.without_plan;
        let limit = FailureLimit::new(failures, &self.args.max_failures, hosts, usual, "--max-failures");
        let mut results = Vec::new();
        let mut rest = approved;
        let stages = self.stages(all);
        'stages: for (number, to) in stages.iter().enumerate() {
            let mut of_stage = None;
            loop {
                // Hosts outside of their maintenance windows do not count: others take their places.
                let counted = |(_, result): &&(usize, HostResult)| result.state() != HostState::OutsideWindow;
                let asked = before.asked + results.iter().filter(counted).count();
                let count = to.saturating_sub(asked).min(rest.len());
                if count == 0 {
                    break;
                }
                let may_begin =
                    || of_stage.is_some() || results.is_empty() || self.may_continue(number, stages.len(), count);
                if self.is_over(&limit) || !may_begin() {
                    break 'stages;
                }
                let part;
                (part, rest) = rest.split_at(count);
                if stages.len() > 1 {
                    let names = plans::names(self.apply.hosts, part);
                    output::line(format_args!("stage {} of {}: {names}", number + 1, stages.len()));
                }
                let of_stage = of_stage.get_or_insert_with(|| {
                    let shares = &self.args.max_failures_per_stage;
                    FailureLimit::new(0, shares, count, usize::MAX, "--max-failures-per-stage")
                });
                results.extend(self.stage(part, &limit, of_stage));
                if of_stage.is_exceeded() {
                    of_stage.report();
                    break 'stages;
                }
            }
        }
        results.extend(rest.iter().map(|host| (*host, HostResult::Untouched)));
        limit.report();
        results
    }

    fn is_over(&self, limit: &FailureLimit) -> bool {
        limit.is_exceeded() || signals::exit().is_some() || self.is_unstored.load(Ordering::Relaxed)
    }

    /// Applies the plans of a stage, and checks the health of its hosts.
    fn stage(&self, stage: &[usize], all: &FailureLimit, of_stage: &FailureLimit) -> Vec<(usize, HostResult)> {
        let count = |result: &HostResult| {
            if result.state().is_failure() {
                [all, of_stage].into_iter().for_each(FailureLimit::add);
            }
        };
        let results = self.apply.hosts.each(stage, |host| {
            let is_over = self.is_over(all) || of_stage.is_exceeded();
            if is_over || !self.stored(host, HostState::Started, None) {
                return HostResult::Untouched;
            }
            let result = self.apply.apply(host);
            count(&result);
            self.stored(host, result.state(), result.reason());
            result
        });
        let mut results: Vec<(usize, HostResult)> = stage.iter().copied().zip(results).collect();
        for (host, why) in self.unhealthy(&results) {
            let result = HostResult::Unhealthy(why);
            count(&result);
            self.stored(host, result.state(), result.reason());
            results.iter_mut().filter(|(other, _)| *other == host).for_each(|(_, known)| {
                *known = HostResult::Unhealthy(result.reason().unwrap_or_default());
            });
        }
        results
    }

    /// Checks the health of the changed hosts. Returns those that are not healthy, with the reasons.
    fn unhealthy(&self, results: &[(usize, HostResult)]) -> Vec<(usize, String)> {
        let applied = results.iter().filter(|(_, result)| result.state() == HostState::Applied);
        let applied: Vec<usize> = applied.map(|(host, _)| *host).collect();
        let Some(time) = self.args.healthy_for.filter(|_| !applied.is_empty()) else { return Vec::new() };
        let hosts = self.apply.hosts;
        output::line(format_args!("{}: healthy for {} s?", plans::names(hosts, &applied), time.as_secs()));
        let checked = match HealthChecks::of(self.args) {
            Some(checks) => {
                on_each(&applied, PARALLEL_CHECKS, |host| checks.check(hosts.name(*host), hosts.address(*host)))
            }
            None => {
                health::pause(time);
                hosts.each(&applied, |host| self.apply.check_sync(host))
            }
        };
        // After an interruption, nothing is known.
        let known = if signals::exit().is_some() { Vec::new() } else { checked };
        applied.into_iter().zip(known).filter_map(|(host, checked)| Some((host, checked.err()?))).collect()
    }

    /// Waits before the next stage, and asks for its approval.
    fn may_continue(&self, number: usize, stages: usize, count: usize) -> bool {
        if let Some(time) = self.args.pause {
            output::line(format_args!("pause of {} s before stage {} of {stages}", time.as_secs(), number + 1));
            health::pause(time);
        }
        let question = || {
            let hosts = plans::number_of_hosts(count);
            ask::question(&format!("Continue with stage {} of {stages} ({hosts})? [y]es, [n]o: ", number + 1))
        };
        signals::exit().is_none()
            && (!self.args.ask_each_stage
                || question().is_ok_and(|answer| answer.trim().to_lowercase().starts_with('y')))
    }

    /// Stores the state of a host. If that fails, reports it once and returns false: no other host begins then.
    fn stored(&self, host: usize, state: HostState, reason: Option<String>) -> bool {
        if let Err(error) = self.journal.add(self.apply.hosts.name(host), state, reason)
            && !self.is_unstored.swap(true, Ordering::Relaxed)
        {
            output::error(format_args!("no other host begins: cannot store the roll-out: {error}"));
        }
        !self.is_unstored.load(Ordering::Relaxed)
    }

    /// Returns the number of hosts at the end of each stage.
    fn stages(&self, hosts: usize) -> Vec<usize> {
        let mut stages: Vec<usize> = self.args.stage.iter().map(|share| share.at_least(hosts)).collect();
        if stages.is_empty() {
            stages.push(hosts);
        }
        stages.sort_unstable();
        stages.dedup();
        stages
    }
}
