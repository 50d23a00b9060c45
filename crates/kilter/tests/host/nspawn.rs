//! The type `nspawn` with a machine that boots systemd.

use crate::host_with_kilter;
use kilter_testkit::hosts::sandboxed;

/// The machine shares `/usr` with the host.
const MACHINE: &str = "\
resources:
  file[/var/lib/machines/web]: {ensure: directory, mode: '0755'}
  file[/etc/systemd/nspawn/web.nspawn]:
    parents: true
    content: |
      [Exec]
      PrivateUsers=no
      [Network]
      VirtualEthernet=no
      Private=yes
    notify: nspawn[web]
  file[/var/lib/machines/web/usr]: {ensure: directory}
  mount[/var/lib/machines/web/usr]: {ensure: mounted, device: /usr, fstype: none, options: bind}
  nspawn[web]: {ensure: running, enable: true, require: 'mount[/var/lib/machines/web/usr]'}
";

#[test]
fn machine_is_held_and_repaired() {
    sandboxed("nspawn::machine_is_held_and_repaired", || {
        let host = host_with_kilter("nspawn");
        host.bash(&format!("cat >/srv/machine.yaml <<'END'\n{MACHINE}END"));
        let apply = |code: i32, shown: &str| {
            let applied = host.run(&["kilter", "apply", "/srv/machine.yaml"]);
            assert!(applied.code == code && applied.stdout.contains(shown), "{shown}: {applied:?}");
        };
        assert_eq!(host.bash("kilter get nspawn"), "");
        let plan = host.run(&["kilter", "plan", "/srv/machine.yaml"]);
        assert!(plan.code == 2 && !format!("{plan:?}").contains("fail"), "{plan:?}");
        // The rest of the file system.
        host.bash(
            // With a machine ID, its boot does not ask for settings.
            "mkdir -p /var/lib/machines/web/etc && systemd-id128 new >/var/lib/machines/web/etc/machine-id && cp \
             /etc/os-release /etc/passwd /etc/group /var/lib/machines/web/etc
            for link in bin sbin lib lib64; do ln -s usr/$link /var/lib/machines/web/$link; done",
        );
        apply(0, "5 resources: 4 changed");
        host.bash(
            "machinectl show -p State --value web | grep -qx running
            systemctl is-enabled systemd-nspawn@web machines.target
            kilter get nspawn | grep -q '^web *running *true'",
        );
        apply(0, "5 unchanged");

        // Commands run in the machine.
        let inside = ["kilter", "--on", "nspawn://web", "set", "file", "/etc/motd", "content=it's $(inside)"];
        let set = host.run(&inside);
        assert_eq!(set.code, 0, "{set:?}");
        assert_eq!(host.bash("cat /var/lib/machines/web/etc/motd"), "it's $(inside)");
        let none = host.run(&["kilter", "--on", "nspawn://none", "facts", "kernel"]);
        assert!(none.code == 4 && none.stderr.contains("no answer: nspawn://none"), "{none:?}");

        // Each damage is found by a plan, and repaired.
        for damage in [
            "machinectl terminate web; while machinectl show web >/dev/null 2>&1; do sleep 0.1; done",
            "systemctl stop systemd-nspawn@web",
            "systemctl kill -s KILL systemd-nspawn@web
            while systemctl is-active --quiet systemd-nspawn@web; do sleep 0.1; done",
            "systemctl disable systemd-nspawn@web",
            "systemctl disable machines.target",
            "systemctl mask systemd-nspawn@web",
        ] {
            host.bash(damage);
            let plan = host.run(&["kilter", "plan", "/srv/machine.yaml"]);
            assert!(plan.code == 2 && plan.stdout.contains("1 to change"), "{damage}: {plan:?}");
            apply(0, "1 changed");
            apply(0, "5 unchanged");
        }

        // Changed settings restart the machine.
        let leader = || host.bash("machinectl show -p Leader --value web");
        let before = leader();
        host.bash("sed -i 's/PrivateUsers=no/PrivateUsers=no\\n      Environment=A=b/' /srv/machine.yaml");
        apply(0, "1 refreshed");
        assert_ne!(before, leader());

        // A machine without a file system is refused with the reason.
        host.bash("printf 'resources:\\n  nspawn[none]: {ensure: running}\\n' >/srv/none.yaml");
        let failed = host.run(&["kilter", "apply", "/srv/none.yaml"]);
        assert!(failed.code != 0 && failed.stdout.contains("No image for machine 'none'"), "{failed:?}");
        let bad = host.run(&["kilter", "set", "nspawn", "../web", "ensure=stopped"]);
        assert!(bad.code != 0 && bad.stderr.contains("is not the name of a machine"), "{bad:?}");

        // kilter run repairs a machine that has powered itself off.
        host.bash(
            "systemd-run --quiet --unit=hold kilter run /srv/machine.yaml
            for try in {1..100}; do kilter status | grep -q '5 in their state' && break; sleep 0.1; done
            leader() { machinectl show -p Leader --value web 2>/dev/null || true; }
            before=$(leader)
            machinectl terminate web
            for try in {1..300}; do
                now=$(leader)
                if [ -n \"$now\" ] && [ \"$now\" != \"$before\" ]; then break; fi
                sleep 0.1
            done
            [ -n \"$now\" ] && [ \"$now\" != \"$before\" ]
            systemctl stop hold",
        );
        host.reboot();
        host.bash(
            "for try in {1..100}; do
                if machinectl show -p State --value web 2>/dev/null | grep -qx running; then exit; fi
                sleep 0.1
            done
            exit 1",
        );

        host.bash("sed -i 's/ensure: running, enable: true/ensure: stopped, enable: false/' /srv/machine.yaml");
        apply(0, "1 changed");
        host.bash("! machinectl show web >/dev/null 2>&1; ! systemctl is-enabled --quiet systemd-nspawn@web");
        apply(0, "5 unchanged");
    });
}
