//! Apply of the plan of one host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kilter_process::Stream;
use kilter_remote::RemoteCall;

use super::hosts::{HostAnswer, Hosts, keep};
use super::plans::{self, HostPlan, PLAN, Planned};
use super::results::HostResult;
use crate::cli::{ApplyArgs, ReportFormat};
use crate::exit::Exit;
use crate::signals;

/// Text with which `apply` on a host begins to wait for its confirmation.
const WAITS: &str = "unless `kilter confirm` keeps them";

/// Pause between two attempts to confirm.
const BETWEEN_CONFIRMATIONS: Duration = Duration::from_secs(1);

/// Applies plans to hosts.
pub(super) struct HostApply<'a> {
    pub(super) hosts: &'a Hosts,
    pub(super) plans: &'a [HostPlan],
    pub(super) args: &'a ApplyArgs,
    /// Options of every command on the hosts.
    pub(super) options: &'a [String],
}

impl HostApply<'_> {
    pub(super) fn apply(&self, host: usize) -> HostResult {
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
        let text = || match self.args.format {
            ReportFormat::Human => {
                plans::with_warnings(plans::comparable(&stdout), &plans::warnings(&stderr), &planned.warnings)
            }
            ReportFormat::Json => plans::comparable(&stdout),
        };
        match finished {
            Ok(finished) if finished.code == Exit::Done.code() => HostResult::Applied(text()),
            Ok(finished) if finished.code == Exit::Reverted.code() => HostResult::Reverted(text()),
            Ok(finished) => HostResult::Failed(HostAnswer::Finished { finished, stdout, stderr }),
            Err(HostAnswer::Lost { error, .. }) => HostResult::Failed(HostAnswer::Lost { error, stderr }),
            Err(answer) => HostResult::Failed(answer),
        }
    }

    /// Checks that nothing differs from the plan of a host.
    ///
    /// # Errors
    /// The reason why it is not healthy.
    pub(super) fn check_sync(&self, host: usize) -> Result<(), String> {
        let HostPlan::Changes(planned) = &self.plans[host] else { return Ok(()) };
        let mut call = self.plan_call(planned);
        call.args.push("--noop".to_owned());
        match self.hosts.call(host, &call) {
            HostAnswer::Finished { finished, .. } if finished.code == Exit::Done.code() => Ok(()),
            HostAnswer::Finished { .. } => Err("it is no longer in sync with its plan".to_owned()),
            answer => Err(answer.reason()),
        }
    }

    /// Returns the call that applies a plan.
    fn plan_call(&self, planned: &Planned) -> RemoteCall {
        let mut args = self.options.to_vec();
        args.extend(["apply", PLAN].map(str::to_owned));
        let mut stdin = Vec::new();
        if !planned.secrets.is_empty() {
            args.push("--received".to_owned());
            stdin = planned.secrets.clone().into_bytes();
        }
        RemoteCall { args, stdin, files: vec![(PLAN.to_owned(), planned.plan.clone())], returns: Vec::new() }
    }

    fn call(&self, planned: &Planned) -> RemoteCall {
        let ApplyArgs { confirm_within, health, no_flush, even_if_paused, lock_timeout, jobs, format, .. } = self.args;
        let mut call = self.plan_call(planned);
        let args = &mut call.args;
        args.extend(confirm_within.map(|time| format!("--confirm-within={}s", time.as_secs())));
        args.extend(health.as_ref().map(|command| format!("--health={command}")));
        args.extend(jobs.given().map(|jobs| format!("--jobs={jobs}")));
        args.extend(no_flush.then(|| "--no-flush".to_owned()));
        args.extend(lock_timeout.map(|time| format!("--lock-timeout={}s", time.as_secs())));
        args.extend(even_if_paused.then(|| "--even-if-paused".to_owned()));
        args.extend((*format == ReportFormat::Json).then(|| "--format=json".to_owned()));
        call
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
