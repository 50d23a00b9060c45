//! `run` on other hosts: holds them as long as this command runs.

use kilter_remote::RemoteCall;

use super::hosts::HostAnswer;
use super::plans::{self, NoPlan, Planner};
use super::{apply, forward};
use crate::cli::{Cli, ReportFormat, RunArgs};
use crate::exit::Exit;
use crate::{output, providers, target_results};

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
        plans::manifests(&args.input).map_err(output::fail)?;
        let registry = providers::registry_with(session, None)?;
        let options = apply::host_options(cli, words);
        let planner = Planner { hosts, targets, session, input: &args.input, registry: &registry, options: &options };
        let answers = hosts.each(&hosts.all(), |host| {
            let stdin = planner.received(host)?.text().into_bytes();
            let call = RemoteCall { args: host_args(args, &options), stdin, ..RemoteCall::default() };
            Ok(forward::streaming(hosts, host, &call))
        });
        let code = |(host, answer): (usize, Result<HostAnswer, NoPlan>)| {
            let answer = match answer {
                Err(NoPlan::Failed(lines)) => {
                    plans::show_failed(hosts.name(host), &lines.lines.join("\n"));
                    return Exit::Failed.code();
                }
                Ok(answer) | Err(NoPlan::NoAnswer(answer)) => answer,
            };
            forward::report(hosts.name(host), &answer);
            answer.code()
        };
        Ok(target_results::exit(&answers.into_iter().enumerate().map(code).collect::<Vec<u8>>()))
    })
}

/// Returns the words of the command on a host.
fn host_args(args: &RunArgs, options: &[String]) -> Vec<String> {
    let mut words = options.to_vec();
    words.extend(["run", "--received", "-"].map(str::to_owned));
    words.extend(args.noop.then(|| "--noop".to_owned()));
    words.extend(args.converged_timeout.map(|seconds| format!("--converged-timeout={seconds}")));
    words.extend(args.converged_exit.then(|| "--converged-exit".to_owned()));
    words.extend(args.max_runtime.map(|seconds| format!("--max-runtime={seconds}")));
    words.extend(args.no_flush.then(|| "--no-flush".to_owned()));
    words.extend(args.jobs.given().map(|jobs| format!("--jobs={jobs}")));
    words.extend((args.format == ReportFormat::Json).then(|| "--format=json".to_owned()));
    words
}
