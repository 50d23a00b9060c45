//! `kilter run` as a service of systemd.

use std::path::{Path, PathBuf};

use kilter_testkit::hosts::{Host, sandboxed};

use crate::host_with_kilter;

/// Waits until a command of bash succeeds.
fn wait(host: &Host, what: &str) {
    host.bash(&format!(
        "for try in {{1..300}}; do {{ {what}; }} && exit 0; sleep 0.1; done; echo 'it never came'; exit 1"
    ));
}

fn show(host: &Host, property: &str) -> String {
    host.bash(&format!("systemctl show --value -p {property} kilter")).trim().to_owned()
}

#[test]
fn systemd_starts_watches_and_stops_kilter() {
    sandboxed("service::systemd_starts_watches_and_stops_kilter", || {
        let host = host_with_kilter("service");
        let unit: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kilter.service");
        host.copy(&[(&unit, "/etc/systemd/system/kilter.service")]);
        host.bash(
            "mkdir -p /etc/kilter /etc/systemd/system/kilter.service.d
            printf '%s\\n' 'resources:' '  exec[slow]: {command: [sh, -c, sleep 2; touch /srv/ran], creates: \
            /srv/ran}' \
                '  file[/etc/held]: {content: declared, require: \"exec[slow]\"}' >/etc/kilter/site.yaml
            printf '[Service]\\nWatchdogSec=2s\\nRestartSec=100ms\\n' >/etc/systemd/system/kilter.service.d/quick.conf
            systemctl daemon-reload",
        );
        // It has started when everything is in its state.
        host.bash("systemctl start kilter && [ \"$(cat /etc/held)\" = declared ]");
        assert_eq!(show(&host, "StatusText"), "2 resources, 2 in their state");
        assert!(host.bash("kilter status").contains("2 in their state"));
        host.bash("echo changed >/etc/held");
        wait(&host, "[ \"$(cat /etc/held)\" = declared ]");

        // One that is well is left alone, one that hangs is not.
        host.bash("sleep 5");
        assert_eq!(show(&host, "NRestarts"), "0");
        let before = show(&host, "MainPID");
        host.bash(&format!("kill -STOP {before}"));
        wait(&host, "[ \"$(systemctl show --value -p NRestarts kilter)\" = 1 ] && systemctl is-active -q kilter");
        assert_ne!(show(&host, "MainPID"), before);
        host.bash("echo changed >/etc/held");
        wait(&host, "[ \"$(cat /etc/held)\" = declared ]");

        host.bash("systemctl stop kilter");
        assert_eq!(show(&host, "Result"), "success");
        assert_eq!(host.run(&["kilter", "status"]).code, 1);
    });
}
