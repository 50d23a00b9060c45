//! The command `kilter`: arguments, wiring, rendering and exit codes.
//!
//! All code that reads, decides or changes is in the crates below. Only this crate uses the
//! terminal, the environment and `$HOME`. Data goes to standard output, everything else to standard error.
//!
//! *Start from* [`cli::Cli`], which lists the commands, and [`exit::Exit`], which lists the exit codes. Every
//! command is one file in [`commands`] with a function `run`.

mod cli;
mod collected;
mod commands;
mod draw;
mod durable;
mod exit;
mod facts;
mod load;
mod markdown;
mod metrics;
mod mold;
mod output;
mod panics;
mod parse_value;
mod paths;
mod pauses;
mod plan_file;
mod providers;
mod puppet;
mod ralsh;
mod recording;
mod render;
mod resources;
mod reversals;
mod sd_notify;
mod server;
mod signals;
mod status_server;
mod table;
mod terminal;
mod trust;
mod visible;
mod world;
mod yaml;

use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::cli::{Cli, Command};
use crate::exit::Exit;

fn main() -> ExitCode {
    panics::install_panic_hook();
    signals::set_up();
    // Inherited descriptors are for this program only, not for the programs that it starts.
    close_fds::set_fds_cloexec(3, &[]);
    if ralsh::is_called() {
        return ralsh::run();
    }
    match Cli::of(std::env::args_os()) {
        Ok(cli) => {
            cli.global.color.write_global();
            run(&cli).into()
        }
        Err(refused) => refuse(&refused).into(),
    }
}

/// Runs a command.
pub(crate) fn run(cli: &Cli) -> Exit {
    let global = &cli.global;
    if let Err(exit) = trust::open(global) {
        return exit;
    }
    if matches!(&cli.command, Command::Provider(args) if args.carries_out_another()) {
        return carry_out(cli);
    }
    reversals::open(global);
    if let Err(exit) = world::open(global) {
        return exit;
    }
    // The command that reads the log must not write to it.
    if !matches!(cli.command, Command::History(_))
        && let Err(exit) = mold::open(global)
    {
        return exit;
    }
    let exit = carry_out(cli);
    mold::close();
    world::close();
    exit
}

fn carry_out(cli: &Cli) -> Exit {
    let global = &cli.global;
    match &cli.command {
        Command::Apply(args) => commands::apply::run(args, global),
        Command::Plan(args) => commands::plan::run(args, global),
        Command::Run(args) => commands::run::run(args, global),
        Command::Status(args) => commands::status::run(args, global),
        Command::Pause(args) => commands::pause::pause(args, global),
        Command::Resume(args) => commands::pause::resume(args, global),
        Command::Clean(args) => commands::clean::run(args, global),
        Command::Get(args) => commands::get::run(args, global),
        Command::Set(args) => commands::set::run(args, global),
        Command::Act(args) => commands::act::run(args, global),
        Command::Types(args) => commands::types::run(args, global),
        Command::Facts(args) => commands::facts::run(args, global),
        Command::Graph(args) => commands::graph::run(args, global),
        Command::History(args) => commands::history::run(args, global),
        Command::Provider(args) => commands::provider::run(args, global),
        Command::Schema(args) => commands::schema::run(args, global),
        Command::Completions(args) => commands::completions::run(args, global),
        Command::Man(args) => commands::man::run(args),
    }
}

/// Shows help and version, or the error in the arguments.
pub(crate) fn refuse(refused: &clap::Error) -> Exit {
    let text = refused.render();
    match refused.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => output::data(&text.ansi().to_string()),
        _ => {
            output::line(text.ansi().to_string().trim_end());
            Exit::NotStarted
        }
    }
}
