//! Channel through which other threads query and control a run.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ecow::EcoString;

use super::message::Message;
use super::pause_state::Pause;
use super::status_snapshot::{StatusFilter, StatusRequest, StatusSnapshot};
use crate::prepare::Prepared;

/// Channel through which other threads query and control a run that holds a state.
#[derive(Debug, Default)]
pub struct StatusHandle {
    driver: Mutex<Option<Sender<Message>>>,
}

/// Reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// There is no run.
    #[error("nothing is held just now: the run is about to start or to end")]
    NoRun,
    /// The driver is busy for longer than the timeout.
    #[error("the run is busy and does not answer")]
    Busy,
}

impl StatusHandle {
    /// Requests a snapshot and waits up to `longest`.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn snapshot(&self, which: StatusFilter, longest: Duration) -> Result<StatusSnapshot, StatusError> {
        self.ask(|answer| StatusRequest::Status(which, answer), longest)
    }

    /// Pauses the run; returns true if it was paused already.
    ///
    /// Running calls continue: [`StatusSnapshot::in_flight`] is their number.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn pause(&self, pause: Pause, longest: Duration) -> Result<bool, StatusError> {
        self.ask(|answer| StatusRequest::Pause(pause, answer), longest)
    }

    /// Resumes the run; returns true if it was paused.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn resume(&self, longest: Duration) -> Result<bool, StatusError> {
        self.ask(StatusRequest::Resume, longest)
    }

    /// Returns the catalog that the run holds.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn catalog(&self, longest: Duration) -> Result<Arc<Prepared>, StatusError> {
        self.ask(StatusRequest::Catalog, longest)
    }

    /// Prepares the loan of the state directory by a paused run: it closes its files there. Returns false while calls
    /// are in flight. The caller then releases the locks by [`StateDir::lend`](crate::StateDir::lend).
    ///
    /// # Errors
    /// If there is no answer. The inner error is the reason why the run cannot lend it.
    pub fn lend(&self, longest: Duration) -> Result<Result<bool, EcoString>, StatusError> {
        self.ask(StatusRequest::Lend, longest)
    }

    /// Ends the loan, after the locks were taken back and before a resume.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn take_back(&self, longest: Duration) -> Result<(), StatusError> {
        self.ask(StatusRequest::TakeBack, longest)
    }

    fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> StatusRequest, longest: Duration) -> Result<T, StatusError> {
        let (sender, receiver) = channel();
        let question = question(sender);
        match &*self.driver.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(driver) => driver.send(Message::Query(question)).map_err(|_| StatusError::NoRun)?,
            None => return Err(StatusError::NoRun),
        }
        receiver.recv_timeout(longest).map_err(|error| match error {
            std::sync::mpsc::RecvTimeoutError::Timeout => StatusError::Busy,
            std::sync::mpsc::RecvTimeoutError::Disconnected => StatusError::NoRun,
        })
    }

    pub(super) fn attach(&self, driver: Option<Sender<Message>>) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = driver;
    }
}
