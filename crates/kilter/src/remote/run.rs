//! `run` on other hosts and on devices: holds them as long as this command runs.

mod device;
mod edits;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use kilter_remote::RemoteCall;
use serde_json::Value as Json;

use super::hosts::{HostAnswer, Hosts};
use super::plans::{self, NoPlan, Planner};
use super::{apply, forward};
use crate::cli::{Cli, ReportFormat, RunArgs};
use crate::exit::Exit;
use crate::{output, providers, signals, target_results};
use edits::HeldManifests;

/// Beginning of the lines of a run that was interrupted.
const INTERRUPTED: &str = "interrupted";

/// Events of a run that was interrupted.
const ENDING_EVENTS: [&str; 2] = ["interrupted", "ended"];

/// Returns true if a line shows the end of a run that was interrupted: as text, or as an event in JSON.
fn is_interruption(line: &str) -> bool {
    let is_event = || {
        let event = serde_json::from_str::<Json>(line).ok();
        event.is_some_and(|event| ENDING_EVENTS.iter().any(|ending| event["event"] == *ending))
    };
    line.starts_with(INTERRUPTED) || line.starts_with('{') && is_event()
}

/// Runs the command.
pub(super) fn run(cli: &Cli, args: &RunArgs, words: &[String]) -> Exit {
    let refused = [
        (args.converged_status_file.is_some(), "--converged-status-file"),
        (args.metrics.is_some(), "--metrics"),
        (!args.input.facts_dirs.is_empty(), "--facts-dir"),
        (args.reports.writes_files(), "--report"),
    ];
    if let Err(exit) = apply::refuse(&refused) {
        return exit;
    }
    apply::with_hosts(cli, "run", |hosts, targets, session| {
        let (count, parallel) = (hosts.len(), cli.global.remote.parallel as usize);
        if count > parallel {
            return Err(output::fail_with(
                format_args!("{count} hosts are selected, and {parallel} can be held at the same time"),
                [format!("give --parallel {count}")],
            ));
        }
        refuse_for_devices(hosts, args)?;
        plans::manifests(&args.input).map_err(output::fail)?;
        let registry = providers::registry_with(session, None)?;
        let options = apply::host_options(cli, words);
        let planner = Planner { hosts, targets, session, input: &args.input, registry: &registry, options: &options };
        let end = args.max_runtime.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
        let run = RemoteRun { planner: &planner, args, end, reported: Mutex::default() };
        Ok(target_results::exit(&hosts.each(&hosts.all(), |host| run.hold(host))))
    })
}

/// Refuses options that need a run on the target.
fn refuse_for_devices(hosts: &Hosts, args: &RunArgs) -> Result<(), Exit> {
    let Some(device) = hosts.all().into_iter().find(|host| hosts.is_device(*host)) else { return Ok(()) };
    let refused = [
        (args.converged_timeout.is_some(), "--converged-timeout"),
        (args.converged_exit, "--converged-exit"),
        (args.format == ReportFormat::Json, "--format json"),
    ];
    match refused.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => {
            let message = format!("{option} does not work on the device {}: it reports no events", hosts.name(device));
            Err(output::fail_with(message, ["`kilter --on NAME apply` checks a device once, also with --format json"]))
        }
        None => Ok(()),
    }
}

/// A run on several targets.
struct RemoteRun<'a> {
    planner: &'a Planner<'a>,
    args: &'a RunArgs,
    /// Time at which the run ends, if it is limited.
    end: Option<Instant>,
    /// Problems of the manifests that were reported last. Several targets usually have the same.
    reported: Mutex<Vec<String>>,
}

impl RemoteRun<'_> {
    /// Holds a target until the end, over all edits. Returns the exit code for it.
    fn hold(&self, host: usize) -> u8 {
        let held = match HeldManifests::first(self, host) {
            Ok(held) => held,
            Err(NoPlan::Failed(lines)) => {
                plans::show_failed(self.name(host), &lines.lines.join("\n"));
                return Exit::Failed.code();
            }
            Err(NoPlan::NoAnswer(answer)) => {
                forward::report(self.name(host), &answer);
                return answer.code();
            }
        };
        match self.planner.hosts.is_device(host) {
            true => self.hold_device(host, &held),
            false => {
                let answer = self.hold_host(host, &held);
                forward::report(self.name(host), &answer);
                answer.code()
            }
        }
    }

    fn name(&self, host: usize) -> &str {
        self.planner.hosts.name(host)
    }

    /// Runs `kilter run` on a host, and starts it again for each edit.
    fn hold_host(&self, host: usize, held: &HeldManifests<'_>) -> HostAnswer {
        loop {
            let call = RemoteCall { args: self.host_args(), stdin: held.take(), ..RemoteCall::default() };
            let is_cancelled = || signals::is_raised() || held.is_edited();
            // The run ends only to begin again.
            let is_hidden = |line: &str| held.is_pending() && !signals::is_raised() && is_interruption(line);
            let answer = forward::by_line(self.planner.hosts, host, &call, &is_cancelled, &is_hidden);
            let HostAnswer::Finished { finished, .. } = &answer else { return answer };
            // Only a run that has not started ends with this code. It finds problems that only the host knows.
            let is_refused = finished.code == Exit::NotStarted.code();
            if !is_refused {
                held.accept();
            }
            let goes_on = held.is_pending() || is_refused && held.go_back();
            if !goes_on || signals::is_raised() {
                return answer;
            }
        }
    }

    /// Returns the words of the command on a host.
    fn host_args(&self) -> Vec<String> {
        let args = self.args;
        let mut words = self.planner.options.to_vec();
        words.extend(["run", "--received", "-"].map(str::to_owned));
        words.extend(args.noop.then(|| "--noop".to_owned()));
        words.extend(args.converged_timeout.map(|seconds| format!("--converged-timeout={seconds}")));
        words.extend(args.converged_exit.then(|| "--converged-exit".to_owned()));
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64().round());
        words.extend(left.map(|seconds| format!("--max-runtime={seconds}")));
        words.extend(args.no_flush.then(|| "--no-flush".to_owned()));
        words.extend(args.jobs.given().map(|jobs| format!("--jobs={jobs}")));
        words.extend((args.format == ReportFormat::Json).then(|| "--format=json".to_owned()));
        words
    }
}
