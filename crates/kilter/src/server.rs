//! Server of a run: one accept loop for all listeners, and one bounded reader for all requests.
//!
//! A [`Protocol`] decides what a request is, and answers it. Each client has its own thread, so that a slow client
//! delays no other. The accept loop starts with the first listener, and ends when the server is dropped.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// Pause of the accept loop if the system has no descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(500);

/// Size of one read of a request, in bytes.
const READ_BYTES: usize = 4096;

/// Limits of the clients of a protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Name of the threads.
    pub(crate) name: &'static str,
    /// Maximum number of concurrent clients.
    pub(crate) clients: usize,
    /// Maximum size of a request in bytes.
    pub(crate) request_bytes: usize,
    /// Timeout for the whole request, and for each write of a response.
    pub(crate) timeout: Duration,
}

/// Language of the clients of a listener.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// Returns the limits.
    fn limits(&self) -> Limits;

    /// Returns the number of clients that are being answered.
    fn clients(&self) -> &Arc<AtomicUsize>;

    /// Returns true if the client has sent a whole request.
    fn is_whole(&self, bytes: &[u8]) -> bool;

    /// Answers the bytes that a client has sent. They are not a whole request if the client has ended earlier, or has
    /// sent too many. An error means that the request did not arrive in time.
    fn answer(&self, stream: &Stream, request: io::Result<Vec<u8>>);

    /// Refuses a client without waiting, because too many are being answered.
    fn refuse(&self, stream: &Stream);
}

/// Connection of a client.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Socket that accepts clients.
pub(crate) enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Server; stops accepting when it is dropped.
pub(crate) struct Server {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Data of the server and of its accept loop.
struct Shared {
    listeners: Mutex<Vec<Arc<Entry>>>,
    /// Event counter that wakes the accept loop.
    wake: OwnedFd,
    is_closing: AtomicBool,
}

/// Listener with its protocol.
struct Entry {
    socket: Socket,
    protocol: Arc<dyn Protocol>,
}

/// Open listener; closes when it is dropped.
pub(crate) struct Listener {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
}

impl Server {
    /// Creates a server without listeners.
    pub(crate) fn new() -> io::Result<Server> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Shared { listeners: Mutex::default(), wake, is_closing: AtomicBool::new(false) };
        Ok(Server { shared: Arc::new(shared), thread: Mutex::default() })
    }

    /// Accepts clients at a socket from now on.
    pub(crate) fn listen(&self, socket: Socket, protocol: Arc<dyn Protocol>) -> io::Result<Listener> {
        // The client may be gone when it is accepted.
        socket.set_nonblocking()?;
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = Some(Builder::new().name("server".into()).spawn(move || shared.accept_all())?);
        }
        let entry = Arc::new(Entry { socket, protocol });
        self.shared.listeners().push(Arc::clone(&entry));
        self.shared.wake();
        Ok(Listener { shared: Arc::clone(&self.shared), entry })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Ordering::Release);
        self.shared.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the thread changes nothing here.
        drop(thread.map(JoinHandle::join));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.listeners().retain(|entry| !Arc::ptr_eq(entry, &self.entry));
        self.shared.wake();
    }
}

impl Shared {
    fn listeners(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // The counter can only be full after 2^64 writes.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Accepts the clients of all listeners until the server closes.
    fn accept_all(&self) {
        while !self.is_closing.load(Ordering::Acquire) {
            let entries = self.listeners().clone();
            let mut ready = vec![PollFd::new(&self.wake, PollFlags::IN)];
            ready.extend(entries.iter().map(|entry| PollFd::new(&entry.socket, PollFlags::IN)));
            match poll(&mut ready, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            // An empty counter is no error here.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            let called = entries.iter().zip(&ready[1..]).filter(|(_, ready)| !ready.revents().is_empty());
            let accepted: Vec<io::Result<()>> = called.map(|(entry, _)| self.accept(entry)).collect();
            if accepted.iter().any(Result::is_err) {
                // The connection is still waiting, so that the next poll would return at once.
                let timeout = Timespec { tv_sec: 0, tv_nsec: EXHAUSTED.subsec_nanos().into() };
                let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&timeout));
            }
        }
    }

    /// Accepts a client, unless the listener has closed, and answers it on its own thread.
    fn accept(&self, entry: &Arc<Entry>) -> io::Result<()> {
        let listeners = self.listeners();
        if !listeners.iter().any(|one| Arc::ptr_eq(one, entry)) {
            return Ok(());
        }
        let stream = match entry.socket.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            accepted => accepted?,
        };
        let protocol = Arc::clone(&entry.protocol);
        let limits = protocol.limits();
        let client = Client::new(protocol.clients());
        if client.number >= limits.clients {
            // A slow client must not delay others, so that the server does not wait for it.
            let _ = stream.set_nonblocking();
            protocol.refuse(&stream);
            return Ok(());
        }
        let answer = move || {
            if stream.set_write_timeout(Some(limits.timeout)).is_ok() {
                protocol.answer(&stream, read(&stream, limits, &|bytes| protocol.is_whole(bytes)));
            }
            // The other end sees the end of the connection before the client is no longer counted.
            drop(stream);
            drop(client);
        };
        // Without a thread the stream is closed, which the client notices.
        drop(Builder::new().name(limits.name.into()).spawn(answer));
        Ok(())
    }
}

/// Counted client, until it is dropped.
struct Client {
    clients: Arc<AtomicUsize>,
    /// Number of clients before it.
    number: usize,
}

impl Client {
    fn new(clients: &Arc<AtomicUsize>) -> Client {
        Client { clients: Arc::clone(clients), number: clients.fetch_add(1, Ordering::AcqRel) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads a request up to its end, its maximum size or the end of the stream. All reads have one deadline, so that a
/// slow client cannot extend it.
fn read(stream: &Stream, limits: Limits, is_whole: &dyn Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let until = Instant::now() + limits.timeout;
    let mut request = Vec::new();
    while request.len() < limits.request_bytes && !is_whole(&request) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; READ_BYTES];
        let room = READ_BYTES.min(limits.request_bytes - request.len());
        let mut source = stream;
        match source.read(&mut bytes[..room]) {
            Ok(0) => break,
            Ok(count) => request.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(request)
}

impl Socket {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Socket::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Socket::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Socket::Unix(listener) => listener.set_nonblocking(true),
            Socket::Tcp(listener) => listener.set_nonblocking(true),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Stream {
    /// Sets the timeout of a write; none to wait without limit.
    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_write_timeout(timeout),
            Stream::Tcp(stream) => stream.set_write_timeout(timeout),
        }
    }

    /// Ends the answer, while the client may still send.
    pub(crate) fn end_answer(&self) {
        // The client may be gone.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => { stream }.read(into),
            Stream::Tcp(stream) => { stream }.read(into),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => { stream }.write(bytes),
            Stream::Tcp(stream) => { stream }.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
