//! `kilter act`: a one-time action on one resource.

use ecow::EcoString;
use kilter_model::{Attributes, Outcome, Value, to_json};
use kilter_provider::{Context, Interrupt, Level, Provider, Suitability, Wanted, canonical_name};
use serde_json::json;

use super::get::Lines;
use crate::cli::{ActArgs, ReportFormat};
use crate::exit::Exit;
use crate::render::diff::visible;
use crate::render::{FAILED, NAME, styled};
use crate::session::Session;
use crate::{output, parse_value, pauses, providers, signals};

pub(crate) fn run(args: &ActArgs, session: &Session) -> Exit {
    match act(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn act(args: &ActArgs, session: &Session) -> Result<Exit, Exit> {
    let state_dir = session.state_dir_if_any().filter(|_| !args.even_if_paused);
    state_dir.as_deref().map_or(Ok(()), pauses::refuse)?;
    let registry = providers::registry(session)?;
    session.record.settle();
    let (type_name, title, action) = said(args)?;
    let provider = providers::find(&registry, type_name)?;
    let name = named(session, provider, title)?;
    let actions = kilter_provider::actions(provider, action)
        .map_err(|problem| output::fail_with(&problem.message, &problem.hint))?;
    signals::listen()?;
    if let Suitability::Unsuitable(why) = provider.suitable() {
        let of = &provider.schema().name;
        return Err(output::fail(format_args!(
            "the provider `{}` of {of} is not suitable here: {why}",
            provider.name()
        )));
    }
    let log = Lines { from: if session.global.verbose { Level::Debug } else { Level::Warning } };
    let interrupt = Interrupt::new(signals::raised(), None);
    let cx = Context::empty()
        .with_log(&log)
        .with_strictness(session.global.strict.into())
        .with_interrupt(interrupt)
        .with_hostname(session.host());
    // A pause may have begun while the providers started.
    state_dir.as_deref().map_or(Ok(()), pauses::refuse)?;
    let outcome = actions.act(&cx, Wanted::new(&name, None), action);
    let reference = format!("{}[{title}]", provider.schema().name);
    let shown = match args.format {
        ReportFormat::Human => human(&reference, action, &outcome, session),
        ReportFormat::Json => format!("{:#}\n", document(&reference, action, &outcome)),
    };
    let told = if shown.is_empty() { Exit::Done } else { output::data(&shown) };
    Ok(match (&outcome.failure, told) {
        (Some(_), _) => signals::exit().unwrap_or(Exit::Failed),
        // Exit code 1 would mean that the action did not run.
        (None, Exit::NotStarted) => Exit::Failed,
        (None, told) => told,
    })
}

/// Reads `TYPE[NAME] ACTION` or `TYPE NAME ACTION`.
fn said(args: &ActArgs) -> Result<(&str, &str, &str), Exit> {
    let (type_name, name) = providers::split(&args.type_name);
    match (name, args.words.as_slice()) {
        (Some(name), [action]) => Ok((type_name, name, action)),
        (None, [name, action]) => Ok((type_name, name, action)),
        (Some(_), _) => Err(output::fail("one action is given: kilter act TYPE[NAME] ACTION")),
        (None, _) => Err(output::fail("a resource and an action are given: kilter act TYPE[NAME] ACTION")),
    }
}

fn named(session: &Session, provider: &dyn Provider, title: &str) -> Result<EcoString, Exit> {
    let schema = provider.schema();
    let identified = schema.identify(title, &Attributes::default());
    let (name, namevars) = identified.map_err(|error| parse_value::misnamed(schema, title, &error))?;
    Ok(canonical_name(provider, &providers::declaring(session.host()), &name, &namevars).map_or(name, |(name, _)| name))
}

fn human(reference: &str, action: &str, outcome: &Outcome, session: &Session) -> String {
    let notes = outcome.notes.iter().map(|note| format!("  {}\n", visible(note)));
    let notes: String = notes.chain(lines_of(outcome).map(|line| format!("  {line}\n"))).collect();
    let resource = styled(NAME, visible(reference));
    match &outcome.failure {
        Some(why) => format!("{resource} {action}: {}\n{notes}  {}\n", styled(FAILED, "failed"), visible(why)),
        None if session.global.quiet => notes,
        None => format!("{resource} {action}: done\n{notes}"),
    }
}

/// Returns the entries of the document that an action printed, for people.
pub(crate) fn lines_of(outcome: &Outcome) -> impl Iterator<Item = String> {
    let entries = outcome.document.as_ref().and_then(Value::as_hash);
    let entry = |(key, value): (&EcoString, &Value)| match value.as_str() {
        Some(text) => format!("{}: {}", visible(key), visible(text)),
        None => format!("{}: {}", visible(key), visible(&to_json(value).to_string())),
    };
    entries.into_iter().flatten().map(entry)
}

fn document(reference: &str, action: &str, outcome: &Outcome) -> serde_json::Value {
    let mut document = json!({
        "resource": reference,
        "action": action,
        "status": if outcome.is_done() { "done" } else { "failed" },
        "failure": outcome.failure.as_deref(),
        "notes": outcome.notes.iter().map(EcoString::as_str).collect::<Vec<_>>(),
    });
    if let Some(printed) = &outcome.document {
        document["document"] = to_json(printed);
    }
    document
}
