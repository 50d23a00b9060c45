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
mod render;
mod resources;
mod reversals;
mod sd_notify;
mod server;
mod session;
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
use kilter_recording::RecordMode;

use crate::cli::{Cli, Command};
use crate::exit::Exit;
use crate::session::Session;

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
            run(&cli, &RecordMode::Live).into()
        }
        Err(refused) => refuse(&refused).into(),
    }
}

/// Runs a command, in a session of its own if it needs one.
pub(crate) fn run(cli: &Cli, record: &RecordMode) -> Exit {
    let global = &cli.global;
    let in_session = |command: &dyn Fn(&Session) -> Exit| match Session::open(global, record.clone()) {
        Ok(session) => {
            let exit = command(&session);
            session.close();
            exit
        }
        Err(exit) => exit,
    };
    match &cli.command {
        Command::Apply(args) => in_session(&|session| commands::apply::run(args, session)),
        Command::Plan(args) => in_session(&|session| commands::plan::run(args, session)),
        Command::Run(args) => in_session(&|session| commands::run::run(args, session)),
        Command::Status(args) => in_session(&|session| commands::status::run(args, session)),
        Command::Pause(args) => in_session(&|session| commands::pause::pause(args, session)),
        Command::Resume(args) => in_session(&|session| commands::pause::resume(args, session)),
        Command::Clean(args) => in_session(&|session| commands::clean::run(args, session)),
        Command::Get(args) => in_session(&|session| commands::get::run(args, session)),
        Command::Set(args) => in_session(&|session| commands::set::run(args, session)),
        Command::Act(args) => in_session(&|session| commands::act::run(args, session)),
        Command::Types(args) => in_session(&|session| commands::types::run(args, session)),
        Command::Facts(args) => in_session(&|session| commands::facts::run(args, session)),
        Command::Graph(args) => in_session(&|session| commands::graph::run(args, session)),
        Command::Provider(args) => commands::provider::run(args, global, &in_session),
        Command::Schema(args) => in_session(&|session| commands::schema::run(args, session)),
        Command::Completions(args) => in_session(&|session| commands::completions::run(args, session)),
        // The command that reads the log must not write to it.
        Command::History(args) => commands::history::run(args, global),
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
