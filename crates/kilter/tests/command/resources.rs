//! Removal of undeclared resources.

use crate::run::manifest;
use crate::support::*;

#[test]
fn purge_of_hosts_is_planned_with_a_reason_for_each() {
    let place = Place::new();
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let path = manifest(&place, "resources:\n  resources[host]: {purge: true, meta: {noop: true}}\n");
    let plan = place.run(&["plan", &path]);
    // The local addresses of the machine stay.
    assert!(!plan.stdout.contains("host[localhost]"), "{}", plan.stdout);
    assert!(matches!(plan.code, 0 | 2), "{plan:?}");
    assert!(matches!(place.run(&["apply", &path]).code, 0), "a noop purge removes nothing");
    assert_eq!(std::fs::read_to_string("/etc/hosts").unwrap_or_default(), hosts);
}

#[test]
fn types_that_cannot_be_purged_are_refused() {
    let place = Place::new();
    let text = "resources:\n  resources[mount]: {purge: true}\n  \
                resources[user]: {purge: true, unless_system_user: false}\n  \
                resources[host]: {unless_uid: 5}\n";
    let refused = place.run(&["plan", &manifest(&place, text)]);
    assert_eq!(refused.code, 1, "{refused:?}");
    for message in [
        "'host', 'package', 'service', 'ssh_authorized_key', 'user']",
        "never purges system users",
        "applies only to `resources[user]`",
    ] {
        assert!(refused.stderr.contains(message), "{message}: {}", refused.stderr);
    }
}
