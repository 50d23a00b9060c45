//! Unpacked archives.

use std::path::Path;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::ArchiveProvider;

use crate::tree;

/// Makes an archive with one file.
fn tarball(root: &Path, name: &str, content: &str) -> String {
    std::fs::write(root.join("file"), content).expect("the directory is new");
    let path = root.join(name);
    let mut command = std::process::Command::new("tar");
    let status = command.current_dir(root).args(["-czf", name, "file"]).status().expect("tar is installed");
    assert!(status.success());
    std::fs::remove_file(root.join("file")).expect("the file is there");
    path.to_str().expect("the path is text").to_owned()
}

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    let (old, new) = (tarball(&root, "old.tar.gz", "old"), tarball(&root, "new.tar.gz", "new"));
    let unpacked = |to: &str, source: &str| {
        let to = root.join(to);
        std::fs::create_dir_all(&to).expect("the directory is new");
        [("source", Value::from(source)), ("extract_path", to.to_str().expect("the path is text").into())]
    };
    let sample = |name: &str, to: &str| {
        Sample::new(root.join(name).to_str().expect("the path is text"))
            .present(unpacked(to, &old))
            .changed(unpacked(to, &new))
    };
    let (one, two) = (sample("one", "to/one"), sample("two", "to/two"));
    let failing = Sample::new("/nonexistent/archive").present([("extract_path", "/nonexistent")]);
    let below = root.join("to");
    Subject::new(ArchiveProvider::default, move || tree::fingerprint(&below))
        .specimen(one)
        .specimen(two)
        .failing(failing)
        .without(Unsupported::Unknown, "an archive is found only by its declaration")
        .without(Unsupported::Listing, "an archive is found only by its declaration")
        .without(Unsupported::Removal, "unpacked files are removed by other resources")
        .without(Unsupported::Slow, "a small archive is unpacked at once")
        .keeping(directory)
}

#[test]
fn archive_conforms() {
    let report = Suite::new(subject).run();
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    let undeclared = ["values-fit-the-schema", "what-is-read-is-canonical", "what-is-read-can-be-declared"];
    assert_eq!(report.untried(), undeclared, "{report}");
}
