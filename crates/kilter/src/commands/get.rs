//! `kilter get`: reads resources.

use ecow::EcoString;
use kilter_model::{Attributes, State, TypeSchema};
use kilter_provider::{Context, Level, Provider, ProviderError, Query, Suitability, Wanted, get_checked, get_named};
use kilter_runtime::StateDir;

use crate::cli::{GetArgs, ResourceFormat};
use crate::exit::Exit;
use crate::render::progress::PrintedLog;
use crate::resources::{self, SecretHandling};
use crate::session::Session;
use crate::{output, parse_value, providers, signals, terminal};

pub(crate) fn run(args: &GetArgs, session: &Session) -> Exit {
    // Its threads wait for scripts and need no separate memory arenas.
    kilter_process::use_single_arena();
    let registry = match providers::registry(session) {
        Ok(registry) => registry,
        Err(exit) => return exit,
    };
    let (type_name, first) = providers::split(&args.type_name);
    let provider = match providers::find(&registry, type_name) {
        Ok(provider) => provider.as_ref(),
        Err(exit) => return exit,
    };
    session.record.settle();
    let asked = match asked(provider.schema(), &args.attributes) {
        Ok(asked) => asked,
        Err(exit) => return exit,
    };
    let names = match identified(session, provider, &names(first, &args.names)) {
        Ok(names) => names,
        Err(exit) => return exit,
    };
    match signals::interruptible(|| provider.suitable()) {
        Ok(Suitability::Suitable) => {}
        Ok(Suitability::Unsuitable(why)) => {
            let of = &provider.schema().name;
            return output::fail(format_args!(
                "the provider `{}` of {of} is not suitable here: {why}",
                provider.name()
            ));
        }
        Err(exit) => return exit,
    }
    if provider.is_external()
        && let Err(exit) = signals::listen()
    {
        return exit;
    }
    let log = PrintedLog { from: if session.global.verbose { Level::Debug } else { Level::Warning } };
    let kept = session.state_dir_if_any().map(StateDir::new);
    let cx = session.context(&log).with_var_dir(kept.as_ref().map(StateDir::path)).with_requested_attributes(&asked);
    match read(provider, &cx, &names) {
        Ok((states, failed)) => {
            for (title, error) in &failed {
                output::error(format_args!("cannot read {type_name}[{title}]: {error}"));
            }
            if let Some(exit) = signals::exit().filter(|_| !failed.is_empty()) {
                return exit;
            }
            // A JSON document is complete without resources; the other formats would claim that there are none.
            if !failed.is_empty() && states.is_empty() && args.format != ResourceFormat::Json {
                return Exit::Failed;
            }
            let told = print(args, session, provider, only(states, &asked), names.len());
            if failed.is_empty() { told } else { Exit::Failed }
        }
        Err(error) => {
            output::error(format_args!("cannot read {type_name} resources: {error}"));
            signals::exit().unwrap_or(Exit::Failed)
        }
    }
}

/// Returns the given names, each once.
fn names(first: Option<&str>, rest: &[String]) -> Vec<EcoString> {
    let mut names: Vec<EcoString> = Vec::new();
    for name in first.into_iter().chain(rest.iter().map(String::as_str)) {
        if !names.iter().any(|known| known == name) {
            names.push(name.into());
        }
    }
    names
}

/// Requested resource.
struct RequestedResource {
    title: EcoString,
    /// Its name on the system.
    name: EcoString,
    /// Values of its namevars, if the type has several.
    namevars: Option<Attributes>,
}

/// Identifies the resources of the titles, and reports invalid titles.
fn identified(
    session: &Session,
    provider: &dyn Provider,
    titles: &[EcoString],
) -> Result<Vec<RequestedResource>, Exit> {
    let schema = provider.schema();
    let mut named: Vec<RequestedResource> = Vec::with_capacity(titles.len());
    let mut refused = None;
    for title in titles {
        match providers::identified(provider, session.host(), title) {
            Ok((name, _)) if named.iter().any(|one| one.name == name) => {}
            Ok((name, namevars)) => named.push(RequestedResource { title: title.clone(), name, namevars }),
            Err(error) => refused = Some(parse_value::misnamed(schema, title, &error)),
        }
    }
    match refused {
        Some(exit) => Err(exit),
        None => Ok(named),
    }
}

/// Returns the attributes to print, all of which the type must have; none for all.
fn asked(schema: &TypeSchema, names: &[String]) -> Result<Vec<EcoString>, Exit> {
    let mut refused = None;
    for name in names.iter().filter(|name| schema.known(name).is_none()) {
        refused = Some(parse_value::no_attribute(schema, name));
    }
    match refused {
        Some(exit) => Err(exit),
        None => Ok(names.iter().map(EcoString::from).collect()),
    }
}

/// Titles of unreadable resources, with the reasons.
type Failed = Vec<(EcoString, ProviderError)>;

fn read(
    provider: &dyn Provider,
    cx: &Context<'_>,
    names: &[RequestedResource],
) -> Result<(Vec<State>, Failed), ProviderError> {
    if names.is_empty() {
        return Ok((get_checked(provider, cx, Query::All)?, Vec::new()));
    }
    let wanted = names.iter();
    let wanted: Vec<Wanted<'_>> = wanted
        .map(|one| Wanted {
            name: &one.name,
            namevars: one.namevars.as_ref(),
            should: None,
            received: &[],
            noop: false,
            refresh: false,
        })
        .collect();
    let mut found = get_named(provider, cx, &wanted)?;
    let (mut states, mut failed) = (Vec::with_capacity(names.len()), Vec::new());
    for one in names {
        match found.iter().position(|(name, _)| *name == one.name).map(|at| found.swap_remove(at).1) {
            Some(Ok(state)) => states.push(state),
            Some(Err(error)) => failed.push((one.title.clone(), error)),
            None => states.push(State { title: Some(one.title.clone()), ..State::absent(one.name.clone()) }),
        }
    }
    Ok((states, failed))
}

/// Removes all attributes that were not requested.
fn only(mut states: Vec<State>, asked: &[EcoString]) -> Vec<State> {
    if !asked.is_empty() {
        for state in &mut states {
            state.attributes.retain(|name, _| asked.iter().any(|asked| name == asked.as_str()));
        }
    }
    states
}

fn print(args: &GetArgs, session: &Session, provider: &dyn Provider, states: Vec<State>, named: usize) -> Exit {
    let schema = provider.schema().listing(states.iter().map(|state| &state.attributes));
    let schema = schema.as_ref();
    let secrets = if args.show_sensitive { SecretHandling::Shown } else { SecretHandling::Hidden };
    let text = match args.format {
        ResourceFormat::Json => {
            return output::parts(resources::json(schema, states, secrets).chain(["\n".to_owned()]));
        }
        ResourceFormat::Yaml => resources::yaml(schema, &states, secrets),
        ResourceFormat::Puppet => match resources::puppet(schema, provider.name(), &states, secrets) {
            Ok(text) => text,
            Err(why) => return output::fail_with(why, ["`--format yaml` prints a manifest that kilter can apply"]),
        },
        ResourceFormat::Human => match states.as_slice() {
            [state] if named == 1 => resources::one(schema, state, secrets),
            states => table(session, schema, states, secrets),
        },
    };
    // The process ends: freeing a long list would only take time.
    std::mem::forget(states);
    output::data(&text)
}

fn table(session: &Session, schema: &TypeSchema, states: &[State], secrets: SecretHandling) -> String {
    if states.is_empty() && !session.global.quiet {
        output::line(format_args!("there are no resources of the type {}", schema.name));
    }
    if states.is_empty() {
        return String::new();
    }
    let (text, left) = resources::table(
        schema,
        states,
        secrets,
        session.record.record_or_replay("columns", || serde_json::Value::Null, terminal::columns),
    );
    if !left.is_empty() && !session.global.quiet {
        output::line(format_args!("no room for {}: use a wider terminal or another --format", left.join(", ")));
    }
    text
}
