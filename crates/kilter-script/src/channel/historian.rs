//! Receivers of all script messages.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::Message;

/// Receiver of every message of channel 3, and of the observations of the runner: the start, input, outputs and
/// exit of each script. Secrets given to the script are redacted.
///
/// Scripts run concurrently, so several threads call this. The messages of each script are in order.
pub trait Historian: Send + Sync {
    /// Receives a message. Its name starts with the name of the script.
    fn record(&self, message: &Message);

    /// Returns true if the historian uses messages. Otherwise, the runner creates none for inputs and outputs.
    fn is_listening(&self) -> bool {
        true
    }
}

/// Historian that discards all messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHistorian;

impl Historian for NoHistorian {
    fn record(&self, _: &Message) {}

    fn is_listening(&self) -> bool {
        false
    }
}

/// Historian that writes all messages to a file as netstrings.
///
/// [`read_log`](super::read_log) reads the file. Other programs may append to it, because each message is a
/// single write.
#[derive(Debug)]
pub struct RawLog {
    state: Mutex<(File, Option<io::Error>)>,
}

impl RawLog {
    /// Opens the file at `path` for appending. Creates it with mode 0600.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<RawLog> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(RawLog { state: Mutex::new((file, None)) })
    }

    /// Returns the error of the first message that could not be written, once.
    pub fn failure(&self) -> Option<io::Error> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1.take()
    }
}

impl Historian for RawLog {
    fn record(&self, message: &Message) {
        let netstring = message.to_netstring();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, failure) = &mut *state;
        if let Err(error) = file.write_all(&netstring) {
            failure.get_or_insert(error);
        }
    }
}
