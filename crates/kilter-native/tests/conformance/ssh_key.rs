use std::os::unix::fs::chown;
use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{RealRunner, SshAuthorizedKeyProvider, System};

use crate::{assert_edges, assert_held_but, need_root, tree};

const ONE: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";
const TWO: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIGtleXMgYXJlIG1hZGUgb2YgMzIgYnl0ZXMgYXQgbGVh";

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    let home = root.join("home/eve");
    for path in [root.join("etc"), home.join(".ssh")] {
        std::fs::create_dir_all(path).expect("the directory is new");
    }
    let shown = root.display();
    let passwd = format!("root:x:0:0::{shown}/root:/bin/sh\neve:x:5001:5001::{shown}/home/eve:/bin/sh\n");
    std::fs::write(root.join("etc/passwd"), passwd).expect("the directory is new");
    std::fs::write(home.join(".ssh/authorized_keys"), "# mine\n\n  nonsense").expect("the directory is new");
    for path in [&home, &home.join(".ssh"), &home.join(".ssh/authorized_keys")] {
        chown(path, Some(5001), Some(5001)).expect("the test runs as root");
    }
    let below = root.clone();
    let options = |options: &[&str]| Value::strings(options.iter().copied());
    let sample = |name: &str, key: &str| {
        let key = [("user", "eve".into()), ("type", "ssh-ed25519".into()), ("key", key.into())];
        Sample::new(name).present(key.into_iter().chain([("options", options(&["no-agent-forwarding"]))]))
    };
    let one = sample("me@laptop", ONE).changed([("options", options(&["no-pty", "from=\"10.0.0.*,10.1.0.1\""]))]);
    let two = sample("the other one", TWO).changed([("options", options(&[]))]);
    let system = move || System::new(&root, Arc::new(RealRunner));
    Subject::new(move || SshAuthorizedKeyProvider::new(system()), move || tree::fingerprint(&below))
        .specimen(one)
        .specimen(two)
        .unknown(["nothing", "eve:nothing", "nosuchuser:nothing"])
        .failing(Sample::new("bad").present([("user", "eve"), ("type", "ssh-rsa"), ("key", "AAAA")]))
        .without(Unsupported::Slow, "a small file is written at once")
        .sparing("user", "every text but the name of a user is refused alike")
        .sparing("key", "every text but a key of its kind is refused alike")
        .keeping(directory)
}

#[test]
fn ssh_authorized_key_conforms() {
    need_root();
    let report = Suite::new(subject).run();
    assert_held_but(
        &report,
        &[
            ("titles-fit-namevars", "the type has one namevar"),
            ("a-refresh-is-served", "the provider does not have the feature `refresh`"),
            ("an-interrupt-ends-a-call", "a small file is written at once"),
        ],
    );
    assert_edges(
        &report,
        30,
        "user (every text but the name of a user is refused alike), key (every text but a key of its kind is refused \
         alike)",
    );
}
