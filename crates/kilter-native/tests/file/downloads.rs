//! Contents from an HTTP server on this machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use kilter_model::Value;
use kilter_native::FileProvider;
use kilter_provider::{Context, Provider, ValidationError};

use crate::harness::*;

/// SHA-256 of `new`.
const SUM: &str = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437";

/// A server that has one file. It ends with the process.
struct DownloadServer {
    url: String,
    file: Arc<Mutex<ServedFile>>,
}

#[derive(Default)]
struct ServedFile {
    content: String,
    /// Version that the server tells; none if it has no validators.
    etag: Option<String>,
    /// Status lines of its answers.
    answers: Vec<&'static str>,
}

impl DownloadServer {
    fn new(content: &str, etag: Option<&str>) -> DownloadServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a loopback");
        let url = format!("http://{}/file", listener.local_addr().expect("it is bound"));
        let server = DownloadServer { url, file: Arc::default() };
        server.put(content, etag);
        let file = Arc::clone(&server.file);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a client connects");
                let lines = BufReader::new(stream.try_clone().expect("it is open")).lines().map_while(Result::ok);
                let request: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let known = request
                    .iter()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("if-none-match: ").map(str::to_owned));
                let mut file = file.lock().expect("no test panics here");
                let etag = file.etag.as_ref().map(|etag| format!("ETag: {etag}\r\n")).unwrap_or_default();
                let (status, body) = match known.is_some() && known == file.etag {
                    true => ("304 Not Modified", String::new()),
                    false => ("200 OK", file.content.clone()),
                };
                file.answers.push(status);
                let length =
                    if status.starts_with('2') { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
                let _ = write!(stream, "HTTP/1.1 {status}\r\n{etag}{length}Connection: close\r\n\r\n{body}");
            }
        });
        server
    }

    fn put(&self, content: &str, etag: Option<&str>) {
        let mut file = self.file.lock().expect("no test panics here");
        file.content = content.to_owned();
        file.etag = etag.map(str::to_owned);
    }

    /// Returns the answers since the last call.
    fn answers(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.file.lock().expect("no test panics here").answers)
    }

    fn source(&self) -> (&'static str, Value) {
        ("source", text(&self.url))
    }
}

#[test]
fn content_with_a_checksum_is_downloaded_once() {
    let server = DownloadServer::new("new", None);
    let home = directory();
    let path = home.path().join("x");
    let declared = file(&path, [server.source(), ("checksum", text(SUM)), ("mode", text("0750"))]);
    converge(&declared);
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!((mode(&path), names(home.path())), (0o750, vec!["x".to_owned()]));
    assert_eq!(server.answers(), ["200 OK"], "the check needs no request");
    fs::write(&path, "damaged").unwrap();
    let differences = plan(&declared);
    assert_eq!(told(&differences), ["content"]);
    assert_eq!(differences[0].should, Value::from(format!("{{sha256}}{}", &SUM[..12])));
    assert_eq!(server.answers(), [""; 0], "a plan needs no request");
    converge(&declared);
    assert_eq!(server.answers(), ["200 OK"]);
    set_mode(&path, 0o600);
    assert_eq!(told(&converge(&declared)), ["mode"]);
    assert_eq!(server.answers(), [""; 0], "another mode needs no request");
}

#[test]
fn other_content_than_declared_is_not_installed() {
    let server = DownloadServer::new("evil", None);
    let home = directory();
    let path = home.path().join("x");
    fs::write(&path, "old").unwrap();
    let declared = file(&path, [server.source(), ("checksum", text(&format!("sha256:{SUM}")))]);
    let failure = apply(&declared).unwrap_err();
    assert!(failure.contains("its content has the checksum {sha256}") && failure.contains(SUM), "{failure}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(home.path()), ["x"]);
}

#[test]
fn content_without_a_checksum_is_compared_by_validators() {
    let server = DownloadServer::new("one", Some("\"1\""));
    let home = directory();
    let state = tempfile::tempdir().unwrap();
    let cx = Context::empty().with_var_dir(Some(state.path()));
    let path = home.path().join("x");
    let declared = file(&path, [server.source()]);
    apply_in(&cx, &declared).unwrap();
    assert_eq!(server.answers(), ["200 OK", "304 Not Modified"]);
    let kept = state.path().join("kept/download");
    let stored = fs::read_to_string(kept.join(&names(&kept)[0])).unwrap();
    assert!(!stored.contains("127.0.0.1"), "the address may hold a secret: {stored}");
    assert_eq!(apply_in(&cx, &declared).unwrap(), []);
    assert_eq!(server.answers(), ["304 Not Modified"]);
    // A file of the same name that is damaged, and another version.
    fs::write(&path, "damaged").unwrap();
    assert_eq!(told(&apply_in(&cx, &declared).unwrap()), ["content"]);
    assert_eq!(server.answers(), ["200 OK", "200 OK", "304 Not Modified"]);
    server.put("two", Some("\"2\""));
    assert_eq!(told(&apply_in(&cx, &declared).unwrap()), ["content"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    // A server without validators sends the content each time.
    server.put("two", None);
    server.answers();
    assert_eq!(apply_in(&cx, &declared).unwrap(), []);
    assert_eq!(server.answers(), ["200 OK"]);
    // Without `replace`, a present file is not compared.
    server.put("three", None);
    let once = file(&path, [server.source(), ("replace", Value::from(false))]);
    assert_eq!(plan(&once), []);
    let never = file(&path, [server.source(), ("checksum", text("none"))]);
    assert_eq!(plan(&never), []);
}

#[test]
fn link_at_the_path_is_replaced_and_not_followed() {
    let server = DownloadServer::new("new", None);
    let home = directory();
    let (path, victim) = (home.path().join("x"), home.path().join("victim"));
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    converge(&file(&path, [server.source(), ("checksum", text(SUM))]));
    assert!(path.symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn unreachable_server_is_an_error_that_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    drop(listener);
    let home = directory();
    let failure = apply(&file(home.path().join("x"), [("source", text(&url))])).unwrap_err();
    assert!(failure.contains(&format!("cannot download {url}")), "{failure}");
    assert_eq!(names(home.path()), [""; 0]);
}

#[test]
fn address_and_checksum_are_validated() {
    let problems = |attributes: &[(&'static str, Value)]| {
        let should = attributes.iter().map(|(name, value)| (*name, value.clone())).collect();
        let problems: Vec<ValidationError> = FileProvider::new().validate("/x", &should, &[]);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let (plain, safe) = (text("http://example.org/x"), text("https://example.org/x/"));
    assert_eq!(problems(&[("source", safe.clone())]), "");
    assert_eq!(problems(&[("source", plain.clone()), ("checksum", text(SUM))]), "");
    for (attributes, why) in [
        (vec![("source", plain)], "add `checksum` with the digits of SHA-256"),
        (vec![("source", text("https://ann:secret@example.org/x"))], "a user name is not supported"),
        (vec![("source", safe.clone()), ("checksum", text("mtime"))], "compares local files only"),
        (vec![("source", safe.clone()), ("checksum", text(&"x".repeat(64)))], "is no checksum"),
        (vec![("source", text("/etc/motd")), ("checksum", text(SUM))], "need a `source` on a server"),
        (vec![("source", safe), ("recurse", yes())], "a server has no directories"),
    ] {
        let found = problems(&attributes);
        assert!(found.contains(why), "{attributes:?}: {found}");
    }
}
