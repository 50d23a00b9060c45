//! Public keys of SSH servers.

use crate::run::{Running, content, manifest, wait};
use crate::support::*;

const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";

fn declared(place: &Place) -> String {
    let text = format!(
        "resources:\n  known_hosts[git.example.org]:\n    target: DIR/known\n    type: ssh-ed25519\n    key: \
         {KEY}\n    host_aliases: [git]\n  sshkey:\n    old.example.org: {{ensure: absent, target: DIR/known}}\n"
    );
    manifest(place, &text)
}

#[test]
fn keys_are_planned_applied_and_repaired() {
    let place = Place::new();
    let known = place.path().join("known");
    place.file("known", format!("# mine\nold.example.org ssh-ed25519 {KEY}\n"));
    let path = declared(&place);
    let plan = place.run(&["plan", &path]);
    assert_eq!(plan.code, 2, "{plan:?}");
    assert!(plan.stdout.contains("+ known_hosts[git.example.org]"), "{}", plan.stdout);
    assert!(plan.stdout.contains("- known_hosts[old.example.org]"), "{}", plan.stdout);
    assert_eq!(place.run(&["apply", &path]).code, 0);
    let expected = format!("# mine\ngit.example.org,git ssh-ed25519 {KEY}\n");
    assert_eq!(content(&known), expected);
    assert_eq!(place.run(&["plan", &path]).code, 0);
    let running = Running::begin(&place, &[&path]);
    std::fs::write(&known, "# mine\n").unwrap();
    wait("the repair", || content(&known) == expected);
    assert_eq!(running.end().0, Some(143));
}
