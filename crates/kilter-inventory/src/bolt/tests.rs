//! Tests of Bolt's format.

use crate::load::tests::{load_files, load_text, members, target};

const BOLT: &str = "
version: 2
vars: {site: fra, tier: none}
config:
  ssh: {user: base, host-key-check: false}
groups:
- name: web
  targets:
  - web1.example.com
  - {uri: 'ssh://ops@10.0.0.7:2222', name: web2, alias: blue, vars: {slot: 2}}
  config: {ssh: {user: deploy, run-as: root, sudo-password: s3cret, connect-timeout: 5}}
  vars: {tier: web, limits: {a: 1}}
  facts: {os: {family: debian, release: 12}}
  features: [shell]
  groups:
  - name: canary
    targets: [blue]
    vars: {limits: {b: 2}}
    facts: {os: {release: 13}}
    config: {ssh: {port: 22}}
- name: other
  targets: [web2]
  vars: {tier: other, only: here}
- name: switches
  targets:
  - name: edge1
    uri: https://admin@edge1:830
    config:
      transport: remote
      remote: {remote-transport: nx9k, run-on: localhost, password: {_plugin: prompt, message: pw}, token: {_plugin: \
      env_var, var: KILTER_TEST_SECRET}}
- name: rest
  targets: [podman://box, local://here]
";

#[test]
fn data_of_all_groups_apply_depth_first() {
    let inventory = load_text("inventory.yaml", BOLT).unwrap();
    assert_eq!(members(&inventory, "web"), "web1.example.com web2");
    assert_eq!(members(&inventory, "all"), "web1.example.com web2 edge1 podman://box local://here");
    let web2 = target(&inventory, "blue");
    assert_eq!(
        (web2.name.as_str(), web2.host().as_str(), web2.user.as_deref(), web2.port),
        ("web2", "10.0.0.7", Some("ops"), Some(2222))
    );
    assert_eq!(web2.groups, ["all", "web", "canary", "other"]);
    let vars = format!("{:?}", web2.vars);
    assert_eq!(vars, r#"{"site": "fra", "tier": "web", "only": "here", "limits": {"b": 2}, "slot": 2}"#);
    assert_eq!(format!("{:?}", web2.facts), r#"{"os": {"family": "debian", "release": 13}}"#);
    assert_eq!(web2.features, ["shell"]);
    assert_eq!(web2.ssh_args, ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oConnectTimeout=5"]);
    let become_ = web2.become_.as_ref().unwrap();
    assert_eq!(
        (become_.method.name(), become_.user.as_str(), become_.password.as_ref().unwrap().as_str()),
        ("sudo", "root", Some("s3cret"))
    );
    let web1 = target(&inventory, "web1.example.com");
    assert_eq!((web1.user.as_deref(), web1.port, web1.address.as_deref()), (Some("deploy"), None, None));
    let way = |name: &str| format!("{:?}", target(&inventory, name).connection);
    assert_eq!(
        way("edge1"),
        r#"Device { transport: "nx9k", attributes: {"host": "edge1", "user": "admin", "port": 830, "password": [redacted], "token": "from-env"} }"#
    );
    assert_eq!(way("podman://box"), r#"Podman { container: "box" }"#);
    assert_eq!(way("local://here"), "Local");
    assert!(!format!("{inventory:?}").contains("s3cret"));
}

#[test]
fn lists_of_files_are_read() {
    let files = [
        (
            "inventory.yaml",
            "groups:\n- name: web\n  targets: {_plugin: yaml, filepath: web.yaml}\n  vars: {_plugin: yaml, filepath: \
             v.yaml}\n",
        ),
        ("web.yaml", "- a\n- {_plugin: yaml, filepath: more.yaml}\n"),
        ("more.yaml", "[b, {name: c}]"),
        ("v.yaml", "{x: 1}"),
    ];
    let inventory = load_files(&files, "inventory.yaml").unwrap();
    assert_eq!(members(&inventory, "web"), "a b c");
    let fault =
        load_files(&[("inventory.yaml", "targets: {_plugin: yaml, filepath: inventory.yaml}")], "inventory.yaml")
            .unwrap_err();
    assert!(fault.contains("a list is expected, not a mapping"), "{fault}");
    let loops = [
        ("inventory.yaml", "targets: {_plugin: yaml, filepath: a.yaml}"),
        ("a.yaml", "{_plugin: yaml, filepath: a.yaml}"),
    ];
    assert!(load_files(&loops, "inventory.yaml").unwrap_err().contains("more than 8 levels deep"));
}

#[test]
fn parts_that_kilter_does_not_have_are_problems_with_their_places() {
    let text = "
groups:
- name: web
  nodes: [a]
  targets:
  - {name: a, config: {transport: winrm}}
  - {name: b, config: {ssh: {run-as-command: [x], usr: y, tmpdir: /x}}}
  - {_plugin: puppetdb, query: x}
  - [x]
  - {name: web}
  - {alias: z}
  - {name: c, vars: {p: {_plugin: vault, path: x}, e: {_plugin: env_var, var: KILTER_NONE}}}
- targets: [a]
- web
";
    let fault = load_text("inventory.yaml", text).unwrap_err();
    for expected in [
        "inventory.yaml:4:3: there is no key `nodes`",
        "inventory.yaml:6:35: kilter has no transport `winrm` of Bolt (known are ssh, local, podman, remote)",
        "inventory.yaml:7:30: kilter has no option `run-as-command` of Bolt's transport ssh",
        "kilter has no option `usr` of Bolt's transport ssh (did you mean `user`?)",
        "inventory.yaml:8:5: kilter has no plugin `puppetdb` of Bolt",
        "inventory.yaml:9:5: a target is a name, or a mapping with `uri` or `name`, not a list",
        "inventory.yaml:10:5: `web` is the name of a group already, and a target cannot have it",
        "inventory.yaml:11:5: the target has no name",
        "kilter has no plugin `vault` of Bolt",
        "the environment has no variable KILTER_NONE (set it, or add `default:` or `optional: true`)",
        "inventory.yaml:13:3: the group has no name",
        "inventory.yaml:14:3: a group is a mapping with `name`, not `web`",
    ] {
        assert!(fault.contains(expected), "{expected}\n---\n{fault}");
    }
    for (text, expected) in [
        ("targets: ['ops:pw@a']", "a password in a uri is not supported"),
        (
            "targets: [{uri: a, config: {ssh: {private-key: {key-data: x}}}}]",
            "`private-key` with key-data is not supported",
        ),
        ("targets: [{uri: a, config: {transport: remote}}]", "a remote target has no `remote-transport`"),
        ("targets: ['-oProxyCommand=x']", "programs would read it as an option"),
        ("targets: [winrm://a]", "kilter has no transport `winrm` of Bolt"),
    ] {
        let fault = load_text("inventory.yaml", text).unwrap_err();
        assert!(fault.contains(expected), "{fault}");
    }
}
