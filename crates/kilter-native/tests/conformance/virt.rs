//! Machines of a libvirtd of its own, with the hypervisor that libvirt has for tests: it starts no real machines.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_model::Value;
use kilter_native::{Runner, System, VirtProvider};
use kilter_process::{Cancel, Invocation, Output, SpawnError};

use crate::need_root;

/// Laws that need few calls. Each starts the daemon.
const LAWS: [&str; 14] = [
    "get-changes-nothing",
    "what-is-there-is-returned",
    "state-is-on-the-system",
    "each-is-listed-once",
    "set-makes-what-was-asked",
    "set-again-changes-nothing",
    "other-attributes-stay",
    "ensure-absent-removes",
    "no-should-removes",
    "one-failure-is-alone",
    "preview-changes-nothing",
    "edge-values-survive",
    "secrets-stay-secret",
    "an-interrupt-leaves-the-truth",
];

const URI: &str = "test+unix:///default";

/// The daemon needs the user of its package. The hypervisor forgets its machines with the last connection, which the
/// last command keeps.
const DAEMON: &str = r#"
mkdir -p /run/libvirt /var/lib/libvirt /etc/libvirt /var/log/libvirt
for directory in /run/libvirt /var/lib/libvirt /etc/libvirt /var/log/libvirt; do mount -t tmpfs none "$directory"; done
for file in passwd group; do
  { cat "/etc/$file"; echo libvirt-qemu:x:64055:0::/:/bin/false; } >"/run/libvirt/$file"
  mount --bind "/run/libvirt/$file" "/etc/$file"
done
echo 'auth_unix_rw = "none"' >/etc/libvirt/libvirtd.conf
libvirtd -f /etc/libvirt/libvirtd.conf -p /run/libvirt/pid 2>/run/libvirt/errors &
until [ -S /run/libvirt/libvirt-sock ]; do
  kill -0 $! || { cat /run/libvirt/errors >&2; exit 1; }
  sleep 0.05
done
exec virsh -c test+unix:///default -q event --loop --all
"#;

/// A daemon with files of its own, which ends with this value.
struct Daemon(Child);

impl Daemon {
    fn new() -> Daemon {
        need_root();
        let mut daemon = Command::new("unshare");
        daemon.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        daemon.args(["sh", "-c", DAEMON]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut daemon = Daemon(daemon.spawn().expect("unshare is part of util-linux"));
        let inside = daemon.namespaces();
        // A machine that stays off between two connections shows that the last command is connected.
        let is_off = |daemon: &Daemon| {
            let list = ["list", "--all", "--name", "--state-shutoff"];
            daemon.virsh(&inside, &["destroy", "test"]);
            daemon.virsh(&inside, &list).is_some_and(|names| names.trim() == "test")
        };
        while !is_off(&daemon) {
            assert!(daemon.0.try_wait().expect("it is a child").is_none(), "libvirtd has ended");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        daemon
    }

    /// Returns the options of nsenter.
    fn namespaces(&self) -> [String; 2] {
        [("mount", "mnt"), ("pid", "pid_for_children")]
            .map(|(name, file)| format!("--{name}=/proc/{}/ns/{file}", self.0.id()))
    }

    /// Returns the output of virsh; none if it fails.
    fn virsh(&self, inside: &[String], words: &[&str]) -> Option<String> {
        let mut virsh = Command::new("nsenter");
        virsh.args(inside).args(["--", "virsh", "-q", "-c", URI]).args(words).stderr(Stdio::null());
        let output = virsh.output().expect("nsenter is part of util-linux");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs programs beside the daemon.
struct Inside([String; 2]);

impl Runner for Inside {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let mut inside = invocation.clone();
        inside.program = "nsenter".into();
        inside.args = self.0.iter().map(Into::into).chain(["--".into(), invocation.program.clone()]).collect();
        inside.args.extend(invocation.args.iter().cloned());
        kilter_process::run(&inside.env("LIBVIRT_DEFAULT_URI", URI), Some(cancel))
    }
}

fn machines() -> Subject {
    let daemon = Arc::new(Daemon::new());
    let system = System::new("/", Arc::new(Inside(daemon.namespaces())));
    let machine = |ensure: &str, memory: i64, disk: &str, networks: &[&str], autostart: bool| {
        [
            ("ensure", Value::from(ensure)),
            ("memory", memory.into()),
            ("cpus", memory.min(4).into()),
            ("boot", Value::strings(["hd"])),
            ("disks", Value::strings([disk])),
            ("networks", Value::strings(networks.iter().copied())),
            ("autostart", autostart.into()),
        ]
    };
    let one = machine("running", 256, "/srv/a b.qcow2", &["default"], true);
    let two = machine("stopped", 512, "/srv/b.img", &["default", "bridge=br0"], false);
    let shown = {
        let daemon = Arc::clone(&daemon);
        move || {
            let inside = daemon.namespaces();
            let names = daemon.virsh(&inside, &["list", "--all", "--name"]).expect("the daemon runs");
            let parts = |name: &str| {
                ["dumpxml --inactive", "domstate"].map(|words| {
                    let words: Vec<&str> = words.split(' ').chain([name]).collect();
                    daemon.virsh(&inside, &words).unwrap_or_default()
                })
            };
            let autostart = daemon.virsh(&inside, &["list", "--all", "--name", "--autostart"]).unwrap_or_default();
            names.split_whitespace().flat_map(parts).chain([autostart]).collect::<String>()
        }
    };
    Subject::new(move || VirtProvider::new(system.clone()), shown)
        .specimen(Sample::new("web").present(one.clone()).changed(two.clone()))
        .specimen(Sample::new("db-1").present(two).changed(one))
        .unknown(["nothing"])
        .failing(Sample::new("bad").present([("ensure", "stopped")]))
        .without(Unsupported::Slow, "the hypervisor for tests changes machines at once")
        .keeping(daemon)
}

#[test]
fn virtual_machines_conform() {
    let report = Suite::new(machines).only(LAWS).run();
    assert_eq!(report.broken(), [""; 0], "{report}");
    assert_eq!(report.untried(), [""; 0], "{report}");
}
