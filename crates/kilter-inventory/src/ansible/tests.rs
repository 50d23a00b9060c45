//! Tests of Ansible's formats.

use crate::inventory::Inventory;
use crate::load::tests::{load_files, load_text, members, target};

/// Returns the variables of a host, in the order of their names.
fn vars(inventory: &Inventory, name: &str) -> String {
    let mut vars: Vec<String> =
        target(inventory, name).vars.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    vars.sort();
    vars.join(" ")
}

const INI: &str = "
# hosts without a group
lone ansible_host=192.0.2.1
mail:2525

[web]
www[01:03].example.com http_port=80 maxRequestsPerChild=808
alpha ansible_connection=local note=\"two words\" list=\"[1, 'a']\" # comment

[db]
db-[a:b] ansible_user=admin flag=True

[db:vars]
engine=pg
size=5
word = FALSE

[east:children]
web
db   # both

[east:vars]
size=1
ntp=ntp.east.example.com

[all:vars]
site=fra
";

#[test]
fn ini_gives_hosts_groups_and_literals() {
    let inventory = load_text("hosts", INI).unwrap();
    assert_eq!(members(&inventory, "web"), "www01.example.com www02.example.com www03.example.com alpha");
    assert_eq!(members(&inventory, "east"), "www01.example.com www02.example.com www03.example.com alpha db-a db-b");
    assert_eq!(members(&inventory, "ungrouped"), "lone mail");
    assert_eq!(
        vars(&inventory, "db-a"),
        r#"ansible_user="admin" engine="pg" flag=true ntp="ntp.east.example.com" site="fra" size=5 word="FALSE""#
    );
    assert_eq!(
        vars(&inventory, "alpha"),
        r#"ansible_connection="local" list=[1, "a"] note="two words" ntp="ntp.east.example.com" site="fra" size=1"#
    );
    assert_eq!(target(&inventory, "lone").host(), "192.0.2.1");
    assert_eq!(target(&inventory, "mail").port, Some(2525));
    assert_eq!(target(&inventory, "alpha").connection.word(), "local");
    assert_eq!(target(&inventory, "db-a").user.as_deref(), Some("admin"));
    assert_eq!(target(&inventory, "db-a").groups, ["all", "east", "db"]);
}

#[test]
fn problems_of_ini_have_their_lines() {
    let text = "[web]\na b\nc x='y\nd x={{ y }}\n[web:kids]\n[two words]\n[x:vars]\nnothing\n[y:children]\nz z\ngone\n\
                [web]\n-oX\ne:99999\nf[3:1]\n[w] x\n";
    let fault = load_text("hosts", text).unwrap_err();
    for expected in [
        "hosts:2:1: a word after the host has no `=`",
        "hosts:3:1: a quote is not closed",
        "hosts:4:1: a word after the host has no `=`",
        "hosts:5:1: there is no kind of section `kids`",
        "hosts:6:1: `two words` is not a name of a group",
        "hosts:8:1: a line of variables has no `=`",
        "hosts:10:1: `z z` is not a name of a group",
        "hosts:13:1: `-oX` is not a name of a host",
        "hosts:14:1: `99999` is not a port",
        "hosts:15:1: `[3:1]` is not a range",
    ] {
        assert!(fault.contains(expected), "{expected}\n---\n{fault}");
    }
    let fault = load_text("hosts", "[x:vars]\na=1\n[y:children]\nweb\n").unwrap_err();
    assert!(
        fault.contains("hosts:1:1: there is no group `x`") && fault.contains("hosts:4:1: there is no group `web`"),
        "{fault}"
    );
    let fault = load_text("hosts", "a x='{{ y }}'\n").unwrap_err();
    assert!(fault.starts_with("hosts:1:1: the variable `x` has a template of Jinja"), "{fault}");
}

const YAML: &str = "
all:
  hosts:
    mail.example.com:
  vars: {site: fra, mode: 0644, debug: yes}
  children:
    web:
      hosts:
        'www[1:2]:2222': {http_port: 80}
        one:
      vars: {tier: web, level: {a: 1}}
    prod:
      children: {web: , db: {hosts: {db1: }}}
      vars: {tier: prod, level: {b: 2}, ansible_become: true, ansible_become_user: app, ansible_become_password: pw}
";

#[test]
fn yaml_gives_groups_and_precedence() {
    let inventory = load_text("hosts.yml", YAML).unwrap();
    assert_eq!(members(&inventory, "prod"), "www1 www2 one db1");
    assert_eq!(
        vars(&inventory, "www1"),
        "ansible_become=true ansible_become_password=[redacted] ansible_become_user=\"app\" ansible_port=2222 \
         debug=true http_port=80 level={\"a\": 1} mode=420 site=\"fra\" tier=\"web\""
    );
    let become_ = target(&inventory, "db1").become_.clone().unwrap();
    assert_eq!((become_.user.as_str(), become_.password.unwrap().as_str()), ("app", Some("pw")));
    assert_eq!(target(&inventory, "mail.example.com").become_, None);
    for (text, expected) in [
        ("all: [a]", "the group `all` is a mapping, not a list"),
        ("all: {hosts: [a]}", "`hosts` of the group `all` is a mapping, not a list"),
        ("all: {hosts: {a: {x: '{{ y }}'}}}", "hosts.yml:1:22: the variable `x` has a template of Jinja"),
        (
            "all:\n  vars:\n    p: !vault |\n      $ANSIBLE_VAULT;1.1;AES256\n",
            "hosts.yml:4:7: the tag `!vault` is not supported (kilter does not decrypt",
        ),
        ("plugin: aws_ec2", "plugins of Ansible make this inventory"),
        ("- a", "groups are expected, not a list"),
        (
            "all: {hosts: {a: {ansible_connection: winrm}}}",
            "`ansible_connection` of a: kilter has no connection `winrm`",
        ),
        (
            "all: {hosts: {a: {ansible_port: x, ansible_host: -x, ansible_become: maybe, \
             ansible_ssh_common_args: \"'\"}}}",
            "`ansible_port` of a: `x` is not a port",
        ),
    ] {
        let fault = load_text("hosts.yml", text).unwrap_err();
        assert!(fault.contains(expected), "{expected}\n---\n{fault}");
    }
}

#[test]
fn groups_of_one_level_win_by_priority_and_name() {
    let text =
        "[b]\nh\n[a]\nh\n[c]\nh\n[a:vars]\nx=a\ny=a\nansible_group_priority=10\n[b:vars]\nx=b\ny=b\n[c:vars]\ny=c\n";
    assert_eq!(vars(&load_text("hosts", text).unwrap(), "h"), r#"x="a" y="a""#);
    assert_eq!(
        vars(&load_text("hosts", &text.replace("ansible_group_priority=10", "")).unwrap(), "h"),
        r#"x="b" y="c""#
    );
}

#[test]
fn programs_print_groups_and_variables() {
    let list =
        r#"{"web": {"hosts": ["a", "b"], "vars": {"x": 1}, "children": ["sub"]}, "sub": ["c"], "single": {"x": 2}"#;
    let with_meta = format!(
        "#!/bin/sh\necho '{list}, \"_meta\": {{\"hostvars\": {{\"a\": {{\"y\": 1}}, \"zz\": {{\"y\": 2}}}}}}}}'\n"
    );
    let inventory = load_files(&[("program*", &with_meta)], "program").unwrap();
    assert_eq!(members(&inventory, "web"), "a b c");
    assert_eq!((vars(&inventory, "a"), vars(&inventory, "c")), ("x=1 y=1".into(), "x=1".into()));
    assert_eq!(vars(&inventory, "single"), "x=2");
    assert!(inventory.target("zz").is_none());
    let asked = format!(
        "#!/bin/sh\nif [ \"$1\" = --host ]; then echo \"{{\\\"name\\\": \\\"$2\\\"}}\"; else echo '{list}}}'; fi\n"
    );
    let inventory = load_files(&[("program*", &asked)], "program").unwrap();
    assert_eq!(vars(&inventory, "b"), r#"name="b" x=1"#);
    let fault = load_files(
        &[(
            "program*",
            "#!/bin/sh\necho '{\"web\": {\"hosts\": [\"-x\", 3]}, \"v\": {\"vars\": {\"t\": \"{{x}}\"}}}'\n",
        )],
        "program",
    )
    .unwrap_err();
    for expected in [
        "in the group `web`: `-x` is not a name of a host",
        "`3` in the group `web` is no name of a host",
        "program: the variable `t` has a template of Jinja",
    ] {
        assert!(fault.contains(expected), "{fault}");
    }
}

#[test]
fn directory_with_files_of_variables_follows_the_order_of_ansible() {
    let files = [
        ("inv/10-hosts", "[web]\na x=host y=host\nb\n[web:vars]\nx=ini-web\nz=ini-web\nw=ini-web\n"),
        ("inv/20-more.yml", "web: {hosts: {b: {x: later}}, vars: {z: later}}\ntop: {children: {web: }}\n"),
        ("inv/group_vars/all.yml", "x: file-all\nz: file-all\nall: 1\n"),
        ("inv/group_vars/web/one.yml", "z: file-web\n"),
        ("inv/group_vars/web/two.yaml", "v: file-web\n"),
        ("inv/group_vars/web/ignored.txt", "v: no\n"),
        ("inv/host_vars/a", "y: file-host\n"),
        ("inv/README.md", "no"),
    ];
    let inventory = load_files(&files, "inv").unwrap();
    assert_eq!(vars(&inventory, "a"), r#"all=1 v="file-web" w="ini-web" x="host" y="file-host" z="file-web""#);
    assert_eq!(vars(&inventory, "b"), r#"all=1 v="file-web" w="ini-web" x="later" z="file-web""#);
    let vault = [("hosts", "a\n"), ("group_vars/all", "$ANSIBLE_VAULT;1.1;AES256\n00\n")];
    assert!(
        load_files(&vault, "hosts").unwrap_err().contains("group_vars/all: the file is encrypted by Ansible's vault")
    );
}
