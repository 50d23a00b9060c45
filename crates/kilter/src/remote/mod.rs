//! Commands on other hosts (`--on`).

mod apply;
mod ask;
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

use std::path::Path;
use std::sync::Arc;

use kilter_inventory::Target;
use kilter_remote::{Programs, RemoteCall};

use crate::cli::{Cli, Command, RemoteArgs, ServeArgs};
use crate::exit::Exit;
use crate::{foreign, output, paths, signals, trust};
use hosts::Hosts;
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
    if let Err(exit) = signals::listen() {
        return exit;
    }
    if let Err(exit) = refuse_options(cli) {
        return exit;
    }
    match &cli.command {
        Command::Get(_)
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
        | Command::Confirm(_) => forward::run(cli, words),
        Command::Plan(args) => apply::plan(cli, args, &words),
        Command::Apply(args) => apply::apply(cli, args, &words),
        Command::Run(args) => run::run(cli, args, &words),
        _ => output::fail_with(
            "this command works on this machine only",
            ["--on is for plan, apply, run, get, set, act, types, facts, status, pause, resume, clean, history, \
                 blame, undo and confirm"],
        ),
    }
}

/// Refuses options that name files of this machine.
fn refuse_options(cli: &Cli) -> Result<(), Exit> {
    let global = &cli.global;
    let given = [
        ("-I", !global.include.is_empty()),
        ("--mold", global.mold.is_some()),
        ("--channel3", global.channel3.is_some()),
    ];
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
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(output::fail_with(
            format_args!("{option} cannot be used with --on: its scripts are not sent to the hosts"),
            ["install the scripts on the hosts, in one of the default directories"],
        )),
        None => Ok(()),
    }
}

/// Runs kilter with these arguments on one host, with its output on this terminal. Returns its exit code.
///
/// # Errors
/// The reason why there is no exit code.
pub(crate) fn run_on(host: &str, is_root: bool, args: Vec<String>) -> Result<u8, String> {
    signals::listen().map_err(|_| "signals cannot be received".to_owned())?;
    let options = RemoteArgs { is_become: is_root, ..RemoteArgs::default() };
    let destination = targets::of_name(host, &options)?;
    let programs = programs(&options).map_err(|error| error.to_string())?;
    let hosts = Hosts::new(vec![destination], programs, &options);
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
    match kilter_remote::serve(std::io::stdin(), std::io::stdout(), program, signals::raised()) {
        Ok(()) => Exit::Done,
        Err(error) => output::fail(error),
    }
}

fn programs(args: &RemoteArgs) -> std::io::Result<Programs> {
    let directory = args.programs.as_deref().unwrap_or(Path::new(PROGRAMS));
    let cache = paths::cache_dir().filter(|_| !args.no_cache).map(|cache| cache.join(COMPRESSED));
    Programs::new(directory, trust::usual(), cache.as_deref())
}

/// Returns the selected hosts of a command line, without sessions unless the selection needs facts.
///
/// # Errors
/// If no host is selected; reported.
fn hosts(args: &RemoteArgs) -> Result<(Hosts, Vec<Arc<Target>>), Exit> {
    let mut selection = HostSelection::read(args)?;
    let programs = programs(args).map_err(|error| output::fail(format_args!("cannot read this program: {error}")))?;
    let mut hosts = Hosts::new(selection.destinations(args)?, programs, args);
    selection.decide(&mut hosts)?;
    Ok((hosts, selection.targets().to_vec()))
}
