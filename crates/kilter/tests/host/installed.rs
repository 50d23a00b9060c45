//! Resources whose programs and units the same manifest installs: planned, applied, and planned again.

use std::path::Path;

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;
use crate::main_job::REPOSITORY;

const MANIFEST: &str = "resources:
  cron[nightly]: { command: /bin/true, hour: \"3\", user: root }
  package[kilter-crontab]: {}
  package[kilter-greeter]: {}
  service[kilter-greeter]: { ensure: stopped, enable: true }
";

/// Moves `crontab` into a package that is not installed.
const CRONTAB: &str = r#"
mkdir -p /srv/cron/DEBIAN /srv/cron/usr/local/bin
printf '%s\n' 'Package: kilter-crontab' 'Version: 1.0' 'Architecture: all' 'Maintainer: Nobody <nobody@kilter.test>' \
    'Description: A test' >/srv/cron/DEBIAN/control
mv /usr/bin/crontab /srv/cron/usr/local/bin/
mkdir -p /srv/repository && dpkg-deb --root-owner-group -b /srv/cron /srv/repository
"#;

#[test]
fn installed_programs_and_units_are_unknown_in_plan() {
    let name = "installed::installed_programs_and_units_are_unknown_in_plan";
    sandboxed(name, || {
        let host = host_with_kilter("web");
        host.bash(CRONTAB);
        host.bash(REPOSITORY);
        std::fs::write(host.root().join("root/site.yaml"), MANIFEST).unwrap();
        std::fs::write(host.root().join("root/alone.yaml"), "resources:\n  cron[x]: { command: x }\n").unwrap();
        let kilter = |command: &str, manifest: &str| host.run(&["kilter", command, manifest]);
        let alone = kilter("plan", "/root/alone.yaml");
        assert!(
            alone.code == 4 && alone.stdout.contains("is not suitable here: there is no command crontab"),
            "{alone:#?}"
        );

        let plan = kilter("plan", "/root/site.yaml");
        assert_eq!(plan.code, 2, "{plan:#?}");
        assert!(plan.stdout.contains("? cron[nightly] not known yet"), "{plan:#?}");
        assert!(plan.stdout.contains("known after package[kilter-crontab] (the provider `cron` of cron"), "{plan:#?}");
        assert!(plan.stdout.contains("? service[kilter-greeter] not known yet"), "{plan:#?}");
        assert!(plan.stdout.contains("known after package[kilter-greeter] (it does not exist yet)"), "{plan:#?}");
        assert!(plan.stdout.contains("4 resources: 2 to change, 2 not known yet"), "{plan:#?}");
        // The package may start and enable the unit, which does not exist now.
        let stopped = "resources:\n  package[kilter-greeter]: {}\n  \
                       service[kilter-greeter]: { ensure: stopped, enable: false }\n";
        std::fs::write(host.root().join("root/stopped.yaml"), stopped).unwrap();
        let plan = kilter("plan", "/root/stopped.yaml");
        assert!(plan.stdout.contains("known after package[kilter-greeter] (it does not exist yet)"), "{plan:#?}");

        let apply = kilter("apply", "/root/site.yaml");
        assert_eq!(apply.code, 0, "{apply:#?}");
        host.bash("crontab -l | grep -q nightly && systemctl is-enabled kilter-greeter");
        let again = kilter("plan", "/root/site.yaml");
        assert_eq!(again.code, 0, "{again:#?}");
    });
}

#[test]
fn cron_is_unknown_until_the_package_that_brings_crontab() {
    let name = "installed::cron_is_unknown_until_the_package_that_brings_crontab";
    sandboxed(name, || {
        let host = host_with_kilter("web");
        // The packages of the host conflict with other crons, and with old versions of them.
        host.bash(&CRONTAB.replace("kilter-crontab", "cronie").replace("Version: 1.0", "Version: 9.0"));
        host.bash("dpkg --remove --force-depends cron && mkdir -p /var/spool/cron/crontabs");
        host.bash(REPOSITORY);
        // The other package and the user come first in the manifest, and relations name them.
        let manifest = "resources:\n  package[kilter-greeter]: {}\n  user[eve]: { managehome: true }\n  \
                        package[cronie]: {}\n  cron[nightly]: { command: /bin/true, hour: \"3\", user: eve, require: \
                        \"package[kilter-greeter]\" }\n";
        std::fs::write(host.root().join("root/site.yaml"), manifest).unwrap();
        let plan = host.run(&["kilter", "plan", "/root/site.yaml"]);
        assert_eq!(plan.code, 2, "{plan:#?}");
        assert!(plan.stdout.contains("known after package[cronie] (the provider `cron` of cron"), "{plan:#?}");
        let apply = host.run(&["kilter", "apply", "/root/site.yaml"]);
        assert_eq!(apply.code, 0, "{apply:#?}");
        host.bash("crontab -u eve -l | grep -q nightly");
    });
}

const UNIT: &str = "resources:
  service[kilter-own]: { ensure: running, enable: true }
  file[/etc/systemd/system/kilter-own.service]:
    content: \"[Service]\\nExecStart=/bin/sleep 100000\\n[Install]\\nWantedBy=multi-user.target\\n\"
    notify: service[kilter-own]
";

#[test]
fn service_is_unknown_until_its_declared_unit_file_exists() {
    sandboxed("installed::service_is_unknown_until_its_declared_unit_file_exists", || {
        let host = host_with_kilter("web");
        std::fs::write(host.root().join("root/site.yaml"), UNIT).unwrap();
        let plan = host.run(&["kilter", "plan", "/root/site.yaml", "-o", "/root/p"]);
        assert_eq!(plan.code, 2, "{plan:#?}");
        let reason = "known after file[/etc/systemd/system/kilter-own.service] (it does not exist yet)";
        assert!(plan.stdout.contains(reason), "{plan:#?}");
        let apply = host.run(&["kilter", "apply", "/root/p"]);
        assert_eq!(apply.code, 0, "{apply:#?}");
        host.bash("systemctl is-active kilter-own && systemctl is-enabled kilter-own");
        let again = host.run(&["kilter", "plan", "/root/site.yaml"]);
        assert_eq!(again.code, 0, "{again:#?}");
    });
}

#[test]
fn service_without_a_unit_is_in_sync_if_stopped_and_fails_in_the_plan_if_running() {
    let name = "installed::service_without_a_unit_is_in_sync_if_stopped_and_fails_in_the_plan_if_running";
    sandboxed(name, || {
        let host = host_with_kilter("web");
        let write = |attributes: &str| {
            let manifest = format!("resources:\n  service[gone]: {{ {attributes} }}\n");
            std::fs::write(host.root().join("root/site.yaml"), manifest).unwrap();
        };
        let kilter = |command: &str| host.run(&["kilter", command, "/root/site.yaml"]);
        for attributes in ["ensure: stopped, enable: false", "enable: false", "ensure: stopped"] {
            write(attributes);
            let (plan, apply) = (kilter("plan"), kilter("apply"));
            assert_eq!((plan.code, apply.code), (0, 0), "{attributes}: {plan:#?} {apply:#?}");
        }
        for attributes in ["ensure: running", "ensure: stopped, enable: true"] {
            write(attributes);
            let (plan, apply) = (kilter("plan"), kilter("apply"));
            assert_eq!((plan.code, apply.code), (4, 4), "{attributes}: {plan:#?} {apply:#?}");
            for ended in [plan, apply] {
                assert!(ended.stdout.contains("there is no unit gone"), "{attributes}: {ended:#?}");
            }
        }
        write("ensure: stopped, enable: mask");
        let (plan, apply, again) = (kilter("plan"), kilter("apply"), kilter("plan"));
        assert_eq!((plan.code, apply.code, again.code), (2, 0, 0), "{plan:#?} {apply:#?} {again:#?}");
        host.bash("[ \"$(readlink /etc/systemd/system/gone.service)\" = /dev/null ]");
    });
}

const PIP_MANIFEST: &str = "resources:
  package[kilter-one]:
    provider: pip
    source: /srv/kilter_one-1.0-py3-none-any.whl
    options: [--no-index, --break-system-packages]
  package[python3-pip]: {}
";

/// Builds a package of the machine's pip, which the host lacks, and a wheel.
const PIP: &str = r#"
mkdir -p /srv/pip/DEBIAN /srv/repository
printf '%s\n' 'Package: python3-pip' 'Version: 1.0' 'Architecture: all' 'Maintainer: Nobody <nobody@kilter.test>' \
    'Description: A test' >/srv/pip/DEBIAN/control
dpkg-deb --root-owner-group -b /srv/pip /srv/repository
cd /srv && python3 -c '
import zipfile
info = "kilter_one-1.0.dist-info"
files = {
    "kilter_one.py": "",
    f"{info}/METADATA": "Metadata-Version: 2.1\nName: kilter-one\nVersion: 1.0\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: check\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{one},,\n" for one in [*files, f"{info}/RECORD"])
with zipfile.ZipFile("kilter_one-1.0-py3-none-any.whl", "w") as wheel:
    for name, text in files.items():
        wheel.writestr(name, text)
'
"#;

#[test]
fn packages_of_pip_are_unknown_until_the_manifest_installs_pip() {
    let name = "installed::packages_of_pip_are_unknown_until_the_manifest_installs_pip";
    sandboxed(name, || {
        let host = host_with_kilter("web");
        let pip = Path::new("/usr/lib/python3/dist-packages/pip");
        host.copy(&[(pip, "/srv/pip/usr/lib/python3/dist-packages/pip")]);
        host.bash(PIP);
        host.bash(REPOSITORY);
        std::fs::write(host.root().join("root/site.yaml"), PIP_MANIFEST).unwrap();
        std::fs::write(host.root().join("root/alone.yaml"), PIP_MANIFEST.replace("  package[python3-pip]: {}\n", ""))
            .unwrap();
        let kilter = |command: &str, manifest: &str| host.run(&["kilter", command, manifest]);
        let alone = kilter("plan", "/root/alone.yaml");
        assert!(alone.code == 4 && alone.stdout.contains("No module named pip"), "{alone:#?}");

        let plan = kilter("plan", "/root/site.yaml");
        assert_eq!(plan.code, 2, "{plan:#?}");
        assert!(plan.stdout.contains("known after package[python3-pip] ("), "{plan:#?}");
        assert!(plan.stdout.contains("2 resources: 1 to change, 1 not known yet"), "{plan:#?}");

        let apply = kilter("apply", "/root/site.yaml");
        assert_eq!(apply.code, 0, "{apply:#?}");
        host.bash("cd / && python3 -c 'import kilter_one'");
        let again = kilter("plan", "/root/site.yaml");
        assert_eq!(again.code, 0, "{again:#?}");
    });
}
