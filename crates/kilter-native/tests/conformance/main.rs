//! The native providers, put through the conformance suite. Accounts need root; the test says how to
//! get it.

mod accounts;
mod archive;
mod augeas;
mod container;
mod cron;
mod exec;
mod file;
mod host;
mod kernel_module;
mod known_hosts;
mod notify;
mod parts;
mod reboot;
mod resources;
mod selboolean;
mod ssh_key;
mod sysctl;
mod system;
mod tidy;
mod tree;
mod vcsrepo;
mod virt;
mod virtual_disk;

use kilter_devkit::conformance::Report;

/// Passes when every law is held but those that are listed, each of which does not apply for the reason
/// given. Nothing is left out without being told here.
fn assert_held_but(report: &Report, expected: &[(&str, &str)]) {
    report.assert();
    assert_eq!(report.excused(), expected, "{report}");
}

/// Passes if exactly these attributes were skipped by the laws about edge values, for these reasons, and if at least
/// this number of values was tried.
fn assert_edges(report: &Report, least: usize, spared: &str) {
    let note = report.why("edge-values-survive").expect("values are counted");
    let (counts, not_tried) = note.split_once("; not tried: ").unwrap_or((note, ""));
    let tried: usize = counts.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<usize>().ok()).sum();
    assert!(tried >= least, "{note}");
    assert_eq!(not_tried, spared, "{report}");
}

/// Fails unless the test runs as root.
fn need_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test acts as other users, or in mount namespaces: run it as root, \
         for example `sudo -E cargo test -p kilter-native --test conformance`"
    );
}
