//! Who is told everything that scripts do.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::channel::Message;

/// Receives every message of channel 3, and what the runner itself sees: the start of each script, its input, its
/// outputs and its end. Secrets that a script was given have been taken out.
///
/// Scripts run side by side, so it is called from several threads; messages of one script come in order.
pub trait Historian: Send + Sync {
    /// Takes a message. The name in it begins with that of the script.
    fn record(&self, message: &Message);

    /// Whether messages are of any use: where they are not, what scripts read and write is not made into any.
    fn is_listening(&self) -> bool {
        true
    }
}

/// Forgets everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHistorian;

impl Historian for NoHistorian {
    fn record(&self, _: &Message) {}

    fn is_listening(&self) -> bool {
        false
    }
}

/// Keeps messages as they are in a file: one netstring behind the other.
///
/// [`read_log`](super::read_log) reads it. Others may append to it meanwhile: each message is written at once.
#[derive(Debug)]
pub struct RawLog {
    state: Mutex<(File, Option<io::Error>)>,
}

impl RawLog {
    /// Appends to the file at `path`; one that is not there is made with mode 0600.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<RawLog> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        Ok(RawLog { state: Mutex::new((file, None)) })
    }

    /// Why the log is not whole: the first message that could not be written. Told once.
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
