//! `kilter completions`: completion scripts for shells.

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use kilter_model::{Behaviour, TypeSchema};
use kilter_provider::Registry;

use crate::cli::{Called, Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, providers, ralsh};

pub(crate) fn run(args: &CompletionsArgs, session: &Session) -> Exit {
    match (args.called, args.shell) {
        (Called::Ralsh, Shell::Bash) => return output::bytes(ralsh::BASH.as_bytes()),
        (Called::Ralsh, shell) => {
            return output::fail(format_args!("there is a completion of ralsh for bash, not for {shell}"));
        }
        (Called::Kilter, _) => {}
    }
    let registry = match providers::registry(session) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(&registry), "kilter", &mut script);
    if args.shell == Shell::Fish {
        script.extend(fish(&registry).into_bytes());
    }
    output::bytes(&script)
}

/// Returns additions to the generated script for fish: types, and the attributes of a type for `set`.
fn fish(registry: &Registry) -> String {
    let schemas: Vec<&TypeSchema> = registry.types().map(|provider| provider.schema()).collect();
    let types: Vec<&str> = schemas.iter().map(|schema| schema.name.as_str()).collect();
    let types = types.join(" ");
    let mut script = String::new();
    for command in ["get", "set", "types"] {
        let condition =
            format!("__fish_kilter_using_subcommand {command}; and not __fish_seen_subcommand_from {types}");
        script += &format!("complete -c kilter -n \"{condition}\" -f -a \"{types}\"\n");
    }
    for schema in schemas {
        let condition = format!("__fish_kilter_using_subcommand set; and __fish_seen_subcommand_from {}", schema.name);
        let settable = |behaviour: Behaviour| !matches!(behaviour, Behaviour::Namevar | Behaviour::ReadOnly);
        for attribute in schema.attributes.iter().filter(|attribute| settable(attribute.behaviour)) {
            let allowed = attribute.data_type.allowed();
            let words: Vec<String> = match allowed.is_empty() {
                true => vec![format!("{}=", attribute.name)],
                false => allowed.iter().map(|word| format!("{}={word}", attribute.name)).collect(),
            };
            script += &format!("complete -c kilter -n \"{condition}\" -a \"{}\"\n", words.join(" "));
        }
    }
    script
}

/// Returns the command with the existing types as values of `TYPE`.
fn command(registry: &Registry) -> Command {
    let types: Vec<String> = registry.types().map(|provider| provider.schema().name.to_string()).collect();
    ["get", "set", "types"].into_iter().fold(Cli::command(), |command, name| {
        let parser = PossibleValuesParser::new(types.clone());
        command.mut_subcommand(name, |command| command.mut_arg("type_name", |arg| arg.value_parser(parser)))
    })
}
