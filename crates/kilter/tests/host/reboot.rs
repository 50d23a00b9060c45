//! The type `reboot` on a machine that systemd has booted.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kilter_testkit::hosts::{Host, sandboxed};

use crate::host_with_kilter;

/// Command that waits until the host has booted, and shows the id of the boot. Before, systemd may close connections.
const BOOT: [&str; 3] = ["bash", "-euc", "systemctl is-system-running --wait >&2; cat /proc/sys/kernel/random/boot_id"];

const KERNEL: &str = "\
resources:
  exec[before]:
    command: cp /proc/sys/kernel/random/boot_id /srv/before
    creates: /srv/before
    notify: reboot[kernel]
  reboot[kernel]: {timeout: 1}
  exec[after]:
    command: cp /proc/sys/kernel/random/boot_id /srv/after
    creates: /srv/after
    require: reboot[kernel]
";

/// Returns the id of the current boot.
fn boot(host: &Host) -> String {
    let answer = host.run(&BOOT);
    assert!(answer.code == 0 && answer.stdout.len() > 30, "{answer:?}");
    answer.stdout
}

/// Returns the id of the current boot, which must differ from `former`. Waits for that boot.
fn next_boot(host: &Host, former: &str) -> String {
    let start = Instant::now();
    loop {
        let answer = host.run(&BOOT);
        if answer.code == 0 && answer.stdout.len() > 30 && answer.stdout != former {
            return answer.stdout;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "the host does not boot again: {answer:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Waits until a command of bash succeeds.
fn wait(host: &Host, what: &str) {
    host.bash(&format!(
        "for try in {{1..600}}; do {{ {what}; }} && exit 0; sleep 0.1; done; echo 'it never came'; exit 1"
    ));
}

#[test]
fn machine_reboots_once_and_the_run_continues() {
    sandboxed("reboot::machine_reboots_once_and_the_run_continues", || {
        let host = host_with_kilter("reboot");
        let unit: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kilter.service");
        host.copy(&[(&unit, "/etc/systemd/system/kilter.service")]);
        host.bash(&format!("mkdir -p /etc/kilter; cat >/etc/kilter/site.yaml <<'END'\n{KERNEL}END"));
        let plan = host.run(&["kilter", "plan", "/etc/kilter/site.yaml"]);
        assert!(plan.stdout.contains("↻ reboot[kernel]") && plan.code == 2, "{plan:?}");
        let first = boot(&host);

        host.bash("systemctl daemon-reload; systemctl enable kilter; systemctl start --no-block kilter");
        let second = next_boot(&host, &first);
        wait(&host, "[ -e /srv/after ]");
        assert_eq!(host.bash("cat /srv/before /srv/after"), format!("{first}{second}"));
        wait(&host, "kilter status | grep -q '3 in their state'");
        host.bash("sleep 4");
        assert_eq!(boot(&host), second, "the machine reboots once");

        // Another refresh in the new boot is another reboot, which follows the run.
        host.bash("systemctl disable --now kilter");
        host.bash(
            "sed -i 's/timeout: 1/timeout: 3, apply: finished/; s/before$/former/' /etc/kilter/site.yaml
            rm /srv/after; kilter apply /etc/kilter/site.yaml",
        );
        let third = next_boot(&host, &second);
        assert_eq!(host.bash("cat /srv/after"), second, "the run was completed before");
        let again = host.run(&["kilter", "apply", "/etc/kilter/site.yaml"]);
        assert!(again.code == 0 && again.stdout.contains("3 unchanged"), "{again:?}");
        host.bash("sleep 5");
        assert_eq!(boot(&host), third);
    });
}
