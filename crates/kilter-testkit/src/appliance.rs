//! A small appliance with an HTTP interface, for tests of transports. It misbehaves on request.
//!
//! Its resources are JSON objects by kind and name:
//!
//! | request | answer |
//! |---|---|
//! | `GET /facts` | facts |
//! | `GET /KIND` | all resources of a kind by name |
//! | `PUT /KIND/NAME` | stores the object in the body |
//! | `DELETE /KIND/NAME` | removes the object |
//!
//! Each request needs the login of the appliance by HTTP basic authentication. Connections stay open.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

/// User of the appliance.
pub const USER: &str = "admin";

/// Password of the appliance.
pub const PASSWORD: &str = "correct-horse-battery";

/// `Authorization` header of [`USER`] and [`PASSWORD`].
const LOGIN: &str = "Basic YWRtaW46Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";

/// Maximum size of a body in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Stack size of the threads, in bytes.
const STACK: usize = 128 << 10;

/// Misbehaviour of an appliance for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplianceFault {
    /// Answers with this status and changes nothing.
    Status(u16),
    /// Closes the connection without an answer and changes nothing.
    Disconnect,
    /// Makes the change and closes the connection without an answer.
    DisconnectAfterChange,
    /// Holds the answer back until [`Appliance::release`].
    Late,
}

#[derive(Default)]
struct ApplianceState {
    resources: BTreeMap<String, Map<String, Json>>,
    /// Faults of the next requests that start with these texts.
    faults: VecDeque<(&'static str, ApplianceFault)>,
    latency: Duration,
    requests: Vec<String>,
    is_released: bool,
}

struct ApplianceServer {
    state: Mutex<ApplianceState>,
    released: Condvar,
    is_stopped: AtomicBool,
}

/// An appliance that runs until it is dropped.
pub struct Appliance {
    address: SocketAddr,
    shared: Arc<ApplianceServer>,
}

impl Appliance {
    /// Starts an appliance on a free port of the loopback interface.
    ///
    /// # Errors
    /// If the system has no free ports or threads.
    pub fn start() -> io::Result<Appliance> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ApplianceServer {
            state: Mutex::default(),
            released: Condvar::new(),
            is_stopped: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        thread(move || {
            for stream in listener.incoming() {
                if of_thread.is_stopped.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&of_thread)) else { continue };
                // A client that disconnects is not an error.
                let _ = thread(move || drop(shared.serve(&stream)));
            }
        })?;
        Ok(Appliance { address, shared })
    }

    /// Port of the appliance.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Delays each answer.
    pub fn set_latency(&self, latency: Duration) {
        self.shared.state().latency = latency;
    }

    /// Adds a fault of the next request that starts with this text, such as `PUT` or `GET /vlan`.
    pub fn fail_next(&self, request: &'static str, fault: ApplianceFault) {
        self.shared.state().faults.push_back((request, fault));
    }

    /// Sends the answers that [`ApplianceFault::Late`] holds back.
    pub fn release(&self) {
        self.shared.state().is_released = true;
        self.shared.released.notify_all();
    }

    /// Stores a resource.
    pub fn put(&self, kind: &str, name: &str, value: Json) {
        self.shared.state().resources.entry(kind.to_owned()).or_default().insert(name.to_owned(), value);
    }

    /// Returns a resource.
    pub fn get(&self, kind: &str, name: &str) -> Option<Json> {
        self.shared.state().resources.get(kind)?.get(name).cloned()
    }

    /// Returns the requests so far: method and path.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state().requests.clone()
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        self.release();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("appliance".into()).stack_size(STACK).spawn(work).map(drop)
}

/// A request.
struct HttpRequest {
    method: String,
    path: String,
    is_authorized: bool,
    body: Vec<u8>,
}

impl ApplianceServer {
    fn state(&self) -> MutexGuard<'_, ApplianceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the requests of a connection.
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = read(&mut reader)? {
            let Some((status, body)) = self.handle(&request) else { return Ok(()) };
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n", body.len());
            (&*stream).write_all((head + &body).as_bytes())?;
        }
        Ok(())
    }

    /// Returns the answer to a request; none to disconnect.
    fn handle(&self, request: &HttpRequest) -> Option<(u16, Json)> {
        let (fault, latency) = {
            let mut state = self.state();
            let text = format!("{} {}", request.method, request.path);
            let at = state.faults.iter().position(|(start, _)| text.starts_with(start));
            state.requests.push(text);
            (at.and_then(|at| state.faults.remove(at)).map(|(_, fault)| fault), state.latency)
        };
        if !latency.is_zero() {
            std::thread::sleep(latency);
        }
        match fault {
            Some(ApplianceFault::Status(status)) => return Some((status, json!({ "error": "the appliance is busy" }))),
            Some(ApplianceFault::Disconnect) => return None,
            Some(ApplianceFault::DisconnectAfterChange) => {
                self.answer(request);
                return None;
            }
            Some(ApplianceFault::Late) => {
                let waiting = self.released.wait_while(self.state(), |state| !state.is_released);
                drop(waiting);
            }
            None => {}
        }
        Some(self.answer(request))
    }

    fn answer(&self, request: &HttpRequest) -> (u16, Json) {
        if !request.is_authorized {
            return (401, json!({ "error": "wrong user or password" }));
        }
        let mut parts = request.path.trim_start_matches('/').splitn(2, '/');
        let (kind, name) = (parts.next().unwrap_or_default(), parts.next());
        let mut state = self.state();
        match (request.method.as_str(), name) {
            ("GET", None) if kind == "facts" => {
                let facts = json!({
                    "os": { "name": "applianceos", "family": "appliance", "release": { "full": "4.2", "major": "4" } },
                    "appliance": { "serial": "A-1001", "kinds": state.resources.len() },
                });
                (200, facts)
            }
            ("GET", None) => (200, state.resources.get(kind).cloned().map_or(json!({}), Json::Object)),
            ("PUT", Some(name)) => match serde_json::from_slice(&request.body) {
                Ok(value) => {
                    state.resources.entry(kind.to_owned()).or_default().insert(name.to_owned(), value);
                    (200, json!({}))
                }
                Err(_) => (400, json!({ "error": "the body is not JSON" })),
            },
            ("DELETE", Some(name)) => {
                state.resources.get_mut(kind).map(|resources| resources.remove(name));
                (200, json!({}))
            }
            _ => (404, json!({ "error": "there is no such page" })),
        }
    }
}

/// Reads a request; none at the end of the connection.
fn read(reader: &mut impl BufRead) -> io::Result<Option<HttpRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut is_authorized, mut length) = (false, 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => is_authorized = value.trim() == LOGIN,
            "content-length" => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
    let mut body = vec![0; length.min(MAX_BODY_BYTES)];
    reader.read_exact(&mut body)?;
    Ok(Some(HttpRequest { method, path, is_authorized, body }))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Sends a request and returns the answer with its head.
    fn ask(appliance: &Appliance, request: &str, login: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(appliance.address).unwrap();
        let head = format!("{request} HTTP/1.1\r\nAuthorization: {login}\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn resources_are_stored_and_removed() {
        let appliance = Appliance::start().unwrap();
        assert!(ask(&appliance, "PUT /vlan/7", LOGIN, r#"{"label":"x"}"#).starts_with("HTTP/1.1 200"));
        assert_eq!(appliance.get("vlan", "7"), Some(json!({ "label": "x" })));
        assert!(ask(&appliance, "GET /vlan", LOGIN, "").ends_with(r#"{"7":{"label":"x"}}"#));
        ask(&appliance, "DELETE /vlan/7", LOGIN, "");
        assert_eq!(appliance.get("vlan", "7"), None);
        assert_eq!(appliance.requests(), ["PUT /vlan/7", "GET /vlan", "DELETE /vlan/7"]);
    }

    #[test]
    fn faults_occur_once_on_request() {
        let appliance = Appliance::start().unwrap();
        assert!(ask(&appliance, "GET /facts", "Basic bm8=", "").starts_with("HTTP/1.1 401"));
        appliance.fail_next("GET", ApplianceFault::Status(503));
        appliance.fail_next("PUT", ApplianceFault::Disconnect);
        appliance.fail_next("PUT", ApplianceFault::DisconnectAfterChange);
        assert!(ask(&appliance, "GET /facts", LOGIN, "").starts_with("HTTP/1.1 503"));
        assert_eq!(ask(&appliance, "PUT /a/1", LOGIN, "1"), "");
        assert_eq!((ask(&appliance, "PUT /a/2", LOGIN, "2").as_str(), appliance.get("a", "1")), ("", None));
        assert_eq!(appliance.get("a", "2"), Some(json!(2)));
        assert!(ask(&appliance, "GET /facts", LOGIN, "").contains("applianceos"));
    }

    #[test]
    fn late_answer_waits_for_its_release() {
        let appliance = Appliance::start().unwrap();
        appliance.fail_next("GET", ApplianceFault::Late);
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| ask(&appliance, "GET /facts", LOGIN, ""));
            while appliance.requests().is_empty() {
                std::thread::yield_now();
            }
            assert!(!answer.is_finished());
            appliance.release();
            assert!(answer.join().unwrap().contains("applianceos"));
        });
    }
}
