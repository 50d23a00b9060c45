//! `kilter provider`: for authors of providers.

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
    /// Write a working provider to start from, with its check
    #[command(after_help = new::EXAMPLES)]
    New(new::NewArgs),
}

pub(crate) fn run(args: &ProviderArgs, global: &Global) -> Exit {
    match &args.command {
        ProviderCommand::New(args) => new::run(args, global),
    }
}
