//! `run` on other hosts and on devices: edits, repairs, errors.

use kilter_testkit::appliance::{Appliance, ApplianceFault};
use serde_json::json;

use crate::devices::Devices;
use crate::remote::Sshd;
use crate::run::{Running, content, wait};

#[test]
fn run_on_a_host_takes_up_edits() {
    let sshd = Sshd::start();
    let config = sshd.path("ssh_config");
    let (held, value) = (sshd.path("held"), std::path::PathBuf::from(sshd.path("held")));
    let manifest = sshd.path("site.yaml");
    let write = |text: &str| drop(sshd.place.file("site.yaml", format!("resources:\n  file[{held}]: {text}\n")));
    write("{content: one}");
    let running = Running::of(&sshd.place, &["--ssh-config", &config, "--on", "h1", "run", &manifest]);
    wait("the first change", || content(&value) == "one");
    write("{content: two}");
    wait("the edit", || content(&value) == "two");
    write("{contents: three}");
    wait("the error", || running.told("kilter uses the previous manifest until this one is corrected") == 1);
    assert_eq!(running.told("kilter's attribute is `content`"), 1);
    std::fs::write(&value, "damaged").unwrap();
    wait("a repair beside the error", || content(&value) == "two");
    // Only the host finds this error.
    write("{content: two, mode: bad}");
    wait("the error of the host", || running.told("is not a mode") == 1);
    std::fs::write(&value, "damaged").unwrap();
    wait("a repair beside the error of the host", || content(&value) == "two");
    write("{content: two}");
    wait("the correction", || running.told("the manifest is valid again") == 1);
    sshd.place.file("included", "four");
    write("{content: {file: included}}");
    wait("another edit", || content(&value) == "four");
    sshd.place.file("included", "five");
    wait("an edit of an included file", || content(&value) == "five");
    let (code, out, errors) = running.end();
    assert_eq!(code, Some(143), "{errors}");
    let hidden = "1 resource: 1 unchanged; 1 change meanwhile";
    assert!(
        out.contains(hidden) && errors.matches("interrupted").count() <= 2,
        "only the end is an interruption: {errors}"
    );
    let runs = sshd.kilter("h1", &["history", "--format", "json"]).stdout;
    assert_eq!(runs.lines().filter(|run| run.contains("\"command\":\"run\"")).count(), 5, "{runs}");
}

#[test]
fn edit_is_no_interruption_in_json() {
    let sshd = Sshd::start();
    let config = sshd.path("ssh_config");
    let (held, value) = (sshd.path("held"), std::path::PathBuf::from(sshd.path("held")));
    let manifest = sshd.path("site.yaml");
    let write = |text: &str| {
        sshd.place.file("site.yaml", format!("resources:\n  file[{held}]: {{content: {text}}}\n"));
    };
    write("one");
    let words = ["--ssh-config", &config, "--on", "h1", "run", "--format", "json", &manifest];
    let running = Running::of(&sshd.place, &words);
    wait("the first change", || content(&value) == "one");
    write("two");
    wait("the edit", || content(&value) == "two");
    let (code, out, errors) = running.end();
    assert_eq!(code, Some(143), "{errors}");
    let event = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].clone();
    let events: Vec<serde_json::Value> = out.lines().map(event).collect();
    let count = |name: &str| events.iter().filter(|event| *event == name).count();
    assert_eq!([count("interrupted"), count("ended")], [1, 1], "{out}");
    assert_eq!(events.last(), Some(&json!("ended")), "{out}");
}

#[test]
fn run_checks_a_device_at_the_interval_of_its_resources() {
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    let write = |label: &str| {
        let text = format!("resources:\n  appliance_vlan[7]: {{label: {label}, meta: {{poll: 1}}}}\n");
        devices.place.file("vlan.yaml", text);
    };
    let label = |appliance: &Appliance| appliance.get("vlan", "7").map(|mut vlan| vlan["label"].take());
    write("one");
    let running = Running::spawn(&devices.place, devices.command(&["--on", "box1", "run", "vlan.yaml"]));
    wait("the first change", || label(&appliance) == Some(json!("one")));
    appliance.put("vlan", "7", json!({ "label": "by hand" }));
    wait("the repair", || label(&appliance) == Some(json!("one")));
    write("two");
    wait("the edit", || label(&appliance) == Some(json!("two")));
    appliance.fail_next("GET /vlan", ApplianceFault::Disconnect);
    let checks = || appliance.requests().iter().filter(|request| request.starts_with("GET /vlan")).count();
    let before = checks();
    wait("checks after the failure", || checks() > before + 3);
    let (code, out, errors) = running.end();
    assert_eq!(code, Some(143), "{errors}");
    let shown = ["label: (none) → one", "label: by hand → one", "label: one → two"];
    assert_eq!(shown.map(|text| out.matches(text).count()), [1, 1, 1], "{out}\n{errors}");
    // The first one is the end of the failure, and the signal may have interrupted a check.
    assert!((1..=2).contains(&out.matches("1 unchanged").count()), "a check without news shows nothing: {out}");
    let history = devices.ends(0, &["--on", "box1", "history", "appliance_vlan[7]"]).stdout;
    assert!(history.contains("by hand"), "{history}");
}

#[test]
fn run_on_a_device_ends_after_its_time() {
    let devices = Devices::new();
    let appliance = devices.appliance("box1");
    let seen = devices.ends(2, &["--on", "box1", "run", "--noop", "--max-runtime", "0", "site.yaml"]);
    assert!(seen.stdout.contains("4 to change") && appliance.get("vlan", "7").is_none(), "{seen:?}");
    devices.ends(0, &["--on", "box1", "run", "--max-runtime", "0", "site.yaml"]);
    assert!(devices.ends(0, &["--on", "box1", "plan", "site.yaml"]).stdout.contains("4 unchanged"));
}
