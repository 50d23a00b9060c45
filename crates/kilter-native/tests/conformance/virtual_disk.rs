//! Images that the real qemu-img makes.

use std::process::Command;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{System, VirtualDiskProvider};

fn images() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = |name: &str| directory.path().join(name).to_str().expect("the path is text").to_owned();
    let base = path("base.qcow2");
    let made = Command::new("qemu-img").args(["create", "-q", "-f", "qcow2", &base, "1M"]).status();
    assert!(made.expect("qemu-img is part of qemu-utils").success());
    let disk = |size: &str| [("ensure", Value::from("present")), ("size", size.into())];
    let based =
        |size: &str| [("ensure", Value::from("present")), ("size", size.into()), ("backing", base.as_str().into())];
    let shown = {
        let directory = directory.path().to_owned();
        move || {
            let mut lines = Vec::new();
            for entry in std::fs::read_dir(&directory).expect("the directory exists") {
                let path = entry.expect("it can be read").path();
                let info = Command::new("qemu-img").args(["info", "--output=json"]).arg(&path).output();
                lines.push(String::from_utf8_lossy(&info.expect("qemu-img is installed").stdout).into_owned());
            }
            lines.sort();
            // Each test has another directory.
            lines.concat().replace(directory.to_str().expect("the path is text"), "")
        }
    };
    Subject::new(|| VirtualDiskProvider::new(System::real()), shown)
        .specimen(Sample::new(path("a b.qcow2")).present(based("3M")))
        .specimen(Sample::new(path("data.img")).present(disk("2560K")))
        .unknown([path("nothing")])
        .failing(Sample::new(path("no/directory.img")).present(disk("1M")))
        .without(Unsupported::Slow, "a small image is made at once")
        .without(Unsupported::Listing, "only declared images are read")
        .keeping(directory)
}

#[test]
fn virtual_disk_conforms() {
    let report = Suite::new(images).run();
    assert_eq!(report.broken(), [""; 0], "{report}");
    // These laws change a resource and change it back, and kilter shrinks no disk. The tests of the command grow disks.
    assert_eq!(report.untried(), ["set-makes-what-was-asked", "other-attributes-stay"], "{report}");
}
