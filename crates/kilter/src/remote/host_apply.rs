//! Apply of the plan of one host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kilter_inventory::Target;
use kilter_model::Value;
use kilter_process::Stream;
use kilter_remote::RemoteCall;

use super::hosts::{HostAnswer, Hosts, keep};
use super::plans::{self, HostPlan, PLAN, Planned};
use super::results::{HostResult, HostState};
use crate::cli::{ApplyArgs, ReportFormat};
use crate::exit::Exit;
use crate::maintenance::MaintenanceWindow;
use crate::{output, signals};

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
    /// Maintenance windows of each host.
    pub(super) windows: &'a [Vec<MaintenanceWindow>],
}

fn is_interrupted(code: u8) -> bool {
    [Exit::Interrupted, Exit::Terminated].map(Exit::code).contains(&code)
}

/// Variable of the inventory with the maintenance windows of a host.
const VARIABLE: &str = "maintenance_window";

/// Returns the maintenance windows of each host: those of the inventory, or of the command line.
///
/// # Errors
/// If a window is not valid; reported.
pub(super) fn windows(targets: &[Arc<Target>], args: &ApplyArgs) -> Result<Vec<Vec<MaintenanceWindow>>, Exit> {
    let windows = |target: &Arc<Target>| {
        let Some(value) = target.vars.get(VARIABLE) else { return Ok(args.maintenance_window.clone()) };
        let texts: Vec<&Value> = value.as_array().map_or(vec![value], |values| values.iter().collect());
        let parsed = texts.into_iter().map(|text| match text {
            Value::String(text) => MaintenanceWindow::parse(text),
            _ => Err("a text, or a list of texts, is expected".to_owned()),
        });
        parsed.collect::<Result<Vec<MaintenanceWindow>, String>>().map_err(|why| {
            output::fail(format_args!("the host {}: its variable {VARIABLE} of the inventory: {why}", target.name))
        })
    };
    targets.iter().map(windows).collect()
}

impl HostApply<'_> {
    /// Applies the plan of a host.
    pub(super) fn apply(&self, host: usize) -> HostResult {
        let result = self.applied(host);
        self.hosts.rest(host);
        result
    }

    fn applied(&self, host: usize) -> HostResult {
        let HostPlan::Changes(planned) = &self.plans[host] else { return HostResult::Untouched };
        let mut call = self.call(planned);
        if !self.args.rollout.outside_window {
            let windows = self.windows[host].iter();
            call.args.extend(windows.map(|window| format!("--maintenance-window={}", window.text())));
        }
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
            Ok(finished) if finished.code == Exit::OutsideWindow.code() => HostResult::OutsideWindow,
            // This command was interrupted, and with it the apply.
            Ok(finished) if is_interrupted(finished.code) && signals::exit().is_some() => {
                HostResult::Known(HostState::Started, Some("interrupted".to_owned()))
            }
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
        let answer = self.hosts.call(host, &call);
        self.hosts.rest(host);
        match answer {
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
        RemoteCall { args, stdin, files: vec![(PLAN.to_owned(), planned.plan.clone())], ..RemoteCall::default() }
    }

    fn call(&self, planned: &Planned) -> RemoteCall {
        let ApplyArgs { confirm_within, health, no_flush, even_if_paused, lock_timeout, jobs, format, .. } = self.args;
        let mut call = self.plan_call(planned);
        call.timeout = self.args.rollout.host_timeout;
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
            if let Some(Ok(mut connection)) = self.hosts.open_fresh(host) {
                let confirmed = connection.call(&call, &signals::is_raised, &mut |_, _| {});
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
