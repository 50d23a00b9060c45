//! `plan` and `apply` on other hosts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kilter_inventory::Target;
use kilter_process::Stream;
use kilter_recording::RecordMode;
use kilter_remote::RemoteCall;
use serde_json::{Map, Value as Json, json};

use super::hosts::{HostAnswer, Hosts, keep};
use super::plans::{self, HostGroup, HostPlan, PLAN, Planned, Planner};
use super::saved::{self, SavedPlan};
use super::{ask, forward};
use crate::cli::{ApplyArgs, Cli, Global, ManifestArgs, PlanArgs, Released, ReportFormat, RolloutArgs};
use crate::commands::plan::refuse_overwrite;
use crate::exit::Exit;
use crate::session::Session;
use crate::{foreign, output, providers, signals};

/// Text with which `apply` on a host begins to wait for its confirmation.
const WAITS: &str = "unless `kilter confirm` keeps them";

/// Pause between two attempts to confirm.
const BETWEEN_CONFIRMATIONS: Duration = Duration::from_secs(1);

/// Shows the plans of the hosts.
pub(super) fn plan(cli: &Cli, args: &PlanArgs, words: &[String]) -> Exit {
    let refused = [
        (args.released != Released::Keep, "--released"),
        (!args.input.facts_dirs.is_empty(), "--facts-dir"),
        (args.reports.writes_files(), "--report"),
    ];
    if let Err(exit) = refuse(&refused) {
        return exit;
    }
    with_hosts(cli, "plan", |hosts, targets, session| {
        refuse_overwrite(args, session)?;
        let plans = planned(hosts, targets, session, &args.input, &host_options(cli, words))?;
        match args.format {
            ReportFormat::Human => plans::show(hosts, &plans),
            ReportFormat::Json => {
                output::data(&format!("{:#}\n", plans::json(hosts, &plans)));
            }
        }
        saved::write(hosts, &plans, args, session)?;
        Ok(exit_of_plans(&plans))
    })
}

/// Plans, asks, and applies exactly these plans.
pub(super) fn apply(cli: &Cli, args: &ApplyArgs, words: &[String]) -> Exit {
    let refused = [
        (args.released != Released::Keep, "--released"),
        (args.detailed_exitcodes, "--detailed-exitcodes"),
        (!args.input.facts_dirs.is_empty(), "--facts-dir"),
        (args.reports.writes_files(), "--report"),
    ];
    if let Err(exit) = refuse(&refused) {
        return exit;
    }
    if !args.noop && !args.rollout.yes && !ask::is_possible() {
        return output::fail_with(
            "nothing was changed: there is no terminal to ask for the approval of the changes",
            ["give --yes to apply without a question, or show the changes with `kilter --on HOST plan`"],
        );
    }
    let options = host_options(cli, words);
    let saved = match saved_plans(cli, args) {
        Ok(saved) => saved,
        Err(exit) => return exit,
    };
    let mut cli = cli.clone();
    if let (Some(saved), true) = (&saved, cli.global.remote.on.is_empty()) {
        cli.global.remote.on = saved.iter().map(|saved| saved.host.clone()).collect();
    }
    with_hosts(&cli, "apply", |hosts, targets, session| {
        let plans = match &saved {
            Some(saved) => saved::plans(hosts, saved, session)?,
            None => planned(hosts, targets, session, &args.input, &options)?,
        };
        let is_human = args.format == ReportFormat::Human;
        if is_human || !args.rollout.yes {
            plans::show(hosts, &plans);
        }
        let planned_exit = exit_of_plans(&plans);
        let approved = match args.noop {
            true => Vec::new(),
            false => approved(hosts, &plans, &args.rollout)?,
        };
        if approved.is_empty() {
            if !is_human {
                output::data(&format!("{:#}\n", plans::json(hosts, &plans)));
            }
            return Ok(match planned_exit {
                Exit::Pending if !args.noop => Exit::NotStarted,
                exit => exit,
            });
        }
        let rollout = Rollout { hosts, plans: &plans, args, options: &options };
        let results = rollout.run(&approved);
        match is_human {
            true => show_results(hosts, &results),
            false => {
                output::data(&format!("{:#}\n", results_json(hosts, &plans, &results)));
            }
        }
        let is_incomplete = plans.iter().any(|plan| matches!(plan, HostPlan::Failed(_) | HostPlan::NoAnswer(_)));
        Ok(exit_of_results(&results, is_incomplete))
    })
}

/// Reads the plans of a file, if the command applies one.
fn saved_plans(cli: &Cli, args: &ApplyArgs) -> Result<Option<Vec<SavedPlan>>, Exit> {
    let [path] = args.input.manifests.as_slice() else { return Ok(None) };
    if !saved::is_applied(cli) {
        return match args.verify.is_empty() {
            true => Ok(None),
            false => Err(output::fail("`--verify` is for plans, and a manifest was given")),
        };
    }
    let session = Session::open(&local(cli), RecordMode::Live, "apply")?;
    let saved = saved::read(path, &args.verify, &session)?;
    match saved.is_empty() {
        true => Err(output::fail(format_args!("{} has no changes for any host", path.display()))),
        false => Ok(Some(saved)),
    }
}

/// Returns the options for this machine.
fn local(cli: &Cli) -> Global {
    // These options are for the hosts.
    Global { state_dir: None, world: None, hostname: None, ..cli.global.clone() }
}

/// Refuses options that have no meaning here.
fn refuse(options: &[(bool, &str)]) -> Result<(), Exit> {
    match options.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => Err(output::fail(format_args!("{option} cannot be used with --on"))),
        None => Ok(()),
    }
}

/// Opens the session of the command and the sessions on the hosts.
fn with_hosts(
    cli: &Cli,
    word: &'static str,
    work: impl FnOnce(&Hosts, &[Arc<Target>], &Session) -> Result<Exit, Exit>,
) -> Exit {
    let done = || {
        let global = local(cli);
        let session = Session::open(&global, RecordMode::Live, word)?;
        let (hosts, targets) = super::hosts(&global.remote)?;
        let exit = work(&hosts, &targets, &session);
        hosts.close();
        session.close();
        exit
    };
    let exit = done().unwrap_or_else(|exit| exit);
    signals::exit().unwrap_or(exit)
}

fn planned(
    hosts: &Hosts,
    targets: &[Arc<Target>],
    session: &Session,
    input: &ManifestArgs,
    options: &[String],
) -> Result<Vec<HostPlan>, Exit> {
    plans::manifests(input).map_err(output::fail)?;
    let registry = providers::registry_with(session, None)?;
    let planner = Planner { hosts, targets, session, input, registry: &registry, options };
    let plans = planner.plans();
    signals::exit().map_or(Ok(plans), Err)
}

/// Returns the options of every command on the hosts.
fn host_options(cli: &Cli, words: &[String]) -> Vec<String> {
    let mut options = vec![format!("--color={}", if output::is_styled() { "always" } else { "never" })];
    let given = |name: &str| {
        let at = words.iter().position(|word| word == name || word.starts_with(&format!("{name}=")))?;
        match words[at].split_once('=') {
            Some((_, value)) => Some(value.to_owned()),
            None => words.get(at + 1).cloned(),
        }
    };
    for name in ["--state-dir", "--world", "--hostname", "--strict"] {
        options.extend(given(name).map(|value| format!("{name}={value}")));
    }
    if cli.global.without_history {
        options.push("--without-history".to_owned());
    }
    options
}

fn exit_of_plans(plans: &[HostPlan]) -> Exit {
    let is_failed = plans.iter().any(|plan| matches!(plan, HostPlan::Failed(_) | HostPlan::NoAnswer(_)));
    let has_changes = plans.iter().any(|plan| matches!(plan, HostPlan::Changes(_)));
    match (is_failed, has_changes) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Pending,
        (false, false) => Exit::Done,
    }
}

/// Returns the hosts whose changes are approved, in the order of the command line.
fn approved(hosts: &Hosts, plans: &[HostPlan], args: &RolloutArgs) -> Result<Vec<usize>, Exit> {
    let groups = plans::changes(plans);
    let all: Vec<usize> = groups.iter().flat_map(|group| group.hosts.iter().copied()).collect();
    let mut approved = match (all.len(), args.yes) {
        (0, _) => Vec::new(),
        (_, true) => all,
        (count, false) => {
            let by_group = if groups.len() > 1 { ", [g]roup by group" } else { "" };
            let missing =
                plans.iter().filter(|plan| matches!(plan, HostPlan::Failed(_) | HostPlan::NoAnswer(_))).count();
            let without = match missing {
                0 => String::new(),
                missing => format!(" without the {} that have no plan", plans::number_of_hosts(missing)),
            };
            let question =
                format!("Apply these changes to {}{without}? [y]es, [n]o{by_group}: ", plans::number_of_hosts(count));
            match answer(&question)? {
                'y' => all,
                'g' if groups.len() > 1 => group_by_group(hosts, &groups)?,
                _ => Vec::new(),
            }
        }
    };
    approved.sort_unstable();
    Ok(approved)
}

fn group_by_group(hosts: &Hosts, groups: &[HostGroup]) -> Result<Vec<usize>, Exit> {
    let mut approved = Vec::new();
    for group in groups {
        plans::show_group(hosts, group);
        let question = format!("Apply these changes to {}? [y]es, [n]o: ", plans::names(hosts, &group.hosts));
        if answer(&question)? == 'y' {
            approved.extend(&group.hosts);
        }
    }
    Ok(approved)
}

fn answer(question: &str) -> Result<char, Exit> {
    Ok(ask::question(question)?.trim().chars().next().map_or('n', |c| c.to_ascii_lowercase()))
}

/// Result of a host.
enum HostResult {
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
struct Rollout<'a> {
    hosts: &'a Hosts,
    plans: &'a [HostPlan],
    args: &'a ApplyArgs,
    options: &'a [String],
}

impl Rollout<'_> {
    /// Applies the plans of these hosts, stage by stage. Returns the result of each host.
    fn run(&self, approved: &[usize]) -> Vec<(usize, HostResult)> {
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

fn show_results(hosts: &Hosts, results: &[(usize, HostResult)]) {
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

fn results_json(hosts: &Hosts, plans: &[HostPlan], results: &[(usize, HostResult)]) -> Json {
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
fn exit_of_results(results: &[(usize, HostResult)], is_incomplete: bool) -> Exit {
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
