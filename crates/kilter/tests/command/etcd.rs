//! `kilter run` while etcd is away, with a real etcd on this machine.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value as Json;

use crate::run::{Running, content, wait};
use crate::support::*;

/// Manifest that collects what the web servers export.
const COLLECT: &str = "collect: [{type: file, from: 'web*'}]\n";

/// An etcd of one member. It ends when this is dropped.
struct Etcd(Child);

impl Etcd {
    fn start(data: &Path, port: u16) -> Etcd {
        let of = |port: u16| format!("http://127.0.0.1:{port}");
        let (clients, peers) = (of(port), of(free_port()));
        let mut command = Command::new("etcd");
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").args(["--name", "one", "--log-level", "error"]);
        command.arg("--data-dir").arg(data);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("one={peers}")]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Etcd(child.expect("etcd is installed"))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It has ended by itself, perhaps.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The options of a machine.
fn options(place: &Place, port: u16, host: &str) -> Vec<String> {
    let state = place.path().join(format!("state-{host}")).display().to_string();
    let world = format!("http://127.0.0.1:{port}/site");
    ["--world", &world, "--state-dir", &state, "--hostname", host].map(str::to_owned).to_vec()
}

fn run(place: &Place, port: u16, host: &str, args: &[&str]) -> Ended {
    let options = options(place, port, host);
    place.run(&args.iter().copied().chain(options.iter().map(String::as_str)).collect::<Vec<_>>())
}

/// Has web1 export a file with this content. Fails until etcd answers.
fn export(place: &Place, port: u16, text: &str) {
    let known = place.path().join("known").display().to_string();
    let manifest = format!("resources:\n  file[{known}]: {{content: {text}, meta: {{hidden: true, export: [db]}}}}\n");
    let manifest = place.file("web1.yaml", manifest);
    wait("etcd", || run(place, port, "web1", &["apply", &manifest]).code == 0);
}

fn hold(place: &Place, port: u16) -> Running {
    let manifest = place.file("db.yaml", COLLECT);
    let options = options(place, port, "db");
    let args: Vec<&str> = [manifest.as_str()].into_iter().chain(options.iter().map(String::as_str)).collect();
    Running::begin(place, &args)
}

/// The status of the machine that collects, and the exit code.
fn status(place: &Place, port: u16) -> (Json, i32) {
    let ended = run(place, port, "db", &["status", "--format", "json", "--all"]);
    (serde_json::from_str(&ended.stdout).unwrap_or_default(), ended.code)
}

#[test]
fn start_without_etcd_uses_last_collected_resources() {
    let place = Place::new();
    let port = free_port();
    let known = place.path().join("known");
    let one = place.file("db.yaml", "collect: [{type: file, from: 'web*'}]\n");

    // Nothing was collected before: there is nothing to hold.
    let refused = run(&place, port, "db", &["run", &one]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("has no stored resources of this world"), "{}", refused.stderr);

    let etcd = Etcd::start(&place.path().join("data"), port);
    export(&place, port, "one");
    let held = hold(&place, port);
    wait("what is exported", || content(&known) == "one");
    wait("an orderly state", || status(&place, port).1 == 0);
    // Etcd goes away during a run.
    drop(etcd);
    wait("a warning in the status", || status(&place, port).0["collected"].is_object());
    assert_eq!(status(&place, port).1, 2);
    held.end();

    // Etcd is away at the start.
    std::fs::write(&known, "changed").unwrap();
    let held = hold(&place, port);
    wait("the state of before", || content(&known) == "one");
    wait("a status", || status(&place, port).0["quiet_for_ms"].is_u64());
    let (json, code) = status(&place, port);
    let collected = &json["collected"];
    assert_eq!(code, 2, "{json}");
    assert!(collected["read_unix_ms"].as_u64().is_some_and(|at| at > 1_700_000_000_000), "{json}");
    let why = format!("etcd at http://127.0.0.1:{port}: ");
    assert!(collected["why"].as_str().is_some_and(|said| said.starts_with(&why)), "{json}");
    let text = run(&place, port, "db", &["status"]).stdout;
    assert!(text.contains("holding the resources collected at 20") && text.contains(" ago: etcd at http"), "{text}");
    let metrics = run(&place, port, "db", &["status", "--format", "prometheus"]).stdout;
    let age = metrics.lines().find_map(|line| line.strip_prefix("kilter_collected_age_seconds ")).unwrap();
    assert!(age.parse::<f64>().unwrap() > 0.0, "{metrics}");
    assert_eq!(held.told("warning: holding the resources collected at 20"), 1);
    std::fs::write(&known, "changed").unwrap();
    wait("drift to be repaired", || content(&known) == "one");

    // A manifest that is edited meanwhile collects from what is kept.
    place.file("db.yaml", "collect: [{type: file, from: 'web*', set: {mode: '0600'}}]\n");
    let mode = || std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&known).unwrap()) & 0o777;
    wait("the edit", || mode() == 0o600);

    // Etcd comes back, with nothing in it: nothing is collected any more.
    let _etcd = Etcd::start(&place.path().join("empty"), port);
    wait("the state of now", || {
        let (json, code) = status(&place, port);
        code == 0 && json["collected"].is_null() && json["counts"]["total"] == 0
    });
    export(&place, port, "two");
    wait("what is exported now", || content(&known) == "two");
    wait("an orderly state", || status(&place, port).1 == 0);
    assert_eq!(held.told("the resources that others export can be collected again"), 1);
    held.end();
}

#[test]
fn resources_of_another_world_or_a_damaged_file_are_not_held() {
    let place = Place::new();
    let port = free_port();
    let etcd = Etcd::start(&place.path().join("data"), port);
    export(&place, port, "one");
    let held = hold(&place, port);
    let known = place.path().join("known");
    wait("what is exported", || content(&known) == "one");
    held.end();
    drop(etcd);

    let manifest = place.path().join("db.yaml").display().to_string();
    let run = |world: &str| {
        let state = place.path().join("state-db").display().to_string();
        let ended = place.run(&["run", &manifest, "--hostname", "db", "--state-dir", &state, "--world", world]);
        assert_eq!(ended.code, 1, "{}", ended.stderr);
        ended.stderr
    };
    let other = run(&format!("http://127.0.0.1:{port}/other"));
    assert!(other.contains("has no stored resources of this world"), "{other}");

    let mut kept = std::fs::read_dir(place.path().join("state-db")).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.find(|path| path.to_string_lossy().contains("/collected-")).unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&kept).unwrap()) & 0o7777;
    assert_eq!(mode, 0o600);
    let mut bytes = std::fs::read(&kept).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&kept, bytes).unwrap();
    let damaged = run(&format!("http://127.0.0.1:{port}/site"));
    assert!(damaged.contains("cannot be used: they are damaged; remove the file"), "{damaged}");
}

/// Forwards connections to an etcd, so that another one can take its place at once.
struct Relay {
    target: AtomicU16,
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Starts to forward a port until the end of the tests.
    fn start(port: u16, target: u16) -> Arc<Relay> {
        let relay = Arc::new(Relay { target: target.into(), streams: Mutex::default() });
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let accepting = Arc::clone(&relay);
        thread::spawn(move || listener.incoming().for_each(|stream| accepting.forward(stream.unwrap())));
        relay
    }

    fn forward(&self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.target.load(Ordering::Acquire))) else { return };
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            thread::spawn(move || {
                // Either end may be gone.
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        self.streams.lock().unwrap().push(client);
    }

    /// Closes all connections, and forwards new ones to another port.
    fn switch(&self, target: u16) {
        self.target.store(target, Ordering::Release);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn etcd_wiped_within_a_second_is_read_again() {
    let place = Place::new();
    let [port, before, wiped] = [free_port(), free_port(), free_port()];
    let _before = Etcd::start(&place.path().join("data"), before);
    let relay = Relay::start(port, before);
    let known = place.path().join("known");
    for text in ["one", "two", "three"] {
        export(&place, port, text);
    }
    let _wiped = Etcd::start(&place.path().join("empty"), wiped);
    wait("the wiped etcd", || run(&place, wiped, "other", &["plan", &place.file("none.yaml", COLLECT)]).code == 0);
    let held = hold(&place, port);
    wait("what is exported", || content(&known) == "three");
    wait("an orderly state", || status(&place, port).1 == 0);
    relay.switch(wiped);
    wait("the wiped store", || status(&place, port).0["counts"]["total"] == 0);
    export(&place, port, "four");
    wait("what is exported now", || content(&known) == "four");
    held.end();
}
