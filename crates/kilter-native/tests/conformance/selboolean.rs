//! Booleans of an SELinux of files.

use std::path::PathBuf;
use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_native::{Runner, SelbooleanProvider, System};
use kilter_process::{Cancel, Invocation, Output, SpawnError, Status};

use crate::tree;

/// A setsebool that writes the files of the kernel.
struct Setsebool(PathBuf);

impl Runner for Setsebool {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        for word in &invocation.args {
            let word = word.to_str().expect("the names are texts");
            let Some((name, value)) = word.split_once('=') else { continue };
            let path = self.0.join("sys/fs/selinux/booleans").join(name);
            std::fs::write(path, format!("{value} {value}")).expect("the directory is ours");
        }
        Ok(Output::of(Status::Code(0)))
    }
}

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    let booleans = root.join("sys/fs/selinux/booleans");
    std::fs::create_dir_all(&booleans).expect("the directory is new");
    for name in ["httpd_enable_cgi", "httpd_can_sendmail"] {
        std::fs::write(booleans.join(name), "0 0").expect("the directory is new");
    }
    let system = System::new(&root, Arc::new(Setsebool(root.clone())));
    let (on, off) = ([("value", "on")], [("value", "off")]);
    Subject::new(move || SelbooleanProvider::new(system.clone()), move || tree::fingerprint(&root))
        .specimen(Sample::new("httpd_enable_cgi").present(on).changed(off))
        .specimen(Sample::new("httpd_can_sendmail").present(on).changed(off))
        .unknown(["nothing"])
        .failing(Sample::new("missing").present(on))
        .without(Unsupported::Removal, "booleans belong to the policy")
        .without(Unsupported::Slow, "files are written at once")
        .keeping(directory)
}

#[test]
fn selboolean_conforms() {
    let report = Suite::new(subject).run();
    assert!(!report.to_string().contains("BROKEN"), "{report}");
    assert_eq!(report.untried(), [""; 0], "{report}");
}
