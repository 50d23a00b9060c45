//! Metrics of a run that holds a state, over HTTP, for whoever asked for them: `kilter run --metrics 127.0.0.1:9233`.
//!
//! Each request is answered on a thread of its own, so that nobody waits for those who say nothing; nothing is read of a request but
//! which page it wants.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kilter_runtime::{Which, Window};

use crate::attendant::Attendant;
use crate::render::{metrics, status};

/// How long a request may take to arrive, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(1);

/// So many are answered at a time. Others are told to come again.
const CLIENTS: usize = 64;

/// How long the run has to answer, which may be at something that it does itself.
const BUSY: Duration = Duration::from_secs(5);

/// How many bytes the head of a request has at most.
const LONGEST: usize = 16 * 1024;

/// How many header lines it has at most.
const HEADERS: usize = 64;

/// Listens at an address, and answers until what it returns is dropped; and the address, with the port that the system has chosen.
pub(crate) fn open(at: SocketAddr, window: &Arc<Window>) -> io::Result<(Attendant, SocketAddr)> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    let (window, clients) = (Arc::clone(window), Arc::new(AtomicUsize::new(0)));
    let attendant = Attendant::new("metrics", listener, move |listener| take(listener, &window, &clients))?;
    Ok((attendant, at))
}

/// Somebody who is answered; no longer when this is dropped.
struct Client(Arc<AtomicUsize>);

impl Client {
    /// One more, unless there are too many.
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

/// Takes a call, and has it answered on a thread of its own.
fn take(listener: &TcpListener, window: &Arc<Window>, clients: &Arc<AtomicUsize>) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    let Some(client) = Client::new(clients) else {
        // What is not taken at once is not waited for: others call.
        let _ = stream.set_nonblocking(true);
        say(&stream, "503 Service Unavailable", "too many ask at the same time: try again\n", Part::Whole);
        return Ok(());
    };
    let window = Arc::clone(window);
    let answering = std::thread::Builder::new().name("metrics answer".into()).spawn(move || {
        answer(&stream, &window);
        drop(client);
    });
    // Without a thread the stream is closed, which the other side is told.
    drop(answering);
    Ok(())
}

/// How much of an answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Head,
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Metrics(Part),
    SomethingElse,
    /// Another method.
    Change,
    Nonsense,
}

fn answer(stream: &TcpStream, window: &Window) {
    if stream.set_nonblocking(false).is_err() || stream.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let request = Request { stream, until: Instant::now() + PATIENCE };
    match asked(request) {
        Asked::Metrics(part) => match window.look(Which::Notable, BUSY) {
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
    // Who has gone needs no answer.
    let _ = stream.write_all(head.as_bytes());
    if part == Part::Whole {
        let _ = stream.write_all(body.as_bytes());
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// What arrives until a certain time, however slowly.
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
