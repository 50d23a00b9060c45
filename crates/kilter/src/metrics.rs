//! Metrics of a run that holds a state, over HTTP, for whoever asked for them: `kilter run --metrics 127.0.0.1:9233`.
//!
//! One thread answers one request after the other; nothing is read of a request but which page it wants.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kilter_runtime::{Which, Window};

use crate::attendant::Attendant;
use crate::render::{metrics, status};

/// How long a request may take to arrive, and an answer to be taken. Others wait meanwhile, and the end of the run.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the run has to answer, which may be at something that it does itself.
const BUSY: Duration = Duration::from_secs(5);

/// How many bytes the head of a request has at most.
const LONGEST: usize = 16 * 1024;

/// How many header lines it has at most.
const HEADERS: usize = 64;

/// Listens at an address, and answers until what it returns is dropped.
pub(crate) fn open(at: SocketAddr, window: &Arc<Window>) -> io::Result<Attendant> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    let window = Arc::clone(window);
    Attendant::new("metrics", listener, move |listener| listener.accept().map(|(stream, _)| answer(&stream, &window)))
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Metrics {
        only_head: bool,
    },
    SomethingElse,
    /// Another method.
    Change,
    Nonsense,
}

fn answer(mut stream: &TcpStream, window: &Window) {
    if stream.set_nonblocking(false).is_err() || stream.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let request = Request { stream, until: Instant::now() + PATIENCE };
    let (status, body, only_head) = match asked(request) {
        Asked::Metrics { only_head } => match window.look(Which::Notable, BUSY) {
            Ok(standings) => ("200 OK", metrics::text(&status::json(&standings)), only_head),
            Err(why) => ("503 Service Unavailable", format!("{why}\n"), only_head),
        },
        Asked::SomethingElse => ("404 Not Found", "there is /metrics\n".into(), false),
        Asked::Change => ("405 Method Not Allowed", "there is only GET\n".into(), false),
        Asked::Nonsense => ("400 Bad Request", "this is no request that can be understood\n".into(), false),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    // Who has gone needs no answer.
    let _ = stream.write_all(head.as_bytes());
    if !only_head {
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
                    (Some(method @ ("GET" | "HEAD")), "/metrics") => Asked::Metrics { only_head: method == "HEAD" },
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
        let metrics = Asked::Metrics { only_head: false };
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", metrics),
            ("GET /metrics?name[]=up HTTP/1.0\r\n\r\n", Asked::Metrics { only_head: false }),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Asked::Metrics { only_head: true }),
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
}
