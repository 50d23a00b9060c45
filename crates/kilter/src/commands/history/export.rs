//! All events, for other programs.

use std::ops::ControlFlow;

use kilter_history::{EventKind, History, HistoryEvent, Order};
use kilter_script::mold::Message;
use serde_json::Value as Json;

use super::{Filter, junit, mold_log, process, timeline};
use crate::cli::ExportFormat;
use crate::exit::Exit;
use crate::output;
use crate::past::{refuse, time};
use crate::visible::escaped;

/// Columns of the format CSV.
const COLUMNS: &str = "time,run,resource,status,corrective,attribute,entry,old,new,place,pid,user,command\n";

/// Prints the chosen events, the oldest first.
pub(super) fn run(history: &History, filter: &Filter, format: ExportFormat) -> Result<Exit, Exit> {
    if format == ExportFormat::Junit {
        return junit::run(history, filter);
    }
    let mut written = match format {
        ExportFormat::Csv => output::write(COLUMNS),
        ExportFormat::Jsonl | ExportFormat::Junit | ExportFormat::Netstrings => Ok(()),
    };
    let mut print = |event: HistoryEvent| {
        if !filter.is_narrow() || event.kind == EventKind::Outcome && filter.has_outcome(&event) {
            written = output::write(&match format {
                ExportFormat::Jsonl => escaped(&format!("{}\n", timeline::document(&event, None))).into_owned(),
                ExportFormat::Csv => rows(&event),
                ExportFormat::Netstrings if event.kind == EventKind::Process => {
                    let messages = match process::is_own(&event) {
                        true => process::as_messages(&event),
                        false => vec![mold_log::message(&event)],
                    };
                    let text = |message: &Message| String::from_utf8_lossy(&message.to_netstring()).into_owned();
                    messages.iter().map(text).collect()
                }
                ExportFormat::Junit | ExportFormat::Netstrings => String::new(),
            });
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    history.events(&filter.selection(Order::Ascending, None), &mut print).map_err(|error| refuse(&error))?;
    Ok(end(written))
}

/// Returns the exit code of an export. A reader that has ended is no failure.
pub(super) fn end(written: std::io::Result<()>) -> Exit {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            output::fail(format_args!("cannot write to the standard output: {error}"))
        }
        _ => Exit::Done,
    }
}

/// Returns a row for each changed attribute of an outcome, or one for an outcome without.
fn rows(event: &HistoryEvent) -> String {
    let (EventKind::Outcome, Some((type_name, title))) = (event.kind, &event.resource) else { return String::new() };
    let text = |value: &Json| match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let words = |value: &Json| {
        let words: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        words.join(" ")
    };
    let row = |change: &Json| {
        let cells = [
            time::exact(event.at),
            event.run.0.to_string(),
            format!("{type_name}[{title}]"),
            text(&event.body["status"]),
            if change.is_null() { String::new() } else { (change["corrective"] == true).to_string() },
            text(&change["attribute"]),
            text(&change["entry"]),
            text(&change["old"]),
            text(&change["new"]),
            text(&event.body["place"]),
            text(&event.body["process"]["pid"]),
            text(&event.body["process"]["user"]),
            words(&event.body["process"]["command"]),
        ];
        cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\n"
    };
    match event.body["changes"].as_array() {
        Some(changes) => changes.iter().map(row).collect(),
        None => row(&Json::Null),
    }
}

/// Returns a cell as RFC 4180 has it.
fn quoted(cell: &str) -> String {
    let is_plain = !cell.contains(['"', ',', '\n', '\r']);
    if is_plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}
