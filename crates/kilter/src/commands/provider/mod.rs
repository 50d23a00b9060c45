//! `kilter provider`: for authors of providers.

mod check;
mod new;
mod record;
mod replay;

use clap::{Args, Subcommand};

use crate::cli::Global;
use crate::exit::Exit;
use crate::session::Session;

/// Arguments of `kilter provider`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProviderArgs {
    #[command(subcommand)]
    pub(crate) command: ProviderCommand,
}

/// Commands for authors of providers.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// Check a provider, and print a scorecard
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Create a working provider as a template, with its check
    #[command(after_help = new::EXAMPLES)]
    New(new::NewArgs),
    /// Run a command, and record its queries to scripts and to the machine
    #[command(
        after_help = record::EXAMPLES,
        override_usage = "kilter provider record [OPTIONS] <FILE> <COMMAND>..."
    )]
    Record(record::RecordArgs),
    /// Replay a recorded command on any machine, without scripts and without changes
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArgs),
}

impl ProviderArgs {
    /// Returns true if it runs another command, which has its own options.
    pub(crate) fn carries_out_another(&self) -> bool {
        matches!(self.command, ProviderCommand::Record(_) | ProviderCommand::Replay(_))
    }
}

pub(crate) fn run(args: &ProviderArgs, session: &Session) -> Exit {
    match &args.command {
        ProviderCommand::Check(args) => check::run(args, session),
        ProviderCommand::New(args) => new::run(args, &session.global),
        ProviderCommand::Record(_) | ProviderCommand::Replay(_) => run_another(args, &session.global),
    }
}

/// Runs a recording or a replay, which open the session of another command.
pub(crate) fn run_another(args: &ProviderArgs, global: &Global) -> Exit {
    match &args.command {
        ProviderCommand::Record(args) => record::run(args, global),
        ProviderCommand::Replay(args) => replay::run(args, global),
        ProviderCommand::Check(_) | ProviderCommand::New(_) => Exit::NotStarted,
    }
}
