//! Observer of a run: the terminal, the status server, the service manager and the status file.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write;

use ecow::EcoString;
use kilter_runtime::{Event, Observer, PendingChange, ShutdownHandle, StateDir, StateDirError};

use crate::execute::fail_text;
use crate::output;
use crate::recorder::Recorder;
use crate::render::progress::Progress;
use crate::render::status;
use crate::sd_notify::Manager;
use crate::status_server::StatusServer;

/// Receivers of events other than the terminal.
#[derive(Clone, Copy)]
pub(super) struct Outside<'a> {
    /// Status file, which records if the run is converged.
    pub(super) status: Option<&'a File>,
    pub(super) status_server: Option<&'a StatusServer>,
    /// The service manager that started this run.
    pub(super) manager: &'a RefCell<Manager>,
    pub(super) state_dir: &'a StateDir,
    /// True if another run has locked the state directory.
    pub(super) is_lost: &'a Cell<bool>,
    pub(super) stop: &'a ShutdownHandle,
}

/// Observer that shows events and forwards them.
pub(super) struct Watching<'a> {
    pub(super) progress: Progress,
    /// True if each event is printed as a line of JSON.
    pub(super) prints_json: bool,
    pub(super) outside: Outside<'a>,
    /// Number of settled resources since memory was last returned to the system.
    pub(super) settled: usize,
    /// Recorder of the run.
    pub(super) recorder: &'a RefCell<Option<Recorder>>,
    /// True if many resources have settled whose changes are not flushed: the flush frees more memory.
    pub(super) is_unflushed: bool,
}

impl Watching<'_> {
    /// Recreates and locks the state directory if it was removed. A run that cannot lock it again ends.
    ///
    /// Returns true if the directory at the path belongs to this run. The run must not write to another one.
    fn keep_state_dir(&self) -> bool {
        match self.outside.state_dir.hold() {
            // This run holds the same lock until it ends.
            Ok(_) => return true,
            Err(error @ StateDirError::Locked { .. }) => {
                if !self.outside.is_lost.replace(true) {
                    output::error(format_args!("the state directory was removed, and {error}: this run ends"));
                }
                self.outside.stop.request();
            }
            Err(error) => {
                let why = fail_text(&error);
                output::warning(format_args!("{why}: this run writes no status socket, pauses or new journal to it"));
            }
        }
        false
    }
}

/// Number of settled resources after which memory is returned to the system.
pub(super) const TRIM_THRESHOLD: usize = 1000;

impl Observer for Watching<'_> {
    fn event(&mut self, event: Event<'_>) {
        let is_corrective = self.recorder.borrow_mut().as_mut().and_then(|recorder| recorder.event(event));
        if let Some(status_server) = self.outside.status_server {
            status_server.broadcast(&event, is_corrective);
        }
        if self.prints_json
            && let Some(json) = status::event(&event, is_corrective)
        {
            // A reader that closes the pipe early does not matter. The report shows a full disk.
            let _ = output::write(&status::line(&json));
        }
        if let Event::StatusSocketChanged = event
            && self.keep_state_dir()
            && let Some(status_server) = self.outside.status_server
        {
            status_server.rebind();
            status_server.restore_pauses();
        }
        self.outside.manager.borrow_mut().notify(&event);
        match event {
            Event::Settled(_) => self.settled += 1,
            // The former catalog is freed.
            Event::Reloading => self.settled = TRIM_THRESHOLD,
            Event::Quiet(_) if self.settled >= TRIM_THRESHOLD => {
                self.settled = 0;
                self.is_unflushed = true;
                kilter_process::trim_heap();
            }
            Event::Flushed if std::mem::take(&mut self.is_unflushed) || self.settled >= TRIM_THRESHOLD => {
                self.settled = 0;
                kilter_process::trim_heap();
            }
            _ => {}
        }
        if let (Event::Converged(converged), Some(mut status)) = (&event, self.outside.status)
            && let Err(error) = status.write_all(format!("{converged}\n").as_bytes())
        {
            output::warning(format_args!("the status file cannot be written: {error}"));
        }
        self.progress.event(event);
    }

    fn before_changes(&mut self, changes: &[PendingChange<'_>]) -> Result<(), EcoString> {
        let mut recorder = self.recorder.borrow_mut();
        recorder.as_mut().map_or(Ok(()), |recorder| recorder.before_changes(changes))
    }
}
