//! Uploads.

use std::io::Read;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::{FetchError, agent, check_url};

/// Maximum size of an answer in bytes. The rest is not read.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// A text to send to a server.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Address: `https://…` or `http://…`.
    pub url: String,
    /// Value of `Content-Type`.
    pub content_type: &'static str,
    /// Further headers, which may contain secrets.
    pub headers: Vec<(String, String)>,
    /// The text.
    pub body: String,
    /// Maximum duration of the upload and its answer.
    pub timeout: Duration,
}

/// Sends a text by POST, and returns the answer, of which it reads at most 64 KiB. It follows no redirects.
///
/// # Errors
/// If the server is not reached, or answers with another status than success. The error contains no header.
pub fn post(upload: Upload) -> Result<Vec<u8>, FetchError> {
    check_url(&upload.url).map_err(FetchError::Url)?;
    let (sender, receiver) = sync_channel(1);
    let timeout = upload.timeout;
    // The search for the address of a server cannot be interrupted. The thread ends by its timeouts.
    let started = std::thread::Builder::new().name("upload".into()).spawn(move || {
        let _ = sender.send(upload.send());
    });
    started.map_err(|error| FetchError::Transport(format!("cannot start a thread: {error}")))?;
    let timed_out = |_| FetchError::Transport(format!("no answer within {} s", timeout.as_secs()));
    receiver.recv_timeout(timeout).map_err(timed_out)?
}

impl Upload {
    fn send(self) -> Result<Vec<u8>, FetchError> {
        let mut request = agent(&self.url, self.timeout)?.post(&self.url).header("Content-Type", self.content_type);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let response = request.send(&self.body).map_err(|error| FetchError::Transport(error.to_string()))?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            return Err(FetchError::Status(status));
        }
        let mut answer = Vec::new();
        let mut reader = response.into_body().into_with_config().limit(u64::MAX).reader().take(MAX_ANSWER_BYTES);
        reader.read_to_end(&mut answer).map_err(|error| FetchError::Transport(error.to_string()))?;
        Ok(answer)
    }
}
