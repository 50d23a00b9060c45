//! A connection to systemd.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kilter_provider::Interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::BusError;
use super::message::{Body, BusMessage, MAX_MESSAGE_BYTES, MessageKind};

/// Name of systemd on a bus.
const SYSTEMD: &str = "org.freedesktop.systemd1";
/// Name and path of the bus itself.
const BUS: (&str, &str) = ("org.freedesktop.DBus", "/org/freedesktop/DBus");

/// Maximum number of calls that wait for their answers. Buses limit it.
const MAX_PENDING_CALLS: usize = 64;
/// Maximum size of a line of the authentication, in bytes.
const MAX_AUTH_LINE_BYTES: usize = 4096;
/// Interval of the checks of an interrupt that has no descriptor.
const FLAG_INTERVAL: Duration = Duration::from_millis(100);

/// Sockets at which systemd can be reached.
#[derive(Clone, Debug)]
pub(crate) struct Sockets {
    /// Socket of systemd itself, for root only. It works without a bus, and while the bus restarts.
    pub(crate) private: PathBuf,
    /// Socket of the bus of the system.
    pub(crate) bus: PathBuf,
}

/// Limit of a wait.
#[derive(Clone, Copy)]
pub(crate) struct WaitLimit<'a> {
    /// Time at which the wait ends, and its duration. None if it is unlimited.
    until: Option<(Instant, Duration)>,
    interrupt: Interrupt<'a>,
}

impl<'a> WaitLimit<'a> {
    pub(crate) fn of(longest: Duration, interrupt: Interrupt<'a>) -> WaitLimit<'a> {
        WaitLimit { until: Some((Instant::now() + longest, longest)), interrupt }
    }

    pub(crate) fn unlimited(interrupt: Interrupt<'a>) -> WaitLimit<'a> {
        WaitLimit { until: None, interrupt }
    }

    /// Waits until the stream is ready, or to the end of the patience without a stream.
    fn wait(&self, stream: Option<&UnixStream>, flags: PollFlags) -> Result<(), BusError> {
        loop {
            if self.interrupt.is_raised() {
                return Err(BusError::Interrupted);
            }
            let left = match self.until {
                Some((until, longest)) => match until.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => return Err(BusError::Late(longest.as_secs())),
                    left => Some(left),
                },
                None => None,
            };
            let slice = if self.interrupt.fd().is_some() {
                left
            } else {
                Some(left.unwrap_or(FLAG_INTERVAL).min(FLAG_INTERVAL))
            };
            let slice = slice
                .map(|slice| Timespec { tv_sec: slice.as_secs().cast_signed(), tv_nsec: slice.subsec_nanos().into() });
            let interrupt = self.interrupt.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let stream = stream.map(|stream| PollFd::from_borrowed_fd(stream.as_fd(), flags));
            let has_stream = stream.is_some();
            let mut polled: Vec<PollFd<'_>> = stream.into_iter().chain(interrupt).collect();
            match poll(&mut polled, slice.as_ref()) {
                Ok(_) if has_stream && !polled[0].revents().is_empty() => return Ok(()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(BusError::Lost(error.to_string())),
            }
        }
    }

    /// Waits for this duration, or until the end of the patience.
    pub(crate) fn pause(&self, duration: Duration) -> Result<(), BusError> {
        let paused = WaitLimit { until: Some((Instant::now() + duration, duration)), interrupt: self.interrupt };
        match paused.wait(None, PollFlags::IN) {
            Err(BusError::Late(_)) => Ok(()),
            ended => ended,
        }
    }
}

/// A method call of an object of systemd.
pub(crate) struct BusCall<'a> {
    pub(crate) path: &'a str,
    pub(crate) interface: &'a str,
    pub(crate) member: &'a str,
    pub(crate) signature: &'a str,
    pub(crate) body: Body,
}

/// A connection to systemd, directly or through a bus.
pub(crate) struct Connection {
    stream: UnixStream,
    /// Name of systemd on the bus. Empty without a bus.
    destination: &'static str,
    serial: u32,
    received: Vec<u8>,
    /// Signals that arrived during calls, if they are wanted.
    signals: VecDeque<BusMessage>,
    keeps_signals: bool,
}

impl Connection {
    /// Connects to systemd.
    ///
    /// # Errors
    /// If nothing listens at the sockets, or if the authentication fails.
    pub(crate) fn open(sockets: &Sockets, patience: WaitLimit<'_>) -> Result<Connection, BusError> {
        let is_root = rustix::process::geteuid().is_root();
        if is_root && let Ok(stream) = UnixStream::connect(&sockets.private) {
            return Connection::authenticated(stream, "", &sockets.private, patience);
        }
        let stream = UnixStream::connect(&sockets.bus).map_err(|error| unconnected(&sockets.bus, &error))?;
        let mut connection = Connection::authenticated(stream, SYSTEMD, &sockets.bus, patience)?;
        connection.ask_bus("Hello", None, patience)?;
        Ok(connection)
    }

    /// Authenticates as the user of this process (D-Bus Specification, "Authentication Protocol", `EXTERNAL`).
    fn authenticated(
        stream: UnixStream,
        destination: &'static str,
        path: &Path,
        patience: WaitLimit<'_>,
    ) -> Result<Connection, BusError> {
        stream.set_nonblocking(true).map_err(|error| unconnected(path, &error))?;
        let (received, signals) = (Vec::new(), VecDeque::new());
        let mut connection = Connection { stream, destination, serial: 0, received, signals, keeps_signals: false };
        let uid = rustix::process::geteuid().as_raw().to_string();
        let uid: String = uid.bytes().map(|digit| format!("{digit:02x}")).collect();
        // With one write, as sd-bus does: if systemd received `BEGIN` together with a call, it would not answer the
        // call until more bytes arrive.
        connection.send(format!("\0AUTH EXTERNAL {uid}\r\nBEGIN\r\n").as_bytes(), patience)?;
        let line = connection.line(patience)?;
        if !line.starts_with(b"OK ") {
            return Err(unconnected(path, &"the authentication was rejected"));
        }
        Ok(connection)
    }

    /// Requests the signals of systemd. They are kept from now on.
    pub(crate) fn subscribe(&mut self, patience: WaitLimit<'_>) -> Result<(), BusError> {
        self.keeps_signals = true;
        if !self.destination.is_empty() {
            self.ask_bus("AddMatch", Some("type='signal',sender='org.freedesktop.systemd1'"), patience)?;
        }
        let manager = "org.freedesktop.systemd1.Manager";
        let path = "/org/freedesktop/systemd1";
        let subscribe = BusCall { path, interface: manager, member: "Subscribe", signature: "", body: Body::default() };
        match self.call(subscribe, patience) {
            // Another user of this connection has subscribed before.
            Ok(_) => Ok(()),
            Err(BusError::Refused { name, .. }) if name.ends_with(".AlreadySubscribed") => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Calls a method and waits for the answer.
    ///
    /// # Errors
    /// If the call is refused, or if there is no answer.
    pub(crate) fn call(&mut self, call: BusCall<'_>, patience: WaitLimit<'_>) -> Result<BusMessage, BusError> {
        let mut answers = self.call_all([call], patience)?;
        answers.pop().ok_or(BusError::Malformed("an answer is missing"))?
    }

    /// Makes several calls, without a wait between them. Returns an answer for each.
    ///
    /// # Errors
    /// If answers are missing.
    pub(crate) fn call_all<'a>(
        &mut self,
        calls: impl IntoIterator<Item = BusCall<'a>>,
        patience: WaitLimit<'_>,
    ) -> Result<Vec<Result<BusMessage, BusError>>, BusError> {
        let mut calls = calls.into_iter().peekable();
        let mut answers = Vec::new();
        while calls.peek().is_some() {
            let first = self.serial + 1;
            let mut bytes = Vec::new();
            for call in calls.by_ref().take(MAX_PENDING_CALLS) {
                let serial = self.next_serial();
                bytes.extend(message(call, self.destination, serial).encode());
            }
            let count = (self.serial + 1 - first) as usize;
            self.send(&bytes, patience)?;
            answers.extend(self.answers(first, count, patience)?);
        }
        Ok(answers)
    }

    /// Waits for the answers to the calls with these serials.
    fn answers(
        &mut self,
        first: u32,
        count: usize,
        patience: WaitLimit<'_>,
    ) -> Result<Vec<Result<BusMessage, BusError>>, BusError> {
        let mut answers: Vec<Option<Result<BusMessage, BusError>>> = (0..count).map(|_| None).collect();
        let mut missing = count;
        while missing > 0 {
            let message = self.receive(patience)?;
            let at = message.answers.wrapping_sub(first) as usize;
            match message.kind {
                MessageKind::Signal => self.keep(message),
                MessageKind::Return | MessageKind::Error if at < count && answers[at].is_none() => {
                    answers[at] = Some(outcome(message));
                    missing -= 1;
                }
                MessageKind::Call | MessageKind::Return | MessageKind::Error => {}
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Returns the next signal.
    ///
    /// # Errors
    /// If the connection ends, or the wait.
    pub(crate) fn signal(&mut self, patience: WaitLimit<'_>) -> Result<BusMessage, BusError> {
        loop {
            if let Some(signal) = self.signals.pop_front() {
                return Ok(signal);
            }
            let message = self.receive(patience)?;
            if message.kind == MessageKind::Signal {
                self.keep(message);
            }
        }
    }

    /// Keeps a signal if signals are wanted. Only systemd sends broadcasts that match; another user of the bus may send
    /// a signal to this connection alone.
    fn keep(&mut self, signal: BusMessage) {
        if self.keeps_signals && (self.destination.is_empty() || signal.destination.is_empty()) {
            self.signals.push_back(signal);
        }
    }

    /// Removes the signals that have arrived.
    pub(crate) fn forget_signals(&mut self) {
        self.signals.clear();
    }

    fn ask_bus(&mut self, member: &str, argument: Option<&str>, patience: WaitLimit<'_>) -> Result<(), BusError> {
        let mut body = Body::default();
        argument.into_iter().for_each(|text| body.string(text));
        let signature = if argument.is_some() { "s" } else { "" };
        let call = BusCall { path: BUS.1, interface: BUS.0, member, signature, body };
        let serial = self.next_serial();
        self.send(&message(call, BUS.0, serial).encode(), patience)?;
        self.answers(serial, 1, patience)?.into_iter().try_for_each(|answer| answer.map(drop))
    }

    fn next_serial(&mut self) -> u32 {
        self.serial += 1;
        self.serial
    }

    /// Sends bytes. Reads at the same time, because the other side may wait until its answers are read.
    fn send(&mut self, mut bytes: &[u8], patience: WaitLimit<'_>) -> Result<(), BusError> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    patience.wait(Some(&self.stream), PollFlags::IN | PollFlags::OUT)?;
                    self.fill()?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(BusError::Lost(error.to_string())),
            }
        }
        Ok(())
    }

    fn receive(&mut self, patience: WaitLimit<'_>) -> Result<BusMessage, BusError> {
        loop {
            if let Some(message) = BusMessage::take(&mut self.received)? {
                return Ok(message);
            }
            if !self.fill()? {
                patience.wait(Some(&self.stream), PollFlags::IN)?;
            }
        }
    }

    /// Reads bytes that have arrived. Returns false if there are none.
    fn fill(&mut self) -> Result<bool, BusError> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(BusError::Lost("systemd has closed it".into())),
            Ok(_) if self.received.len() > 2 * MAX_MESSAGE_BYTES => Err(BusError::Malformed("it sends without an end")),
            Ok(read) => {
                self.received.extend_from_slice(&chunk[..read]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(BusError::Lost(error.to_string())),
        }
    }

    /// Reads a line of the authentication.
    fn line(&mut self, patience: WaitLimit<'_>) -> Result<Vec<u8>, BusError> {
        loop {
            if let Some(end) = self.received.windows(2).position(|two| two == b"\r\n") {
                let line = self.received.drain(..end + 2).collect();
                return Ok(line);
            }
            if self.received.len() > MAX_AUTH_LINE_BYTES {
                return Err(BusError::Malformed("a line of the authentication has no end"));
            }
            if !self.fill()? {
                patience.wait(Some(&self.stream), PollFlags::IN)?;
            }
        }
    }
}

fn unconnected(path: &Path, why: &dyn std::fmt::Display) -> BusError {
    BusError::Unconnected { path: path.display().to_string(), why: why.to_string() }
}

fn message(call: BusCall<'_>, destination: &str, serial: u32) -> BusMessage {
    BusMessage {
        serial,
        path: call.path.into(),
        interface: call.interface.into(),
        member: call.member.into(),
        destination: destination.into(),
        signature: call.signature.into(),
        body: call.body.bytes,
        ..BusMessage::default()
    }
}

fn outcome(message: BusMessage) -> Result<BusMessage, BusError> {
    if message.kind != MessageKind::Error {
        return Ok(message);
    }
    let text = message.first("s").and_then(|mut reader| reader.string().map(str::to_owned)).unwrap_or_default();
    let text = if text.is_empty() { message.error.clone() } else { text };
    Err(BusError::Refused { name: message.error, message: text })
}
