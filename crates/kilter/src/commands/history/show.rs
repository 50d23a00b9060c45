//! One run with all its events.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use kilter_history::{EventKind, History, HistoryEvent, RunRecord};
use serde_json::Value as Json;

use super::{mold_log, process, runs, timeline};
use crate::cli::ReportFormat;
use crate::exit::Exit;
use crate::output;
use crate::past::{command, found_run, refuse, time, user};
use crate::style::{FAINT, NAME, styled};
use crate::visible::visible;

/// Shows a run.
pub(super) fn run(history: &History, word: &str, shows_processes: bool, format: ReportFormat) -> Result<Exit, Exit> {
    let run = found_run(history, word)?;
    let mut written = Ok(());
    if format == ReportFormat::Human {
        written = output::write(&head(&run));
    }
    let mut view = RunView { shows_processes, is_failed: false, processes: HashMap::new() };
    let mut show = |event: HistoryEvent| {
        let text = match format {
            ReportFormat::Json => format!("{}\n", timeline::document(&event, None)),
            ReportFormat::Human => view.shown(&event),
        };
        written = output::write(&text);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    history.events_of(run.id, &mut show).map_err(|error| refuse(&error))?;
    Ok(match written {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => output::fail(format_args!("cannot write to the standard output: {error}")),
    })
}

fn head(run: &RunRecord) -> String {
    let begin = &run.begin.body;
    let mut text = format!(
        "{}  {} by {} on {}",
        styled(NAME, format!("run {}", run.id.0)),
        command(begin),
        visible(&user(begin)),
        visible(begin["host"].as_str().unwrap_or("?")),
    );
    if let Some(terminal) = begin["terminal"].as_str() {
        text += &format!(" ({})", visible(terminal));
    }
    text += &format!("\n  began  {}\n", time::shown(run.begin.at));
    if let Some(end) = &run.end {
        text += &format!("  ended  {}\n", time::shown(end.at));
    }
    for manifest in begin["manifests"].as_array().into_iter().flatten() {
        let path = visible(manifest["path"].as_str().unwrap_or("?"));
        let short = |key: &str| manifest[key].as_str().and_then(|text| text.get(..12)).map(str::to_owned);
        let commit = ["commit", "version"].into_iter().find_map(|key| Some((key, short(key)?)));
        let commit = commit.map(|(key, version)| format!(", {key} {version}")).unwrap_or_default();
        let from = match (&manifest["from"], manifest["ref"].as_str()) {
            (Json::String(from), Some(reference)) => format!(" of {} in {}", visible(reference), visible(from)),
            (Json::String(from), None) => format!(" of {}", visible(from)),
            _ => String::new(),
        };
        let digest = short("sha256").unwrap_or_default();
        text += &format!("  read   {path} {}\n", styled(FAINT, format!("(sha256 {digest}{commit}{from})")));
    }
    text
}

/// Events of a run, in their order.
struct RunView {
    /// True if the processes of all resources are shown.
    shows_processes: bool,
    /// True if the last outcome is a failure.
    is_failed: bool,
    /// Resources of the shown processes, by their numbers.
    processes: HashMap<u64, String>,
}

impl RunView {
    fn shown(&mut self, event: &HistoryEvent) -> String {
        match event.kind {
            EventKind::Process if process::is_own(event) => self.process(event),
            EventKind::Outcome => {
                self.is_failed = event.body["status"] == "failed";
                shown(event) + &self.known_processes(event)
            }
            _ => shown(event),
        }
    }

    fn process(&mut self, event: &HistoryEvent) -> String {
        if !self.shows_processes && (!self.is_failed || event.resource.is_none()) {
            return String::new();
        }
        if let (Some(number), Some((type_name, title))) = (process::number(event), &event.resource) {
            self.processes.insert(number, format!("{type_name}[{title}]"));
        }
        process::shown(event)
    }

    /// Names the processes of a result that also belong to an earlier one.
    fn known_processes(&self, event: &HistoryEvent) -> String {
        let numbers = event.body["processes"].as_array().into_iter().flatten().filter_map(Json::as_u64);
        let owners: BTreeSet<&String> = numbers.filter_map(|number| self.processes.get(&number)).collect();
        owners.iter().map(|owner| format!("    processes: see {}\n", visible(owner))).collect()
    }
}

fn shown(event: &HistoryEvent) -> String {
    match event.kind {
        EventKind::Outcome => {
            let name = event.resource.as_ref().map(|(type_name, title)| format!("{type_name}[{title}]"));
            let name = styled(NAME, visible(&name.unwrap_or_default()));
            let time = time::shown(event.at);
            let time = time.split_once(' ').map_or(time.as_str(), |(_, time)| time);
            let place = event.body["place"].as_str().map(|place| format!("  {}", styled(FAINT, visible(place))));
            format!(
                "{time}  {name} {}{}\n{}",
                timeline::word(event),
                place.unwrap_or_default(),
                timeline::details(event)
            )
        }
        EventKind::Log => {
            let text = |key: &str| visible(event.body[key].as_str().unwrap_or_default());
            let of = match (text("type"), text("name")) {
                (of, name) if name.is_empty() => of,
                (of, name) => format!("{of}[{name}]"),
            };
            format!("  {}: {of}: {}\n", text("level"), text("message"))
        }
        EventKind::Declared => {
            let mut text = format!("  declarations: {}\n", runs::declared(&event.body));
            for name in event.body["removed"]["resources"].as_array().into_iter().flatten().filter_map(Json::as_str) {
                text += &format!("    {} {}\n", visible(name), styled(FAINT, "left the manifest"));
            }
            text
        }
        EventKind::Process => format!("  {}", mold_log::line(&mold_log::message(event), ReportFormat::Human)),
        EventKind::Run | EventKind::End | EventKind::Before | EventKind::Pruned => String::new(),
    }
}
