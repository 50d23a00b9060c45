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

/// A list takes the states of unit files from the disk, because systemd needs 0.4 s for them after a boot. They have
/// to be those of systemd.
#[test]
fn list_of_services_has_the_states_that_systemd_has() {
    sandboxed("units::list_of_services_has_the_states_that_systemd_has", || {
        let host = host_with_kilter("keeper");
        let shown = host.bash(
            r#"
            cd /etc/systemd/system
            service() { printf '[Service]\nExecStart=/bin/sleep inf\n'; }
            install() { printf '[Install]\nWantedBy=multi-user.target\n'; }
            for name in plain one two three four a-b-c kept@ linked runtime; do { service; install; } >k-$name.service; done
            mkdir -p /srv/units /run/systemd/system; mv k-linked.service /srv/units
            mv k-runtime.service /run/systemd/system
            service >k-static.service; : >k-empty.service
            for name in k-static k-a- k-one; do mkdir $name.service.d; done
            install >k-static.service.d/install.conf
            install >k-a-.service.d/install.conf
            printf '[Service]\nNice=1\n' >k-one.service.d/nice.conf
            { service; printf '[Install]\nAlias=k-alias.service\n'; } >k-aliased.service
            { service; printf '[Install]\nAlso=k-plain.service\n'; } >k-also.service
            systemctl daemon-reload
            systemctl --quiet enable k-one k-aliased k-kept@on
            systemctl --quiet enable --runtime k-two
            systemctl --quiet mask k-runtime
            systemctl --quiet mask --runtime getty@tty9
            systemctl --quiet link /srv/units/k-linked.service
            ln -s /etc/systemd/system/k-three.service multi-user.target.wants/
            systemctl start k-kept@on k-kept@off k-four
            systemd-run --quiet --unit k-transient sleep inf
            kilter get service --format json >/root/kilter.json
            python3 - <<'EOF'
import json, subprocess
def file(unit):
    return subprocess.run(['busctl', 'call', 'org.freedesktop.systemd1', '/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager',
        'GetUnitFileState', 's', unit], capture_output=True, text=True).stdout[3:-2] or None
found = json.load(open('/root/kilter.json'))
own = {each['name']: each['attributes'].get('unit_file') for each in found}
for name in sorted(own):
    unit = name if name.endswith('.service') else name + '.service'
    if own[name] != file(unit):
        print('differs:', name, own[name], file(unit))
files = subprocess.run(['systemctl', 'list-unit-files', '--type=service', '--no-legend', '--plain'], capture_output=True, text=True).stdout
for line in files.splitlines():
    unit, state = line.split()[:2]
    if '@.' not in unit and state != 'alias' and own.get(unit.removesuffix('.service'), 'missing') != state:
        print('file differs:', unit, state, own.get(unit.removesuffix('.service'), 'missing'))
print(len(own), 'services,', len(set(own.values())), 'states:', *sorted(map(str, set(own.values()))))
EOF
            "#,
        );
        assert!(!shown.contains("differs"), "{shown}");
        for state in ["disabled", "enabled-runtime", "indirect", "linked", "masked", "static", "transient"] {
            assert!(shown.contains(state), "{shown}");
        }
        println!("{shown}");
    });
}
