//! `kilter history import`: the messages of a raw log of channel 3 as events of a run.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::SystemTime;

use kilter_history::{EventKind, History, HistoryError, NewEvent, RunId};
use kilter_runtime::StateDir;
use kilter_script::mold::{Frame, Message, read_log};
use serde_json::json;

use super::mold_log;
use crate::exit::Exit;
use crate::past::refuse;
use crate::recorder::{self, milliseconds};
use crate::session::Session;
use crate::visible::visible;
use crate::{output, signals};

/// Imports a log.
pub(super) fn run(session: &Session, path: &Path) -> Result<Exit, Exit> {
    let log = mold_log::open(path)
        .map_err(|error| output::fail(format_args!("cannot open the log {}: {error}", path.display())))?;
    let state_dir = StateDir::new(session.state_dir()?);
    let _lock = state_dir.hold().map_err(output::fail)?;
    let history = History::open(&recorder::directory(state_dir.path())).map_err(|error| refuse(&error))?;
    let mut import = LogImport { history, session, path, run: None, messages: 0, damages: 0 };
    let mut added = Ok(());
    let read = read_log(log, &mut |frames| {
        added = import.add(frames);
        if added.is_ok() && signals::exit().is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let ended = import.end(read.is_err() || signals::exit().is_some());
    added.and(ended).map_err(|error| refuse(&error))?;
    if let Err(error) = read {
        return Err(output::fail(format_args!("cannot read the log {}: {error}", path.display())));
    }
    let run = import.run.map_or_else(String::new, |run| format!("run {}: ", run.0));
    let told = output::data(&format!("{run}{} messages\n", import.messages));
    Ok(match signals::exit() {
        Some(exit) => exit,
        None if import.damages > 0 => Exit::Failed,
        None => told,
    })
}

/// Import of a log. Its run begins with the first message.
struct LogImport<'a> {
    history: History,
    session: &'a Session,
    path: &'a Path,
    run: Option<RunId>,
    messages: u64,
    damages: u64,
}

impl LogImport<'_> {
    /// Adds some messages in one transaction. Damage is reported on standard error.
    fn add(&mut self, frames: Vec<Frame<Message>>) -> Result<(), HistoryError> {
        let at = milliseconds(SystemTime::now());
        let mut batch = self.history.batch()?;
        let mut is_empty = true;
        for frame in frames {
            let message = match frame {
                Frame::Message(message) => message,
                Frame::Damage(damage) => {
                    self.damages += 1;
                    let (path, at) = (self.path.display(), damage.at);
                    output::warning(format_args!("{path}: at byte {at}: {}", visible(&damage.to_string())));
                    continue;
                }
            };
            let run = match self.run {
                Some(run) => run,
                None => batch.begin_run(at, &recorder::header(self.session, "import", &self.path.to_string_lossy()))?,
            };
            self.run = Some(run);
            let body = json!({ "name": message.name.as_deref(), "key": message.key, "data": message.data });
            batch.add(run, &NewEvent { at, kind: EventKind::Process, resource: None, body: &body.to_string() })?;
            self.messages += 1;
            is_empty = false;
        }
        if is_empty { Ok(()) } else { batch.commit() }
    }

    /// Ends the run, if there is one.
    fn end(&mut self, is_interrupted: bool) -> Result<(), HistoryError> {
        let Some(run) = self.run else { return Ok(()) };
        let body = json!({
            "messages": self.messages,
            "damages": self.damages,
            "failed": self.damages > 0,
            "interrupted": is_interrupted,
        });
        let mut batch = self.history.batch()?;
        batch.end_run(run, milliseconds(SystemTime::now()), &body)?;
        batch.commit()
    }
}
