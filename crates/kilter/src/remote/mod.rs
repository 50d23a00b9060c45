//! Commands on other hosts and on devices (`--on`).

mod apply;
mod ask;
mod device_calls;
mod forward;
mod health;
mod host_apply;
mod hosts;
mod plans;
mod results;
mod resume;
mod rollout;
mod run;
mod saved;
mod store;
mod targets;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kilter_inventory::{ConnectionKind, Target};
use kilter_process::trust::TrustPolicy;
use kilter_remote::{Programs, RemoteCall, ScriptTree};

use crate::cli::{Cli, Command, Global, RemoteArgs, RolloutArgs, ServeArgs};
use crate::devices::DeviceUse;
use crate::exit::Exit;
use crate::{foreign, output, paths, signals, trust};
use hosts::{HostTarget, Hosts};
pub(crate) use resume::{run as run_rollout, select_failed};
pub(crate) use saved::is_applied;
use targets::HostSelection;
pub(crate) use targets::select_root;

/// Default directory of the programs for hosts of other kinds of machines.
const PROGRAMS: &str = "/usr/lib/kilter";

/// Name of the directory of compressed programs in the cache.
const COMPRESSED: &str = "compressed";

/// Runs a command on other hosts. `words` are the words of the command line after the name of the program.
pub(crate) fn run(cli: &Cli, words: Vec<String>) -> Exit {
    // Its threads wait for hosts and devices, and need no separate memory arenas.
    kilter_process::use_single_arena();
    if let Err(exit) = signals::listen() {
        return exit;
    }
    match &cli.command {
        Command::Plan(_) | Command::Apply(_) if is_prescribed(cli) => prescribed(cli, words),
        Command::Plan(args) => apply::plan(cli, args, &words),
        Command::Apply(args) => apply::apply(cli, args, &words),
        Command::Run(args) => run::run(cli, args, &words),
        _ => forward::run(cli, words),
    }
}

/// Returns true if the actors of mold declare the resources, and not a manifest.
fn is_prescribed(cli: &Cli) -> bool {
    let input = match &cli.command {
        Command::Plan(args) => &args.input,
        Command::Apply(args) => &args.input,
        _ => return false,
    };
    cli.global.mold.is_some() && input.manifests.is_empty()
}

/// Runs `plan` or `apply` of a directory of mold on hosts. Its actors run there.
fn prescribed(cli: &Cli, mut words: Vec<String>) -> Exit {
    if let Command::Apply(args) = &cli.command {
        if args.rollout != (RolloutArgs { yes: args.rollout.yes, ..RolloutArgs::default() }) {
            let hint = "apply a manifest, which can use the types and facts of mold";
            return output::fail_with("a prescription of mold has no roll-out: it is made on each host", [hint]);
        }
        if !args.rollout.yes && !args.noop {
            let hint = "give --yes to apply without a question, or show the changes with `kilter --on HOST plan`";
            return output::fail_with(
                "nothing was changed: a prescription of mold is applied without a question",
                [hint],
            );
        }
        words.retain(|word| !["--yes", "-y"].contains(&word.as_str()));
    }
    forward::run(cli, words)
}

/// Refuses commands and options that do not work on these targets.
fn refuse(cli: &Cli, targets: &[Arc<Target>]) -> Result<(), Exit> {
    let is_device = |target: &&Arc<Target>| matches!(target.connection, ConnectionKind::Device { .. });
    if let Some(device) = targets.iter().find(is_device) {
        refuse_on_device(cli, &device.name)?;
    }
    if let (Command::Set(args), [_, _, ..]) = (&cli.command, targets)
        && args.reports.writes_files()
        && targets.iter().any(|target| is_device(&target))
    {
        return Err(output::fail_with("a report in a file is for a single device", ["name one device with --on"]));
    }
    let has_hosts = !targets.iter().all(|target| is_device(&target));
    if has_hosts && !is_for_hosts(&cli.command) {
        return Err(output::fail_with(
            "this command works on this machine only",
            ["--on is for plan, apply, run, get, set, act, types, facts, status, pause, resume, clean, history, \
                 blame, undo and confirm"],
        ));
    }
    refuse_options(cli)
}

/// Returns true if a command works on hosts.
fn is_for_hosts(command: &Command) -> bool {
    matches!(
        command,
        Command::Plan(_)
            | Command::Apply(_)
            | Command::Run(_)
            | Command::Get(_)
            | Command::Set(_)
            | Command::Act(_)
            | Command::Types(_)
            | Command::Facts(_)
            | Command::Status(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Clean(_)
            | Command::History(_)
            | Command::Blame(_)
            | Command::Undo(_)
            | Command::Confirm(_)
    )
}

/// Refuses what needs kilter on the device.
fn refuse_on_device(cli: &Cli, name: &str) -> Result<(), Exit> {
    let remote = &cli.global.remote;
    let (is_confirmed, follows) = match &cli.command {
        Command::Apply(args) => (args.confirm_within.is_some() || args.health.is_some(), false),
        Command::History(args) => (false, args.follow),
        _ => (false, false),
    };
    if follows {
        let message = format!("--follow does not work on the device {name}: its history is on this machine");
        return Err(output::fail_with(message, ["repeat the command without --follow"]));
    }
    if is_confirmed {
        let message = format!("--confirm-within and --health do not work on the device {name}: it cannot run kilter");
        let hint = "use --healthy-for with --healthy-url or --healthy-command, which check from this machine";
        return Err(output::fail_with(message, [hint]));
    }
    if remote.changes_user() {
        let message = format!("--become does not work on the device {name}: its connection info has the user");
        let hint = format!("leave it out by `!{name}`, or set `become` of the hosts in the inventory");
        return Err(output::fail_with(message, [hint]));
    }
    if cli.global.mold.is_some() {
        let message = format!("--mold does not work on the device {name}: it cannot run scripts");
        return Err(output::fail_with(message, [format!("`!{name}` leaves it out, such as --on 'all,!{name}'")]));
    }
    if DeviceUse::of(&cli.command) == DeviceUse::Unsupported {
        let message = format!("this command does not work on the device {name}");
        let hints = [
            "a device supports plan, apply, run, check, get, set, types, facts, history, blame and undo".to_owned(),
            format!("`!{name}` leaves it out, such as --on 'all,!{name}'"),
        ];
        return Err(output::fail_with(message, hints));
    }
    Ok(())
}

/// Refuses options that name files of this machine.
fn refuse_options(cli: &Cli) -> Result<(), Exit> {
    let global = &cli.global;
    let source = match &cli.command {
        Command::Plan(args) => args.source.from.as_ref(),
        Command::Apply(args) => args.source.from.as_ref(),
        Command::Run(args) => args.source.from.as_ref(),
        _ => None,
    };
    if source.is_some() {
        let hint = "run kilter with --from on the hosts, or name the manifest of a checkout";
        return Err(output::fail_with("--from cannot be used with --on", [hint]));
    }
    match global.channel3.is_some() {
        true => Err(output::fail_with(
            "--channel3 cannot be used with --on: its file is on this machine",
            ["`kilter --on HOST history show last --processes` shows the messages of scripts"],
        )),
        false => Ok(()),
    }
}

/// Runs kilter with these arguments and these directories of scripts on one host, with its output on this terminal.
/// Returns its exit code.
///
/// # Errors
/// The reason why there is no exit code.
pub(crate) fn run_on(host: &str, is_root: bool, scripts: &[PathBuf], args: Vec<String>) -> Result<u8, String> {
    signals::listen().map_err(|_| "signals cannot be received".to_owned())?;
    let options = RemoteArgs { is_become: is_root, ..RemoteArgs::default() };
    let destination = targets::of_name(host, &options)?;
    let scripts = match scripts {
        [] => None,
        scripts => Some(ScriptTree::read(scripts, None, &trust::usual()).map_err(|error| error.to_string())?),
    };
    let hosts = Hosts::new(vec![HostTarget::host(destination)], &options, trust::usual(), scripts);
    let hosts = hosts.map_err(|error| error.to_string())?;
    let call = RemoteCall { args, ..RemoteCall::default() };
    let finished = hosts.call_streaming(0, &call, &mut foreign::write);
    hosts.close();
    finished.map(|finished| finished.code).map_err(|answer| answer.reason())
}

/// Executes the commands of another machine, as the program that `--on` starts on a host.
pub(crate) fn serve(args: &ServeArgs) -> Exit {
    if let Err(exit) = signals::listen() {
        return exit;
    }
    let program = Path::new("/proc/self/exe");
    if args.remove
        && let Ok(path) = std::env::current_exe()
    {
        let _ = std::fs::remove_file(path);
    }
    match kilter_remote::serve(std::io::stdin(), std::io::stdout(), program, !args.remove, signals::raised()) {
        Ok(()) => Exit::Done,
        Err(error) => output::fail(error),
    }
}

fn programs(args: &RemoteArgs, trust: TrustPolicy) -> std::io::Result<Programs> {
    let directory = args.programs.as_deref().unwrap_or(Path::new(PROGRAMS));
    let cache = paths::cache_dir().filter(|_| !args.no_cache).map(|cache| cache.join(COMPRESSED));
    Programs::new(directory, trust, cache.as_deref())
}

/// Reads the directories of `-I` and `--mold` for the hosts.
fn scripts(global: &Global, trust: &TrustPolicy) -> Result<Option<ScriptTree>, Exit> {
    if global.include.is_empty() && global.mold.is_none() {
        return Ok(None);
    }
    let read = ScriptTree::read(&global.include, global.mold.as_deref(), trust);
    read.map(Some).map_err(|error| output::fail(format_args!("cannot send the scripts: {error}")))
}

/// Returns the selected targets of a command line, without sessions unless the selection needs facts.
///
/// # Errors
/// If no target is selected, or the command does not work on one; reported.
fn hosts(cli: &Cli) -> Result<(Hosts, Vec<Arc<Target>>), Exit> {
    let mut selection = HostSelection::read(&cli.global)?;
    refuse(cli, selection.targets())?;
    selection.ask_for_passwords(&cli.global.remote)?;
    let trust = trust::policy(&cli.global)?;
    let is_device = |target: &Arc<Target>| matches!(target.connection, ConnectionKind::Device { .. });
    let scripts = match selection.targets().iter().all(is_device) {
        // The scripts of devices run here.
        true => None,
        false => scripts(&cli.global, &trust)?,
    };
    let hosts = Hosts::new(selection.host_targets(&cli.global)?, &cli.global.remote, trust, scripts);
    let mut hosts = hosts.map_err(|error| output::fail(format_args!("cannot read this program: {error}")))?;
    selection.decide(&mut hosts)?;
    Ok((hosts, selection.targets().to_vec()))
}
