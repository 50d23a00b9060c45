//! Status server: a Unix socket in the state directory.
//!
//! A request is one line of JSON, and the response consists of lines of JSON. `{"ask": "status", "which":
//! "notable"}` (or `"all"`, or a list of references) returns one document. `{"ask": "follow"}` returns one document
//! for each event until either side closes. `{"ask": "pause"}` (with `for_ms` and `why`) and `{"ask": "resume"}`
//! return after completion. Only the owner of the state directory can access the socket.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kilter_model::ResourceRef;
use kilter_runtime::{Event, Pause, StatusError, StatusFilter, StatusHandle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::{Value as Json, json};

use crate::attendant::AcceptLoop;
use crate::output;
use crate::pauses::{Ends, Pauses};
use crate::render::status;

/// Name of the socket in the state directory.
const NAME: &str = "status.sock";

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Maximum number of concurrent clients.
const CLIENTS: usize = 32;

/// Timeout for reading a request, and for each write of a response.
const IO_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which an idle follower connection is checked.
const LOOK: Duration = Duration::from_secs(1);

/// Maximum time to retry while the run is between two graphs.
const RELOAD_RETRY: Duration = Duration::from_secs(5);

/// Time to drain `--follow` clients on shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout for the answer of the driver, which may be busy with a call on its own thread.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a request in bytes.
const MAX_REQUEST_BYTES: u64 = 1 << 20;

/// Number of resources in a response from which memory is returned to the system afterwards.
const TRIM_THRESHOLD: usize = 10_000;

/// Maximum number of events in the queue of a follower. It loses further events, and gets their number.
const FOLLOWER_QUEUE_LEN: usize = 4096;

/// Returns the path of the socket.
pub(crate) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(NAME)
}

/// Status server, running until it is dropped.
pub(crate) struct StatusServer {
    shared: Arc<Shared>,
    path: PathBuf,
    /// Open socket; none during shutdown.
    door: Mutex<Option<Listener>>,
}

/// Socket with its accept loop.
struct Listener {
    /// Device and inode of the socket.
    socket: (u64, u64),
    _attendant: AcceptLoop,
}

impl Listener {
    /// Creates the socket. The path must not exist.
    fn open(path: &Path, shared: &Arc<Shared>) -> io::Result<Listener> {
        let listener = bind(path)?;
        listener.set_nonblocking(true)?;
        let answering = Arc::clone(shared);
        let attendant = AcceptLoop::new("status", listener, move |listener| take(listener, &answering))?;
        Ok(Listener { socket: socket_at(path)?, _attendant: attendant })
    }
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

struct Shared {
    window: Arc<StatusHandle>,
    pauses: Mutex<Pauses>,
    /// Serialises requests to pause and resume.
    turn: Mutex<()>,
    followers: Mutex<Vec<Follower>>,
    clients: AtomicUsize,
    /// Number of followers so far.
    followed: AtomicU64,
}

/// Counted client, until it is dropped.
struct Client(Arc<Shared>);

impl Client {
    /// Counts a further client; none if there are too many.
    fn new(shared: &Arc<Shared>) -> Option<Client> {
        let client = Client(Arc::clone(shared));
        (shared.clients.fetch_add(1, Ordering::AcqRel) < CLIENTS).then_some(client)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Follower {
    number: u64,
    lines: SyncSender<Arc<str>>,
    /// Number of lost events.
    lost: u64,
}

impl StatusServer {
    /// Opens the socket. The caller must hold the lock on the state directory.
    pub(crate) fn open(state_dir: &Path, window: &Arc<StatusHandle>, pauses: Pauses) -> io::Result<StatusServer> {
        let path = path(state_dir);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let shared = Arc::new(Shared {
            window: Arc::clone(window),
            pauses: Mutex::new(pauses),
            turn: Mutex::default(),
            followers: Mutex::default(),
            clients: AtomicUsize::new(0),
            followed: AtomicU64::new(0),
        });
        let door = Listener::open(&path, &shared)?;
        Ok(StatusServer { shared, path, door: Mutex::new(Some(door)) })
    }

    /// Returns the combination of all active pauses.
    pub(crate) fn paused(&self) -> Option<Pause> {
        self.shared.pauses().as_one()
    }

    /// Returns the path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Recreates the socket if it was removed. A file in its place stays, because it may be the socket of another
    /// run.
    pub(crate) fn rebind(&self) {
        if !socket_at(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return;
        }
        match Listener::open(&self.path, &self.shared) {
            Ok(door) => *self.door() = Some(door),
            // The socket is recreated when its directory exists again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => output::warning(format_args!("`kilter status` cannot ask this run any more: {error}")),
        }
    }

    /// Rewrites the pauses if the state directory was removed, so that the next run is paused as well.
    pub(crate) fn restore_pauses(&self) {
        if let Err(error) = self.shared.pauses().restore() {
            output::warning(format_args!("the pauses were removed and cannot be written again: {error}"));
        }
    }

    fn door(&self) -> MutexGuard<'_, Option<Listener>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event to all followers.
    pub(crate) fn broadcast(&self, event: &Event<'_>) {
        let mut followers = self.shared.followers();
        if followers.is_empty() {
            return;
        }
        let Some(json) = status::event(event) else { return };
        let line: Arc<str> = line(&json).into();
        followers.retain_mut(|follower| follower.tell(&line));
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        let door = self.door().take();
        let socket = door.as_ref().map(|door| door.socket);
        drop(door);
        self.shared.followers().clear();
        let begun = Instant::now();
        while self.shared.clients.load(Ordering::Acquire) > 0 && begun.elapsed() < DRAIN_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        if socket_at(&self.path).ok() == socket {
            // A leftover socket refuses connections.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Shared {
    fn pauses(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the requests to pause and resume. The pauses themselves stay unlocked while the driver answers,
    /// because it may read them.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a pause, and pauses the run. Returns the number of the pause.
    fn pause(&self, pause: &Pause, by: &Json) -> Result<u64, String> {
        let _turn = self.turn();
        let keep = |error: io::Error| format!("the pause cannot be kept: {error}");
        let id = self.pauses().add(by, pause.longest, &pause.why).map_err(keep)?;
        let all = self.pauses().as_one().unwrap_or_else(|| pause.clone());
        let asked =
            retry_during_reload(|| self.window.pause(all.clone(), QUERY_TIMEOUT)).map_err(|why| why.to_string());
        if asked.is_err() {
            // The client gets the error.
            let _ = self.pauses().end(&Ends::One(id));
        }
        asked.map(|_| id)
    }

    /// Ends pauses, and resumes the run if none is left.
    fn resume(&self, which: &Ends) -> Result<Json, String> {
        let _turn = self.turn();
        let was_paused = self.pauses().as_one().is_some();
        let ended = self.pauses().end(which).map_err(|error| format!("the pause cannot be ended: {error}"))?;
        let left = self.pauses().as_one();
        let asked = match &left {
            None => retry_during_reload(|| self.window.resume(QUERY_TIMEOUT)).map(|_| ()),
            Some(left) if ended > 0 => {
                retry_during_reload(|| self.window.pause(left.clone(), QUERY_TIMEOUT)).map(|_| ())
            }
            Some(_) => Ok(()),
        };
        asked.map_err(|why| why.to_string())?;
        Ok(json!({"was_paused": was_paused, "ended": ended, "left": self.pauses().lines()}))
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Follower>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    /// Sends a line; returns true if the follower is still connected.
    fn tell(&mut self, line: &Arc<str>) -> bool {
        if self.lost > 0 {
            let missed: Arc<str> = format!("{}\n", json!({"event": "lost", "events": self.lost})).into();
            match self.lines.try_send(missed) {
                Ok(()) => self.lost = 0,
                Err(TrySendError::Full(_)) => {
                    self.lost += 1;
                    return true;
                }
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        match self.lines.try_send(Arc::clone(line)) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost += 1;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

/// Accepts a connection, and answers it on its own thread.
fn take(listener: &UnixListener, shared: &Arc<Shared>) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    let Some(client) = Client::new(shared) else {
        refuse(&stream, "too many ask at the same time: try again");
        return Ok(());
    };
    let answering = std::thread::Builder::new().name("status answer".into()).spawn(move || {
        if let Some((number, lines)) = answer(&stream, &client.0) {
            follow(&stream, &lines);
            client.0.followers().retain(|follower| follower.number != number);
        }
    });
    // Without a thread the stream is closed, which the client notices.
    drop(answering);
    Ok(())
}

fn refuse(mut stream: &UnixStream, why: &str) {
    let _ = stream.set_write_timeout(Some(IO_TIMEOUT));
    // The client may be gone and need no answer.
    let _ = stream.write_all(format!("{}\n", json!({"error": why})).as_bytes());
}

/// Answers a request; returns the receiver of a new follower.
fn answer(mut stream: &UnixStream, shared: &Shared) -> Option<(u64, Receiver<Arc<str>>)> {
    stream.set_read_timeout(Some(IO_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(IO_TIMEOUT)).ok()?;
    let mut question = String::new();
    if BufReader::new(stream.take(MAX_REQUEST_BYTES)).read_line(&mut question).is_err() {
        refuse(stream, "the question did not come, or is no text");
        return None;
    }
    let asked = match Request::of(&question) {
        Ok(asked) => asked,
        Err(why) => {
            refuse(stream, why);
            return None;
        }
    };
    let window = &shared.window;
    let answer = match asked {
        Request::Follow => {
            // A follower may be slow, because it gets the number of events that it loses.
            stream.set_write_timeout(None).ok()?;
            let (lines, receiver) = sync_channel(FOLLOWER_QUEUE_LEN);
            let number = shared.followed.fetch_add(1, Ordering::Relaxed);
            shared.followers().push(Follower { number, lines, lost: 0 });
            return Some((number, receiver));
        }
        Request::Status(which) => match retry_during_reload(|| window.look(which.clone(), QUERY_TIMEOUT)) {
            Ok(standings) => {
                let are_many = standings.resources.len() >= TRIM_THRESHOLD;
                // The client may be gone and need no answer.
                let _ = status::write(standings, shared.pauses().to_json(), BufWriter::new(stream));
                if are_many {
                    kilter_process::trim_heap();
                }
                return None;
            }
            Err(why) => Err(why.to_string()),
        },
        Request::Pause(pause, by) => match shared.pause(&pause, &by) {
            Ok(id) => {
                // A client that did not receive the number could not end the pause.
                if stream.write_all(line(&json!({"paused": true, "id": id})).as_bytes()).is_err() {
                    let _ = shared.resume(&Ends::One(id));
                }
                return None;
            }
            Err(why) => Err(why),
        },
        Request::Resume(which) => shared.resume(&which),
    };
    let answer = answer.unwrap_or_else(|why| json!({"error": why}));
    // The client may be gone and need no answer.
    let _ = stream.write_all(line(&answer).as_bytes());
    None
}

/// Sends a request to the driver, and retries for a moment while the run is between two graphs.
fn retry_during_reload<T>(ask: impl Fn() -> Result<T, StatusError>) -> Result<T, StatusError> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(StatusError::NoRun) if begun.elapsed() < RELOAD_RETRY => std::thread::sleep(Duration::from_millis(20)),
            answer => return answer,
        }
    }
}

/// Sends lines until the run ends or the client is gone.
fn follow(mut stream: &UnixStream, lines: &Receiver<Arc<str>>) {
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) if stream.write_all(line.as_bytes()).is_ok() => {}
            Err(RecvTimeoutError::Timeout) if is_there(stream) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // The client may be gone.
                let _ = stream.write_all(line(&json!({"event": "end"})).as_bytes());
                return;
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => return,
        }
    }
}

/// Returns true if the client has not closed its end.
fn is_there(stream: &UnixStream) -> bool {
    let mut ready = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut ready, Some(&now)) {
        Ok(_) => ready[0].revents().is_empty(),
        Err(_) => true,
    }
}

/// Returns a document on one line.
fn line(json: &Json) -> String {
    status::plain(json) + "\n"
}

/// Request of a client.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Status(StatusFilter),
    Follow,
    /// Pause, and the caller.
    Pause(Pause, Json),
    Resume(Ends),
}

impl Request {
    fn of(question: &str) -> Result<Request, &'static str> {
        const WHAT: &str = "ask {\"ask\": \"status\", \"which\": \"notable\", \"all\" or [REFERENCE, …]}, {\"ask\": \"follow\"}, \
             {\"ask\": \"pause\", \"for_ms\": N, \"why\": TEXT} or {\"ask\": \"resume\"}";
        let json: Json = serde_json::from_str(question).map_err(|_| WHAT)?;
        match (json["ask"].as_str(), &json["which"]) {
            (Some("follow"), _) => Ok(Request::Follow),
            (Some("resume"), _) => match (&json["id"], &json["session"], json["all"] == true) {
                (_, _, true) => Ok(Request::Resume(Ends::All)),
                (Json::Null, Json::Null, _) => Ok(Request::Resume(Ends::All)),
                (Json::Null, session, _) => {
                    session.as_str().map(|session| Request::Resume(Ends::Session(session.to_owned()))).ok_or(WHAT)
                }
                (id, ..) => id.as_u64().map(|id| Request::Resume(Ends::One(id))).ok_or(WHAT),
            },
            (Some("pause"), _) => {
                let longest = match &json["for_ms"] {
                    Json::Null => None,
                    given => Some(Duration::from_millis(given.as_u64().ok_or(WHAT)?)),
                };
                let why = match &json["why"] {
                    Json::Null => "",
                    given => given.as_str().ok_or(WHAT)?,
                };
                Ok(Request::Pause(Pause { longest, why: why.into() }, json["by"].clone()))
            }
            (Some("status"), Json::Null) => Ok(Request::Status(StatusFilter::Notable)),
            (Some("status"), Json::String(which)) if which == "notable" => Ok(Request::Status(StatusFilter::Notable)),
            (Some("status"), Json::String(which)) if which == "all" => Ok(Request::Status(StatusFilter::All)),
            (Some("status"), Json::Array(names)) => {
                let named = names.iter().map(|name| name.as_str().and_then(|name| name.parse::<ResourceRef>().ok()));
                named.collect::<Option<_>>().map(|named| Request::Status(StatusFilter::Named(named))).ok_or(WHAT)
            }
            _ => Err(WHAT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_one_of_a_few() {
        assert_eq!(Request::of("{\"ask\": \"follow\"}"), Ok(Request::Follow));
        assert_eq!(Request::of("{\"ask\": \"status\"}\n"), Ok(Request::Status(StatusFilter::Notable)));
        assert_eq!(Request::of("{\"ask\": \"status\", \"which\": \"all\"}"), Ok(Request::Status(StatusFilter::All)));
        let named = StatusFilter::Named(vec!["file[/a b]".parse().unwrap()]);
        assert_eq!(Request::of("{\"ask\": \"status\", \"which\": [\"file[/a b]\"]}"), Ok(Request::Status(named)));
        assert_eq!(Request::of("{\"ask\": \"pause\"}"), Ok(Request::Pause(Pause::default(), Json::Null)));
        let pause = Pause { longest: Some(Duration::from_millis(1500)), why: "backup".into() };
        assert_eq!(
            Request::of("{\"ask\": \"pause\", \"for_ms\": 1500, \"why\": \"backup\"}"),
            Ok(Request::Pause(pause, Json::Null))
        );
        assert_eq!(Request::of("{\"ask\": \"resume\"}"), Ok(Request::Resume(Ends::All)));
        assert_eq!(Request::of("{\"ask\": \"resume\", \"id\": 3}"), Ok(Request::Resume(Ends::One(3))));
        assert_eq!(
            Request::of("{\"ask\": \"resume\", \"session\": \"7\"}"),
            Ok(Request::Resume(Ends::Session("7".into())))
        );
        for wrong in ["{\"ask\": \"pause\", \"for_ms\": -1}", "{\"ask\": \"pause\", \"why\": 1}"] {
            assert!(Request::of(wrong).is_err(), "{wrong}");
        }
        for wrong in
            ["", "status", "{}", "{\"ask\": \"status\", \"which\": [1]}", "{\"ask\": \"status\", \"which\": 3}"]
        {
            assert!(Request::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_pauses_can_be_read_while_the_run_is_asked_to_pause() {
        let place = tempfile::tempdir().unwrap();
        let window = Arc::new(StatusHandle::default());
        let desk = StatusServer::open(place.path(), &window, Pauses::read(place.path()).unwrap()).unwrap();
        let shared = Arc::clone(&desk.shared);
        // The driver does not answer yet.
        let asking = std::thread::spawn(move || shared.pause(&Pause::default(), &Json::Null));
        let mut is_seen = false;
        while !is_seen && !asking.is_finished() {
            is_seen = desk.paused().is_some();
            std::thread::yield_now();
        }
        assert!(is_seen);
    }

    #[test]
    fn a_line_steers_no_terminal() {
        assert_eq!(line(&json!("a\u{9b}2J\u{7f}\u{1b}ü")), "\"a\\u009b2J\\u007f\\u001bü\"\n");
    }

    #[test]
    fn who_is_too_slow_is_told_what_it_has_missed() {
        let (lines, receiver) = sync_channel(2);
        let mut follower = Follower { number: 0, lines, lost: 0 };
        let line = |text: &str| Arc::from(text);
        assert!(["a", "b", "c", "d"].into_iter().all(|text| follower.tell(&line(text))));
        assert_eq!((&*receiver.recv().unwrap(), &*receiver.recv().unwrap()), ("a", "b"));
        assert!(follower.tell(&line("e")));
        assert_eq!(&*receiver.recv().unwrap(), "{\"event\":\"lost\",\"events\":2}\n");
        assert_eq!(&*receiver.recv().unwrap(), "e");
        drop(receiver);
        assert!(!follower.tell(&line("f")));
    }
}
