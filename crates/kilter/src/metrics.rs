//! Metrics of a run that holds a state, over HTTP on request: `kilter run --metrics 127.0.0.1:9233`.
//!
//! The server reads only the requested page of a request.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use kilter_runtime::{StatusFilter, StatusHandle};

use crate::render::{metrics, status};
use crate::server::{ClientLimits, Listener, Protocol, Server, Socket, Stream};

/// Timeout for the answer of the driver, which may be busy with a call on its own thread.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent clients. Others get an error and can retry.
const CLIENTS: usize = 64;

/// Maximum size of the head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Maximum number of header lines.
const HEADERS: usize = 64;

/// Listens at an address until the returned listener is dropped. Also returns the address with the port that the
/// system has chosen.
pub(crate) fn open(
    server: &Server,
    at: SocketAddr,
    status_handle: &Arc<StatusHandle>,
) -> io::Result<(Listener, SocketAddr)> {
    let socket = TcpListener::bind(at)?;
    let at = socket.local_addr()?;
    let metrics = Metrics { status_handle: Arc::clone(status_handle), clients: Arc::default() };
    Ok((server.listen(Socket::Tcp(socket), Arc::new(metrics))?, at))
}

/// HTTP with one page.
struct Metrics {
    status_handle: Arc<StatusHandle>,
    clients: Arc<AtomicUsize>,
}

impl Protocol for Metrics {
    fn limits(&self) -> ClientLimits {
        let timeout = Duration::from_secs(1);
        ClientLimits { name: "metrics", clients: CLIENTS, request_bytes: MAX_HEAD_BYTES, timeout }
    }

    fn clients(&self) -> &Arc<AtomicUsize> {
        &self.clients
    }

    fn is_whole(&self, bytes: &[u8]) -> bool {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        !bytes.is_empty() && !matches!(httparse::Request::new(&mut headers).parse(bytes), Ok(httparse::Status::Partial))
    }

    fn answer(&self, stream: &Stream, request: io::Result<Vec<u8>>) {
        match request.map_or(MetricsRequest::Invalid, |bytes| parse(&bytes)) {
            MetricsRequest::Metrics(part) => match self.status_handle.snapshot(StatusFilter::Notable, QUERY_TIMEOUT) {
                Ok(standings) => respond(stream, "200 OK", &metrics::text(&status::brief(&standings)), part),
                Err(why) => respond(stream, "503 Service Unavailable", &format!("{why}\n"), part),
            },
            MetricsRequest::OtherPath => {
                respond(stream, "404 Not Found", "the only path is /metrics\n", ResponsePart::Whole)
            }
            MetricsRequest::OtherMethod => {
                respond(stream, "405 Method Not Allowed", "the only method is GET\n", ResponsePart::Whole)
            }
            MetricsRequest::Invalid => {
                respond(stream, "400 Bad Request", "invalid request\n", ResponsePart::Whole);
            }
        }
    }

    fn refuse(&self, stream: &Stream) {
        respond(
            stream,
            "503 Service Unavailable",
            "too many requests at the same time: try again\n",
            ResponsePart::Whole,
        );
    }
}

/// Requested part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsePart {
    Whole,
    Head,
}

/// Request of a client.
#[derive(Debug, PartialEq, Eq)]
enum MetricsRequest {
    Metrics(ResponsePart),
    OtherPath,
    OtherMethod,
    Invalid,
}

fn respond(mut stream: &Stream, status: &str, body: &str, part: ResponsePart) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    // The client may be gone and need no answer.
    let _ = stream.write_all(head.as_bytes());
    if part == ResponsePart::Whole {
        let _ = stream.write_all(body.as_bytes());
    }
    stream.end_answer();
}

fn parse(head: &[u8]) -> MetricsRequest {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let Ok(httparse::Status::Complete(_)) = request.parse(head) else { return MetricsRequest::Invalid };
    let page = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    match (request.method, page) {
        (Some("GET"), "/metrics") => MetricsRequest::Metrics(ResponsePart::Whole),
        (Some("HEAD"), "/metrics") => MetricsRequest::Metrics(ResponsePart::Head),
        (Some("GET" | "HEAD"), _) => MetricsRequest::OtherPath,
        _ => MetricsRequest::OtherMethod,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_metrics_path_is_served() {
        let metrics = MetricsRequest::Metrics(ResponsePart::Whole);
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", metrics),
            ("GET /metrics?name[]=up HTTP/1.0\r\n\r\n", MetricsRequest::Metrics(ResponsePart::Whole)),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", MetricsRequest::Metrics(ResponsePart::Head)),
            ("GET / HTTP/1.1\r\n\r\n", MetricsRequest::OtherPath),
            ("POST /metrics HTTP/1.1\r\n\r\n", MetricsRequest::OtherMethod),
            ("GET /metrics HTTP/1.1\r\n", MetricsRequest::Invalid),
            ("\u{1}\u{2}\r\n\r\n", MetricsRequest::Invalid),
            ("", MetricsRequest::Invalid),
        ] {
            assert_eq!(parse(request.as_bytes()), expected, "{request:?}");
        }
        let endless = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD_BYTES));
        assert_eq!(parse(endless.as_bytes()), MetricsRequest::Invalid);
    }

    #[test]
    fn silent_clients_do_not_block_others() {
        let server = Server::new().unwrap();
        let (_listener, at) = open(&server, SocketAddr::from(([127, 0, 0, 1], 0)), &Arc::default()).unwrap();
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
