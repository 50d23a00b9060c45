//! Modules of a kernel of directories.

use std::path::PathBuf;
use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{KernelModuleProvider, Runner, System};
use kilter_process::{Cancel, Invocation, Output, SpawnError, Status};

use crate::tree;

/// Loads and unloads modules by directories.
struct Modprobe(PathBuf);

impl Runner for Modprobe {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        let name = invocation.args.last().expect("modprobe needs a module");
        let module = self.0.join("sys/module").join(name);
        if name == "missing" {
            return Ok(Output::of(Status::Code(1)));
        }
        match invocation.args[0].to_str() {
            Some("-r") => std::fs::remove_dir_all(&module).expect("it is loaded"),
            Some("--dry-run" | "--version") => {}
            _ => {
                std::fs::create_dir_all(&module).expect("the directory is ours");
                std::fs::write(module.join("initstate"), "live\n").expect("the directory is new");
            }
        }
        Ok(Output::of(Status::Code(0)))
    }
}

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    for below in ["etc/modules-load.d", "etc/modprobe.d", "sys/module"] {
        std::fs::create_dir_all(root.join(below)).expect("the directory is new");
    }
    let system = System::new(&root, Arc::new(Modprobe(root.clone())));
    let net = Sample::new("br_netfilter").present([("boot", true)]).changed([("boot", false)]);
    let nvme = Sample::new("nvme_core")
        .present([("options", Value::from("a=1 b=2")), ("boot", false.into())])
        .changed([("options", Value::from("a=3")), ("blacklist", true.into()), ("boot", false.into())]);
    Subject::new(move || KernelModuleProvider::new(system.clone()), move || tree::fingerprint(&root))
        .specimen(net)
        .specimen(nvme)
        .unknown(["nothing"])
        .failing(Sample::new("missing").present([("boot", false)]))
        .without(Unsupported::Slow, "two small files are written at once")
        .keeping(directory)
}

#[test]
fn kernel_module_conforms() {
    let report = Suite::new(subject).run();
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    assert_eq!(report.untried(), [""; 0], "{report}");
}
