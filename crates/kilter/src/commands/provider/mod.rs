//! `kilter provider`: for authors of providers.

mod check;
mod new;

use clap::{Args, Subcommand};

use crate::cli::Global;
use crate::exit::Exit;

/// Arguments of `kilter provider`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProviderArgs {
    #[command(subcommand)]
    pub(crate) command: ProviderCommand,
}

/// What can be done with a provider that is being written.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// Put a provider to the test, and print a scorecard
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Write a working provider to start from, with its check
    #[command(after_help = new::EXAMPLES)]
    New(new::NewArgs),
}

pub(crate) fn run(args: &ProviderArgs, global: &Global) -> Exit {
    match &args.command {
        ProviderCommand::Check(args) => check::run(args, global),
        ProviderCommand::New(args) => new::run(args, global),
    }
}
