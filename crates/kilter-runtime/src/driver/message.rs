//! Messages to the driver from other threads: answers, log lines, stop requests.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use ecow::EcoString;
use kilter_provider::{Level, Log};

use super::calls::CallKind;
use super::deadline::Deadline;
use super::status_snapshot::StatusRequest;
use super::watch_channel::WatchChannel;
use crate::step::{CallResult, Read};
use crate::worker::CallId;

/// Message to the driver from another thread.
#[derive(Debug)]
pub(super) enum Message {
    Stop,
    Done {
        call: CallId,
        doing: CallKind,
        done: Vec<CallResult>,
    },
    /// A call that read for a provider has ended. It started after `foreign` changes by other providers.
    Read {
        call: CallId,
        provider: u16,
        done: Vec<CallResult>,
        rest: Result<Read, EcoString>,
        foreign: u64,
    },
    Log {
        level: Level,
        type_name: String,
        name: String,
        message: String,
    },
    /// A worker starts a call with a timeout.
    Begun(Arc<Deadline>),
    /// The manifest has been read.
    Declared,
    /// The hub has queued events.
    WatchEvents,
    /// A status, pause or resume request.
    Query(StatusRequest),
    /// The watch of a provider has queued events.
    ProviderEvents(Arc<WatchChannel>),
    /// The watch of a provider has ended on request.
    WatchEnded(Arc<WatchChannel>),
}

impl std::fmt::Debug for CallResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Done({:?})", self.vertex)
    }
}

/// Sends log lines of providers to the driver.
pub(super) struct LogSender(pub(super) Sender<Message>);

impl Log for LogSender {
    fn log(&self, level: Level, type_name: &str, name: &str, message: &str) {
        let (type_name, name, message) = (type_name.to_owned(), name.to_owned(), message.to_owned());
        // Without a driver there is no receiver.
        let _ = self.0.send(Message::Log { level, type_name, name, message });
    }
}
