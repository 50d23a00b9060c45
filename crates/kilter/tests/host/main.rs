//! kilter on whole machines that systemd has booted: services, packages, users, what survives a reboot.
//!
//! Each test has a sandbox of its own (`kilter_testkit::hosts`), and in it the hosts that it asks for.

#![expect(clippy::unwrap_used, reason = "a test may end where it cannot go on")]

mod confinement;
mod debian_13;
mod hosts;
mod installed;
mod main_job;
mod mounts;
mod nspawn;
mod providers;
mod purge;
mod reboot;
mod run0;
mod secrets;
mod service;
mod timers;
mod undo;
mod units;
mod who;

use std::path::Path;

use kilter_testkit::hosts::Host;

const KILTER: &str = env!("CARGO_BIN_EXE_kilter");

/// A host on which kilter is installed.
fn host_with_kilter(name: &str) -> Host {
    Host::up(name, &[(Path::new(KILTER), "/usr/local/bin/kilter")])
}
