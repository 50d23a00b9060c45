//! Reading the history: the parts that several commands use.

mod changes;
pub(crate) mod time;

use std::collections::HashSet;
use std::ops::ControlFlow;

use kilter_history::{EventKind, History, HistoryError, HistoryEvent, RunId, RunRecord, Selection};
use kilter_runtime::StateDir;
use serde_json::Value as Json;

use crate::exit::Exit;
use crate::session::Session;
use crate::visible::visible;
use crate::{output, providers, recorder};
pub(crate) use changes::{
    RecordedChange, RecordedRefresh, UndoRefusal, add_defaults, has_changes, of_resource, of_run, of_unconfirmed,
    refreshes, restoration, run_of_process, since,
};

/// Resource of a question: its type, and its titles in the history.
pub(crate) struct RecordedResource {
    pub(crate) type_name: String,
    pub(crate) title: String,
}

impl RecordedResource {
    /// Finds a resource by `TYPE[NAME]`: its title, or its name on the system.
    ///
    /// # Errors
    /// If the history does not contain it; reported.
    pub(crate) fn of(history: &History, text: &str) -> Result<RecordedResource, Exit> {
        let (type_name, Some(name)) = providers::split(text) else {
            return Err(output::fail_with(
                format_args!("`{text}` is no resource"),
                ["write it as TYPE[NAME], such as 'file[/etc/motd]'"],
            ));
        };
        let titles = history.titles(type_name, name).map_err(|error| refuse(&error))?;
        match titles.into_iter().next() {
            Some(title) => Ok(RecordedResource { type_name: type_name.to_owned(), title }),
            None => Err(output::fail_with(
                format_args!("the history does not contain {text}"),
                ["it lists resources that a recorded run has changed or declared"],
            )),
        }
    }
}

/// Opens the history for reading.
///
/// # Errors
/// If there is none, or it cannot be read; reported.
pub(crate) fn open(session: &Session) -> Result<History, Exit> {
    let state_dir = session.state_dir()?;
    // An undo does what the history says.
    StateDir::new(&state_dir).verify().map_err(output::fail)?;
    let directory = recorder::directory(&state_dir);
    match History::read(&directory) {
        Ok(Some(history)) => Ok(history),
        Ok(None) => Err(output::fail_with(
            format_args!("there is no history in {} yet", directory.display()),
            ["apply, run, set and act record what they change"],
        )),
        Err(error) => Err(refuse(&error)),
    }
}

/// Reports that the history cannot be used.
pub(crate) fn refuse(error: &HistoryError) -> Exit {
    output::fail(error)
}

/// Returns the run with this number, or the last one.
///
/// # Errors
/// If there is no such run; reported.
pub(crate) fn found_run(history: &History, word: &str) -> Result<RunRecord, Exit> {
    let mut found = None;
    if word == "last" {
        let mut take = |run| {
            found = Some(run);
            ControlFlow::Break(())
        };
        history.runs(&Selection::default(), &mut take).map_err(|error| refuse(&error))?;
    } else {
        let number = word.parse().map_err(|_| {
            output::fail_with(
                format_args!("`{word}` is no run"),
                ["write its number, or `last`; `kilter history` lists them"],
            )
        })?;
        found = history.run(RunId(number)).map_err(|error| refuse(&error))?;
    }
    found.ok_or_else(|| output::fail_with(format_args!("there is no run {word}"), ["`kilter history` lists the runs"]))
}

/// Returns the newest run that has changed resources.
///
/// # Errors
/// If the history cannot be read; reported.
pub(crate) fn last_changing_run(history: &History) -> Result<Option<RunRecord>, Exit> {
    let mut result = Ok(None);
    let mut find = |run: RunRecord| {
        let mut has_changed = false;
        // Changes whose result is not recorded: kilter was killed.
        let mut pending = HashSet::new();
        let mut look = |event: HistoryEvent| {
            match (event.kind, event.resource) {
                (EventKind::Before, resource) => {
                    let created = event.body["created"].as_array().into_iter().flatten();
                    let created = created.filter_map(|one| Some((one[0].as_str()?.into(), one[1].as_str()?.into())));
                    pending.extend(created.chain(resource));
                }
                (EventKind::Outcome, Some(resource)) => {
                    has_changed = event.body["status"] == "changed";
                    // A change that was interrupted may be complete.
                    if event.body["status"] != "interrupted" {
                        pending.remove(&resource);
                    }
                }
                _ => {}
            }
            if has_changed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match history.events_of(run.id, &mut look) {
            Ok(()) if !has_changed && pending.is_empty() => return ControlFlow::Continue(()),
            Ok(()) => result = Ok(Some(run)),
            Err(error) => result = Err(refuse(&error)),
        }
        ControlFlow::Break(())
    };
    history.runs(&Selection::default(), &mut find).map_err(|error| refuse(&error))?;
    result
}

/// Returns the command of a run, and the changes that it undid.
pub(crate) fn command(begin: &Json) -> String {
    let command = begin["command"].as_str().unwrap_or("?");
    match begin["subject"].as_str() {
        Some(subject) => visible(&format!("{command} {subject}")),
        None => visible(command),
    }
}

/// Returns the user of a run: the one who logged in, and the one whose rights the run had.
pub(crate) fn user(begin: &Json) -> String {
    let own = begin["user"].as_str().map_or_else(|| format!("uid {}", begin["uid"]), str::to_owned);
    match &begin["login"] {
        Json::Null => own,
        Json::String(login) => format!("{login} as {own}"),
        login => format!("uid {login} as {own}"),
    }
}
