//! The main task of a user: a package, its user, its configuration and its service; planned, applied, damaged by hand,
//! repaired, and intact after a reboot.

use std::collections::BTreeSet;

use kilter_testkit::hosts::{Host, sandboxed};
use serde_json::Value as Json;

use crate::host_with_kilter;

const MANIFEST: &str = "vars: { greeting: hello }
resources:
  package[kilter-greeter]: { ensure: present }
  group[greeter]: { gid: 7001 }
  group[readers]: { gid: 7002, members: [greeter], require: \"user[greeter]\" }
  user[greeter]: { uid: 7001, gid: greeter, home: /var/lib/greeter, shell: /usr/sbin/nologin }
  file[/var/lib/greeter]: { ensure: directory, owner: greeter, group: greeter, mode: \"0750\" }
  file[/etc/kilter-greeter.conf]:
    content: \"${vars.greeting}\\n\"
    owner: root
    group: greeter
    mode: \"0640\"
    require: package[kilter-greeter]
    notify: exec[restart]
  service[kilter-greeter]:
    ensure: running
    enable: true
    require:
      - package[kilter-greeter]
      - user[greeter]
      - file[/var/lib/greeter]
      - file[/etc/kilter-greeter.conf]
  exec[restart]:
    command: [systemctl, restart, kilter-greeter]
    refreshonly: true
    require: service[kilter-greeter]
";

/// A repository on the machine with a service that writes down what its configuration says, each time it starts.
pub(crate) const REPOSITORY: &str = r#"
mkdir -p /srv/build/DEBIAN /srv/build/lib/systemd/system /srv/repository && cd /srv
printf '%s\n' 'Package: kilter-greeter' 'Version: 1.0' 'Architecture: all' 'Maintainer: Nobody <nobody@kilter.test>' \
    'Description: A test' >build/DEBIAN/control
printf '%s\n' '[Service]' 'User=greeter' \
    'ExecStart=/bin/sh -c "cat /etc/kilter-greeter.conf >>/var/lib/greeter/said && exec sleep 100000"' \
    '[Install]' 'WantedBy=multi-user.target' >build/lib/systemd/system/kilter-greeter.service
dpkg-deb --root-owner-group -b build repository
cd repository
for file in *.deb; do
    dpkg-deb -f "$file"
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum <"$file" | cut -d ' ' -f 1)"
done >Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*
mkdir -p /var/lib/apt/lists/partial
echo "deb [trusted=yes] file:/srv/repository ./" >/etc/apt/sources.list
apt-get -q update
"#;

/// Runs kilter on the manifest; its exit code and its report.
fn kilter(host: &Host, command: &str) -> (i32, Json) {
    let answer = host.run(&["kilter", command, "/root/site.yaml", "--format", "json"]);
    let report = serde_json::from_str(&answer.stdout).unwrap_or_else(|_| panic!("{answer:#?}"));
    (answer.code, report)
}

/// The resources of a report that have a status.
fn with_status(report: &Json, status: &str) -> BTreeSet<String> {
    let all = report["resources"].as_array().unwrap().iter();
    all.filter(|r| r["status"] == status).map(|r| r["resource"].as_str().unwrap().to_owned()).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// Files that a plan must not change.
const SYSTEM_DIGEST: &str = "sha256sum /etc/passwd /etc/group /etc/shadow /var/lib/dpkg/status; ls -R /etc/systemd \
                    /var/lib/greeter 2>&1 || true
    systemctl list-units --all --plain --no-legend 'kilter-greeter*'";

/// Log of the service, one line per start.
fn said(host: &Host) -> String {
    // The shell writes before it becomes the sleep that the unit is then.
    host.bash(
        "for try in {1..200}; do [ \"$(ps -o comm= -C sleep)\" != sleep ] || break; sleep 0.05; done; cat \
               /var/lib/greeter/said",
    )
}

fn is_in_its_state(host: &Host) {
    let state = host.bash(
        "systemctl is-active kilter-greeter; systemctl is-enabled kilter-greeter; id greeter
        stat -c '%U %G %a' /etc/kilter-greeter.conf; dpkg-query -W -f '${Version}\n' kilter-greeter",
    );
    let wanted = "active\nenabled\nuid=7001(greeter) gid=7001(greeter) groups=7001(greeter),7002(readers)\nroot \
                  greeter 640\n1.0\n";
    assert_eq!(state, wanted);
}

fn nothing_is_to_be_done(host: &Host) {
    let (code, plan) = kilter(host, "plan");
    assert_eq!(code, 0, "{plan:#}");
    let (code, report) = kilter(host, "apply");
    assert_eq!(
        (code, &report["counts"]["changed"], &report["counts"]["refreshed"]),
        (0, &0.into(), &0.into()),
        "{report:#}"
    );
}

#[test]
fn service_is_installed_configured_repaired_and_survives_reboot() {
    sandboxed("main_job::service_is_installed_configured_repaired_and_survives_reboot", || {
        let host = host_with_kilter("web");
        host.bash(REPOSITORY);
        std::fs::write(host.root().join("root/site.yaml"), MANIFEST).unwrap();
        let before = host.bash(SYSTEM_DIGEST);

        let (code, plan) = kilter(&host, "plan");
        assert_eq!(code, 2, "{plan:#}");
        assert_eq!(host.bash(SYSTEM_DIGEST), before, "a plan touches nothing");

        let (code, report) = kilter(&host, "apply");
        assert_eq!(code, 0, "{report:#}");
        assert_eq!(
            (&report["counts"]["changed"], &report["counts"]["refreshed"]),
            (&7.into(), &1.into()),
            "{report:#}"
        );
        is_in_its_state(&host);
        assert_eq!(said(&host), "hello\nhello\n", "started, and started anew for its configuration");
        nothing_is_to_be_done(&host);

        host.bash(
            "systemctl stop kilter-greeter
            echo tampered >/etc/kilter-greeter.conf
            gpasswd -d greeter readers",
        );
        let (code, plan) = kilter(&host, "plan");
        let damaged = set(["service[kilter-greeter]", "file[/etc/kilter-greeter.conf]", "group[readers]"]);
        assert_eq!((code, with_status(&plan, "would_change")), (2, damaged.clone()), "{plan:#}");
        let (code, report) = kilter(&host, "apply");
        assert_eq!((code, with_status(&report, "changed")), (0, damaged), "{report:#}");
        assert_eq!(with_status(&report, "refreshed"), set(["exec[restart]"]), "{report:#}");
        is_in_its_state(&host);
        nothing_is_to_be_done(&host);

        host.reboot();
        is_in_its_state(&host);
        nothing_is_to_be_done(&host);
        assert_eq!(said(&host), "hello\n".repeat(5), "twice for each apply that changed something, once for the boot");

        // Only the boot starts it now.
        host.bash("systemctl disable --now kilter-greeter; rm /etc/kilter-greeter.conf");
        host.crash();
        host.start();
        let (code, report) = kilter(&host, "apply");
        let lost = set(["service[kilter-greeter]", "file[/etc/kilter-greeter.conf]"]);
        assert_eq!((code, with_status(&report, "changed")), (0, lost), "{report:#}");
        is_in_its_state(&host);
    });
}
