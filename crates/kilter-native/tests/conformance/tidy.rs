//! Removal of files by age, size and name.

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::TidyProvider;

use crate::tree;

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    for name in ["one", "two"] {
        std::fs::create_dir(root.join(name)).expect("the directory is new");
        std::fs::write(root.join(name).join("a.tmp"), "").expect("the directory is new");
        std::fs::write(root.join(name).join("kept"), "").expect("the directory is new");
    }
    std::fs::write(root.join("file"), "").expect("the directory is new");
    let sample = |name: &str| {
        let path = root.join(name);
        Sample::new(path.to_str().expect("the path is text")).present([
            ("recurse", Value::from(true)),
            ("matches", "*.tmp".into()),
            ("age", "0".into()),
        ])
    };
    let (one, two) = (sample("one"), sample("two"));
    let file = root.join("file");
    let failing = Sample::new(file.to_str().expect("the path is text")).present([("recurse", true)]);
    Subject::new(TidyProvider::default, move || tree::fingerprint(&root))
        .specimen(one)
        .specimen(two)
        .failing(failing)
        .without(Unsupported::Unknown, "every path can be tidied")
        .without(Unsupported::Listing, "a tidy is not on the system")
        .without(Unsupported::Removal, "removed files do not come back")
        .without(Unsupported::Slow, "two files are removed at once")
        .keeping(directory)
}

#[test]
fn tidy_conforms() {
    let report = Suite::new(subject).run();
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    assert_eq!(report.untried(), [""; 0], "{report}");
}
