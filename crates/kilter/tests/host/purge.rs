//! The type `resources` on a machine with accounts, hosts and crontabs.

use kilter_testkit::hosts::sandboxed;

use crate::host_with_kilter;

#[test]
fn undeclared_accounts_and_entries_are_removed() {
    sandboxed("purge::undeclared_accounts_and_entries_are_removed", || {
        let host = host_with_kilter("purge");
        host.bash(
            "useradd -m kept; useradd stray; groupadd team; useradd -r system
            echo '10.0.0.9 stray.example.org' >>/etc/hosts
            printf '# Puppet Name: job\\n1 1 * * * true\\n2 2 * * * mine\\n' | crontab -u kept -
            cat >/srv/purge.yaml <<'END'
resources:
  user[kept]: {ensure: present}
  resources[user]: {purge: true}
  resources[group]: {purge: true}
  resources[host]: {purge: true}
  resources[cron]: {purge: true}
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
            grep -q localhost /etc/hosts; ! grep -q stray /etc/hosts
            crontab -l -u kept | grep -q mine; ! crontab -l -u kept | grep -q Puppet",
        );
        assert_eq!(host.run(&["kilter", "plan", "/srv/purge.yaml"]).code, 0);
    });
}
