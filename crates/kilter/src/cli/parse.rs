//! Parsing of a command line.

use std::ffi::OsString;

use clap::{Arg, Args, CommandFactory, FromArgMatches};

use super::{Cli, Command, Global, HOSTS};

impl Cli {
    /// Parses the words of a command line, which start with the name of the program.
    ///
    /// # Errors
    /// If they are invalid. Requests for help and version count as errors.
    pub(crate) fn of(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        match direct(&words) {
            Some(cli) => Ok(cli),
            None => {
                let mut parser = Cli::parser();
                let cli = Cli::from_arg_matches_mut(&mut parser.try_get_matches_from_mut(words)?);
                cli.map_err(|refused| refused.format(&mut parser))
            }
        }
    }

    /// Returns the parser of the command line. Commands that work on this machine only do not show the options for
    /// other hosts.
    pub(crate) fn parser() -> clap::Command {
        let parser = Cli::command();
        let of_hosts: Vec<Arg> =
            parser.get_arguments().filter(|arg| arg.get_help_heading() == Some(HOSTS)).cloned().collect();
        LOCAL.into_iter().fold(parser, |parser, name| {
            // `run --from git+ssh://…` uses the configuration of ssh.
            let is_used = |arg: &Arg| name == "run" && arg.get_id() == "ssh_config";
            let hidden = |arg: &Arg| arg.clone().hide(!is_used(arg));
            parser.mut_subcommand(name, |command| command.args(of_hosts.iter().map(hidden)))
        })
    }
}

/// Commands that work on this machine only.
const LOCAL: [&str; 11] =
    ["explain", "init", "fmt", "run", "rollout", "graph", "provider", "schema", "completions", "man", "complete"];

/// Parses a valid command line of a frequent command, without the parsers of the other commands.
///
/// These parsers would take most of the start-up time. For invalid words the function returns none, and [`Cli`]
/// reports the error.
fn direct(words: &[OsString]) -> Option<Cli> {
    // If the name is the value of an option, the parser refuses the words, and the complete parser follows.
    words.iter().skip(1).filter_map(|word| word.to_str()).find_map(|name| match name {
        "apply" => Some(one(words, "apply", Command::Apply)),
        "plan" => Some(one(words, "plan", Command::Plan)),
        "get" => Some(one(words, "get", Command::Get)),
        "set" => Some(one(words, "set", Command::Set)),
        "act" => Some(one(words, "act", Command::Act)),
        "types" => Some(one(words, "types", Command::Types)),
        "facts" => Some(one(words, "facts", Command::Facts)),
        _ => None,
    })?
}

fn one<A: Args>(words: &[OsString], name: &'static str, command: fn(A) -> Command) -> Option<Cli> {
    let parser = clap::Command::new("kilter").subcommand_required(true).disable_help_flag(true);
    let parser = Global::augment_args(parser).subcommand(A::augment_args(clap::Command::new(name)));
    let mut matches = parser.try_get_matches_from(words).ok()?;
    let global = Global::from_arg_matches_mut(&mut matches).ok()?;
    let (_, mut matches) = matches.remove_subcommand()?;
    Some(Cli { command: command(A::from_arg_matches_mut(&mut matches).ok()?), global })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        ["kilter"].into_iter().chain(line.split(' ').filter(|word| !word.is_empty())).map(OsString::from).collect()
    }

    fn shown(parsed: Result<Cli, clap::Error>) -> String {
        match parsed {
            Ok(cli) => format!("{cli:?}"),
            Err(refused) => refused.to_string(),
        }
    }

    const LINES: &[&str] = &[
        "",
        "get",
        "get user",
        "get user root bob --format json",
        "get user -a uid,gid root",
        "-q get user root",
        "get --color never -I a user -I b -- -x",
        "-I get apply m.yaml",
        "-I apply get user",
        "get apply",
        "apply get",
        "apply",
        "apply -n a.yaml b.json --var a=b --var c=d --jobs 3",
        "apply --jobs 0 a.yaml",
        "apply --var a",
        "apply --format jsonl --detailed-exitcodes --no-flush -",
        "plan m.yaml -v",
        "plan -q -v m.yaml",
        "set user bob uid=7",
        "set user bob",
        "act service[sshd] restart",
        "types",
        "types file --format json",
        "facts",
        "facts os --strict off --state-dir d",
        "--state-dir=d facts",
        "get --help",
        "--help",
        "--version",
        "get --version",
        "help get",
        "gte user",
        "get user --formt json",
        "get user --format jsn",
        "graph m.yaml",
        "history",
        "provider check x",
        "run m.yaml",
        "--mold d --channel3 f plan",
    ];

    #[test]
    fn single_command_parser_equals_full_parser() {
        let direct_ones = LINES.iter().filter(|line| {
            let whole = shown(<Cli as clap::Parser>::try_parse_from(words(line)));
            assert_eq!(shown(Cli::of(words(line))), whole, "{line}");
            direct(&words(line)).is_some()
        });
        assert_eq!(direct_ones.count(), 19);
    }
}
