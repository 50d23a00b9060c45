//! A session on a host, as the controller sees it.

mod opening;

use std::io;
use std::time::{Duration, Instant};

use kilter_process::{Coprocess, CoprocessEvent, Output, Signal, SpawnError, Stream, WriteError};
use serde_json::{Value as Json, json};

use crate::compressed::hexadecimal;
use crate::frame::{self, FrameKind};
pub use opening::{OpenError, Settings};

/// Number of bytes of the error output that are kept for messages.
const MAX_COMPLAINT: usize = 4096;

/// Maximum size of a returned file in bytes.
const MAX_RETURNED: usize = 256 << 20;

/// Interval of signs of life during a command.
const ALIVE: Duration = Duration::from_secs(15);

/// Interval in which a wait looks at the flag of an interruption.
const TICK: Duration = Duration::from_millis(100);

/// Reason why a command has no result.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection was lost.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// A signal ended kilter on the host.
    #[error("kilter on {host} was ended by signal {signal}{}", signal_name(*signal))]
    Killed {
        /// Name of the host.
        host: String,
        /// Number of the signal.
        signal: i32,
    },
}

impl LinkError {
    /// Creates the error of a command without a result in this time.
    pub fn timed_out(timeout: Duration) -> LinkError {
        LinkError::Lost(format!("it was closed, because there was no result within {} s", timeout.as_secs()))
    }
}

/// Returns the name of a signal in parentheses, after a space; an empty text for a real-time signal.
fn signal_name(signal: i32) -> String {
    Signal::name_of(signal).map(|name| format!(" ({name})")).unwrap_or_default()
}

/// Returns the signal that ended a program, from the exit code that a shell makes of it.
fn signal_of_code(code: i32) -> Option<i32> {
    (1..=64).contains(&(code - 128)).then_some(code - 128)
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        LinkError::Lost(error.to_string())
    }
}

/// A command for the host.
#[derive(Clone, Debug, Default)]
pub struct RemoteCall {
    /// Arguments of kilter.
    pub args: Vec<String>,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// Files for the working directory of the command, by name.
    pub files: Vec<(String, Vec<u8>)>,
    /// Names of files of the working directory to return.
    pub returns: Vec<String>,
    /// Maximum duration; unlimited if none.
    pub timeout: Option<Duration>,
}

/// Result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Exit code.
    pub code: u8,
    /// Requested files that exist.
    pub files: Vec<(String, Vec<u8>)>,
}

/// A session on a host.
#[derive(Debug)]
pub struct RemoteSession {
    /// Name of the host.
    host: String,
    child: Coprocess,
    received: Vec<u8>,
    complaint: Vec<u8>,
    /// End of the program that leads to the host.
    ended: Option<Result<Output, SpawnError>>,
}

impl RemoteSession {
    /// Executes a command. `output` gets its output as it arrives. The command ends after its step in flight as soon as
    /// `is_cancelled` returns true, which kilter calls several times per second.
    ///
    /// # Errors
    /// If the connection is lost, or the time is over. The command then ends on the host after its step in flight.
    pub fn call(
        &mut self,
        call: &RemoteCall,
        is_cancelled: &dyn Fn() -> bool,
        output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Finished, LinkError> {
        for (name, content) in &call.files {
            self.announce(&json!({ "file": name, "size": content.len() }), content, is_cancelled)?;
        }
        if !call.stdin.is_empty() {
            self.announce(&json!({ "stdin": true, "size": call.stdin.len() }), &call.stdin, is_cancelled)?;
        }
        self.message(&json!({ "call": call.args, "returns": call.returns }), is_cancelled)?;
        let mut finished = Finished::default();
        let mut has_sent_cancel = false;
        let mut alive = Instant::now();
        let until = call.timeout.map(|timeout| Instant::now() + timeout);
        loop {
            while let Some(frame) = frame::take(&mut self.received)? {
                match frame.kind {
                    FrameKind::Stdout => output(Stream::Stdout, &frame.payload),
                    FrameKind::Stderr => output(Stream::Stderr, &frame.payload),
                    FrameKind::Alive => {}
                    FrameKind::Content => match finished.files.last_mut() {
                        Some((_, content)) if content.len() + frame.payload.len() <= MAX_RETURNED => {
                            content.extend_from_slice(&frame.payload);
                        }
                        Some(_) => return Err(LinkError::Lost("the host returns more than 256 MiB".to_owned())),
                        None => return Err(frame::damaged().into()),
                    },
                    FrameKind::Message => {
                        let message = frame.message()?;
                        if let Some(code) = message["exit"].as_u64() {
                            finished.code = u8::try_from(code).unwrap_or(u8::MAX);
                            return Ok(finished);
                        }
                        if let Some(signal) = message["signal"].as_i64() {
                            return Err(self.killed(i32::try_from(signal).unwrap_or_default()));
                        }
                        match returned(&message, &call.returns) {
                            Some(name) if finished.files.len() < call.returns.len() => {
                                finished.files.push((name, Vec::new()))
                            }
                            _ => return Err(self.failure(&message)),
                        }
                    }
                }
            }
            if self.ended.is_some() {
                let lost = || LinkError::Lost(self.complaint_or("the host closed it"));
                return Err(self.signal().map_or_else(lost, |signal| self.killed(signal)));
            }
            if let (Some(timeout), Some(until)) = (call.timeout, until)
                && Instant::now() >= until
            {
                return Err(LinkError::timed_out(timeout));
            }
            if !has_sent_cancel && is_cancelled() {
                has_sent_cancel = true;
                self.message(&json!({ "cancel": true }), is_cancelled)?;
            }
            if alive.elapsed() >= ALIVE {
                alive = Instant::now();
                frame::write(&mut Sender(self, is_cancelled), FrameKind::Alive, &[])?;
            }
            self.receive(TICK);
        }
    }

    /// Ends the session and waits for its end.
    pub fn close(mut self) {
        self.child.close_input();
        let until = Instant::now() + Duration::from_secs(10);
        while self.ended.is_none() && Instant::now() < until {
            self.receive(TICK);
        }
    }

    /// Returns the signal that ended the program on the host.
    fn signal(&self) -> Option<i32> {
        self.ended.as_ref()?.as_ref().ok()?.status.code().and_then(signal_of_code)
    }

    fn killed(&self, signal: i32) -> LinkError {
        LinkError::Killed { host: self.host.clone(), signal }
    }

    /// Returns the signal that ended the program on the host, or else its error output, or else this text.
    fn end_reason_or(&self, usual: &str) -> String {
        self.signal().map_or_else(|| self.complaint_or(usual), |signal| self.killed(signal).to_string())
    }

    fn failure(&mut self, message: &Json) -> LinkError {
        LinkError::Lost(message["error"].as_str().unwrap_or("an unknown message").to_owned())
    }

    fn announce(&mut self, message: &Json, content: &[u8], is_cancelled: &dyn Fn() -> bool) -> Result<(), LinkError> {
        self.message(message, is_cancelled)?;
        Ok(frame::write(&mut Sender(self, is_cancelled), FrameKind::Content, content)?)
    }

    fn message(&mut self, message: &Json, is_cancelled: &dyn Fn() -> bool) -> Result<(), LinkError> {
        Ok(frame::write_message(&mut Sender(self, is_cancelled), message)?)
    }

    /// Writes to the host.
    fn send(&mut self, bytes: &[u8], until: Option<Instant>, is_cancelled: &dyn Fn() -> bool) -> io::Result<()> {
        let written = self.child.write(bytes, until, is_cancelled);
        written.map_err(|error| match error {
            WriteError::Io(error) => error,
            other => io::Error::other(other.to_string()),
        })
    }

    /// Takes the line with the marker, without it, and all bytes before.
    fn marked_line(&mut self, marker: &str) -> Option<String> {
        let at = self.received.windows(marker.len()).position(|window| window == marker.as_bytes())?;
        let length = self.received[at..].iter().position(|byte| *byte == b'\n')?;
        let line = String::from_utf8_lossy(&self.received[at + marker.len()..at + length]).trim().to_owned();
        self.received.drain(..=at + length);
        Some(line)
    }

    /// Waits for bytes for at most `time`, and keeps them.
    fn receive(&mut self, time: Duration) {
        match self.child.next(time) {
            Some(CoprocessEvent::Stdout(bytes)) => self.received.extend_from_slice(&bytes),
            Some(CoprocessEvent::Stderr(bytes)) => {
                self.complaint.extend_from_slice(&bytes);
                let surplus = self.complaint.len().saturating_sub(MAX_COMPLAINT);
                self.complaint.drain(..surplus);
            }
            Some(CoprocessEvent::Ended(ended)) => self.ended = Some(*ended),
            None => {}
        }
    }

    /// Returns the error output of the way to the host, or this text if there is none.
    fn complaint_or(&self, usual: &str) -> String {
        let text = String::from_utf8_lossy(&self.complaint);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| is_reason(line)).collect();
        if lines.is_empty() { usual.to_owned() } else { lines.join("; ") }
    }
}

/// Returns true if a line of error output is no mere notice.
fn is_reason(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("Warning: Permanently added")
}

/// Returns the name of a returned file, if it was requested.
fn returned(message: &Json, requested: &[String]) -> Option<String> {
    let name = message["file"].as_str()?;
    requested.iter().find(|requested| *requested == name).cloned()
}

/// Writer to a host. A cancellation ends a write that the host does not take.
struct Sender<'a>(&'a mut RemoteSession, &'a dyn Fn() -> bool);

impl io::Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes, None, self.1).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns 32 hexadecimal digits.
pub(crate) fn random_word() -> io::Result<String> {
    let mut bytes = [0; 16];
    random(&mut bytes)?;
    Ok(hexadecimal(&bytes))
}

fn random(bytes: &mut [u8]) -> io::Result<()> {
    let count = rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())?;
    if count == bytes.len() { Ok(()) } else { Err(io::Error::other("the system has no random numbers")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_of_a_shell_names_the_signal() {
        // 255 is the code of `ssh` itself.
        let signals = [0, 1, 128, 137, 192, 193, 255].map(signal_of_code);
        assert_eq!(signals, [None, None, None, Some(9), Some(64), None, None]);
        let error = |signal| LinkError::Killed { host: "web1".into(), signal }.to_string();
        assert_eq!(error(11), "kilter on web1 was ended by signal 11 (SIGSEGV)");
        assert_eq!(error(34), "kilter on web1 was ended by signal 34");
    }
}
