//! Roll-out of approved plans, in stages and with a limit of failures.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kilter_process::Stream;
use kilter_remote::RemoteCall;
use serde_json::{Map, Value as Json, json};

use super::forward;
use super::hosts::{HostAnswer, Hosts, keep};
use super::plans::{self, HostPlan, PLAN, Planned};
use crate::cli::{ApplyArgs, ReportFormat};
use crate::exit::Exit;
use crate::{foreign, output, signals};

/// Text with which `apply` on a host begins to wait for its confirmation.
const WAITS: &str = "unless `kilter confirm` keeps them";

/// Pause between two attempts to confirm.
const BETWEEN_CONFIRMATIONS: Duration = Duration::from_secs(1);

/// Result of a host.
pub(super) enum HostResult {
    /// All its changes were made.
    Applied(String),
    /// Some changes failed, or the connection was lost.
    Failed(HostAnswer),
    /// The host was no longer reachable, or not healthy, and has undone the changes.
    Reverted(String),
    /// The roll-out ended before.
    Untouched,
}

/// Roll-out of approved plans.
pub(super) struct Rollout<'a> {
    pub(super) hosts: &'a Hosts,
    pub(super) plans: &'a [HostPlan],
    pub(super) args: &'a ApplyArgs,
    /// Options of every command on the hosts.
    pub(super) options: &'a [String],
}

impl Rollout<'_> {
    /// Applies the plans of these hosts, stage by stage. Returns the result of each host.
    pub(super) fn run(&self, approved: &[usize]) -> Vec<(usize, HostResult)> {
        let failures = AtomicUsize::new(0);
        let limit = self.limit(approved.len());
        let mut results = Vec::new();
        let mut from = 0;
        let stages = self.stages(approved.len());
        for (number, to) in stages.iter().enumerate() {
            let stage = &approved[from..*to];
            if stages.len() > 1 && !stage.is_empty() && failures.load(Ordering::Relaxed) <= limit {
                output::line(format_args!(
                    "stage {} of {}: {}",
                    number + 1,
                    stages.len(),
                    plans::names(self.hosts, stage)
                ));
            }
            let stage_results = self.hosts.each(stage, |host| {
                if failures.load(Ordering::Relaxed) > limit || signals::exit().is_some() {
                    return HostResult::Untouched;
                }
                let result = self.apply(host);
                if matches!(result, HostResult::Failed(_) | HostResult::Reverted(_)) {
                    failures.fetch_add(1, Ordering::Relaxed);
                }
                result
            });
            results.extend(stage.iter().copied().zip(stage_results));
            from = *to;
        }
        results.extend(approved[from..].iter().map(|host| (*host, HostResult::Untouched)));
        let failed = failures.into_inner();
        if failed > limit {
            output::error(format_args!(
                "the roll-out has ended: {failed} failed, and at most {limit} may fail (--max-failures)"
            ));
        }
        results
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

/// Shows the results of the hosts.
pub(super) fn show_results(hosts: &Hosts, results: &[(usize, HostResult)]) {
    let applied = plans::groups(results.iter().filter_map(|(host, result)| match result {
        HostResult::Applied(text) => Some((*host, text.lines().last().unwrap_or_default().to_owned())),
        _ => None,
    }));
    for group in &applied {
        plans::show_group(hosts, group);
    }
    for (host, result) in results {
        match result {
            HostResult::Failed(HostAnswer::Finished { finished, stdout, stderr }) => {
                output::error(format_args!("{}: the apply ended with {}", hosts.name(*host), finished.code));
                let text = [stdout, stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat();
                text.lines().for_each(|line| output::line(format_args!("  {}", foreign::line(line))));
            }
            HostResult::Failed(answer) => forward::report(hosts.name(*host), answer),
            HostResult::Reverted(_) => {
                output::error(format_args!("{}: not confirmed in time: the changes were undone", hosts.name(*host)));
            }
            _ => {}
        }
    }
    let mut parts = Vec::new();
    for (word, is) in WORDS {
        let of: Vec<usize> = results.iter().filter(|(_, result)| is(result)).map(|(host, _)| *host).collect();
        let names = if word == "applied" { String::new() } else { format!(" ({})", list(hosts, &of)) };
        if !of.is_empty() {
            parts.push(format!("{} {word}{names}", of.len()));
        }
    }
    output::line(format_args!("{}: {}", plans::number_of_hosts(results.len()), parts.join(", ")));
}

fn list(hosts: &Hosts, of: &[usize]) -> String {
    of.iter().map(|host| hosts.name(*host)).collect::<Vec<_>>().join(", ")
}

/// Condition on a result.
type IsResult = fn(&HostResult) -> bool;

/// Words for the results.
const WORDS: [(&str, IsResult); 4] = [
    ("applied", |result| matches!(result, HostResult::Applied(_))),
    ("failed", |result| matches!(result, HostResult::Failed(_))),
    ("reverted", |result| matches!(result, HostResult::Reverted(_))),
    ("untouched", |result| matches!(result, HostResult::Untouched)),
];

/// Returns the results and the plans as JSON.
pub(super) fn results_json(hosts: &Hosts, plans: &[HostPlan], results: &[(usize, HostResult)]) -> Json {
    let results: HashMap<usize, &HostResult> = results.iter().map(|(host, result)| (*host, result)).collect();
    let mut document = plans::json(hosts, plans);
    let entry = |host: usize| {
        let result = results.get(&host)?;
        let word = WORDS.iter().find(|(_, is)| is(result)).map_or("", |(word, _)| word);
        let mut entry = json!({ "result": word });
        match result {
            HostResult::Applied(text) | HostResult::Reverted(text) => {
                entry["report"] = serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into());
            }
            HostResult::Failed(HostAnswer::Finished { finished, stdout, stderr }) => {
                let text = String::from_utf8_lossy(stdout);
                entry["exit"] = finished.code.into();
                entry["report"] = serde_json::from_str(&text).unwrap_or_else(|_| text.as_ref().into());
                entry["messages"] = String::from_utf8_lossy(stderr).as_ref().into();
            }
            HostResult::Failed(answer) => entry["error"] = answer.reason().into(),
            HostResult::Untouched => {}
        }
        Some((hosts.name(host).to_owned(), entry))
    };
    document["results"] = (0..hosts.len()).filter_map(entry).collect::<Map<String, Json>>().into();
    document
}

/// Returns the exit code: a host that failed, has no answer or was not reached is a failure.
pub(super) fn exit_of_results(results: &[(usize, HostResult)], is_incomplete: bool) -> Exit {
    let has = |is: IsResult| results.iter().any(|(_, result)| is(result));
    if has(|result| matches!(result, HostResult::Failed(_))) || is_incomplete {
        Exit::Failed
    } else if has(|result| matches!(result, HostResult::Reverted(_))) {
        Exit::Reverted
    } else if has(|result| matches!(result, HostResult::Untouched)) {
        Exit::Failed
    } else {
        Exit::Done
    }
}
