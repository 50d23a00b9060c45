//! `kilter get`: reads resources.

use ecow::EcoString;
use kilter_model::State;
use kilter_provider::{Context, Level, Log, Provider, Query, Wanted, get_checked};

use crate::cli::{GetArgs, Global, ResourceFormat};
use crate::exit::Exit;
use crate::resources::{self, Secrets};
use crate::{providers, say, terminal};

pub(crate) fn run(args: &GetArgs, global: &Global) -> Exit {
    let registry = providers::registry();
    let (type_name, first) = providers::split(&args.type_name);
    let provider = match providers::find(&registry, type_name) {
        Ok(provider) => provider,
        Err(exit) => return exit,
    };
    let names = names(first, &args.names);
    if let Err(exit) = providers::check_names(provider.schema(), &names) {
        return exit;
    }
    let log = Lines { from: if global.verbose { Level::Debug } else { Level::Warning } };
    let cx = Context::bare().with_log(&log).with_strictness(global.strict.into());
    match read(provider, &cx, &names) {
        Ok(states) => say::data(&shown(args, global, provider, &states, names.len())),
        Err(error) => {
            say::error(format_args!("cannot read {type_name} resources: {error}"));
            Exit::Failed
        }
    }
}

/// The names that were given, each once.
fn names(first: Option<&str>, rest: &[String]) -> Vec<EcoString> {
    let mut names: Vec<EcoString> = Vec::new();
    for name in first.into_iter().chain(rest.iter().map(String::as_str)) {
        if !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names
}

fn read(
    provider: &dyn Provider,
    cx: &Context<'_>,
    names: &[EcoString],
) -> Result<Vec<State>, kilter_provider::ProviderError> {
    if names.is_empty() {
        return get_checked(provider, cx, Query::All);
    }
    let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, None)).collect();
    let mut found = get_checked(provider, cx, Query::Named(&wanted))?;
    let in_order = names.iter().map(|name| match found.iter().position(|state| state.name == *name) {
        Some(at) => found.swap_remove(at),
        None => State::absent(name.clone()),
    });
    Ok(in_order.collect())
}

fn shown(args: &GetArgs, global: &Global, provider: &dyn Provider, states: &[State], named: usize) -> String {
    let schema = provider.schema();
    let secrets = if args.show_sensitive { Secrets::Shown } else { Secrets::Hidden };
    match args.format {
        ResourceFormat::Json => format!("{:#}\n", resources::json(schema, states, secrets)),
        ResourceFormat::Yaml => resources::yaml(schema, states, secrets),
        ResourceFormat::Puppet => resources::puppet(schema, states, secrets),
        ResourceFormat::Human => match states {
            [state] if named == 1 => resources::one(schema, state, secrets),
            states => table(global, provider, states, secrets),
        },
    }
}

fn table(global: &Global, provider: &dyn Provider, states: &[State], secrets: Secrets) -> String {
    let schema = provider.schema();
    if states.is_empty() && !global.quiet {
        say::line(format_args!("there are no resources of the type {}", schema.name));
    }
    if states.is_empty() {
        return String::new();
    }
    let (text, left) = resources::table(schema, states, secrets, terminal::columns());
    if !left.is_empty() && !global.quiet {
        say::line(format_args!("no room for {}: use a wider terminal or another --format", left.join(", ")));
    }
    text
}

/// Takes the lines that a provider writes.
struct Lines {
    from: Level,
}

impl Log for Lines {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        if level >= self.from {
            say::line(crate::render::progress::log_line(level, type_name, name, message));
        }
    }
}
