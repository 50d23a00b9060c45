//! Edits by Augeas, with the real augtool.

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

const HOSTS: &str = "# kept\n127.0.0.1\tlocalhost\n10.0.0.1   web www  # by hand\n";

const EDIT: &str = "\
resources:
  augeas[web]:
    lens: Hosts.lns
    incl: DIR/hosts
    changes: [\"set *[canonical = 'web']/ipaddr 10.0.0.2\"]
";

#[test]
fn edit_is_planned_applied_and_repaired() {
    let place = Place::new();
    place.file("hosts", HOSTS);
    let path = manifest(&place, EDIT);
    let hosts = place.path().join("hosts");
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    assert!(plan.stdout.contains("+10.0.0.2   web www  # by hand"), "{}", plan.stdout);
    assert_eq!(content(&hosts), HOSTS, "a plan changes nothing");
    let applied = place.run(&["apply", &path]);
    assert_eq!(applied.code, 0, "{applied:?}");
    let edited = HOSTS.replace("10.0.0.1", "10.0.0.2");
    assert_eq!(content(&hosts), edited);
    assert_eq!(place.run(&["plan", &path]).code, 0);
    // Other lines are not the resource's.
    std::fs::write(&hosts, edited.clone() + "10.0.0.9 other\n").unwrap();
    assert_eq!(place.run(&["plan", &path]).code, 0);
    std::fs::write(&hosts, HOSTS).unwrap();
    assert_eq!(place.run(&["plan", &path]).code, 2);
    assert_eq!(place.run(&["apply", &path]).code, 0);
    assert_eq!(content(&hosts), edited);
}

#[test]
fn edit_is_repaired_by_run() {
    let place = Place::new();
    place.file("hosts", HOSTS);
    let running = Running::begin(&place, &[&manifest(&place, EDIT)]);
    let hosts = place.path().join("hosts");
    let edited = HOSTS.replace("10.0.0.1", "10.0.0.2");
    wait("the edit", || content(&hosts) == edited);
    place.file("hosts", HOSTS);
    wait("the repair", || content(&hosts) == edited);
    let (code, _, err) = running.end();
    assert_eq!(code, Some(143), "{err}");
}

#[test]
fn bad_changes_name_the_reason() {
    let place = Place::new();
    place.file("hosts", HOSTS);
    for (from, to, why) in [
        ("Hosts.lns", "Nosuch.lns", "Can not find lens"),
        ("set *", "sett *", "sett"),
        ("ipaddr", "nosuch", "cannot write the changed tree"),
        ("DIR/hosts", "hosts", "incl"),
    ] {
        let refused = place.run(&["plan", &manifest(&place, &EDIT.replace(from, to))]);
        let shown = format!("{refused:?}");
        assert!(refused.code != 0 && refused.code != 2 && shown.contains(why), "{why}: {shown}");
    }
    assert_eq!(content(&place.path().join("hosts")), HOSTS);
}
