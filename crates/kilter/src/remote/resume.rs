//! `kilter rollout`: stored roll-outs, and the continuation of one.

use std::ffi::OsString;
use std::path::PathBuf;

use kilter_recording::RecordMode;
use kilter_remote::{OpenError, RemoteCall};
use kilter_runtime::PlanProvenance;
use serde_json::{Map, Value as Json, json};

use super::apply::{self, advise};
use super::ask;
use super::host_apply::{HostApply, windows};
use super::hosts::{HostAnswer, Hosts};
use super::plans::{self, HostPlan};
use super::results::{HostResult, HostState, counts, exit_of_states, results_json, show_results, summary};
use super::rollout::{Rollout, RolloutProgress};
use super::saved::{self, SavedPlan};
use super::store::{RolloutJournal, RolloutPhase, RolloutStore, StoredHost, StoredRollout};
use crate::cli::{ApplyArgs, Cli, Command, Global, ReportFormat, ResumeRolloutArgs, RolloutCommand};
use crate::exit::Exit;
use crate::maintenance::MaintenanceWindow;
use crate::past::time;
use crate::session::Session;
use crate::table::Table;
use crate::visible::visible;
use crate::{output, signals};

/// Number of runs of a host that are searched for the plan.
const SEARCHED_RUNS: &str = "1000";

/// Text with which `confirm` refuses because a host undoes its changes, or has undone them.
const TOO_LATE: &str = "too late: ";

/// Runs the command.
pub(crate) fn run(command: &RolloutCommand, session: &Session) -> Exit {
    let done = || {
        let store = RolloutStore::of(&session.state_dir()?);
        match command {
            RolloutCommand::List { format } => list(&store, *format),
            RolloutCommand::Show { id, format } => show(&store.read(id)?, *format),
            RolloutCommand::Resume(args) => resume(&store, args, session),
        }
    };
    done().unwrap_or_else(|exit| exit)
}

/// Replaces `--failed-of` by the names of the hosts.
///
/// # Errors
/// If there are none; reported.
pub(crate) fn select_failed(global: &mut Global) -> Result<(), Exit> {
    let Some(word) = &global.remote.failed_of else { return Ok(()) };
    if !global.remote.on.is_empty() {
        return Err(output::fail("--failed-of selects the hosts: leave out --on"));
    }
    let session = Session::open(&apply::local(global), RecordMode::Live, "kilter")?;
    let stored = RolloutStore::of(&session.state_dir()?).read(word)?;
    global.remote.on = stored.names(HostState::is_missing);
    match global.remote.on.is_empty() {
        true => Err(output::fail(format_args!("all hosts of roll-out {} have its changes", stored.id))),
        false => Ok(()),
    }
}

fn list(store: &RolloutStore, format: ReportFormat) -> Result<Exit, Exit> {
    let all = store.list()?;
    if format == ReportFormat::Json {
        return Ok(output::data(&format!("{:#}\n", all.iter().map(document).collect::<Json>())));
    }
    if all.is_empty() {
        output::line("no roll-out is stored: `kilter --on HOSTS apply` stores each one");
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["roll-out", "time", "state", "hosts"]);
    for one in &all {
        let counts = counts(one.hosts.iter().map(|host| host.state));
        table.row([one.id.to_string(), time::shown(one.at), phase(one.phase).to_owned(), counts]);
    }
    Ok(output::data(&table.render(None).0))
}

fn phase(phase: RolloutPhase) -> &'static str {
    match phase {
        RolloutPhase::CutOff => "cut off",
        phase => phase.word(),
    }
}

/// Returns a roll-out for programs.
fn document(one: &StoredRollout) -> Json {
    let host = |host: &StoredHost| {
        let mut json = json!({ "result": host.state.word() });
        if let Some(reason) = &host.reason {
            json["error"] = reason.as_str().into();
        }
        (host.name.clone(), json)
    };
    json!({
        "rollout": one.id,
        "time": time::exact(one.at),
        "state": one.phase.word(),
        "command": one.words,
        "results": one.hosts.iter().map(host).collect::<Map<String, Json>>(),
    })
}

fn show(stored: &StoredRollout, format: ReportFormat) -> Result<Exit, Exit> {
    if format == ReportFormat::Json {
        return Ok(output::data(&format!("{:#}\n", document(stored))));
    }
    let words: Vec<String> = stored.words.iter().map(|word| visible(word)).collect();
    let mut text = format!("roll-out {}, begun at {}, {}\n", stored.id, time::shown(stored.at), phase(stored.phase));
    text.push_str(&format!("  kilter {}\n", words.join(" ")));
    for host in &stored.hosts {
        let reason = host.reason.as_deref().map(|reason| format!(": {}", visible(reason))).unwrap_or_default();
        text.push_str(&format!("  {}: {}{reason}\n", visible(&host.name), host.state.text()));
    }
    output::data(&text);
    let states: Vec<(&str, HostState)> = stored.hosts.iter().map(|host| (&*host.name, host.state)).collect();
    output::line(format_args!("{}: {}", plans::number_of_hosts(states.len()), summary(&states)));
    if stored.phase != RolloutPhase::Running {
        advise(stored.id, states.iter().map(|(_, state)| *state), true);
    }
    Ok(Exit::Done)
}

/// Continues with the hosts that have no result.
fn resume(store: &RolloutStore, args: &ResumeRolloutArgs, session: &Session) -> Result<Exit, Exit> {
    signals::listen()?;
    let journal = store.resume(store.read(&args.id)?.id)?;
    // Another process may have continued it before the lock.
    let stored = store.read(&journal.id.to_string())?;
    let states = || stored.hosts.iter().map(|host| host.state);
    let pending = stored.names(HostState::is_pending);
    if pending.is_empty() {
        let named: Vec<(&str, HostState)> = stored.hosts.iter().map(|host| (&*host.name, host.state)).collect();
        output::line(format_args!("nothing to resume, all hosts have a result: {}", summary(&named)));
        advise(stored.id, states(), true);
        journal.end(!states().any(HostState::is_missing));
        return Ok(exit_of_states(states()));
    }
    let (mut cli, mut apply) = command(&stored)?;
    let counts_without_plan = apply.rollout.yes;
    apply.rollout.replace_by(&args.rollout);
    apply.format = args.format;
    apply::check_rollout(&apply.rollout)?;
    if !args.rollout.yes {
        confirm(&stored, &pending)?;
    }
    cli.global.remote.on = pending;
    let options = apply::host_options(&cli, &stored.words);
    Ok(apply::with_hosts(&cli, "apply", |hosts, targets, _| {
        let windows = windows(targets, &apply)?;
        let saved = saved::read(&store.plan_path(stored.id), &[], session)?;
        let resumption = Resumption {
            hosts,
            stored: &stored,
            apply: &apply,
            options: &options,
            windows: &windows,
            counts_without_plan,
        };
        resumption.run(&saved, journal, session)
    }))
}

/// Returns the command of a stored roll-out.
fn command(stored: &StoredRollout) -> Result<(Cli, ApplyArgs), Exit> {
    let words = ["kilter"].into_iter().chain(stored.words.iter().map(String::as_str)).map(OsString::from);
    let cli = Cli::of(words).ok().and_then(|cli| match &cli.command {
        Command::Apply(apply) => Some((apply.clone(), cli)),
        _ => None,
    });
    let Some((apply, mut cli)) = cli else {
        return Err(output::fail_with(
            format_args!("this kilter does not know the options of roll-out {}", stored.id),
            [format!("make a new plan: `kilter --failed-of {} plan`", stored.id)],
        ));
    };
    // The command may have run in another directory.
    let absolute = |path: &mut PathBuf| *path = stored.directory.join(&*path);
    let remote = &mut cli.global.remote;
    remote.failed_of = None;
    remote.inventory.iter_mut().chain(&mut remote.ssh_config).for_each(absolute);
    let Global { include, trust, device_config, .. } = &mut cli.global;
    include.iter_mut().chain(trust).chain(device_config).for_each(absolute);
    Ok((cli, apply))
}

/// Asks for the approval.
fn confirm(stored: &StoredRollout, pending: &[String]) -> Result<(), Exit> {
    let refused = |why: &str| {
        output::fail_with(
            format_args!("nothing was changed: {why}"),
            [format!("give --yes to resume without a question; `kilter rollout show {}` shows the hosts", stored.id)],
        )
    };
    if !ask::is_possible() {
        return Err(refused("there is no terminal to ask for the approval of the changes"));
    }
    let question = format!("Resume roll-out {} with {}? [y]es, [n]o: ", stored.id, pending.join(", "));
    match apply::answer(&question)? {
        'y' => Ok(()),
        _ => Err(Exit::NotStarted),
    }
}

/// Continuation of a roll-out on the hosts without a result.
struct Resumption<'a> {
    hosts: &'a Hosts,
    stored: &'a StoredRollout,
    apply: &'a ApplyArgs,
    options: &'a [String],
    windows: &'a [Vec<MaintenanceWindow>],
    /// True if nobody has approved the changes without the hosts that have no plan.
    counts_without_plan: bool,
}

impl Resumption<'_> {
    fn run(&self, saved: &[SavedPlan], journal: RolloutJournal, session: &Session) -> Result<Exit, Exit> {
        let (hosts, stored) = (self.hosts, self.stored);
        let plans = self.plans(saved, session)?;
        let in_flight: Vec<usize> = hosts.all().into_iter().filter(|host| self.state(*host).is_in_flight()).collect();
        let found = hosts.each(&in_flight, |host| self.result_in_flight(host, &plans[host]));
        let mut results: Vec<(usize, HostResult)> =
            in_flight.into_iter().zip(found).filter_map(|(host, result)| Some((host, result?))).collect();
        for (host, plan) in plans.iter().enumerate() {
            if matches!(plan, HostPlan::NoAnswer(_)) {
                let reason = "it has no plan".to_owned();
                results.push((host, HostResult::Known(self.state(host), Some(reason))));
            }
        }
        for (host, result) in &results {
            let added = journal.add(hosts.name(*host), result.state(), result.reason());
            added.map_err(|error| output::fail(format_args!("cannot store the roll-out: {error}")))?;
        }
        let to_apply: Vec<usize> =
            hosts.all().into_iter().filter(|host| results.iter().all(|(known, _)| known != host)).collect();
        let is_other = |name: &str| hosts.all().into_iter().all(|host| hosts.name(host) != name);
        let others = stored.hosts.iter().filter(|host| is_other(&host.name)).map(|host| host.state);
        let others: Vec<HostState> = others.collect();
        let has_plan = |name: &str| saved.iter().any(|saved| saved.host == name);
        let found = results.iter().map(|(host, result)| (hosts.name(*host), result.state()));
        let earlier = stored.hosts.iter().filter(|host| is_other(&host.name)).map(|host| (&*host.name, host.state));
        let (with_plan, without_plan): (Vec<_>, Vec<_>) = found.chain(earlier).partition(|(name, _)| has_plan(name));
        let failures = |known: &[(&str, HostState)]| known.iter().filter(|(_, state)| state.is_failure()).count();
        let before = RolloutProgress {
            asked: with_plan.iter().filter(|(_, state)| state.is_asked()).count(),
            without_plan: if self.counts_without_plan { failures(&without_plan) } else { 0 },
            failures: failures(&with_plan),
        };
        let apply = HostApply { hosts, plans: &plans, args: self.apply, options: self.options, windows: self.windows };
        results.extend(Rollout::new(apply, &journal).run(&to_apply, before));
        results.sort_by_key(|(host, _)| *host);
        let is_human = self.apply.format == ReportFormat::Human;
        match is_human {
            true => show_results(hosts, &results),
            false => {
                output::data(&format!("{:#}\n", results_json(hosts, &plans, &results, journal.id)));
            }
        }
        let all = results.iter().map(|(_, result)| result.state()).chain(others);
        advise(stored.id, all.clone(), is_human);
        journal.end(!all.clone().any(HostState::is_missing));
        Ok(exit_of_states(all))
    }

    fn state(&self, host: usize) -> HostState {
        let name = self.hosts.name(host);
        self.stored.hosts.iter().find(|host| host.name == name).map_or(HostState::Untouched, |host| host.state)
    }

    /// Returns the plans of the hosts. Hosts that did not answer have none.
    fn plans(&self, saved: &[SavedPlan], session: &Session) -> Result<Vec<HostPlan>, Exit> {
        let plan = |host: usize| match saved.iter().find(|saved| saved.host == self.hosts.name(host)) {
            Some(saved) => saved.plan(session),
            None => {
                let why = "it did not answer to the plan".to_owned();
                Ok(HostPlan::NoAnswer(HostAnswer::Unreachable(OpenError::Unreachable(why))))
            }
        };
        self.hosts.all().into_iter().map(plan).collect()
    }

    /// Asks a host for the result of an apply that has begun; none if it has changed nothing, or was interrupted.
    fn result_in_flight(&self, host: usize, plan: &HostPlan) -> Option<HostResult> {
        let HostPlan::Changes(planned) = plan else { return None };
        let id = plan_id(&planned.plan)?;
        let runs = match self.call(host, &["history", "--format", "json", "--lines", SEARCHED_RUNS]) {
            HostAnswer::Finished { finished, stdout, .. } if finished.code == 0 => stdout,
            // There is no history yet.
            HostAnswer::Finished { .. } => return None,
            answer => return Some(HostResult::Failed(answer)),
        };
        let runs: Vec<Json> =
            String::from_utf8_lossy(&runs).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let run = runs.iter().find(|run| run["plan"] == *id)?;
        let is_last = runs.iter().find(|run| run["command"] == "apply") == Some(run);
        let is_confirmed = self.apply.confirm_within.is_some() || self.apply.health.is_some();
        if is_confirmed
            && is_last
            && let Some(result) = self.confirmation(host)
        {
            return Some(result);
        }
        match (run["state"].as_str(), run["interrupted"] == true, run["failed"] == true) {
            (Some("ended"), false, false) => Some(HostResult::Known(HostState::Applied, None)),
            (Some("ended"), false, true) => {
                let reason = format!("run {} of its history has failures", run["run"]);
                Some(HostResult::Known(HostState::Failed, Some(reason)))
            }
            (Some("under_way"), ..) => {
                Some(HostResult::Known(HostState::Started, Some("its apply has not ended yet".to_owned())))
            }
            // The plan refuses steps whose resource has changed, and leaves out those that are done.
            _ => None,
        }
    }

    /// Confirms the changes of a host that still waits. Returns the result if the host has undone them.
    fn confirmation(&self, host: usize) -> Option<HostResult> {
        match self.call(host, &["confirm"]) {
            HostAnswer::Finished { stderr, .. } => {
                let is_undone = String::from_utf8_lossy(&stderr).contains(TOO_LATE);
                is_undone.then(|| HostResult::Known(HostState::Reverted, Some("not confirmed".to_owned())))
            }
            answer => Some(HostResult::Failed(answer)),
        }
    }

    fn call(&self, host: usize, words: &[&str]) -> HostAnswer {
        let args = self.options.iter().cloned().chain(words.iter().map(|word| (*word).to_owned())).collect();
        self.hosts.call(host, &RemoteCall { args, ..RemoteCall::default() })
    }
}

/// Returns the id of a plan.
fn plan_id(plan: &[u8]) -> Option<String> {
    let plan: Json = serde_json::from_slice(plan).ok()?;
    PlanProvenance::read(&plan["made"]).map(|made| made.id)
}
