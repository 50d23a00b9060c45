//! `kilter completions`: completion scripts for shells. clap generates them; those for bash, zsh and fish also call
//! `kilter complete` for the names of types, resources and attributes.

use clap::Command;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use kilter_provider::Registry;

use crate::cli::{Called, Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, providers, ralsh};

/// Beginning of the last lines of the generated script for zsh. `completion.zsh` replaces these lines.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_kilter\" ]";

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
    let mut script = String::from_utf8_lossy(&script).into_owned();
    match args.shell {
        Shell::Bash => script += concat!("\n", include_str!("../words.bash"), "\n", include_str!("completion.bash")),
        Shell::Zsh => match script.rfind(ZSH_END) {
            Some(end) => script.replace_range(end.., include_str!("completion.zsh")),
            None => return output::fail("the generated script for zsh has another end than expected"),
        },
        Shell::Fish => script += include_str!("completion.fish"),
        _ => {}
    }
    output::bytes(script.as_bytes())
}

/// Returns the command with the existing types as values of `TYPE`.
fn command(registry: &Registry) -> Command {
    let types: Vec<String> = registry.types().map(|provider| provider.schema().name.to_string()).collect();
    ["get", "set", "types"].into_iter().fold(Cli::parser(), |command, name| {
        let parser = PossibleValuesParser::new(types.clone());
        command.mut_subcommand(name, |command| command.mut_arg("type_name", |arg| arg.value_parser(parser)))
    })
}
