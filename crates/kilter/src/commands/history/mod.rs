//! `kilter history`: past runs and changes.

mod diff;
mod drift;
mod export;
mod import;
mod junit;
pub(crate) mod mold_log;
mod process;
mod report;
mod runs;
mod show;
mod timeline;
mod verify;

use std::time::Duration;

use kilter_history::{EventId, HistoryEvent, Order, Selection};
use serde_json::Value as Json;

use crate::cli::{HistoryArgs, HistoryCommand, HistoryFilter, ReportFormat};
use crate::exit::Exit;
use crate::past::{RecordedResource, open, refuse, time};
use crate::session::Session;
use crate::signals;
pub(crate) use timeline::value;

/// Interval of `--follow`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(args: &HistoryArgs, session: &Session) -> Exit {
    match answered(args, session) {
        Ok(exit) | Err(exit) => exit,
    }
}

fn answered(args: &HistoryArgs, session: &Session) -> Result<Exit, Exit> {
    match &args.command {
        Some(HistoryCommand::Show { run, processes, format }) => show::run(&open(session)?, run, *processes, *format),
        Some(HistoryCommand::Diff { from, to, format }) => diff::run(&open(session)?, from, to, *format),
        Some(HistoryCommand::Drift { filter, format }) => drift::run(&open(session)?, &Filter::of(filter)?, *format),
        Some(HistoryCommand::Report { filter, output }) => {
            report::run(&open(session)?, session, &Filter::of(filter)?, output)
        }
        Some(HistoryCommand::Export { filter, format }) => export::run(&open(session)?, &Filter::of(filter)?, *format),
        Some(HistoryCommand::Import { raw_log }) => import::run(session, raw_log),
        Some(HistoryCommand::Verify { expect }) => verify::run(&open(session)?, expect.as_deref()),
        Some(HistoryCommand::Prune { before }) => verify::prune(session, before),
        None => listed(args, session),
    }
}

/// Lists the runs, or the changes of a resource.
fn listed(args: &HistoryArgs, session: &Session) -> Result<Exit, Exit> {
    let history = open(session)?;
    let filter = Filter::of(&args.filter)?;
    let list = List { filter, lines: args.lines, format: args.format };
    let resource = args.resource.as_deref().map(|name| RecordedResource::of(&history, name)).transpose()?;
    let mut last = history.last().map_err(|error| refuse(&error))?;
    let exit = match &resource {
        Some(subject) => timeline::run(&history, subject, &list)?,
        None => runs::run(&history, session, &list)?,
    };
    if !args.follow || exit != Exit::Done {
        return Ok(exit);
    }
    loop {
        std::thread::sleep(FOLLOW_INTERVAL);
        if let Some(exit) = signals::exit() {
            return Ok(exit);
        }
        let now = history.last().map_err(|error| refuse(&error))?;
        if now == last {
            continue;
        }
        let told = match &resource {
            Some(subject) => timeline::follow(&history, subject, &list, last)?,
            None => runs::follow(&history, session, &list, last)?,
        };
        if told != Exit::Done {
            return Ok(told);
        }
        last = now;
    }
}

/// List of runs or changes.
pub(super) struct List {
    filter: Filter,
    /// Maximum number of entries; 0 for all.
    lines: usize,
    format: ReportFormat,
}

/// Choice of runs and changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    selection: Selection,
    type_name: Option<String>,
    is_corrective: bool,
    is_failed: bool,
}

impl Filter {
    fn of(args: &HistoryFilter) -> Result<Filter, Exit> {
        let time = |text: &Option<String>| text.as_deref().map(time::parsed).transpose();
        let selection = Selection { since: time(&args.since)?, until: time(&args.until)?, ..Selection::default() };
        let type_name = args.type_name.clone();
        Ok(Filter { selection, type_name, is_corrective: args.corrective, is_failed: args.failed })
    }

    fn selection(&self, order: Order, after: Option<EventId>) -> Selection {
        Selection { order, after, ..self.selection }
    }

    /// Returns true if the filter chooses only some of the outcomes.
    fn is_narrow(&self) -> bool {
        self.type_name.is_some() || self.is_corrective || self.is_failed
    }

    /// Returns true if a time is within the chosen period.
    fn has_time(&self, at: i64) -> bool {
        self.selection.since.is_none_or(|since| since <= at) && self.selection.until.is_none_or(|until| at < until)
    }

    /// Returns true if an outcome is chosen.
    fn has_outcome(&self, event: &HistoryEvent) -> bool {
        let type_name = event.resource.as_ref().map(|(type_name, _)| type_name);
        let is_of_type = self.type_name.as_ref().is_none_or(|wanted| Some(wanted) == type_name);
        let is_corrective = !self.is_corrective || event.body["corrective"] == true;
        let is_failed = !self.is_failed || event.body["status"] == "failed";
        is_of_type && is_corrective && is_failed
    }
}

/// Returns true if the process of a run without an end still works.
fn is_under_way(begin: &Json) -> bool {
    let Some(pid) = begin["pid"].as_u64() else { return false };
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let own = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    !name.is_empty() && name == own
}
