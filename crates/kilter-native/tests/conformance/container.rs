//! Containers and images of the real podman, with a storage of its own. No container runs, so no control groups are
//! necessary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{ContainerProvider, ImageProvider, RealRunner, Runner, System};
use kilter_process::{Cancel, Invocation, Output, SpawnError};

use crate::need_root;

/// Laws that need few calls. The others need thousands of them, of a tenth of a second each.
const LAWS: [&str; 10] = [
    "get-changes-nothing",
    "what-is-there-is-returned",
    "state-is-on-the-system",
    "set-makes-what-was-asked",
    "set-again-changes-nothing",
    "ensure-absent-removes",
    "no-should-removes",
    "one-failure-is-alone",
    "preview-changes-nothing",
    "an-interrupt-leaves-the-truth",
];

const IMAGE: &str = "localhost/app:1";

/// Runs podman with the storage in a directory.
struct Podman(PathBuf);

impl Podman {
    fn files(&self) -> [(&'static str, PathBuf); 2] {
        [("CONTAINERS_CONF", self.0.join("containers.conf")), ("CONTAINERS_STORAGE_CONF", self.0.join("storage.conf"))]
    }

    fn new(root: &Path) -> Podman {
        let podman = Podman(root.to_owned());
        let shown = root.display();
        let engine = format!(
            "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nlock_type = \"file\"\ntmp_dir = \
             \"{shown}/tmp\"\n[containers]\ncgroups = \"disabled\"\ndefault_ulimits = \
             [\"nproc=64:64\", \"nofile=64:64\"]\n"
        );
        let storage =
            format!("[storage]\ndriver = \"vfs\"\nrunroot = \"{shown}/run\"\ngraphroot = \"{shown}/storage\"\n");
        for ((_, path), text) in podman.files().iter().zip([engine, storage]) {
            std::fs::write(path, text).expect("the directory is new");
        }
        podman
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("podman");
        command.envs(self.files()).args(words).stdin(Stdio::null());
        command
    }

    fn output(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("podman is installed");
        assert!(output.status.success(), "podman {words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("podman writes text")
    }

    /// Makes an image and its archive. Returns the path of the archive.
    fn make_image(&self, name: &str) -> String {
        let word = self.0.join("word");
        std::fs::write(&word, name).expect("the directory is new");
        let tar =
            Command::new("tar").arg("-C").arg(&self.0).args(["-cf", "layer.tar", "word"]).current_dir(&self.0).status();
        assert!(tar.expect("tar is installed").success());
        let layer = self.0.join("layer.tar");
        self.output(&["import", "-q", layer.to_str().expect("the path is text"), name]);
        let archive = self
            .0
            .join(format!("{}.tar", name.replace(['/', ':'], "-")))
            .to_str()
            .expect("the path is text")
            .to_owned();
        self.output(&["save", "-q", "-o", &archive, name]);
        archive
    }
}

impl Runner for Podman {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let mut invocation = invocation.clone();
        for (name, path) in self.files() {
            invocation = invocation.env(name, path);
        }
        RealRunner.run(&invocation, cancel)
    }
}

fn containers() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let podman = Arc::new(Podman::new(directory.path()));
    podman.make_image(IMAGE);
    let system = System::new("/", podman.clone());
    let settings = |label: &str| {
        let labels = Value::hash([("role", Value::from(label))]);
        [
            ("ensure", Value::from("stopped")),
            ("image", IMAGE.into()),
            ("network", "none".into()),
            ("command", Value::strings(["sleep", "1"])),
            ("labels", labels),
        ]
    };
    let sample = |name: &str| Sample::new(name).present(settings("a")).changed(settings("b"));
    let failing = [("ensure", "stopped"), ("image", "localhost/nowhere:1")];
    let shown = ["ps", "--all", "--no-trunc", "--format={{.ID}} {{.Names}} {{.Labels}} {{.State}}"];
    Subject::new(move || ContainerProvider::podman(system.clone()), move || podman.output(&shown))
        .specimen(sample("one"))
        .specimen(sample("two"))
        .unknown(["nothing"])
        .failing(Sample::new("bad").present(failing))
        .without(Unsupported::Slow, "a container that does not start is created at once")
        .keeping(directory)
}

#[test]
fn container_conforms() {
    need_root();
    let report = Suite::new(containers).only(LAWS).run();
    assert_eq!(report.broken(), [""; 0], "{report}");
    assert_eq!(report.untried(), [""; 0], "{report}");
}

fn images() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let podman = Arc::new(Podman::new(directory.path()));
    let sample = |name: &str| {
        let archive = podman.make_image(name);
        podman.output(&["rmi", "-f", name]);
        Sample::new(name).present([("ensure", Value::from("present")), ("source", archive.into())])
    };
    let (one, two) = (sample(IMAGE), sample("localhost/other:2"));
    let system = System::new("/", podman.clone());
    let failing = [("ensure", "present"), ("source", "/nonexistent/app.tar")];
    let shown = ["images", "--all", "--no-trunc", "--format={{.ID}} {{.Repository}}:{{.Tag}}"];
    Subject::new(move || ImageProvider::podman(system.clone()), move || podman.output(&shown))
        .specimen(one)
        .specimen(two)
        .unknown(["localhost/nothing:1"])
        .failing(Sample::new("localhost/bad:1").present(failing))
        .without(Unsupported::Slow, "a small image is loaded at once")
        .keeping(directory)
}

#[test]
fn image_conforms() {
    need_root();
    let report = Suite::new(images).only(LAWS).run();
    assert_eq!(report.broken(), [""; 0], "{report}");
    assert_eq!(report.untried(), [""; 0], "{report}");
}
