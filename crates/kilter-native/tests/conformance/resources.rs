//! Removal of undeclared resources.

use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_native::{RealRunner, ResourcesProvider, System};

use crate::tree;

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    std::fs::create_dir(root.join("etc")).expect("the directory is new");
    std::fs::write(root.join("etc/hosts"), "127.0.0.1 localhost\n10.0.0.2 old\n").expect("the directory is new");
    for name in ["passwd", "group", "shadow"] {
        std::fs::write(root.join("etc").join(name), "").expect("the directory is new");
    }
    let system = System::new(&root, Arc::new(RealRunner));
    Subject::new(move || ResourcesProvider::new(system.clone()), move || tree::fingerprint(&root))
        .specimen(Sample::new("host").present([("purge", true)]))
        .specimen(Sample::new("user").present([("purge", true)]))
        .without(Unsupported::Unknown, "the names are those of four types")
        .without(Unsupported::Failing, "a removal of a line cannot fail")
        .without(Unsupported::Listing, "a purge is not on the system")
        .without(Unsupported::Removal, "removed resources do not come back")
        .without(Unsupported::Slow, "lines are removed at once")
        .keeping(directory)
}

#[test]
fn resources_conforms() {
    let report = Suite::new(subject).run();
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    assert_eq!(report.untried(), [""; 0], "{report}");
}
