//! Status server: answers on the status socket, a Unix socket in the state directory.
//!
//! A request is one line of JSON, and the response consists of lines of JSON. `{"request": "status", "filter":
//! "notable"}` (or `"all"`, or a list of references) returns one document. `{"request": "follow"}` returns one document
//! for each event until either side closes. `{"request": "pause"}` (with `for_ms` and `why`) and
//! `{"request": "resume"}` return after completion. `{"request": "lend"}` returns `{"lent": true}`: the client may lock
//! the state directory and make changes until it closes the connection, and the run waits. Only the owner of the
//! state directory can access the socket.

mod follower;
mod loan;
mod request;

use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecow::EcoString;
use kilter_runtime::{Conditions, Event, Pause, StatusError, StatusHandle};
use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value as Json, json};

use crate::output;
use crate::paths;
use crate::pauses::{PauseSelection, Pauses};
use crate::render::status::{self, Corrections, line};
use crate::server::{ClientLimits, Listener, Protocol, READ_BYTES, Server, Socket, Stream};
use follower::Followers;
use request::StatusRequest;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Maximum number of concurrent clients.
const CLIENTS: usize = 32;

/// Timeout for the whole request, and for each write of a response.
const IO_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to retry while no driver answers: the run starts or ends.
const RELOAD_RETRY: Duration = Duration::from_secs(5);

/// Time to drain `--follow` clients on shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout for the answer of the driver, which may be busy with a call on its own thread.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a request in bytes.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// Number of resources in a response from which memory is returned to the system afterwards.
const TRIM_THRESHOLD: usize = 10_000;

/// Status server, running until it is dropped.
pub(crate) struct StatusServer {
    server: Arc<Server>,
    shared: Arc<StatusShared>,
    path: PathBuf,
    /// Open socket; none during shutdown.
    open: Mutex<Option<OpenSocket>>,
}

/// Open socket at the path.
struct OpenSocket {
    /// Device and inode.
    identity: (u64, u64),
    _listener: Listener,
}

/// Creates a socket with mode 0600.
///
/// Linux takes the mode of the file from the socket. No operation follows a link that another process put at the path.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Returns the device and inode at a path.
fn socket_at(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

struct StatusShared {
    state_dir: PathBuf,
    status_handle: Arc<StatusHandle>,
    pauses: Mutex<Pauses>,
    /// Command to which the state directory is lent.
    borrower: Mutex<Option<EcoString>>,
    /// Serialises loans.
    loans: Mutex<()>,
    /// Serialises requests to pause and resume.
    turn: Mutex<()>,
    followers: Followers,
    corrections: Mutex<Corrections>,
    clients: Arc<AtomicUsize>,
}

impl StatusServer {
    /// Opens the socket. The caller must hold the lock on the state directory.
    pub(crate) fn open(
        server: &Arc<Server>,
        state_dir: &Path,
        status_handle: &Arc<StatusHandle>,
        pauses: Pauses,
    ) -> io::Result<StatusServer> {
        let path = paths::status_socket(state_dir);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let shared = Arc::new(StatusShared {
            state_dir: state_dir.to_owned(),
            status_handle: Arc::clone(status_handle),
            pauses: Mutex::new(pauses),
            borrower: Mutex::default(),
            loans: Mutex::default(),
            turn: Mutex::default(),
            followers: Followers::default(),
            corrections: Mutex::default(),
            clients: Arc::default(),
        });
        let status = StatusServer { server: Arc::clone(server), shared, path, open: Mutex::default() };
        *status.socket() = Some(status.bind()?);
        Ok(status)
    }

    /// Creates the socket. The path must not exist.
    fn bind(&self) -> io::Result<OpenSocket> {
        let socket = Socket::Unix(bind(&self.path)?);
        let identity = socket_at(&self.path)?;
        let protocol = Arc::clone(&self.shared) as Arc<dyn Protocol>;
        Ok(OpenSocket { identity, _listener: self.server.listen(socket, protocol)? })
    }

    /// Returns the combination of all active pauses.
    pub(crate) fn paused(&self) -> Option<Pause> {
        self.shared.effective_pause()
    }

    /// Recreates the socket if it was removed. A file in its place stays, because it may be the socket of another
    /// run.
    pub(crate) fn rebind(&self) {
        if !socket_at(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return;
        }
        match self.bind() {
            Ok(socket) => *self.socket() = Some(socket),
            // The socket is recreated when its directory exists again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => output::warning(format_args!("`kilter status` can no longer query this run: {error}")),
        }
    }

    /// Rewrites the pauses if the state directory was removed, so that the next run is paused as well.
    pub(crate) fn restore_pauses(&self) {
        if let Err(error) = self.shared.pauses().restore() {
            output::warning(format_args!("the pauses were removed and cannot be written again: {error}"));
        }
    }

    fn socket(&self) -> MutexGuard<'_, Option<OpenSocket>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event to all followers. A change is a correction, an intentional change, or neither is known.
    pub(crate) fn broadcast(&self, event: &Event<'_>, is_corrective: Option<bool>) {
        if let (Event::Settled(report), Some(is_corrective)) = (event, is_corrective) {
            self.shared.corrections().add(&report.reference, is_corrective);
        }
        if let Event::Conditions(conditions) = event {
            let first = (**conditions != Conditions::default()).then(|| status::event(event, None)).flatten();
            self.shared.followers.set_first(first.map(|json| line(&json)));
        }
        self.shared.followers.broadcast(|| status::event(event, is_corrective).map(|json| line(&json)));
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        let identity = self.socket().take().map(|open| open.identity);
        self.shared.followers.end();
        let begun = Instant::now();
        while self.shared.clients.load(Ordering::Acquire) > 0 && begun.elapsed() < DRAIN_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        if socket_at(&self.path).ok() == identity {
            // A leftover socket refuses connections.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl StatusShared {
    fn pauses(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn borrower(&self) -> MutexGuard<'_, Option<EcoString>> {
        self.borrower.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn corrections(&self) -> MutexGuard<'_, Corrections> {
        self.corrections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the requests to pause and resume. The pauses themselves stay unlocked while the driver answers,
    /// because it may read them.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a pause, and pauses the run. Returns the number of the pause.
    fn pause(&self, pause: &Pause, by: &Json) -> Result<u64, String> {
        let _turn = self.turn();
        let keep = |error: io::Error| format!("the pause cannot be stored: {error}");
        let id = self.pauses().add(by, pause.longest, &pause.why).map_err(keep)?;
        let all = self.effective_pause().unwrap_or_else(|| pause.clone());
        let asked =
            retry_during_reload(|| self.status_handle.pause(all.clone(), QUERY_TIMEOUT)).map_err(|why| why.to_string());
        if asked.is_err() {
            // The client gets the error.
            let _ = self.pauses().end(&PauseSelection::One(id));
        }
        asked.map(|_| id)
    }

    /// Ends pauses, and resumes the run if none is left.
    fn resume(&self, which: &PauseSelection) -> Result<Json, String> {
        let _turn = self.turn();
        let was_paused = self.pauses().as_one().is_some();
        let ended = self.pauses().end(which).map_err(|error| format!("the pause cannot be ended: {error}"))?;
        let left = self.effective_pause();
        let asked = match &left {
            None => retry_during_reload(|| self.status_handle.resume(QUERY_TIMEOUT)).map(|_| ()),
            Some(left) if ended > 0 => {
                retry_during_reload(|| self.status_handle.pause(left.clone(), QUERY_TIMEOUT)).map(|_| ())
            }
            Some(_) => Ok(()),
        };
        asked.map_err(|why| why.to_string())?;
        Ok(json!({"was_paused": was_paused, "ended": ended, "left": self.pauses().lines()}))
    }
}

impl Protocol for StatusShared {
    fn limits(&self) -> ClientLimits {
        ClientLimits { name: "status", clients: CLIENTS, request_bytes: MAX_REQUEST_BYTES, timeout: IO_TIMEOUT }
    }

    fn clients(&self) -> &Arc<AtomicUsize> {
        &self.clients
    }

    fn is_whole(&self, bytes: &[u8]) -> bool {
        // Requests may be large: only the last read can contain the first line break.
        bytes[bytes.len().saturating_sub(READ_BYTES)..].contains(&b'\n')
    }

    fn answer(&self, stream: &Stream, request: io::Result<Vec<u8>>) {
        let question = request.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(question) = question else {
            return send(stream, &json!({"error": "the request is missing or is not text"}));
        };
        // The bytes after the first line are no part of the request.
        match StatusRequest::parse(question.lines().next().unwrap_or_default()) {
            Ok(request) => self.carry_out(request, stream),
            Err(why) => send(stream, &json!({"error": why})),
        }
    }

    fn refuse(&self, stream: &Stream) {
        send(stream, &json!({"error": "too many requests at the same time: try again"}));
    }
}

impl StatusShared {
    fn carry_out(&self, request: StatusRequest, stream: &Stream) {
        let answer = match request {
            StatusRequest::Follow => {
                // A follower may be slow, because it gets the number of events that it loses.
                if stream.set_write_timeout(None).is_ok() {
                    self.followers.serve(stream);
                }
                return;
            }
            StatusRequest::Status(which) => {
                match retry_during_reload(|| self.status_handle.snapshot(which.clone(), QUERY_TIMEOUT)) {
                    Ok(standings) => {
                        let are_many = standings.resources.len() >= TRIM_THRESHOLD;
                        // The client may be gone and need no answer.
                        let corrections = self.corrections().clone();
                        let _ = status::write(standings, self.pauses().to_json(), &corrections, BufWriter::new(stream));
                        if are_many {
                            kilter_process::trim_heap();
                        }
                        return;
                    }
                    Err(why) => Err(why.to_string()),
                }
            }
            StatusRequest::Pause(pause, by) => match self.pause(&pause, &by) {
                Ok(id) => {
                    // A client that did not receive the number could not end the pause.
                    let mut out = stream;
                    if out.write_all(line(&json!({"paused": true, "id": id})).as_bytes()).is_err() {
                        let _ = self.resume(&PauseSelection::One(id));
                    }
                    return;
                }
                Err(why) => Err(why),
            },
            StatusRequest::Resume(which) => self.resume(&which),
            StatusRequest::Lend { by, declared } => return self.lend(&by, &declared, stream),
        };
        send(stream, &answer.unwrap_or_else(|why| json!({"error": why})));
    }
}

/// Sends a document on one line.
fn send(mut stream: &Stream, json: &Json) {
    // The client may be gone and need no answer.
    let _ = stream.write_all(line(json).as_bytes());
}

/// Sends a request to the driver, and retries for a moment while no driver answers.
fn retry_during_reload<T>(ask: impl Fn() -> Result<T, StatusError>) -> Result<T, StatusError> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(StatusError::NoRun) if begun.elapsed() < RELOAD_RETRY => std::thread::sleep(Duration::from_millis(20)),
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_readable_during_pause_request() {
        let place = tempfile::tempdir().unwrap();
        let status_handle = Arc::new(StatusHandle::default());
        let server = Arc::new(Server::new().unwrap());
        let status_server =
            StatusServer::open(&server, place.path(), &status_handle, Pauses::read(place.path()).unwrap()).unwrap();
        let shared = Arc::clone(&status_server.shared);
        // The driver does not answer yet.
        let asking = std::thread::spawn(move || shared.pause(&Pause::default(), &Json::Null));
        let mut is_seen = false;
        while !is_seen && !asking.is_finished() {
            is_seen = status_server.paused().is_some();
            std::thread::yield_now();
        }
        assert!(is_seen);
    }
}
