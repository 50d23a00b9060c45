//! Another user on a host by `run0`, a part of systemd 256 and later.

use kilter_testkit::fleet::Fleet;
use kilter_testkit::hosts::sandboxed_on;

use crate::KILTER;

/// Allows the user `ops` to start units, as an administrator does for users of `run0` without a password.
const RULE: &str = r#"polkit.addRule(function(action, subject) {
  if (action.id == "org.freedesktop.systemd1.manage-units" && subject.user == "ops") return polkit.Result.YES;
});
"#;

#[test]
fn run0_becomes_root_and_leaves_no_unit() {
    sandboxed_on("trixie", "run0::run0_becomes_root_and_leaves_no_unit", || {
        let fleet = &Fleet::boot(KILTER.into(), 1, &[]).unwrap();
        let host = fleet.host(1);
        host.bash(
            "useradd --create-home --shell /bin/bash ops
            install -d -m 700 -o ops -g ops /home/ops/.ssh
            install -m 600 -o ops -g ops /root/.ssh/authorized_keys /home/ops/.ssh",
        );
        let ssh = format!("ssh: {{user: ops, host: {}}}", host.address());
        fleet.write("hosts.yaml", &format!("hosts:\n  h1: {{{ssh}}}\n")).unwrap();
        fleet.write("site.yaml", "resources: {file: {/srv/f: {content: x, owner: root, mode: '0600'}}}\n").unwrap();
        let kilter = |code: i32, args: &[&str]| {
            let ended = fleet.kilter(&[&["--on", "h1", "--become-method", "run0"], args].concat());
            assert_eq!(ended.code, code, "{args:?}: {}{}", ended.stdout, ended.stderr);
            format!("{}{}", ended.stdout, ended.stderr)
        };
        let refused = kilter(4, &["plan", "site.yaml"]);
        assert!(refused.contains("run0 on the host: Failed to start transient service unit: "), "{refused}");

        let rules = "/etc/polkit-1/rules.d/50-ops.rules";
        host.bash(&format!("cat >{rules} <<'END'\n{RULE}END\nsystemctl restart polkit"));
        kilter(2, &["plan", "site.yaml"]);
        kilter(0, &["apply", "--yes", "site.yaml"]);
        assert_eq!(host.bash("stat -c '%U %a' /srv/f"), "root 600\n");
        host.bash("echo drift >/srv/f");
        let held = kilter(0, &["run", "--converged-exit", "--converged-timeout", "0", "site.yaml"]);
        assert!(held.contains("1 change meanwhile"), "{held}");
        let of_user = kilter(0, &["--become-user", "nobody", "facts", "identity.user"]);
        assert!(of_user.contains("nobody"), "{of_user}");
        assert_eq!(
            host.bash("systemctl list-units --plain --no-legend 'run-*.service' | grep -v ' --plain' || true"),
            ""
        );
    });
}
