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

/// Delay before the next attempt after a failed accept or poll, such as without a free descriptor.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Size of one read of a request, in bytes.
pub(crate) const READ_BYTES: usize = 4096;

/// ClientLimits of the clients of a protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
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
    fn limits(&self) -> ClientLimits;

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
    shared: Arc<ServerState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Data of the server and of its accept loop.
struct ServerState {
    listeners: Mutex<Vec<Arc<ServedSocket>>>,
    /// Event counter that wakes the accept loop.
    wake: OwnedFd,
    is_closing: AtomicBool,
}

/// Listener with its protocol.
struct ServedSocket {
    socket: Socket,
    protocol: Arc<dyn Protocol>,
    /// Time of the next attempt after a failed accept.
    retry_at: Mutex<Option<Instant>>,
}

impl ServedSocket {
    /// Returns the delay before the next attempt; none if it may be made now.
    fn delay(&self) -> Option<Duration> {
        let at = *self.retry_at.lock().unwrap_or_else(PoisonError::into_inner);
        at.map(|at| at.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    fn delay_next(&self) {
        *self.retry_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + RETRY_DELAY);
    }
}

/// System call poll(2).
type Poll = fn(&mut [PollFd<'_>], Option<&Timespec>) -> rustix::io::Result<usize>;

/// Open listener; closes when it is dropped.
pub(crate) struct Listener {
    shared: Arc<ServerState>,
    entry: Arc<ServedSocket>,
}

impl Server {
    /// Creates a server without listeners.
    pub(crate) fn new() -> io::Result<Server> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = ServerState { listeners: Mutex::default(), wake, is_closing: AtomicBool::new(false) };
        Ok(Server { shared: Arc::new(shared), thread: Mutex::default() })
    }

    /// Accepts clients at a socket from now on.
    pub(crate) fn listen(&self, socket: Socket, protocol: Arc<dyn Protocol>) -> io::Result<Listener> {
        // The client may be gone when it is accepted.
        socket.set_nonblocking()?;
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = Some(Builder::new().name("server".into()).spawn(move || shared.accept_all(poll))?);
        }
        let entry = Arc::new(ServedSocket { socket, protocol, retry_at: Mutex::default() });
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

impl ServerState {
    fn listeners(&self) -> MutexGuard<'_, Vec<Arc<ServedSocket>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // The counter can only be full after 2^64 writes.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Accepts the clients of all listeners until the server closes.
    fn accept_all(&self, poll: Poll) {
        while !self.is_closing.load(Ordering::Acquire) {
            // The connection of a failed accept is still waiting, so that a poll of its listener would return at once.
            let (delayed, entries): (Vec<_>, Vec<_>) = self
                .listeners()
                .iter()
                .cloned()
                .map(|entry| (entry.delay(), entry))
                .partition(|(delay, _)| delay.is_some());
            let delay = delayed.iter().filter_map(|(delay, _)| *delay).min();
            let timeout = delay.and_then(|delay| Timespec::try_from(delay).ok());
            let mut ready = vec![PollFd::new(&self.wake, PollFlags::IN)];
            ready.extend(entries.iter().map(|(_, entry)| PollFd::new(&entry.socket, PollFlags::IN)));
            match poll(&mut ready, timeout.as_ref()) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => {
                    std::thread::sleep(RETRY_DELAY);
                    continue;
                }
            }
            // An empty counter is no error here.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            let called = entries.iter().zip(&ready[1..]).filter(|(_, ready)| !ready.revents().is_empty());
            for ((_, entry), _) in called {
                if self.accept(entry).is_err() {
                    entry.delay_next();
                }
            }
        }
    }

    /// Accepts a client, unless the listener has closed, and answers it on its own thread.
    fn accept(&self, entry: &Arc<ServedSocket>) -> io::Result<()> {
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
fn read(stream: &Stream, limits: ClientLimits, is_whole: &dyn Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of requests; each would wait for a delay of the failing listener.
    const REQUESTS: u32 = 20;

    /// Protocol that answers with one byte.
    #[derive(Default)]
    struct OneByte(Arc<AtomicUsize>);

    impl Protocol for OneByte {
        fn limits(&self) -> ClientLimits {
            ClientLimits { name: "test", clients: 8, request_bytes: 1, timeout: Duration::from_secs(60) }
        }

        fn clients(&self) -> &Arc<AtomicUsize> {
            &self.0
        }

        fn is_whole(&self, bytes: &[u8]) -> bool {
            !bytes.is_empty()
        }

        fn answer(&self, mut stream: &Stream, request: io::Result<Vec<u8>>) {
            stream.write_all(&request.unwrap()).unwrap();
        }

        fn refuse(&self, _: &Stream) {}
    }

    /// Returns the answer to one byte.
    fn asked(path: &std::path::Path) -> [u8; 1] {
        let mut client = UnixStream::connect(path).unwrap();
        client.write_all(b"x").unwrap();
        let mut answer = [0];
        client.read_exact(&mut answer).unwrap();
        answer
    }

    #[test]
    fn failing_listener_does_not_delay_another() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let server = Server::new().unwrap();
        // A connected socket whose other end is closed is ready, and cannot accept.
        let (connected, _) = UnixStream::pair().unwrap();
        let failing = Socket::Unix(UnixListener::from(OwnedFd::from(connected)));
        let _failing = server.listen(failing, Arc::new(OneByte::default())).unwrap();
        let listener = Socket::Unix(UnixListener::bind(&path).unwrap());
        let _listener = server.listen(listener, Arc::new(OneByte::default())).unwrap();
        let start = Instant::now();
        for _ in 0..REQUESTS {
            assert_eq!(&asked(&path), b"x");
        }
        assert!(start.elapsed() < RETRY_DELAY * (REQUESTS / 2), "{:?}", start.elapsed());
    }

    #[test]
    fn failed_poll_does_not_end_the_server() {
        static HAS_FAILED: AtomicBool = AtomicBool::new(false);
        let failing_once: Poll = |ready, timeout| match HAS_FAILED.swap(true, Ordering::AcqRel) {
            false => Err(rustix::io::Errno::NOMEM),
            true => poll(ready, timeout),
        };
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let server = Server::new().unwrap();
        let shared = Arc::clone(&server.shared);
        *server.thread.lock().unwrap() = Some(std::thread::spawn(move || shared.accept_all(failing_once)));
        let listener = Socket::Unix(UnixListener::bind(&path).unwrap());
        let _listener = server.listen(listener, Arc::new(OneByte::default())).unwrap();
        assert_eq!(&asked(&path), b"x");
        assert!(HAS_FAILED.load(Ordering::Acquire));
    }
}
