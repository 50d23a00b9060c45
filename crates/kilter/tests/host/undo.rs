//! `kilter undo` of accounts and kernel parameters.

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;

const ADDITIONS: &str = "\
resources:
  user[bad]: {groups: [sudo]}
  group[mg]: {members: [bad], auth_membership: false}
  sysctl[net.ipv4.ip_forward]: {value: 1}
";

#[test]
fn memberships_and_live_values_are_as_before_the_undone_run() {
    sandboxed("undo::memberships_and_live_values_are_as_before_the_undone_run", || {
        let host = host_with_kilter("undo");
        let check = "[ \"$(id -Gn bad)\" = 'bad adm' ]; [ \"$(getent group mg | cut -d: -f4)\" = games ]
            [ \"$(cat /proc/sys/net/ipv4/ip_forward)\" = 0 ]; [ ! -e /etc/sysctl.d/zz-kilter.conf ]";
        host.bash(&format!(
            "useradd -G adm bad; groupadd mg; gpasswd -a games mg; echo 0 >/proc/sys/net/ipv4/ip_forward
            cat >/srv/site.yaml <<'END'\n{ADDITIONS}END\n{check}"
        ));
        let applied = host.run(&["kilter", "apply", "/srv/site.yaml"]);
        assert!(applied.code == 0 && applied.stdout.contains("3 changed"), "{applied:?}");
        let undone = host.run(&["kilter", "undo", "last"]);
        assert!(undone.code == 0 && undone.stdout.contains("3 resources: 3 changed"), "{undone:?}");
        host.bash(check);
    });
}
