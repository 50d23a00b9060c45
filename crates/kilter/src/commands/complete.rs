//! `kilter complete`: words for the completion scripts of shells. It may list resources, and never finds or changes
//! them.

use clap::{ArgMatches, Command, FromArgMatches};
use kilter_provider::{NoLog, Provider, Query, Registry, Suitability, get_checked};

use super::status;
use crate::cli::{Cli, CompleteArgs, Global};
use crate::exit::Exit;
use crate::session::Session;
use crate::{output, providers, ralsh};

/// A command line up to the cursor.
pub(crate) struct UnfinishedLine {
    command: String,
    /// Arguments before the word at the cursor, without options.
    arguments: Vec<String>,
    current: String,
}

/// Returns the line with its options for every command; none if the word at the cursor is an option or its value.
pub(crate) fn parse(args: &CompleteArgs) -> Option<(Global, UnfinishedLine)> {
    let (current, before) = args.words.split_last()?;
    // fish and zsh pass the quotes of the word at the cursor.
    let current = current.replace(['\\', '\'', '"'], "");
    let mut whole = Cli::parser().ignore_errors(true);
    let words = ["kilter"].into_iter().chain(before.iter().map(String::as_str));
    let matches = whole.try_get_matches_from_mut(words).ok()?;
    let global = Global::from_arg_matches(&matches).ok()?;
    let (name, matches) = matches.subcommand()?;
    let command = whole.find_subcommand(name)?;
    let is_value = before.last().is_some_and(|word| takes_value(&whole, word) || takes_value(command, word));
    if current.starts_with('-') || is_value {
        return None;
    }
    Some((global, UnfinishedLine { command: name.to_owned(), arguments: arguments(command, matches), current }))
}

/// Returns true if a word is an option whose value is the next word.
fn takes_value(command: &Command, word: &str) -> bool {
    command.get_arguments().filter(|arg| arg.get_action().takes_values()).any(|arg| {
        let is_long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
        is_long || arg.get_short().is_some_and(|short| word == format!("-{short}"))
    })
}

fn arguments(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let values = command.get_positionals().filter_map(|arg| matches.try_get_raw(arg.get_id().as_str()).ok()?);
    values.flatten().map(|value| value.to_string_lossy().into_owned()).collect()
}

pub(crate) fn run(line: &UnfinishedLine, session: &Session) -> Exit {
    match words(line, session) {
        Ok(words) => {
            let words = words.into_iter().filter(|word| !word.contains(char::is_control));
            output::data(&words.map(|word| word + "\n").collect::<String>())
        }
        Err(exit) => exit,
    }
}

fn words(line: &UnfinishedLine, session: &Session) -> Result<Vec<String>, Exit> {
    let first = line.arguments.first().map(|first| providers::split(first));
    let registry = || providers::registry(session);
    match (line.command.as_str(), first) {
        ("status", _) => Ok(status::states(session)?.into_keys().collect()),
        ("types", None) | ("init", _) => Ok(types(&registry()?)),
        ("get" | "set" | "act" | "explain", None) => {
            let registry = registry()?;
            let Some((type_name, _)) = line.current.split_once('[') else {
                let end = if line.command == "explain" { "[" } else { "" };
                return Ok(types(&registry).into_iter().map(|name| name + end).collect());
            };
            let names = names(session, providers::find(&registry, type_name)?.as_ref())?;
            Ok(names.into_iter().map(|name| format!("{type_name}[{name}]")).collect())
        }
        ("get", Some((type_name, _))) => names(session, providers::find(&registry()?, type_name)?.as_ref()),
        ("set" | "act", Some((type_name, None))) if line.arguments.len() == 1 => {
            names(session, providers::find(&registry()?, type_name)?.as_ref())
        }
        ("set", Some((type_name, _))) => {
            let registry = registry()?;
            let attributes = providers::find(&registry, type_name)?.schema().attributes.iter();
            Ok(attributes.filter(|attribute| ralsh::is_settable(attribute)).flat_map(ralsh::assignments).collect())
        }
        _ => Ok(Vec::new()),
    }
}

fn types(registry: &Registry) -> Vec<String> {
    registry.types().map(|provider| provider.schema().name.to_string()).collect()
}

/// Returns the titles of the resources of a provider on this machine.
fn names(session: &Session, provider: &dyn Provider) -> Result<Vec<String>, Exit> {
    let cx = session.context(&NoLog);
    if provider.suitable() != Suitability::Suitable {
        return Ok(Vec::new());
    }
    let read = provider.capabilities().session().open(&cx).and_then(|()| get_checked(provider, &cx, Query::All));
    let states = read.map_err(output::fail)?;
    Ok(states.into_iter().map(|state| state.label().to_string()).collect())
}
