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
mod config;
mod confirmation;
mod devices;
mod draw;
mod durable;
mod early_processes;
mod embedded;
mod execute;
mod exit;
mod facts;
mod foreign;
mod inventory;
mod load;
mod loan;
mod maintenance;
mod markdown;
mod metrics;
mod module_log;
mod mold;
mod otlp_export;
mod output;
mod output_file;
mod panics;
mod parse_value;
mod past;
mod paths;
mod pauses;
mod plan_file;
mod providers;
mod pull;
mod puppet;
mod ralsh;
mod recorder;
mod released;
mod remote;
mod render;
mod reported_run;
mod reported_warnings;
mod reports;
mod resources;
mod reversals;
mod run_inputs;
mod sd_notify;
mod server;
mod session;
mod signals;
mod status_server;
mod streams;
mod style;
mod table;
mod target_results;
mod terminal;
mod trace;
mod trust;
mod users;
mod visible;
mod world;
mod yaml;

use std::process::ExitCode;

use kilter_recording::RecordMode;

use crate::config::ConfigRefusal;

/// Returns the words of the command line after the name of the program.
fn words() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}

fn main() -> ExitCode {
    panics::install_panic_hook();
    signals::set_up();
    // Inherited descriptors are for this program only, not for the programs that it starts.
    close_fds::set_fds_cloexec(3, &[]);
    if let Some(words) = ralsh::called() {
        protect_memory();
        return ralsh::run(words);
    }
    match config::command_line(std::env::args_os().collect()) {
        Ok(mut cli) => {
            // A check of a provider enters a user namespace, which needs access to its own files in /proc.
            if !matches!(cli.command, cli::Command::Provider(_)) {
                protect_memory();
            }
            cli.global.color.write_global();
            cli.global.log.iter().for_each(module_log::start);
            let selected = remote::select_failed(&mut cli.global).and_then(|()| remote::select_root(&mut cli.global));
            if let Err(exit) = selected {
                return exit.into();
            }
            let is_here = cli.global.remote.on.is_empty() && !remote::is_applied(&cli);
            match is_here {
                true => commands::run(&cli, &RecordMode::Live).into(),
                false => remote::run(&cli, words()).into(),
            }
        }
        Err(ConfigRefusal::Words(refused)) => commands::refuse(&refused).into(),
        Err(ConfigRefusal::Config(exit)) => exit.into(),
    }
}

/// Prevents core files, and debuggers of the same user: the memory may contain secrets. Programs that kilter starts have
/// their usual settings.
fn protect_memory() {
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
