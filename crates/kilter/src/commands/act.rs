//! `kilter act`: a one-time action on one resource.

use std::sync::Arc;

use ecow::EcoString;
use kilter_model::{Outcome, Resource, ResourceRef, SourceId, Span, Value, to_json};
use kilter_provider::{Provider, Suitability, ValidationError};
use kilter_runtime::{Mode, Perform, Prepared, one_time};
use serde_json::json;

use super::exec_options::ExecOptions;
use crate::cli::{ActArgs, ReportFormat};
use crate::exit::Exit;
use crate::session::Session;
use crate::style::{FAILED, NAME, styled};
use crate::visible::visible;
use crate::{output, parse_value, pauses, providers, signals};

pub(crate) fn run(args: &ActArgs, session: &Session) -> Exit {
    match act(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn act(args: &ActArgs, session: &Session) -> Result<Exit, Exit> {
    let pass = ExecOptions::one_by_one(Mode::Apply, args.format, args.even_if_paused);
    let state_dir = session.state_dir_if_any().filter(|_| !args.even_if_paused);
    state_dir.as_deref().map_or(Ok(()), pauses::refuse)?;
    let registry = providers::registry(session)?;
    session.record.settle();
    let (type_name, title, action) = parsed_args(args)?;
    let provider = providers::find(&registry, type_name)?;
    let (name, _) = providers::identified(provider.as_ref(), session.host(), title)
        .map_err(|error| parse_value::misnamed(provider.schema(), title, &error))?;
    let prepared = prepared(provider, (title, name), action, session)
        .map_err(|problem| output::fail_with(&problem.message, &problem.hint))?;
    signals::listen()?;
    if let Suitability::Unsuitable(why) = provider.suitable() {
        let of = &provider.schema().name;
        return Err(output::fail(format_args!(
            "the provider `{}` of {of} is not suitable here: {why}",
            provider.name()
        )));
    }
    // A pause may have begun while the providers started.
    let outcome = pass.action(&prepared, session)?;
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

/// Prepares the run of an action on a resource, given by its title and its name.
///
/// # Errors
/// If the resources of the provider have no such action.
pub(crate) fn prepared(
    provider: &Arc<dyn Provider>,
    (title, name): (&str, EcoString),
    action: &str,
    session: &Session,
) -> Result<Prepared, ValidationError> {
    kilter_provider::actions(provider.as_ref(), action)?;
    let reference = ResourceRef::new(provider.schema().name.clone(), title);
    let resource = Resource::new(reference, name, Span::new(SourceId(0), 0, 0));
    let word = EcoString::from(action);
    let perform: Box<Perform<dyn Provider>> =
        Box::new(move |provider, cx, wanted| match kilter_provider::actions(provider, &word) {
            Ok(actions) => actions.act(cx, wanted, &word),
            Err(problem) => Outcome::failed(problem.message),
        });
    Ok(one_time(Arc::clone(provider), resource, action, session.host(), perform))
}

/// Reads `TYPE[NAME] ACTION` or `TYPE NAME ACTION`.
fn parsed_args(args: &ActArgs) -> Result<(&str, &str, &str), Exit> {
    let (type_name, name) = providers::split(&args.type_name);
    match (name, args.words.as_slice()) {
        (Some(name), [action]) => Ok((type_name, name, action)),
        (None, [name, action]) => Ok((type_name, name, action)),
        (Some(_), _) => Err(output::fail("one action is given: kilter act TYPE[NAME] ACTION")),
        (None, _) => Err(output::fail("a resource and an action are given: kilter act TYPE[NAME] ACTION")),
    }
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
