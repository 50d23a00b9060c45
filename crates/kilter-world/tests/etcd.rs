//! A world in a real etcd, which each test starts on this machine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kilter_provider::{Shared, World};
use kilter_world::{Credentials, Endpoint, Etcd};

const SOON: Duration = Duration::from_secs(30);

/// An etcd of one member; it ends when this is dropped.
struct Server {
    child: Child,
    place: tempfile::TempDir,
    scheme: &'static str,
    port: u16,
}

impl Server {
    fn new(scheme: &'static str) -> Server {
        let place = tempfile::tempdir().unwrap();
        if scheme == "https" {
            certificates(place.path());
        }
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = free();
        let child = Server::start(place.path(), scheme, port, free());
        let server = Server { child, place, scheme, port };
        // What it says does not matter: it says something.
        server.wait("etcd", || {
            server.world("here", None).read(&["x"]).map_or_else(|why| !why.0.contains("io:"), |_| true)
        });
        server
    }

    fn start(place: &Path, scheme: &str, port: u16, peers: u16) -> Child {
        let (clients, peers) = (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{peers}"));
        let mut command = Command::new("etcd");
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").args(["--name", "one", "--log-level", "error"]);
        command.arg("--data-dir").arg(place.join("data"));
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &format!("one={peers}")]);
        if scheme == "https" {
            command.arg("--cert-file").arg(place.join("server.pem")).arg("--key-file").arg(place.join("server.key"));
        }
        let logged = std::fs::File::create(place.join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(logged).spawn().expect("etcd is installed")
    }

    fn address(&self) -> String {
        format!("{}://127.0.0.1:{}/site/kilter", self.scheme, self.port)
    }

    fn world(&self, host: &str, login: Option<&str>) -> Etcd {
        self.world_at(&self.address(), host, login)
    }

    fn world_at(&self, address: &str, host: &str, login: Option<&str>) -> Etcd {
        let roots = std::fs::read(self.place.path().join("ca.pem")).unwrap_or_default();
        let login = login.map(|login| Credentials::parse(login).unwrap());
        let (access, prefix) = Endpoint::parse(address, login, ("ca.pem", &roots)).unwrap();
        Etcd::new(access, &prefix, host)
    }

    fn ask(&self, path: &str, question: &str) {
        let url = format!("{}://127.0.0.1:{}{path}", self.scheme, self.port);
        let asked = Command::new("curl").args(["-sSfk", "-X", "POST", "-d", question, &url]).output().unwrap();
        assert!(asked.status.success(), "{path}: {}", String::from_utf8_lossy(&asked.stderr));
    }

    /// The same with a token.
    fn ask_as(&self, login: (&str, &str), path: &str, question: &str) {
        let url = |path: &str| format!("{}://127.0.0.1:{}{path}", self.scheme, self.port);
        let curl = |args: &[&str]| {
            let asked = Command::new("curl").args(["-sSfk", "-X", "POST"]).args(args).output().unwrap();
            assert!(asked.status.success(), "{args:?}: {}", String::from_utf8_lossy(&asked.stderr));
            String::from_utf8(asked.stdout).unwrap()
        };
        let question_for_token = format!(r#"{{"name": "{}", "password": "{}"}}"#, login.0, login.1);
        let answer = curl(&["-d", &question_for_token, &url("/v3/auth/authenticate")]);
        let token = answer.split("\"token\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        curl(&["-H", &format!("Authorization: {token}"), "-d", question, &url(path)]);
    }

    fn wait(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            let log = std::fs::read_to_string(self.place.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < SOON, "it never came: {what}\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An authority, and a certificate of it for this machine.
fn certificates(place: &Path) {
    let openssl = |args: &str| {
        let ended = Command::new("openssl").args(args.split(' ')).current_dir(place).output().unwrap();
        assert!(ended.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&ended.stderr));
    };
    std::fs::write(place.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 -subj \
         /CN=authority",
    );
    openssl("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out server.csr -subj /CN=etcd");
    openssl("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem");
}

fn shown(found: Vec<Shared>) -> Vec<String> {
    found.into_iter().map(|one| format!("{}={}", one.key.join("|"), one.text.unwrap())).collect()
}

#[test]
fn etcd_text_is_shared_until_removed() {
    let server = Server::new("http");
    let (one, other) = (server.world("one", None), server.world("other", None));
    let long = "/path".repeat(200);
    for (key, text) in [(["a", "/etc/../b"], "1"), (["a", "c+"], "2\n"), (["ab", "c"], "3"), (["a", &long], "")] {
        one.write(&key, text).unwrap();
    }
    one.write(&["a", "c+"], "two\n").unwrap();
    assert_eq!(other.read(&["a", "c+"]).unwrap().as_deref(), Some("two\n"));
    assert_eq!(shown(other.below(&["a"]).unwrap()), ["/etc/../b=1".to_owned(), format!("{long}="), "c+=two\n".into()]);
    assert_eq!(shown(other.below(&[]).unwrap()).len(), 4);
    assert!(
        !other.replace(&["a", "c+"], None, "three").unwrap()
            && !other.replace(&["a", "c+"], Some("2\n"), "three").unwrap()
    );
    assert!(other.replace(&["a", "c+"], Some("two\n"), "three").unwrap());
    other.remove(&["a", "c+"]).unwrap();
    other.remove(&["a", "c+"]).unwrap();
    assert!(!other.replace(&["a", "c+"], Some("three"), "four").unwrap());
    assert!(other.replace(&["a", "c+"], None, "").unwrap() && other.replace(&["a", "c+"], Some(""), "x").unwrap());
    other.remove(&["a", "c+"]).unwrap();
    assert_eq!(one.read(&["a", "c+"]).unwrap(), None);
    let elsewhere = server.world_at(&server.address().replace("site/kilter", "site/kilter2"), "one", None);
    assert_eq!(elsewhere.below(&[]).unwrap(), []);
}

#[test]
fn etcd_changes_are_reported_across_outages() {
    let mut server = Server::new("http");
    let (one, other) = (server.world("one", None), server.world("other", None));
    one.write(&["a", "x", "before"], "1").unwrap();
    // A key and another one below it are two.
    one.write(&["a", "x"], "0").unwrap();
    let seen = |key: &[&str]| shown(other.seen_below(key).unwrap());
    // Times are coarse, and each time there is another file.
    let rung = |key: &[&str]| std::fs::metadata(other.watched(key)).map(|found| (found.mtime_nsec(), found.ino())).ok();
    assert_eq!((seen(&["a"]), rung(&["a", "x"])), (vec!["x=0".into(), "x|before=1".into()], None));
    other.follow();
    other.follow();
    server.wait("what was there", || rung(&["a", "x", "before"]).is_some());
    let former = rung(&["a", "x"]);
    one.write(&["a", "x", "later"], "2").unwrap();
    server.wait("what came", || seen(&["a", "x"]) == ["before=1", "later=2"] && rung(&["a", "x"]) != former);
    let former = rung(&["a", "x"]);
    one.remove(&["a", "x", "before"]).unwrap();
    server.wait("what went", || seen(&["a", "x"]) == ["later=2"] && rung(&["a", "x"]) != former);
    server.kill();
    let why = one.read(&["a", "later"]).unwrap_err().to_string();
    assert!(why.contains(&format!("etcd at http://127.0.0.1:{}: ", server.port)), "{why}");
    assert_eq!(seen(&["a", "x"]), ["later=2"], "what was known is known still");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    server.child = Server::start(server.place.path(), "http", server.port, free);
    server.wait("etcd again", || one.write(&["a", "x", "again"], "3").is_ok());
    server.wait("what came again", || seen(&["a", "x"]) == ["again=3", "later=2"]);
    // What is no text means nothing, and a key that is alone is in nobody's way.
    server.ask("/v3/kv/put", r#"{"key": "c2l0ZS9raWx0ZXIvYS95", "value": "/w=="}"#);
    assert_eq!(other.read(&["a", "y"]).unwrap().as_deref(), Some("\u{fffd}"));
    one.write(&["a"], "alone").unwrap();
    let former = rung(&["a", "x"]);
    one.write(&["a", "x", "last"], "4").unwrap();
    server.wait("what came last", || rung(&["a", "x"]) != former);
    let place = other.watched(&["a", "x"]);
    other.leave();
    assert!(!place.exists() && !place.parent().unwrap().exists(), "nothing is left");
}

#[test]
fn etcd_client_uses_another_server_if_one_is_away() {
    let server = Server::new("http");
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = server.address().replace("127.0.0.1", &format!("127.0.0.1:{gone},127.0.0.1"));
    let world = server.world_at(&address, "one", None);
    world.write(&["a"], "1").unwrap();
    assert_eq!(world.read(&["a"]).unwrap().as_deref(), Some("1"));
}

#[test]
fn tls_requires_trusted_certificate_and_login() {
    let server = Server::new("https");
    server.world("one", None).write(&["a"], "1").unwrap();
    // Any other authority.
    let strange = tempfile::tempdir().unwrap();
    certificates(strange.path());
    let roots = std::fs::read(strange.path().join("ca.pem")).unwrap();
    let (access, prefix) = Endpoint::parse(&server.address(), None, ("ca.pem", &roots)).unwrap();
    let why = Etcd::new(access, &prefix, "one").read(&["a"]).unwrap_err().to_string();
    assert!(why.contains("certificate"), "{why}");

    server.ask("/v3/auth/user/add", r#"{"name": "root", "password": "pass:word"}"#);
    server.ask("/v3/auth/user/grant", r#"{"user": "root", "role": "root"}"#);
    server.ask("/v3/auth/enable", "{}");
    let why = server.world("one", None).read(&["a"]).unwrap_err().to_string();
    assert!(why.contains("user name is empty"), "{why}");
    let why = server.world("one", Some("root:wrong")).read(&["a"]).unwrap_err().to_string();
    assert!(why.contains("authentication failed") && !why.contains("wrong"), "{why}");
    let world = server.world("one", Some("root:pass:word\n"));
    assert_eq!(world.read(&["a"]).unwrap().as_deref(), Some("1"));
    world.follow();
    world.write(&["b", "c"], "2").unwrap();
    server.wait("what has changed", || world.watched(&["b", "c"]).exists());
    world.leave();
    // A token ends with the password that it was given for: another one is asked for.
    server.ask_as(("root", "pass:word"), "/v3/auth/user/changepw", r#"{"name": "root", "password": "other"}"#);
    let why = world.read(&["b", "c"]).unwrap_err().to_string();
    assert!(why.contains("authentication failed"), "{why}");
    server.ask_as(("root", "other"), "/v3/auth/user/changepw", r#"{"name": "root", "password": "pass:word"}"#);
    assert_eq!(world.read(&["b", "c"]).unwrap().as_deref(), Some("2"));
}
