//! Metrics of a run that holds a state, over HTTP on request: `kilter run --metrics 127.0.0.1:9233`.
//!
//! Each request is answered on its own thread, so that slow clients delay no others. The server reads only the
//! requested page of a request.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kilter_runtime::{StatusFilter, StatusHandle};

use crate::attendant::AcceptLoop;
use crate::render::{metrics, status};

/// Timeout for reading a request, and for writing an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum number of concurrent clients. Others get an error and can retry.
const CLIENTS: usize = 64;

/// Timeout for the answer of the driver, which may be busy with a call on its own thread.
const BUSY: Duration = Duration::from_secs(5);

/// Maximum size of the head of a request, in bytes.
const LONGEST: usize = 16 * 1024;

/// Maximum number of header lines.
const HEADERS: usize = 64;

/// Starts a server at an address, which runs until the returned value is dropped. Also returns the address with the
/// port that the system has chosen.
pub(crate) fn open(at: SocketAddr, window: &Arc<StatusHandle>) -> io::Result<(AcceptLoop, SocketAddr)> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    let (window, clients) = (Arc::clone(window), Arc::new(AtomicUsize::new(0)));
    let attendant = AcceptLoop::new("metrics", listener, move |listener| take(listener, &window, &clients))?;
    Ok((attendant, at))
}

/// Counted client, until it is dropped.
struct Client(Arc<AtomicUsize>);

impl Client {
    /// Counts a further client; none if there are too many.
    fn new(clients: &Arc<AtomicUsize>) -> Option<Client> {
        let client = Client(Arc::clone(clients));
        (clients.fetch_add(1, Ordering::AcqRel) < CLIENTS).then_some(client)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Accepts a connection, and answers it on its own thread.
fn take(listener: &TcpListener, window: &Arc<StatusHandle>, clients: &Arc<AtomicUsize>) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    let Some(client) = Client::new(clients) else {
        // A slow client must not delay others, so that the refusal is not waited for.
        let _ = stream.set_nonblocking(true);
        say(&stream, "503 Service Unavailable", "too many ask at the same time: try again\n", Part::Whole);
        return Ok(());
    };
    let window = Arc::clone(window);
    let answering = std::thread::Builder::new().name("metrics answer".into()).spawn(move || {
        answer(&stream, &window);
        drop(client);
    });
    // Without a thread the stream is closed, which the client notices.
    drop(answering);
    Ok(())
}

/// Requested part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Head,
}

/// Request of a client.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Metrics(Part),
    SomethingElse,
    /// Another method.
    Change,
    Nonsense,
}

fn answer(stream: &TcpStream, window: &StatusHandle) {
    if stream.set_nonblocking(false).is_err() || stream.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let request = Request { stream, until: Instant::now() + PATIENCE };
    match asked(request) {
        Asked::Metrics(part) => match window.look(StatusFilter::Notable, BUSY) {
            Ok(standings) => say(stream, "200 OK", &metrics::text(&status::brief(&standings)), part),
            Err(why) => say(stream, "503 Service Unavailable", &format!("{why}\n"), part),
        },
        Asked::SomethingElse => say(stream, "404 Not Found", "there is /metrics\n", Part::Whole),
        Asked::Change => say(stream, "405 Method Not Allowed", "there is only GET\n", Part::Whole),
        Asked::Nonsense => {
            say(stream, "400 Bad Request", "this is no request that can be understood\n", Part::Whole);
        }
    }
}

fn say(mut stream: &TcpStream, status: &str, body: &str, part: Part) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    // The client may be gone and need no answer.
    let _ = stream.write_all(head.as_bytes());
    if part == Part::Whole {
        let _ = stream.write_all(body.as_bytes());
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// Stream with one deadline for all reads, so that a slow client cannot extend it.
struct Request<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for Request<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

fn asked(mut stream: impl Read) -> Asked {
    let (mut head, mut length) = (vec![0; LONGEST], 0);
    loop {
        match stream.read(&mut head[length..]) {
            Ok(0) | Err(_) => return Asked::Nonsense,
            Ok(count) => length += count,
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head[..length]) {
            Err(_) => return Asked::Nonsense,
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.unwrap_or_default();
                let page = path.split('?').next().unwrap_or_default();
                return match (request.method, page) {
                    (Some(method @ ("GET" | "HEAD")), "/metrics") => {
                        Asked::Metrics(if method == "HEAD" { Part::Head } else { Part::Whole })
                    }
                    (Some("GET" | "HEAD"), _) => Asked::SomethingElse,
                    _ => Asked::Change,
                };
            }
            Ok(httparse::Status::Partial) if length < head.len() => {}
            Ok(httparse::Status::Partial) => return Asked::Nonsense,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_for_the_metrics_or_for_nothing_that_there_is() {
        let metrics = Asked::Metrics(Part::Whole);
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", metrics),
            ("GET /metrics?name[]=up HTTP/1.0\r\n\r\n", Asked::Metrics(Part::Whole)),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Asked::Metrics(Part::Head)),
            ("GET / HTTP/1.1\r\n\r\n", Asked::SomethingElse),
            ("POST /metrics HTTP/1.1\r\n\r\n", Asked::Change),
            ("GET /metrics HTTP/1.1\r\n", Asked::Nonsense),
            ("\u{1}\u{2}\r\n\r\n", Asked::Nonsense),
            ("", Asked::Nonsense),
        ] {
            assert_eq!(asked(request.as_bytes()), expected, "{request:?}");
        }
        let endless = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(2 * LONGEST));
        assert_eq!(asked(endless.as_bytes()), Asked::Nonsense);
    }

    #[test]
    fn those_who_say_nothing_hold_nobody_up() {
        let (_attendant, at) = open(SocketAddr::from(([127, 0, 0, 1], 0)), &Arc::default()).unwrap();
        assert_ne!(at.port(), 0);
        let connect = || TcpStream::connect(at).unwrap();
        let silent: Vec<TcpStream> = (0..CLIENTS - 1).map(|_| connect()).collect();
        let ask = || {
            let (mut stream, mut answer) = (connect(), String::new());
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
            stream.read_to_string(&mut answer).map(|_| answer).unwrap_or_default()
        };
        let begun = Instant::now();
        assert!(ask().starts_with("HTTP/1.1 404 "));
        // One after the other they would take a second each.
        assert!(begun.elapsed() < Duration::from_secs(CLIENTS as u64 / 4), "{:?}", begun.elapsed());
        drop(silent);
    }
}
