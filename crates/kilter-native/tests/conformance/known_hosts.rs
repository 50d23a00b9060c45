use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::KnownHostsProvider;

use crate::{assert_edges, assert_held_but, tree};

const ONE: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";
const TWO: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIGtleXMgYXJlIG1hZGUgb2YgMzIgYnl0ZXMgYXQgbGVh";

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    std::fs::create_dir_all(root.join("etc/ssh")).expect("the directory is new");
    std::fs::write(root.join("etc/ssh/ssh_known_hosts"), "# mine\n|1|a=|b= ssh-rsa AAAA").expect("it is new");
    let below = root.clone();
    let sample = |name: &str, key: &str| {
        let aliases = ("host_aliases", Value::strings(["git", "10.0.0.7"]));
        Sample::new(name).present([("type", Value::from("ssh-ed25519")), ("key", key.into()), aliases])
    };
    let git = sample("git.example.org", ONE).changed([("key", TWO)]);
    let db = sample("[db.example.org]:2222", TWO).changed([("host_aliases", Value::array([]))]);
    Subject::new(move || KnownHostsProvider::new(&root), move || tree::fingerprint(&below))
        .specimen(git)
        .specimen(db)
        .unknown(["nothing.example.org", "git.example.org@ssh-rsa"])
        .failing(Sample::new("bad").present([("type", "ssh-rsa"), ("key", "AAAA")]))
        .without(Unsupported::Slow, "a small file is written at once")
        .sparing("key", "every text but a key of its kind is refused alike")
        .sparing("type", "the key belongs to one type")
        .keeping(directory)
}

#[test]
fn known_hosts_conforms() {
    let report = Suite::new(subject).run();
    assert_held_but(
        &report,
        &[
            ("titles-fit-namevars", "the type has one namevar"),
            ("other-attributes-stay", "the type has fewer than two attributes that can be changed"),
            ("a-refresh-is-served", "the provider does not have the feature `refresh`"),
            ("an-interrupt-ends-a-call", "a small file is written at once"),
        ],
    );
    assert_edges(
        &report,
        20,
        "type (the key belongs to one type), key (every text but a key of its kind is refused alike)",
    );
}
