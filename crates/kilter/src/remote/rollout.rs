//! Roll-out of approved plans, in stages and with a limit of failures.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kilter_process::Stream;
use kilter_remote::RemoteCall;

use super::hosts::{HostAnswer, Hosts, keep};
use super::plans::{self, HostPlan, PLAN, Planned};
use super::results::{HostResult, HostState};
use super::store::RolloutJournal;
use crate::cli::{ApplyArgs, ReportFormat};
use crate::exit::Exit;
use crate::{output, signals};

/// Text with which `apply` on a host begins to wait for its confirmation.
const WAITS: &str = "unless `kilter confirm` keeps them";

/// Pause between two attempts to confirm.
const BETWEEN_CONFIRMATIONS: Duration = Duration::from_secs(1);

/// Roll-out of approved plans.
pub(super) struct Rollout<'a> {
    hosts: &'a Hosts,
    plans: &'a [HostPlan],
    args: &'a ApplyArgs,
    /// Options of every command on the hosts.
    options: &'a [String],
    journal: &'a RolloutJournal,
    /// True if the journal cannot be written.
    is_unstored: AtomicBool,
}

/// Progress of a roll-out before this controller.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RolloutProgress {
    /// Number of hosts with a result.
    pub(super) asked: usize,
    /// Number of failures.
    pub(super) failures: usize,
}

impl<'a> Rollout<'a> {
    pub(super) fn new(
        hosts: &'a Hosts,
        plans: &'a [HostPlan],
        args: &'a ApplyArgs,
        options: &'a [String],
        journal: &'a RolloutJournal,
    ) -> Rollout<'a> {
        Rollout { hosts, plans, args, options, journal, is_unstored: AtomicBool::new(false) }
    }

    /// Applies the plans of these hosts, stage by stage. Returns the result of each host.
    pub(super) fn run(&self, approved: &[usize], before: RolloutProgress) -> Vec<(usize, HostResult)> {
        let failures = AtomicUsize::new(before.failures);
        let all = before.asked + approved.len();
        let limit = self.limit(all);
        let may_begin = || failures.load(Ordering::Relaxed) <= limit && signals::exit().is_none();
        let mut results = Vec::new();
        let mut rest = approved;
        let stages = self.stages(all);
        for (number, to) in stages.iter().enumerate() {
            let stage;
            (stage, rest) = rest.split_at(to.saturating_sub(before.asked + results.len()).min(rest.len()));
            if stages.len() > 1 && !stage.is_empty() && may_begin() {
                let names = plans::names(self.hosts, stage);
                output::line(format_args!("stage {} of {}: {names}", number + 1, stages.len()));
            }
            let stage_results = self.hosts.each(stage, |host| {
                if !may_begin() || !self.stored(host, HostState::Started, None) {
                    return HostResult::Untouched;
                }
                let result = self.apply(host);
                if result.state().is_failure() {
                    failures.fetch_add(1, Ordering::Relaxed);
                }
                self.stored(host, result.state(), result.reason());
                result
            });
            results.extend(stage.iter().copied().zip(stage_results));
        }
        results.extend(rest.iter().map(|host| (*host, HostResult::Untouched)));
        let failed = failures.into_inner();
        if failed > limit {
            output::error(format_args!(
                "the roll-out has ended: {failed} failed, and at most {limit} may fail (--max-failures)"
            ));
        }
        results
    }

    /// Stores the state of a host. If that fails, reports it once and returns false: no other host begins then.
    fn stored(&self, host: usize, state: HostState, reason: Option<String>) -> bool {
        if let Err(error) = self.journal.add(self.hosts.name(host), state, reason)
            && !self.is_unstored.swap(true, Ordering::Relaxed)
        {
            output::error(format_args!("no other host begins: cannot store the roll-out: {error}"));
        }
        !self.is_unstored.load(Ordering::Relaxed)
    }

    /// Returns the number of hosts at the end of each stage.
    fn stages(&self, hosts: usize) -> Vec<usize> {
        let mut stages: Vec<usize> = self.args.rollout.stage.iter().map(|share| share.at_least(hosts)).collect();
        if stages.is_empty() {
            stages.push(hosts);
        }
        stages.sort_unstable();
        stages.dedup();
        stages
    }

    /// Returns the maximum number of failures.
    fn limit(&self, hosts: usize) -> usize {
        let given = self.args.rollout.max_failures.iter().map(|share| share.at_most(hosts)).min();
        let usual = if self.args.rollout.stage.is_empty() { usize::MAX } else { 0 };
        given.unwrap_or(usual)
    }

    fn apply(&self, host: usize) -> HostResult {
        let HostPlan::Changes(planned) = &self.plans[host] else { return HostResult::Untouched };
        let call = self.call(planned);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let is_over = AtomicBool::new(false);
        let finished = std::thread::scope(|scope| {
            let mut is_waiting = false;
            let finished = self.hosts.call_streaming(host, &call, &mut |stream, bytes| {
                keep(if stream == Stream::Stdout { &mut stdout } else { &mut stderr }, bytes);
                if !is_waiting && String::from_utf8_lossy(&stderr).contains(WAITS) {
                    is_waiting = true;
                    scope.spawn(|| self.confirm(host, &is_over));
                }
            });
            is_over.store(true, Ordering::Release);
            finished
        });
        let text = || plans::comparable(&stdout);
        match finished {
            Ok(finished) if finished.code == Exit::Done.code() => HostResult::Applied(text()),
            Ok(finished) if finished.code == Exit::Reverted.code() => HostResult::Reverted(text()),
            Ok(finished) => HostResult::Failed(HostAnswer::Finished { finished, stdout, stderr }),
            Err(HostAnswer::Lost { error, .. }) => HostResult::Failed(HostAnswer::Lost { error, stderr }),
            Err(answer) => HostResult::Failed(answer),
        }
    }

    fn call(&self, planned: &Planned) -> RemoteCall {
        let ApplyArgs { confirm_within, health, no_flush, even_if_paused, jobs, format, .. } = self.args;
        let mut args = self.options.to_vec();
        args.extend(["apply", PLAN].map(str::to_owned));
        let mut stdin = Vec::new();
        if !planned.secrets.is_empty() {
            args.push("--received".to_owned());
            stdin = planned.secrets.clone().into_bytes();
        }
        args.extend(confirm_within.map(|time| format!("--confirm-within={}s", time.as_secs())));
        args.extend(health.as_ref().map(|command| format!("--health={command}")));
        args.extend(jobs.given().map(|jobs| format!("--jobs={jobs}")));
        args.extend(no_flush.then(|| "--no-flush".to_owned()));
        args.extend(even_if_paused.then(|| "--even-if-paused".to_owned()));
        args.extend((*format == ReportFormat::Json).then(|| "--format=json".to_owned()));
        RemoteCall { args, stdin, files: vec![(PLAN.to_owned(), planned.plan.clone())], returns: Vec::new() }
    }

    /// Confirms the changes over a new connection: the host still accepts connections after them.
    fn confirm(&self, host: usize, is_over: &AtomicBool) {
        let mut args = self.options.to_vec();
        args.push("confirm".to_owned());
        let call = RemoteCall { args, ..RemoteCall::default() };
        while !is_over.load(Ordering::Acquire) && signals::exit().is_none() {
            if let Ok(mut connection) = self.hosts.open(host, true) {
                let confirmed = connection.call(&call, signals::raised(), &mut |_, _| {});
                connection.close();
                if confirmed.is_ok_and(|finished| finished.code == 0) {
                    return;
                }
            }
            let until = Instant::now() + BETWEEN_CONFIRMATIONS;
            while Instant::now() < until && !is_over.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}
