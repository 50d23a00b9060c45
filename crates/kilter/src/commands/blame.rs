//! `kilter blame`: the origin of the values of a resource.

use std::ops::ControlFlow;

use kilter_history::{EventId, EventKind, History, HistoryEvent, RunId, Selection};
use serde_json::{Value as Json, json};

use super::history::value;
use crate::cli::{BlameArgs, ReportFormat};
use crate::exit::Exit;
use crate::output;
use crate::past::{RecordedResource, open, refuse, time, user};
use crate::session::Session;
use crate::table::Table;
use crate::visible::visible;

/// Last change of an attribute.
struct ValueOrigin {
    attribute: String,
    entry: Option<String>,
    new: Json,
    is_corrective: bool,
    at: i64,
    run: RunId,
    event: EventId,
    place: Option<String>,
    /// First event of the run.
    begin: Json,
}

impl ValueOrigin {
    /// Takes the manifests that were in effect, which a run that holds a state may have read later.
    fn take_manifests(&mut self, history: &History) -> Result<(), Exit> {
        // Only a run that holds a state reads its manifests again.
        if self.begin["command"] != "run" {
            return Ok(());
        }
        let mut take = |event: HistoryEvent| {
            if event.id > self.event {
                return ControlFlow::Break(());
            }
            if event.kind == EventKind::Declared {
                self.begin["manifests"] = event.body["manifests"].clone();
            }
            ControlFlow::Continue(())
        };
        history.events_of(self.run, &mut take).map_err(|error| refuse(&error))
    }
}

/// Runs the command.
pub(crate) fn run(args: &BlameArgs, session: &Session) -> Exit {
    match blamed(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn blamed(args: &BlameArgs, session: &Session) -> Result<Exit, Exit> {
    let history = open(session)?;
    let subject = RecordedResource::of(&history, &args.resource)?;
    let origins = origins(&history, &subject, args.attribute.as_deref())?;
    if origins.is_empty() {
        let of = args.attribute.as_ref().map(|name| format!("`{name}` of ")).unwrap_or_default();
        let why = "it was in its state before, or the events were removed because of their age";
        output::line(format_args!("no recorded run has changed {of}{}: {why}", args.resource));
        return Ok(Exit::Done);
    }
    Ok(match args.format {
        ReportFormat::Json => output::data(&format!("{:#}\n", origins.iter().map(document).collect::<Json>())),
        ReportFormat::Human => output::data(&table(&origins)),
    })
}

/// Returns the last change of each attribute, the newest first.
fn origins(history: &History, subject: &RecordedResource, attribute: Option<&str>) -> Result<Vec<ValueOrigin>, Exit> {
    let mut origins: Vec<ValueOrigin> = Vec::new();
    let mut add = |event: HistoryEvent| {
        if event.kind == EventKind::Outcome && event.body["status"] == "changed" {
            add_changes(&mut origins, &event, attribute);
        }
        // A resource that was created has no older values.
        let is_created =
            event.body["changes"].as_array().into_iter().flatten().any(|change| {
                change["attribute"] == "ensure" && change["old"] == "absent" && change["entry"].is_null()
            });
        if is_created { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let read = history.timeline(&subject.type_name, &subject.title, &Selection::default(), &mut add);
    read.map_err(|error| refuse(&error))?;
    // The values of a new resource are changes of their own, as a rule.
    if attribute.is_some_and(|wanted| origins.iter().any(|origin| origin.attribute == wanted)) {
        origins.retain(|origin| Some(origin.attribute.as_str()) == attribute);
    }
    for origin in &mut origins {
        let run = history.run(origin.run).map_err(|error| refuse(&error))?;
        origin.begin = run.map(|run| run.begin.body).unwrap_or_default();
        origin.take_manifests(history)?;
    }
    Ok(origins)
}

fn add_changes(origins: &mut Vec<ValueOrigin>, event: &HistoryEvent, attribute: Option<&str>) {
    for change in event.body["changes"].as_array().into_iter().flatten() {
        let name = change["attribute"].as_str().unwrap_or_default();
        let entry = change["entry"].as_str().map(str::to_owned);
        // A new resource has all its values from the change of `ensure`.
        let is_wanted = attribute.is_none_or(|wanted| wanted == name || name == "ensure" && change["old"] == "absent");
        let is_known = origins.iter().any(|one| one.attribute == name && one.entry == entry);
        if is_wanted && !is_known {
            origins.push(ValueOrigin {
                attribute: name.to_owned(),
                entry,
                new: change["new"].clone(),
                is_corrective: change["corrective"] == true,
                at: event.at,
                run: event.run,
                event: event.id,
                place: event.body["place"].as_str().map(str::to_owned),
                begin: Json::Null,
            });
        }
    }
}

/// Returns the commit of the manifest of a place.
fn commit(origin: &ValueOrigin) -> Option<&str> {
    let path = origin.place.as_deref()?;
    let manifests = origin.begin["manifests"].as_array()?;
    let of_place = |one: &&Json| one["path"].as_str().is_some_and(|known| path.starts_with(known));
    manifests.iter().find(of_place)?["commit"].as_str()
}

fn table(origins: &[ValueOrigin]) -> String {
    let mut table = Table::new(["attribute", "value", "time", "run", "user", "why", "declared in", "commit"]);
    for origin in origins {
        let entry = origin.entry.as_ref().map(|entry| format!("{}: ", visible(entry))).unwrap_or_default();
        table.row([
            format!("{entry}{}", visible(&origin.attribute)),
            value(&origin.new).chars().take(40).collect(),
            time::shown(origin.at),
            origin.run.0.to_string(),
            visible(&user(&origin.begin)),
            if origin.is_corrective { "drift repaired" } else { "declared" }.to_owned(),
            visible(origin.place.as_deref().unwrap_or("")),
            visible(commit(origin).and_then(|commit| commit.get(..12)).unwrap_or("")),
        ]);
    }
    table.render(None).0
}

fn document(origin: &ValueOrigin) -> Json {
    json!({
        "attribute": origin.attribute,
        "entry": origin.entry,
        "value": origin.new,
        "time": time::exact(origin.at),
        "run": origin.run.0,
        "command": origin.begin["command"],
        "user": user(&origin.begin),
        "corrective": origin.is_corrective,
        "place": origin.place,
        "commit": commit(origin),
    })
}
