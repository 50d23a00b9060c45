//! The type `service` with a running systemd.

use std::path::{Path, PathBuf};

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;

fn path(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of).canonicalize().unwrap()
}

#[test]
fn units_converge_run_and_are_held() {
    sandboxed("units::units_converge_run_and_are_held", || {
        let host = host_with_kilter("keeper");
        let (test, functions) = (path("tests/host/units.test"), path("../../providers/testing.bash"));
        host.copy(&[(&test, "/srv/providers/units.test"), (&functions, "/srv/providers/testing.bash")]);
        let answer = host.run(&["env", "KILTER=/usr/local/bin/kilter", "bash", "/srv/providers/units.test"]);
        assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
        // A test that ended before its end has held nothing.
        let checks = answer.stdout.lines().last().and_then(|line| line.strip_suffix(" checks, 0 failed"));
        assert!(
            checks.is_some_and(|checks| checks.parse::<u32>().is_ok_and(|checks| checks > 100)),
            "{}{}",
            answer.stdout,
            answer.stderr
        );
        println!("{}{}", answer.stdout, answer.stderr);
    });
}

#[test]
fn list_of_services_is_read_without_the_bus_and_starts_no_program() {
    let name = "units::list_of_services_is_read_without_the_bus_and_starts_no_program";
    sandboxed(name, || {
        let host = host_with_kilter("keeper");
        // A namespace without the bus, and without the programs that a script would start.
        let shown = host.bash(
            "unshare --mount bash -euc '
                mount -t tmpfs none /run/dbus
                for program in systemctl journalctl busctl; do mount --bind /bin/false /usr/bin/$program; done
                kilter get service --format json
                kilter set service cron ensure=stopped enable=mask
                kilter get service cron
                kilter set service cron ensure=running enable=true
            '
            systemctl is-active cron && systemctl is-enabled cron",
        );
        assert!(shown.contains("\"cron\""), "{shown}");
        assert!(shown.contains("stopped") && shown.contains("masked"), "{shown}");
        assert!(shown.ends_with("active\nenabled\n"), "{shown}");
    });
}
