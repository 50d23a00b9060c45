//! The type `systemd_timer` with the real systemd.

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;

const TIMER: &str = "\
resources:
  user[backup2]: {ensure: present}
  systemd_timer[backup]:
    command: [sh, -c, 'id -un >/tmp/ran; echo \"100 %\" \"$$\" >/tmp/args']
    on_calendar: ['*-*-* 03:15', 'Mon 06:00']
    user: backup2
    persistent: true
    randomized_delay_sec: 10m
    description: Nightly 100 % backup
";

#[test]
fn timer_is_held_and_repaired() {
    sandboxed("timers::timer_is_held_and_repaired", || {
        let host = host_with_kilter("timer");
        host.bash(&format!("cat >/srv/timer.yaml <<'END'\n{TIMER}END"));
        let apply = |code: i32, shown: &str| {
            let applied = host.run(&["kilter", "apply", "/srv/timer.yaml"]);
            assert!(applied.code == code && applied.stdout.contains(shown), "{shown}: {applied:?}");
        };
        let plan = host.run(&["kilter", "plan", "/srv/timer.yaml"]);
        assert_eq!(plan.code, 2, "{plan:?}");
        apply(0, "2 changed");
        host.bash(
            "systemctl is-active backup.timer; systemctl is-enabled backup.timer
            systemd-analyze verify /etc/systemd/system/backup.timer /etc/systemd/system/backup.service
            systemctl list-timers | grep -q backup.timer
            systemctl show -P Description backup.timer | grep -qx 'Nightly 100 % backup'
            systemctl start backup; [ \"$(cat /tmp/ran)\" = backup2 ]; grep -Eq '^100 % [0-9]+$' /tmp/args",
        );
        apply(0, "2 unchanged");
        for (more, why, code) in [
            ("user: nosuch, command: sh", "there is no user nosuch", [4, 4]),
            ("command: /srv/nosuch", "there is no program /srv/nosuch", [2, 0]),
        ] {
            host.bash(&format!(
                "printf 'resources:\n  systemd_timer[new]: {{on_calendar: daily, {more}}}\n' >/srv/new.yaml"
            ));
            for (verb, code) in ["plan", "apply"].into_iter().zip(code) {
                let ended = host.run(&["kilter", verb, "/srv/new.yaml"]);
                assert!(ended.code == code && ended.stdout.contains(why), "{verb} {more}: {ended:?}");
            }
        }
        host.bash("kilter set systemd_timer new ensure=absent");
        // A declared file or an earlier package may bring the program.
        host.bash(
            "printf 'resources:\n  file[/srv/job]: {content: \"#!/bin/sh\\n\", mode: \"0755\"}\n  systemd_timer[new]: \
             {on_calendar: daily, command: /srv/job}\n  systemd_timer[cow]: {on_calendar: daily, command: \
             /usr/games/cowsay, require: \"exec[install]\"}\n  exec[install]: {command: \"true\"}\n' >/srv/new.yaml",
        );
        let plan = host.run(&["kilter", "plan", "/srv/new.yaml"]);
        assert!(plan.code == 2 && plan.stdout.contains("4 to change"), "{plan:?}");

        // Each damage is found by a plan, and repaired.
        for damage in [
            "systemctl stop backup.timer",
            "systemctl disable backup.timer",
            "systemctl mask --now backup.timer || rm /etc/systemd/system/backup.timer; systemctl daemon-reload",
            "rm /etc/systemd/system/backup.service; systemctl daemon-reload",
            "sed -i s/backup2/root/ /etc/systemd/system/backup.service; systemctl daemon-reload",
            "echo Nice=5 >>/etc/systemd/system/backup.service",
            "mkdir /etc/systemd/system/backup.service.d
            printf '[Service]\\nNice=5\\n' >/etc/systemd/system/backup.service.d/nice.conf",
        ] {
            host.bash(damage);
            let plan = host.run(&["kilter", "plan", "/srv/timer.yaml"]);
            assert!(plan.code == 2 && plan.stdout.contains("1 to change"), "{damage}: {plan:?}");
            apply(0, "1 changed");
            apply(0, "2 unchanged");
        }

        // A changed time takes effect without a restart of the timer.
        let next = || host.bash("systemctl show -P NextElapseUSecRealtime backup.timer");
        let before = next();
        host.bash("sed -i \"s/'\\*-\\*-\\* 03:15', 'Mon 06:00'/'2199-01-01'/\" /srv/timer.yaml");
        apply(0, "1 changed");
        assert!(before != next() && next().contains("2199-01-01"), "{before} {}", next());
        host.bash("systemctl start backup; [ \"$(systemctl show -P Nice backup)\" = 5 ]");

        // A bad time is refused by the plan.
        host.bash("sed 's/2199-01-01/Monday or so/' /srv/timer.yaml >/srv/bad.yaml");
        let bad = host.run(&["kilter", "plan", "/srv/bad.yaml"]);
        assert!(bad.code == 4 && format!("{bad:?}").contains("on_calendar: systemd-analyze failed"), "{bad:?}");

        // kilter run repairs a stopped timer by an event.
        host.bash(
            "systemd-run --quiet --unit=hold kilter run /srv/timer.yaml
            for try in {1..100}; do kilter status | grep -q '2 in their state' && break; sleep 0.1; done
            systemctl stop backup.timer
            for try in {1..100}; do systemctl is-active --quiet backup.timer && break; sleep 0.1; done
            systemctl is-active backup.timer; systemctl stop hold",
        );
        host.reboot();
        host.bash("systemctl is-active backup.timer");

        host.bash("printf 'resources:\\n  systemd_timer[backup]: {ensure: absent}\\n' >/srv/timer.yaml");
        apply(0, "1 changed");
        host.bash(
            "[ ! -e /etc/systemd/system/backup.timer ]; ! systemctl cat backup.timer; ! systemctl is-active \
                   backup.timer",
        );
        apply(0, "1 unchanged");
    });
}
