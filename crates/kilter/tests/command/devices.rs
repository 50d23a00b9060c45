//! Devices that are reached through a transport: the example in `examples/devices`, and an appliance that misbehaves.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kilter_testkit::appliance::{Appliance, ApplianceFault, PASSWORD, USER};
use serde_json::json;

use crate::support::{Ended, Place, is_root};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/devices");

/// A place with `device.conf` and the transport of the example.
pub(crate) struct Devices {
    pub(crate) place: Place,
}

impl Devices {
    pub(crate) fn new() -> Devices {
        let place = Place::new();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        for directory in ["devices", "providers"] {
            std::fs::create_dir(place.path().join(directory)).unwrap();
        }
        let devices = Devices { place };
        devices.transport("  timeout: 30\n");
        devices.place.file("site.yaml", std::fs::read_to_string(format!("{EXAMPLES}/site.yaml")).unwrap());
        devices.place.file("device.conf", "");
        devices
    }

    /// Installs the transport of the example with another line for its timeout.
    pub(crate) fn transport(&self, timeout: &str) {
        let description = std::fs::read_to_string(format!("{EXAMPLES}/appliance.yaml")).unwrap();
        assert!(description.contains("  timeout: 30\n"));
        self.place.file("providers/appliance.yaml", description.replace("  timeout: 30\n", timeout));
        let program = std::fs::read(format!("{EXAMPLES}/appliance.prov")).unwrap();
        let path = self.place.file("providers/appliance.prov", program);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Installs the transport of the guide, which describes itself.
    fn guide_transport(&self) {
        let path = self.place.file("providers/nexus.prov", fence("#!/usr/bin/python3"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Adds a device with these lines in its connection info.
    pub(crate) fn add(&self, name: &str, info: &str) -> PathBuf {
        let config = std::fs::read_to_string(self.place.path().join("device.conf")).unwrap();
        self.place.file("device.conf", format!("{config}[{name}]\ntype appliance\n"));
        let path = self.place.file(&format!("devices/{name}.conf"), info);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path.into()
    }

    /// Adds an appliance as a device.
    pub(crate) fn appliance(&self, name: &str) -> Appliance {
        let appliance = Appliance::start().unwrap();
        self.add(name, &info(&appliance, PASSWORD));
        appliance
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("KILTER_PROVIDERS", self.place.path().join("providers"));
        command.env("KILTER_DEVICE_CONFIG", self.place.path().join("device.conf"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.place.end(&mut self.command(args))
    }

    #[track_caller]
    pub(crate) fn ends(&self, code: i32, args: &[&str]) -> Ended {
        let ended = self.run(args);
        assert_eq!(ended.code, code, "{args:?}: {}{}", ended.stdout, ended.stderr);
        ended
    }
}

pub(crate) fn info(appliance: &Appliance, password: &str) -> String {
    format!("port: {}\nuser: {USER}\npassword: \"{password}\" # of the appliance\n", appliance.port())
}

/// Returns true if a line has all of these texts.
pub(crate) fn has_line(text: &str, parts: &[&str]) -> bool {
    text.lines().any(|line| parts.iter().all(|part| line.contains(part)))
}

#[test]
fn device_is_planned_applied_and_read_through_its_transport() {
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    let facts = devices.ends(0, &["--on", "box1", "facts", "--format", "json"]);
    let facts: serde_json::Value = serde_json::from_str(&facts.stdout).unwrap();
    assert_eq!((&facts["os"]["name"], &facts["networking"]), (&json!("applianceos"), &json!(null)));
    devices.ends(0, &["--on", "box1", "check", "site.yaml"]);
    let plan = devices.ends(2, &["--on", "box1", "plan", "site.yaml", "-o", "box1.plan"]);
    assert!(plan.stdout.contains("label: (none) → office of A-1001"), "{}", plan.stdout);
    assert!(!appliance.requests().iter().any(|request| request.starts_with("PUT")), "a plan changes nothing");
    assert!(devices.ends(0, &["--on", "box1", "apply", "--yes", "box1.plan"]).stdout.contains("4 changed"));
    assert!(devices.ends(0, &["--on", "box1", "apply", "--yes", "site.yaml"]).stdout.contains("4 unchanged"));
    let banner =
        "Managed by kilter. Changes by hand are reverted: \"quotes\", $(signs) and `ticks` arrive unchanged.\n";
    assert_eq!(appliance.get("setting", "banner"), Some(json!({ "value": banner })));
    let changed =
        devices.ends(0, &["--on", "box1", "set", "appliance_user", "backup", "role=operator", "key=0123456789"]);
    assert!(changed.stdout.contains("role: reader → operator") && !changed.stdout.contains("0123456789"));
    assert_eq!(appliance.get("user", "backup"), Some(json!({ "role": "operator", "key": "0123456789" })));
    devices.ends(0, &["--on", "box1", "set", "appliance_vlan", "99", "ensure=absent"]);
    let vlans = devices.ends(0, &["--on", "box1", "get", "appliance_vlan"]).stdout;
    assert!(vlans.contains("office of A-1001") && !vlans.contains("99"), "{vlans}");
}

#[test]
fn devices_have_histories_of_their_own() {
    let devices = Devices::new();
    let (_one, _two) = (devices.appliance("box1"), devices.appliance("box2"));
    devices.guide_transport();
    devices.ends(0, &["--on", "box1", "apply", "--yes", "site.yaml"]);
    let state = devices.place.path().join("state");
    assert!(state.join("describe").exists() && !state.join("devices/box1/describe").exists(), "one cache for all");
    assert!(devices.ends(0, &["--on", "box1", "history"]).stdout.contains("apply"));
    devices.ends(0, &["--on", "box2", "set", "appliance_vlan", "7", "label=x"]);
    assert!(!devices.ends(0, &["--on", "box2", "history"]).stdout.contains("apply"));
    let here = devices.ends(1, &["history"]).stderr;
    assert!(here.contains("there is no history in DIR/state/history yet"), "{here}");
}

#[test]
fn types_belong_to_this_machine_or_to_a_device() {
    let devices = Devices::new();
    let _appliance = devices.appliance("box1");
    let local = devices.ends(1, &["get", "appliance_vlan"]).stderr;
    assert!(local.contains("the type `appliance_vlan` manages a device: name the device with --on"), "{local}");
    let manifest = devices.place.file("local.yaml", "resources:\n  appliance_vlan[7]: {}\n  file[/tmp/x]: {}\n");
    let local = devices.ends(1, &["apply", &manifest]).stderr;
    assert!(local.contains("appliance_vlan[7]: the type `appliance_vlan` manages a device"), "{local}");
    let remote = devices.ends(4, &["--on", "box1", "apply", "--yes", &manifest]).stderr;
    assert!(remote.contains("the type `file` manages this machine, and the target is the device `box1`"), "{remote}");
    let notify = devices.place.file("notify.yaml", "resources:\n  notify[hello]: {}\n  appliance_vlan[7]: {}\n");
    devices.ends(0, &["--on", "box1", "apply", "--yes", &notify]);
    let run = devices.ends(1, &["--on", "box1", "run", "--max-runtime", "0", &manifest]).stderr;
    assert!(run.contains("the type `file` manages this machine, and the target is the device `box1`"), "{run}");
}

#[test]
fn refused_login_is_reported_at_once() {
    let devices = Devices::new();
    let appliance = Appliance::start().unwrap();
    devices.add("box1", &info(&appliance, "wrong-password"));
    let ended = devices.ends(4, &["--on", "box1", "apply", "--yes", "site.yaml"]);
    let refused =
        "failed: box1\n  error: the appliance refuses the login: check `user` and `password`\n1 host: 1 failed\n";
    assert_eq!(ended.stderr, refused);
    assert_eq!(appliance.requests(), ["GET /facts"]);
}

#[test]
fn unreachable_device_is_retried_with_a_notice() {
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    appliance.fail_next("GET /facts", ApplianceFault::Disconnect);
    let ended = devices.ends(0, &["--on", "box1", "apply", "--yes", "site.yaml"]);
    let parts = ["notice: appliance[box1]: GET /facts: no answer from 127.0.0.1:", "; retry in 0.5 s"];
    assert!(has_line(&ended.stderr, &parts), "{}", ended.stderr);
    assert!(ended.stdout.contains("4 changed"), "{}", ended.stdout);
}

#[test]
fn disconnect_during_a_change_is_the_failure_of_its_resource() {
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    appliance.fail_next("PUT /vlan/99", ApplianceFault::Disconnect);
    appliance.fail_next("PUT /user/backup", ApplianceFault::DisconnectAfterChange);
    let ended = devices.ends(4, &["--on", "box1", "apply", "--yes", "site.yaml"]);
    assert!(ended.stderr.contains("4 resources: 2 changed, 2 failed"), "{}", ended.stderr);
    assert!(has_line(&ended.stderr, &["PUT /vlan/99: no answer from 127.0.0.1:"]), "{}", ended.stderr);
    assert!(appliance.get("vlan", "7").is_some() && appliance.get("vlan", "99").is_none());
    // The change of the user was made, although its answer was lost.
    let again = devices.ends(0, &["--on", "box1", "apply", "--yes", "site.yaml"]);
    assert!(again.stdout.contains("4 resources: 1 changed, 3 unchanged"), "{}", again.stdout);
}

#[test]
fn error_of_the_device_is_reported_for_its_type_only() {
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    appliance.fail_next("GET /setting", ApplianceFault::Status(503));
    let ended = devices.ends(4, &["--on", "box1", "plan", "site.yaml"]);
    assert!(has_line(&ended.stderr, &["GET /setting: status 503:", "the appliance is busy"]), "{}", ended.stderr);
    assert!(ended.stderr.contains("4 resources: 3 to change, 1 failed"), "{}", ended.stderr);
}

#[test]
fn late_answer_ends_the_connection() {
    let devices = Devices::new();
    devices.transport("  timeout: 5\n");
    let appliance = devices.appliance("box1");
    appliance.fail_next("GET /user", ApplianceFault::Late);
    let ended = devices.ends(4, &["--on", "box1", "apply", "--yes", "site.yaml"]);
    assert!(
        has_line(&ended.stderr, &["it did not reply in time and was ended (its limit is 5 s;"]),
        "{}",
        ended.stderr
    );
    appliance.release();
    devices.ends(0, &["--on", "box1", "apply", "--yes", "site.yaml"]);
}

#[test]
fn device_configuration_is_checked_before_the_connection() {
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    let stderr = |args: &[&str]| devices.ends(1, args).stderr;
    devices.add("box2", "host: { x: 1 }\nport: 0\npasword: hunter2hunter\n");
    let invalid = stderr(&["--on", "box2", "facts"]);
    for line in [
        "error: DIR/devices/box2.conf: host: expects a String value, got ",
        "error: DIR/devices/box2.conf: port: expects an Integer[1, 65535] value, got ",
        "error: DIR/devices/box2.conf: pasword: the transport `appliance` has no such key (did you mean `password`?)",
        "error: DIR/devices/box2.conf: user: is missing: the transport `appliance` needs it",
    ] {
        assert!(has_line(&invalid, &[line]), "{invalid}");
    }
    assert!(!invalid.contains("hunter2"), "{invalid}");
    devices.add("box3", "user: admin\npassword: p@ssword\n");
    assert_eq!(stderr(&["--on", "box3", "facts"]), "error: DIR/devices/box3.conf:2: a value with `@` needs quotes\n");
    let open = devices.add("box4", &info(&appliance, PASSWORD));
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = stderr(&["--on", "box4", "facts"]);
    assert!(open.contains("it contains secrets, and other users can read it"), "{open}");
    let file = devices.place.path().display().to_string();
    devices
        .place
        .file("device.conf", format!("[a]\ntype nexus\n[b]\ntype appliance\nurl file://{file}/devices/box1.conf\n"));
    assert!(stderr(&["--on", "a", "facts"]).contains("there is no transport `nexus`, which the device `a` needs"));
    devices.ends(0, &["--on", "b", "facts"]);
    devices.place.file("device.conf", "[a]\nport 1\n");
    let invalid = stderr(&["--on", "a", "facts"]);
    assert!(invalid.starts_with("error: DIR/device.conf:1: the device `a` has no `type`\n"), "{invalid}");
    assert_eq!(appliance.requests().len(), 2, "only the valid device was asked");
}

#[test]
fn files_that_another_user_can_change_are_refused() {
    if !is_root() {
        return;
    }
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    for file in ["devices/box1.conf", "device.conf"] {
        let path = devices.place.path().join(file);
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let ended = devices.ends(1, &["--on", "box1", "facts"]);
        assert!(
            has_line(&ended.stderr, &[file, "65534"]) || has_line(&ended.stderr, &[file, "nobody"]),
            "{}",
            ended.stderr
        );
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    assert!(appliance.requests().is_empty());
}

/// Returns the processes below a process, and itself.
fn tree(pid: u32) -> Vec<u32> {
    let children = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let children: Vec<u32> = children
        .flat_map(|task| of_task(task).split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect();
    std::iter::once(pid).chain(children.into_iter().flat_map(tree)).collect()
}

/// Returns the files below a directory that contain a text.
pub(crate) fn files_with(directory: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            files_with(&path, text, found);
        } else if std::fs::read(&path).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            found.push(path);
        }
    }
}

#[test]
fn password_is_in_no_argument_environment_file_or_output() {
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    appliance.fail_next("GET /vlan", ApplianceFault::Late);
    let args = ["--on", "box1", "apply", "--yes", "site.yaml", "--verbose", "--log", "debug", "--format", "json"];
    let mut child: Child =
        devices.command(&args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !appliance.requests().iter().any(|request| request == "GET /vlan") {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        std::thread::yield_now();
    }
    let processes = tree(child.id());
    assert!(processes.len() >= 2, "the transport is a process of its own");
    for pid in processes {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(PASSWORD), "{pid} {file}");
        }
    }
    appliance.release();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(text.contains("4") && !text.contains(PASSWORD), "{text}");
    let mut found = Vec::new();
    files_with(devices.place.path(), PASSWORD, &mut found);
    assert_eq!(found, [devices.place.path().join("devices/box1.conf")]);
}

/// Returns the fenced block of the guide that begins with this line.
fn fence(first: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/write-a-transport.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let (_, rest) = guide.split_once(&format!("\n{first}\n")).unwrap_or_else(|| panic!("the guide has no {first}"));
    format!("{first}\n{}", rest.split_once("```\n").unwrap().0)
}

#[test]
fn guide_transport_works() {
    let devices = Devices::new();
    devices.guide_transport();
    let appliance = devices.appliance("edge1");
    devices.place.file("device.conf", fence("[edge1]"));
    devices.add("edge2", &format!("host: 127.0.0.1\n{}", info(&appliance, "wrong-password")));
    devices.place.file("device.conf", fence("[edge1]") + "[edge2]\ntype nexus\n");
    let file = fence("host: 192.0.2.7").replace("192.0.2.7", &format!("127.0.0.1\nport: {}", appliance.port()));
    devices.place.file("devices/edge1.conf", file.replace("change me", PASSWORD));
    appliance.put("vlan", "99", json!({ "shutdown": true }));
    devices.ends(0, &["--on", "edge1", "facts"]);
    devices.ends(0, &["--on", "edge1", "set", "nx9k_vlan", "7", "label=cellar"]);
    devices.place.file("edge.yaml", fence("resources:"));
    assert!(devices.ends(0, &["--on", "edge1", "apply", "--yes", "edge.yaml"]).stdout.contains("2 changed"));
    assert!(devices.ends(0, &["--on", "edge1", "apply", "--yes", "edge.yaml"]).stdout.contains("2 unchanged"));
    assert_eq!(appliance.get("vlan", "7"), Some(json!({ "label": "office", "shutdown": false })));
    appliance.fail_next("PUT", ApplianceFault::Disconnect);
    let broken = devices.ends(4, &["--on", "edge1", "set", "nx9k_vlan", "8", "label=roof"]).stdout;
    assert!(broken.contains("the switch does not answer"), "{broken}");
    let refused = devices.ends(1, &["--on", "edge2", "facts"]).stderr;
    assert_eq!(refused, "error: the switch refuses the login: check `user` and `password`\n");
}

#[test]
fn several_devices_are_grouped_by_equal_changes() {
    let devices = Devices::new();
    let appliances = ["box1", "box2", "box3", "box4"].map(|name| devices.appliance(name));
    appliances[2].put("vlan", "7", json!({ "label": "office of A-1001", "shutdown": false }));
    let plan = devices.ends(2, &["--on", "box1,box2,box3", "--on", "box4", "plan", "site.yaml", "-o", "site.plan"]);
    let groups: Vec<&str> = plan.stdout.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    let common = "common to box1, box2, box3, box4 (4 hosts):";
    assert_eq!(groups, [common, "box1, box2, box4 (3 hosts):", "box3:"], "{}", plan.stdout);
    assert!(plan.stderr.contains("4 hosts: 4 with changes in 2 groups\n"), "{}", plan.stderr);
    let applied = devices.ends(0, &["apply", "--yes", "site.plan", "--format", "json"]).stdout;
    let applied: serde_json::Value = serde_json::from_str(&applied).unwrap();
    for (name, appliance) in ["box1", "box2", "box3", "box4"].iter().zip(&appliances) {
        assert_eq!(applied["results"][name]["result"], json!("applied"));
        assert!(appliance.get("vlan", "99").is_some(), "{name}");
    }
    let again = devices.ends(0, &["--on", "box1,box2,box3,box4", "--parallel", "2", "plan", "site.yaml"]).stdout;
    assert!(again.starts_with("box1, box2, box3, box4 (4 hosts):\n  4 resources: 4 unchanged"), "{again}");
}

#[test]
fn faulty_devices_do_not_affect_others() {
    let devices = Devices::new();
    devices.transport("  timeout: 5\n");
    let [good, cut, late] = ["good", "cut", "late"].map(|name| devices.appliance(name));
    let refusing = Appliance::start().unwrap();
    devices.add("refusing", &info(&refusing, "wrong-password"));
    cut.fail_next("PUT /vlan/7", ApplianceFault::Disconnect);
    late.fail_next("PUT /setting", ApplianceFault::Late);
    let ended = devices.ends(4, &["--on", "good,cut,late,refusing", "apply", "--yes", "site.yaml"]);
    assert!(ended.stdout.contains("good:\n  4 resources: 4 changed"), "{}", ended.stdout);
    for parts in [
        &["PUT /vlan/7: no answer from 127.0.0.1:"][..],
        &["it did not reply in time and was ended"],
        &["error: the appliance refuses the login: check `user` and `password`"],
        &["3 hosts: 1 applied, 2 failed (cut, late)"],
    ] {
        assert!(has_line(&ended.stderr, parts), "{}", ended.stderr);
    }
    assert!(good.get("vlan", "99").is_some() && cut.get("vlan", "99").is_some() && refusing.get("vlan", "7").is_none());
    late.release();
}
