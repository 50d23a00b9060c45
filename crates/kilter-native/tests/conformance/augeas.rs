//! Edits by the real augtool.

use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{AugeasProvider, RealRunner, System};

use crate::tree;

const HOSTS: &str = "# kept\n127.0.0.1\tlocalhost\n10.0.0.1   web www  # by hand\n";

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    std::fs::create_dir(root.join("etc")).expect("the directory is new");
    let sample = |name: &str, file: &str| {
        std::fs::write(root.join("etc").join(file), HOSTS).expect("the directory is new");
        let edit = |address: &str| {
            let changes = [format!("set *[canonical = 'web']/ipaddr {address}")];
            let changes = Value::strings(changes.iter().map(String::as_str));
            [("lens", Value::from("Hosts.lns")), ("incl", format!("/etc/{file}").into()), ("changes", changes)]
        };
        Sample::new(name).present(edit("10.0.0.2")).changed(edit("10.0.0.3"))
    };
    let (one, two) = (sample("one", "hosts"), sample("two", "hosts2"));
    let failing = [("lens", "Hosts.lns"), ("incl", "/etc/missing"), ("changes", "set 1/canonical x")];
    let system = System::new(&root, Arc::new(RealRunner));
    Subject::new(move || AugeasProvider::new(system.clone()), move || tree::fingerprint(&root))
        .specimen(one)
        .specimen(two)
        .failing(Sample::new("bad").present(failing))
        .without(Unsupported::Unknown, "an edit is found only by its declaration")
        .without(Unsupported::Listing, "an edit is found only by its declaration")
        .without(Unsupported::Removal, "an edit removes nodes by its changes")
        .without(Unsupported::Slow, "a small file is edited at once")
        .keeping(directory)
}

#[test]
fn augeas_conforms() {
    let report = Suite::new(subject).run();
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    let undeclared = ["values-fit-the-schema", "what-is-read-is-canonical", "what-is-read-can-be-declared"];
    assert_eq!(report.untried(), undeclared, "{report}");
}
