//! Reboots that are requested at the end of a run.

use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_native::{RebootProvider, Runner, System};
use kilter_process::{Cancel, Invocation, Output, SpawnError, Status};

use crate::tree;

/// A systemd that never reboots.
struct Systemd;

impl Runner for Systemd {
    fn run(&self, _: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        Ok(Output::of(Status::Code(0)))
    }
}

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    for below in ["run/systemd/system", "proc/sys/kernel/random", "state"] {
        std::fs::create_dir_all(root.join(below)).expect("the directory is new");
    }
    std::fs::write(root.join("proc/sys/kernel/random/boot_id"), "one\n").expect("the directory is new");
    let (system, state) = (System::new(&root, Arc::new(Systemd)), root.join("state"));
    let kernel = [("apply", "finished"), ("message", "a new kernel")];
    Subject::new(move || RebootProvider::new(system.clone()), move || tree::fingerprint(&root))
        .specimen(Sample::new("kernel").present(kernel).changed([("apply", "finished"), ("message", "soon")]))
        .specimen(Sample::new("library").present([("apply", "finished")]))
        .var_dir(state)
        .without(Unsupported::Unknown, "a reboot can have any name")
        .without(Unsupported::Failing, "this systemd accepts each reboot")
        .without(Unsupported::Listing, "reboots are not on the system")
        .without(Unsupported::Removal, "a reboot cannot be taken back")
        .without(Unsupported::Slow, "a file is written at once")
        .keeping(directory)
}

#[test]
fn reboot_conforms() {
    let report = Suite::new(subject).run();
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    assert_eq!(report.untried(), [""; 0], "{report}");
}
