//! `plan` and `apply` on other hosts.

use std::sync::Arc;

use kilter_inventory::Target;
use kilter_recording::RecordMode;

use super::ask;
use super::host_apply::{HostApply, windows};
use super::hosts::Hosts;
use super::plans::{self, HostGroup, HostPlan, Planner};
use super::results::{HostState, exit_of_states, results_json, show_results, states};
use super::rollout::{Rollout, RolloutProgress};
use super::saved::{self, SavedPlan};
use super::store::RolloutStore;
use crate::cli::{ApplyArgs, Cli, Global, ManifestArgs, PlanArgs, ReportFormat, RolloutArgs};
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, providers, signals};

/// Shows the plans of the hosts.
pub(super) fn plan(cli: &Cli, args: &PlanArgs, words: &[String]) -> Exit {
    let refused = [
        (!args.released.is_empty(), "--released"),
        (!args.input.facts_dirs.is_empty(), "--facts-dir"),
        (args.reports.writes_files(), "--report"),
    ];
    if let Err(exit) = refuse(&refused) {
        return exit;
    }
    with_hosts(cli, "plan", |hosts, targets, session| {
        crate::plan_file::refuse_overwrite(args, session)?;
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
        (!args.released.is_empty(), "--released"),
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
    if let Err(exit) = check_rollout(&args.rollout) {
        return exit;
    }
    let global = &cli.global;
    let has_scripts = !global.include.is_empty() || global.mold.is_some();
    if args.confirm_within.is_some() && global.remote.no_cache && has_scripts {
        let hint = "without a confirmation, the host undoes the changes with the scripts, so they must stay: leave out \
                    --no-cache";
        return output::fail_with("--no-cache cannot be used with --confirm-within and scripts (-I, --mold)", [hint]);
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
        let windows = windows(targets, args)?;
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
        let stored = saved::text(hosts, &plans, None, session);
        let (_, text) = stored.map_err(|error| output::fail(format_args!("cannot store the roll-out: {error}")))?;
        let begin = states(hosts, &plans, &approved);
        let journal = RolloutStore::of(&session.state_dir()?).begin(words, &begin, &text)?;
        let without_plan = begin.iter().map(|host| host.state).filter(|state| state.is_failure());
        // A person has approved the changes without these hosts.
        let counted = if args.rollout.yes { without_plan.clone().count() } else { 0 };
        let progress = RolloutProgress { without_plan: counted, ..RolloutProgress::default() };
        let apply = HostApply { hosts, plans: &plans, args, options: &options, windows: &windows };
        let results = Rollout::new(apply, &journal).run(&approved, progress);
        match is_human {
            true => show_results(hosts, &results),
            false => {
                output::data(&format!("{:#}\n", results_json(hosts, &plans, &results, journal.id)));
            }
        }
        let all = results.iter().map(|(_, result)| result.state()).chain(without_plan);
        advise(journal.id, all.clone(), is_human);
        journal.end(!all.clone().any(HostState::is_missing));
        Ok(exit_of_states(all))
    })
}

/// Refuses options of a roll-out that need others.
pub(super) fn check_rollout(args: &RolloutArgs) -> Result<(), Exit> {
    let has_health = args.healthy_url.is_some() || args.healthy_command.is_some();
    let needs = [
        (args.pause.is_some() && args.stage.is_empty(), "--pause needs --stage"),
        (args.ask_each_stage && args.stage.is_empty(), "--ask-each-stage needs --stage"),
        (has_health && args.healthy_for.is_none(), "--healthy-url and --healthy-command need --healthy-for"),
    ];
    if let Some((_, why)) = needs.iter().find(|(is_missing, _)| *is_missing) {
        return Err(output::fail(why));
    }
    match args.ask_each_stage && !ask::is_possible() {
        true => Err(output::fail_with(
            "nothing was changed: there is no terminal to ask for the approval of each stage",
            ["give --pause instead, or apply only the first stage (`--stage 1`) and continue with `kilter rollout \
                 resume`"],
        )),
        false => Ok(()),
    }
}

/// Names the commands that continue after a roll-out in which hosts are missing.
pub(super) fn advise(id: u64, mut states: impl Iterator<Item = HostState> + Clone, is_human: bool) {
    if !is_human {
        return;
    }
    if states.clone().any(HostState::is_pending) {
        output::hint(format_args!("`kilter rollout resume {id}` continues with the hosts without a result"));
    }
    if states.any(HostState::is_missing) {
        output::hint(format_args!("`--failed-of {id}` instead of --on selects all hosts that were not changed"));
    }
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
    let session = Session::open(&local(&cli.global), RecordMode::Live, "apply")?;
    let saved = saved::read(path, &args.verify, &session)?;
    match saved.is_empty() {
        true => Err(output::fail(format_args!("{} has no changes for any host", path.display()))),
        false => Ok(Some(saved)),
    }
}

/// Returns the options for this machine.
pub(super) fn local(global: &Global) -> Global {
    // These options are for the hosts.
    let state_dir = std::env::var_os("KILTER_STATE_DIR").map(Into::into);
    Global { state_dir, world: None, hostname: None, ..global.clone() }
}

/// Refuses options that have no meaning here.
pub(super) fn refuse(options: &[(bool, &str)]) -> Result<(), Exit> {
    match options.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => Err(output::fail(format_args!("{option} cannot be used with --on"))),
        None => Ok(()),
    }
}

/// Opens the session of the command and the sessions on the hosts.
pub(super) fn with_hosts(
    cli: &Cli,
    word: &'static str,
    work: impl FnOnce(&Hosts, &[Arc<Target>], &Session) -> Result<Exit, Exit>,
) -> Exit {
    let done = || {
        let global = local(&cli.global);
        let session = Session::open(&global, RecordMode::Live, word)?;
        providers::open_mold(&session)?;
        let (hosts, targets) = super::hosts(cli)?;
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
pub(super) fn host_options(cli: &Cli, words: &[String]) -> Vec<String> {
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

pub(super) fn answer(question: &str) -> Result<char, Exit> {
    Ok(ask::question(question)?.trim().chars().next().map_or('n', |c| c.to_ascii_lowercase()))
}
