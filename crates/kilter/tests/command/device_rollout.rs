//! Devices in groups of an inventory, beside hosts: one plan, one approval, one roll-out.

use kilter_testkit::appliance::{Appliance, ApplianceFault, PASSWORD, USER};
use serde_json::json;

use crate::devices::{Devices, files_with, has_line, info};
use crate::remote::cache;
use crate::support::Ended;

/// Devices of an inventory, and the host `here`, which is this machine.
struct MixedFleet {
    devices: Devices,
    appliances: Vec<Appliance>,
    inventory: String,
}

impl MixedFleet {
    /// Starts appliances. The devices of the inventory are `box1` and so on.
    fn new(count: usize) -> MixedFleet {
        let devices = Devices::new();
        let appliances: Vec<Appliance> = (0..count).map(|_| Appliance::start().unwrap()).collect();
        let fleet = MixedFleet { inventory: String::new(), devices, appliances };
        let inventory = fleet.write_inventory(PASSWORD);
        MixedFleet { inventory, ..fleet }
    }

    /// Writes the inventory, with this password for the last device.
    fn write_inventory(&self, password: &str) -> String {
        let mut text = "hosts:\n  here: {connection: local, vars: {kind: host}}\n".to_owned();
        for (number, appliance) in (1..).zip(&self.appliances) {
            let password = if number == self.appliances.len() { password } else { PASSWORD };
            let connection = format!("host: 127.0.0.1, port: {}, password: {password}", appliance.port());
            text += &format!("  box{number}: {{transport: {{{connection}}}}}\n");
        }
        text += "groups:\n  all:\n    become: false\n  boxes:\n    vars: {kind: box}\n    hosts: [";
        text += &(1..=self.appliances.len()).map(|number| format!("box{number}")).collect::<Vec<String>>().join(", ");
        text += &format!("]\n    transport: {{name: appliance, user: {USER}}}\n");
        std::fs::create_dir_all(self.devices.place.path().join("kinds")).unwrap();
        self.devices.place.file("kinds/box.yaml", "resources:\n  appliance_vlan[7]:\n    label: office\n");
        let here = self.devices.place.path().display();
        let host = format!("resources:\n  file[{here}/made]:\n    content: x\n");
        self.devices.place.file("kinds/host.yaml", host);
        self.devices.place.file("all.yaml", "include: kinds/${vars.kind}.yaml\n");
        self.devices.place.file("hosts.yaml", text)
    }

    fn run(&self, args: &[&str]) -> Ended {
        let mut command = self.devices.command(&[&["-i", &self.inventory], args].concat());
        command.env("KILTER_CACHE_DIR", cache());
        self.devices.place.end(&mut command)
    }

    #[track_caller]
    fn ends(&self, code: i32, args: &[&str]) -> Ended {
        let ended = self.run(args);
        assert_eq!(ended.code, code, "{args:?}: {}{}", ended.stdout, ended.stderr);
        ended
    }

    fn label(&self, number: usize) -> Option<serde_json::Value> {
        Some(self.appliances[number - 1].get("vlan", "7")?["label"].take())
    }
}

#[test]
fn devices_and_hosts_are_planned_and_applied_together() {
    let fleet = MixedFleet::new(2);
    // A device of the device configuration is a member of the inventory by its name.
    let configured = fleet.devices.appliance("switch");
    let text = std::fs::read_to_string(fleet.devices.place.path().join("hosts.yaml")).unwrap();
    fleet.devices.place.file("hosts.yaml", text + "  others: {vars: {kind: box}, hosts: [switch]}\n");
    let plan = fleet.ends(2, &["--on", "all", "plan", "all.yaml", "-o", "all.plan"]);
    let groups: Vec<&str> = plan.stdout.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(groups, ["box1, box2, switch (3 hosts):", "here:"], "{}", plan.stdout);
    assert!(plan.stderr.contains("4 hosts: 4 with changes in 2 groups"), "{}", plan.stderr);
    let asked = fleet.ends(1, &["--on", "all", "apply", "all.yaml"]);
    assert!(asked.stderr.contains("there is no terminal to ask for the approval"), "{}", asked.stderr);
    // The plan is applied exactly: a device that has changed meanwhile refuses its step.
    fleet.appliances[1].put("vlan", "7", json!({ "label": "by hand" }));
    let applied = fleet.ends(4, &["apply", "--yes", "all.plan"]);
    assert!(applied.stderr.contains("4 hosts: 3 applied, 1 failed (box2)"), "{}", applied.stderr);
    assert_eq!(fleet.label(2), Some(json!("by hand")));
    fleet.ends(0, &["--failed-of", "last", "apply", "--yes", "all.yaml"]);
    assert_eq!([fleet.label(1), fleet.label(2)], [Some(json!("office")), Some(json!("office"))]);
    assert!(configured.get("vlan", "7").is_some() && fleet.devices.place.path().join("made").exists());
    let again = fleet.ends(0, &["--on", "all", "apply", "--yes", "all.yaml"]);
    assert!(again.stderr.contains("4 hosts: 4 unchanged"), "{}", again.stderr);
    let facts = fleet.ends(0, &["--on", "facts.os.name == \"applianceos\"", "get", "appliance_vlan"]);
    assert!(facts.stdout.starts_with("box1, box2, switch:\n"), "{}", facts.stdout);
    let mut found = Vec::new();
    files_with(fleet.devices.place.path(), PASSWORD, &mut found);
    found.sort();
    let path = |name: &str| fleet.devices.place.path().join(name);
    assert_eq!(found, [path("devices/switch.conf"), path("hosts.yaml")], "the password is in no other file");
}

#[test]
fn device_that_fails_in_the_first_stage_ends_the_roll_out() {
    let fleet = MixedFleet::new(3);
    fleet.appliances[0].fail_next("PUT /vlan/7", ApplianceFault::Disconnect);
    let applied = fleet.ends(4, &["--on", "boxes,here", "apply", "--yes", "--stage", "1,100%", "all.yaml"]);
    assert!(has_line(&applied.stderr, &["PUT /vlan/7: no answer from 127.0.0.1:"]), "{}", applied.stderr);
    assert!(applied.stderr.contains("4 hosts: 1 failed (box1), 3 untouched (box2, box3, here)"), "{}", applied.stderr);
    assert_eq!([fleet.label(1), fleet.label(2), fleet.label(3)], [None, None, None]);
    let resumed = fleet.ends(4, &["rollout", "resume", "last", "--yes", "--max-failures", "1"]);
    assert!(resumed.stderr.contains("3 hosts: 3 applied"), "{}", resumed.stderr);
    assert_eq!([fleet.label(1), fleet.label(2)], [None, Some(json!("office"))]);
    let rest = fleet.ends(0, &["--failed-of", "last", "apply", "--yes", "all.yaml"]);
    assert!(rest.stdout.contains("box1:") && fleet.label(1).is_some(), "{}", rest.stdout);
    // The history of a device is on this machine, so an undo needs no kilter there.
    let undone = fleet.ends(0, &["--on", "boxes", "undo", "last"]);
    assert!(undone.stdout.contains("ensure: present → absent"), "{}", undone.stdout);
    assert_eq!([fleet.label(1), fleet.label(2), fleet.label(3)], [None, None, None]);
}

#[test]
fn late_device_is_lost_after_the_time_for_a_host() {
    // On a slow machine, each device can exceed the time of 1 s: only the late one has it.
    let fleet = MixedFleet::new(2);
    fleet.ends(2, &["--on", "boxes", "plan", "all.yaml", "-o", "all.plan"]);
    fleet.appliances[0].fail_next("GET /vlan", ApplianceFault::Late);
    let applied = fleet.ends(4, &["apply", "--yes", "--stage", "1,2", "--host-timeout", "1s", "all.plan"]);
    assert!(applied.stderr.contains("there was no result within 1 s"), "{}", applied.stderr);
    assert!(applied.stderr.contains("2 hosts: 1 lost (box1), 1 untouched (box2)"), "{}", applied.stderr);
    fleet.appliances[0].release();
    let resumed = fleet.ends(0, &["rollout", "resume", "last", "--yes", "--host-timeout", "10m"]);
    assert!(resumed.stderr.contains("2 hosts: 2 applied"), "{}", resumed.stderr);
}

#[test]
fn device_that_refuses_the_login_counts_as_failed() {
    let fleet = MixedFleet::new(3);
    fleet.write_inventory("wrong-password");
    let applied = fleet.ends(4, &["--on", "boxes", "apply", "--yes", "--max-failures", "0", "all.yaml"]);
    let refused = "failed: box3\n  error: the appliance refuses the login: check `user` and `password`\n";
    assert!(applied.stderr.contains(refused), "{}", applied.stderr);
    assert!(applied.stderr.contains("2 hosts: 2 untouched (box1, box2)"), "{}", applied.stderr);
    let applied = fleet.ends(4, &["--on", "boxes", "apply", "--yes", "all.yaml"]);
    assert!(applied.stderr.contains("2 hosts: 2 applied"), "{}", applied.stderr);
    assert_eq!(fleet.appliances[2].requests(), ["GET /facts", "GET /facts"], "a refused login is not repeated");
}

#[test]
fn commands_that_need_kilter_on_the_target_are_refused_for_devices() {
    let fleet = MixedFleet::new(1);
    let refused = |args: &[&str]| fleet.ends(1, &[&["--on", "all"], args].concat()).stderr;
    for args in [&["status"][..], &["pause", "why"]] {
        let refused = refused(args);
        assert!(refused.starts_with("error: this command does not work on the device box1\n"), "{refused}");
    }
    let events = refused(&["run", "--converged-exit", "all.yaml"]);
    assert!(events.contains("--converged-exit does not work on the device box1: it reports no events"), "{events}");
    let confirmed = refused(&["apply", "--yes", "--confirm-within", "10s", "all.yaml"]);
    assert!(confirmed.contains("--confirm-within and --health do not work on the device box1"), "{confirmed}");
    let mold = refused(&["--mold", "mold", "facts"]);
    assert!(mold.contains("--mold does not work on the device box1"), "{mold}");
    let other_user = refused(&["--become", "facts"]);
    assert!(other_user.contains("--become does not work on the device box1"), "{other_user}");
    fleet.devices.add("box1", &info(&fleet.appliances[0], PASSWORD));
    let twice = refused(&["facts"]);
    assert!(twice.contains("box1 has a connection in the inventory and in the device configuration"), "{twice}");
    assert!(fleet.appliances[0].requests().is_empty());
}
