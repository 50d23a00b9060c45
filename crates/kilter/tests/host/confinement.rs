//! A process that only reads cannot change the machine: in a service as systemd starts it, under the filters
//! that are there already.

use kilter_testkit::hosts::{Host, sandboxed};

use crate::host_with_kilter;

/// A provider that writes whenever it is asked.
fn prober(host: &Host, name: &str, metadata: &str) {
    host.bash(&format!(
        "mkdir -p /opt/providers && cd /opt/providers
        cat >{name}.prov <<'END'
#!/bin/bash
echo probed >/etc/{name}
printf '# simple\\nname: a\\nvalue: read\\n'
END
        cat >{name}.yaml <<'END'
provider:
  type: {name}
  desc: Writes when it is asked.
  invoke: simple
  suitable: true
  actions: [list, find]
{metadata}  attributes:
    name: {{desc: Which.}}
    value: {{type: string, desc: What.}}
END
        chmod 755 {name}.prov"
    ));
}

#[test]
fn a_script_that_writes_while_it_reads_is_refused_and_named() {
    sandboxed("confinement::a_script_that_writes_while_it_reads_is_refused_and_named", || {
        let host = host_with_kilter("cell");
        prober(&host, "probe", "");
        prober(&host, "licence", "  confine: false\n");

        let read = host.run(&["kilter", "-I", "/opt/providers", "get", "probe"]);
        assert!(!host.root().join("etc/probe").exists(), "it was written: {read:#?}");
        assert_eq!(read.code, 0, "{read:#?}");
        assert!(read.stdout.contains("read"), "what it says is taken all the same: {read:#?}");
        assert!(
            read.stderr.contains("the provider `probe` tried to write /etc/probe while it was only read (list)"),
            "{read:#?}"
        );

        let read = host.run(&["kilter", "-I", "/opt/providers", "get", "licence"]);
        assert_eq!((read.code, &*read.stderr), (0, ""), "{read:#?}");
        let written = std::fs::read_to_string(host.root().join("etc/licence")).unwrap();
        assert_eq!(written, "probed\n", "nothing but its confinement was in the way of the other");
    });
}

#[test]
fn guard_in_plan_queries_services_and_cannot_write() {
    sandboxed("confinement::guard_in_plan_queries_services_and_cannot_write", || {
        let host = host_with_kilter("cell");
        let manifest = "resources:
  exec[active]: { command: 'false', unless: systemctl is-active cron }
  exec[enabled]: { command: 'false', unless: systemctl is-enabled cron }
  exec[as user]: { command: 'false', unless: 'test -r /etc/passwd -a ! -r /etc/shadow', user: nobody, shell: true }
  exec[switches user]: { command: 'false', unless: 'runuser -u nobody -- id' }
  exec[crontab]: { command: 'false', onlyif: 'crontab -l -u root' }
  exec[lock]: { command: 'false', unless: 'mkdir /run/lock/guard' }
";
        std::fs::write(host.root().join("root/site.yaml"), manifest).unwrap();
        let plan = host.run(&["kilter", "plan", "/root/site.yaml"]);
        assert_eq!(plan.code, 2, "{plan:#?}");
        assert!(plan.stdout.contains("6 resources: 1 not known yet, 5 unchanged"), "{plan:#?}");
        assert!(
            plan.stderr
                .contains("exec[lock]: the guard `mkdir /run/lock/guard` (unless) tried to make /run/lock/guard"),
            "{plan:#?}"
        );
        assert_eq!(plan.stderr.matches("the guard").count(), 1, "{plan:#?}");
        assert!(!host.root().join("run/lock/guard").exists());
    });
}
