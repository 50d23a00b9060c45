//! The type `resources` on a machine with accounts, hosts and crontabs.

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;

#[test]
fn undeclared_accounts_and_entries_are_removed() {
    sandboxed("purge::undeclared_accounts_and_entries_are_removed", || {
        let host = host_with_kilter("purge");
        host.bash(
            "useradd -m kept; useradd stray; groupadd team; useradd -r system; useradd listed; groupadd shared
            for user in timed owner jobber runner logger; do useradd $user; done
            echo '10.0.0.9 stray.example.org' >>/etc/hosts
            printf '# Puppet Name: job\\n1 1 * * * true\\n2 2 * * * mine\\n' | crontab -u kept -
            cat >/srv/purge.yaml <<'END'
resources:
  user[kept]: {ensure: present}
  resources[user]: {purge: true}
  resources[group]: {purge: true}
  resources[host]: {purge: true}
  resources[cron]: {purge: true}
  systemd_timer[job]: {command: 'sleep 1', on_calendar: daily, user: timed}
  file[/srv/data]: {ensure: directory, owner: owner, group: shared, acl: {managed: ['user:listed:r']}}
  file[/srv/gone]: {ensure: absent, owner: stray}
  cron[jobber:daily]: {command: 'true', special: daily}
  exec[true]: {user: runner, creates: /etc/passwd}
  ssh_authorized_key[logger:me]:
    type: ssh-ed25519
    key: AAAAC3NzaC1lZDI1NTE5AAAAIBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB
    require: file[/home/logger]
  file[/home/logger]: {ensure: directory, owner: logger}
END",
        );
        let before = host.bash("getent passwd | wc -l; getent group | wc -l");
        let plan = host.run(&["kilter", "plan", "/srv/purge.yaml"]);
        assert_eq!(plan.code, 2, "{plan:?}");
        for entry in ["user[stray]", "group[team]", "host[stray.example.org]", "cron[kept:job]"] {
            assert!(plan.stdout.contains(&format!("    {entry}: ensure: present → absent")), "{entry}: {plan:?}");
        }
        assert_eq!(host.bash("getent passwd | wc -l; getent group | wc -l"), before, "a plan changes nothing");
        let applied = host.run(&["kilter", "apply", "/srv/purge.yaml"]);
        assert_eq!(applied.code, 0, "{applied:?}");
        host.bash(
            "! id stray; ! getent group team; id kept; id system; id root; id nobody; getent group nogroup
            id timed; id owner; id jobber; id runner; id logger; id listed; getent group shared
            grep -q localhost /etc/hosts; ! grep -q stray /etc/hosts
            crontab -l -u kept | grep -q mine; ! crontab -l -u kept | grep -q Puppet",
        );
        assert_eq!(host.run(&["kilter", "plan", "/srv/purge.yaml"]).code, 0);
    });
}

/// The package sudo refuses its removal while root has no password.
const SERVER: &str = "\
resources:
  package[app]: {ensure: present}
  resources[package]: {purge: true, except: [tool, sudo]}
  file[/etc/systemd/system/app.service]:
    content: |
      [Service]
      ExecStart=sleep infinity
      [Install]
      WantedBy=multi-user.target
  service[app]: {ensure: running, enable: true}
  systemd_timer[job]: {command: 'sleep 1', on_calendar: daily}
  resources[service]: {purge: true}
  ssh_authorized_key[me@laptop]:
    user: alice
    type: ssh-ed25519
    key: AAAAC3NzaC1lZDI1NTE5AAAAIBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB
  resources[ssh_authorized_key]: {purge: true}
";

#[test]
fn undeclared_packages_keys_and_services_go_and_the_system_stays() {
    sandboxed("purge::undeclared_packages_keys_and_services_go_and_the_system_stays", || {
        let host = host_with_kilter("purge");
        host.bash(&format!(
            "useradd -m alice
            for user in alice root; do
                home=$(getent passwd $user | cut -d: -f6); mkdir -p $home/.ssh; chmod 700 $home/.ssh
                echo 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA old' \\
                    >>$home/.ssh/authorized_keys
                chown -R $user: $home/.ssh
            done
            package() {{
                mkdir -p /srv/$1/DEBIAN /srv/$1/usr/share/$1
                printf 'Package: %s\\nVersion: 1\\nArchitecture: all\\nMaintainer: me <me@example.org>\\n' $1 \\
                    >/srv/$1/DEBIAN/control
                printf 'Description: one\\nPriority: optional\\n%s' \"$2\" >>/srv/$1/DEBIAN/control
                dpkg-deb --build /srv/$1 >/dev/null; dpkg -i /srv/$1.deb
            }}
            package applib ''
            package app 'Depends: applib
'
            package tool ''
            package straylib ''
            package stray 'Depends: straylib
'
            printf '[Service]\\nExecStart=sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' \\
                >/etc/systemd/system/stray.service
            systemctl daemon-reload; systemctl enable --now stray
            cat >/srv/purge.yaml <<'END'\n{SERVER}END"
        ));
        let before = host.bash("dpkg-query -W -f '${Package}\\n' | sort");
        let plan = host.run(&["kilter", "plan", "/srv/purge.yaml"]);
        assert_eq!(plan.code, 2, "{plan:?}");
        for entry in [
            "package[stray]: ensure: present → absent",
            "package[straylib]: ensure: present → absent",
            "service[stray]: ensure: running → stopped",
            "service[stray]: enable: true → false",
            "ssh_authorized_key[alice:old]: ensure: present → absent",
        ] {
            assert!(plan.stdout.contains(&format!("    {entry}")), "{entry}: {}", plan.stdout);
        }
        for kept in ["[app", "[tool]", "[root:old]", "openssh-server", "service[ssh]", "service[cron]"] {
            let removals: Vec<&str> = plan.stdout.lines().filter(|line| line.starts_with("    ")).collect();
            assert!(
                !removals.iter().any(|line| line.contains(kept) && line.contains(" → absent")),
                "{kept}: {removals:#?}"
            );
        }
        let applied = host.run(&["kilter", "apply", "/srv/purge.yaml"]);
        assert_eq!(applied.code, 0, "{applied:?}");
        let after = host.bash("dpkg-query -W -f '${Package}\\n' | sort");
        let gone: Vec<&str> = before.lines().filter(|name| !after.lines().any(|left| left == *name)).collect();
        assert!(gone.contains(&"stray") && gone.contains(&"straylib"), "{gone:?}");
        assert!(!gone.contains(&"app") && !gone.contains(&"applib") && !gone.contains(&"tool"), "{gone:?}");
        println!("removed packages: {gone:?}");
        host.bash(
            "systemctl is-active --quiet app; ! systemctl is-active --quiet stray; ! systemctl is-enabled --quiet stray
            systemctl is-active --quiet ssh cron; [ -e /etc/systemd/system/stray.service ]
            systemctl is-active --quiet job.timer; systemctl start job
            grep -q BBBB ~alice/.ssh/authorized_keys; ! grep -q ' old' ~alice/.ssh/authorized_keys
            grep -q ' old' /root/.ssh/authorized_keys",
        );
        let again = host.run(&["kilter", "plan", "/srv/purge.yaml"]);
        assert_eq!(again.code, 0, "{again:?}");
        // The machine boots without the removed packages.
        host.reboot();
    });
}
