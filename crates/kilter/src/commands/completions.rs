//! `kilter completions`: what shells need to complete the command.

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::{providers, say};

pub(crate) fn run(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "kilter", &mut script);
    say::bytes(&script)
}

/// The command with the types that there are as values of `TYPE`.
fn command() -> Command {
    let registry = providers::registry();
    let types: Vec<String> = registry.types().map(|provider| provider.schema().name.to_string()).collect();
    ["get", "set", "types"].into_iter().fold(Cli::command(), |command, name| {
        let parser = PossibleValuesParser::new(types.clone());
        command.mut_subcommand(name, |command| command.mut_arg("type_name", |arg| arg.value_parser(parser)))
    })
}
