//! The providers that come along, each put through its own test on a machine where everything runs.

use std::path::Path;

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;

/// Runs the test of a provider, which is part of kilter.
fn hold(provider: &str) {
    let host = host_with_kilter("keeper");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    host.copy(&[
        (&tests.join("../../providers").canonicalize().unwrap(), "/srv/providers"),
        (&tests.join("tests/host/package.bash"), "/srv/providers/package.test"),
        (&tests.join("tests/host/cron.bash"), "/srv/providers/cron.test"),
        (&tests.join("tests/host/ssh_authorized_key.bash"), "/srv/providers/ssh_authorized_key.test"),
        (&tests.join("tests/host/sysctl.bash"), "/srv/providers/sysctl.test"),
    ]);
    let answer = host.run(&["env", "KILTER=/usr/local/bin/kilter", &format!("/srv/providers/{provider}.test")]);
    assert_eq!(answer.code, 0, "{provider}:\n{}{}", answer.stdout, answer.stderr);
    // A test that ended before its end has held nothing.
    let checks = answer.stdout.lines().last().and_then(|line| line.strip_suffix(" checks, 0 failed"));
    assert!(
        checks.is_some_and(|checks| checks.parse::<u32>().is_ok_and(|checks| checks > 0)),
        "{provider}: {answer:#?}"
    );
    println!("{provider}: {}{}", answer.stdout, answer.stderr);
}

#[test]
fn apt_packages_converge() {
    sandboxed("providers::apt_packages_converge", || hold("package"));
}

#[test]
fn cron_entries_converge_and_foreign_lines_stay() {
    sandboxed("providers::cron_entries_converge_and_foreign_lines_stay", || hold("cron"));
}

#[test]
fn ssh_keys_converge_and_links_are_refused() {
    sandboxed("providers::ssh_keys_converge_and_links_are_refused", || hold("ssh_authorized_key"));
}

#[test]
fn kernel_parameters_are_set_live_and_for_the_next_boot() {
    sandboxed("providers::kernel_parameters_are_set_live_and_for_the_next_boot", || hold("sysctl"));
}
