use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::HostProvider;

use crate::{assert_edges, assert_held_but, tree};

const HOSTS: &str = "# kept\n127.0.0.1 localhost\n::1 localhost ip6-localhost\n\n10.9.9.9 other also # by hand";

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    std::fs::create_dir(root.join("etc")).expect("the directory is new");
    std::fs::write(root.join("etc/hosts"), HOSTS).expect("the directory is new");
    let below = root.clone();
    let db = Sample::new("db.example.org")
        .present([
            ("ip", Value::from("10.0.0.7")),
            ("host_aliases", Value::strings(["db", "database"])),
            ("comment", "the old one".into()),
        ])
        .changed([
            ("ip", Value::from("2001:db8::7")),
            ("host_aliases", Value::array([])),
            ("comment", "the new one".into()),
        ]);
    let www = Sample::new("www").present([("ip", "10.0.0.8")]).changed([("ip", "10.0.0.9")]);
    Subject::new(move || HostProvider::new(&root), move || tree::fingerprint(&below))
        .specimen(db)
        .specimen(www)
        .unknown(["nothing.example.org"])
        .failing(Sample::new("bad").present([("ip", "10.0.0.300")]))
        .without(Unsupported::Slow, "one small file is written, which cannot be kept waiting")
        .keeping(directory)
}

#[test]
fn host_conforms() {
    let report = Suite::new(subject).run();
    let no_preview = "the provider does not have the feature `supports_noop`, so kilter requests no preview";
    assert_held_but(
        &report,
        &[
            ("titles-fit-namevars", "the type has one namevar"),
            ("a-refresh-is-served", "the provider does not have the feature `refresh`"),
            ("preview-changes-nothing", no_preview),
            ("preview-foresees-rightly", no_preview),
            ("an-interrupt-ends-a-call", "one small file is written, which cannot be kept waiting"),
        ],
    );
    assert_edges(&report, 90, "");
}
