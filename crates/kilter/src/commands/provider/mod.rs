//! `kilter provider`: for authors of providers.

mod check;
mod new;
mod record;
mod replay;

use clap::{Args, Subcommand};

use crate::cli::Global;
use crate::exit::Exit;
use crate::session::Session;
use crate::trust;

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

/// Function that runs a command in a session.
pub(crate) type InSession<'a> = dyn Fn(&dyn Fn(&Session) -> Exit) -> Exit + 'a;

/// Runs the command, in a session if it needs one.
pub(crate) fn run(args: &ProviderArgs, global: &Global, in_session: &InSession<'_>) -> Exit {
    match &args.command {
        ProviderCommand::Check(args) => in_session(&|session| check::run(args, session)),
        ProviderCommand::New(args) => in_session(&|session| new::run(args, &session.global)),
        // A recording or a replay opens the session of another command.
        ProviderCommand::Record(args) => trusted(global, || record::run(args, global)),
        ProviderCommand::Replay(args) => trusted(global, || replay::run(args, global)),
    }
}

/// Runs a command if the options of the trust rule are valid.
fn trusted(global: &Global, command: impl FnOnce() -> Exit) -> Exit {
    trust::policy(global).map_or_else(|exit| exit, |_| command())
}
