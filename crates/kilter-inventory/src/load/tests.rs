//! Tests of whole inventories in files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::target::{Become, ConnectionKind, Target};
use kilter_model::Value;
use kilter_remote::BecomeMethod;

/// Loads a directory of files; `NAME*` is a program.
pub(crate) fn load_files(files: &[(&str, &str)], name: &str) -> Result<Inventory, String> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name.trim_end_matches('*'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        if name.ends_with('*') {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let options = LoadOptions {
        trust: TrustPolicy::any(),
        variable: &|name| (name == "KILTER_TEST_SECRET").then(|| "from-env".into()),
        cancel: None,
    };
    load(&directory.path().join(name), &options).map_err(|problems| {
        let shown = problems.iter().map(|problem| match &problem.hint {
            Some(hint) => format!("{problem} ({hint})"),
            None => problem.to_string(),
        });
        shown.collect::<Vec<_>>().join("\n").replace(&format!("{}/", directory.path().display()), "")
    })
}

pub(crate) fn load_text(name: &str, text: &str) -> Result<Inventory, String> {
    load_files(&[(name, text)], name)
}

/// Returns the group's members as one text.
pub(crate) fn members(inventory: &Inventory, group: &str) -> String {
    let group = inventory.group(group).unwrap();
    inventory.members(group).map(|target| target.name.as_str()).collect::<Vec<_>>().join(" ")
}

pub(crate) fn target<'a>(inventory: &'a Inventory, name: &str) -> &'a Target {
    inventory.target(name).unwrap()
}

const OWN: &str = "
hosts:
  web[1:3]:
  db1:
    ssh: {host: 10.0.0.9, user: postgres, port: 2222, identity_file: keys/db, jump: bastion, args: [-4]}
    become: false
    vars: {role: primary}
  jail: {connection: {nspawn: jail1}}
  pod: {connection: podman}
  image: {connection: {chroot: /srv/image}}
  me: {connection: local}
  edge1:
    transport: {host: 10.1.1.1, password: s3cret}
groups:
  all:
    ssh: {user: ops}
    become: sudo
    vars: {site: fra, port: 80, db: {password: hidden}}
  web:
    hosts: ['web[1:2]', web3]
    vars: {port: 8080}
    become: {user: www}
  canary: [web3]
  servers:
    groups: [web]
    hosts: db1
    vars: {port: 443, tier: one}
  switches:
    hosts: [edge1]
    transport: {name: nx9k, port: 830}
";

#[test]
fn own_format_gives_targets_groups_and_precedence() {
    let inventory = load_text("hosts.yaml", OWN).unwrap();
    assert_eq!(members(&inventory, "all"), "web1 web2 web3 db1 jail pod image me edge1");
    assert_eq!(members(&inventory, "servers"), "db1 web1 web2 web3");
    assert_eq!(members(&inventory, "ungrouped"), "jail pod image me");
    let web1 = target(&inventory, "web1");
    assert_eq!(web1.groups, ["all", "servers", "web"]);
    assert_eq!(web1.vars["port"], Value::Integer(8080));
    assert_eq!(web1.vars["tier"].to_string(), "one");
    assert_eq!(web1.user.as_deref(), Some("ops"));
    let become_ = Become { method: BecomeMethod::Sudo, user: "www".into(), password: None };
    assert_eq!(web1.become_, Some(become_));
    let db1 = target(&inventory, "db1");
    assert_eq!((db1.host().as_str(), db1.user.as_deref(), db1.port), ("10.0.0.9", Some("postgres"), Some(2222)));
    assert!(db1.identity_file.as_ref().unwrap().is_absolute());
    assert_eq!((db1.jump.as_deref(), db1.ssh_args.join(" "), &db1.become_), (Some("bastion"), "-4".into(), &None));
    let way = |name: &str| format!("{:?}", target(&inventory, name).connection);
    assert_eq!(way("jail"), "Nspawn { machine: \"jail1\" }");
    assert_eq!(way("pod"), "Podman { container: \"pod\" }");
    assert_eq!(way("image"), "Chroot { directory: \"/srv/image\" }");
    assert_eq!(way("me"), "Local");
    assert_eq!(
        way("edge1"),
        "Device { transport: \"nx9k\", attributes: {\"port\": 830, \"host\": \"10.1.1.1\", \"password\": [redacted]} }"
    );
    assert!(!format!("{inventory:?}").contains("hidden"));
    assert_eq!(target(&inventory, "web1").connection, ConnectionKind::Ssh);
}

#[test]
fn program_and_directory_give_the_same_as_one_file() {
    let json = r#"{"hosts": {"web1": {"ssh": {"port": 22}}, "web2": null}, "groups": {"web": ["web1", "web2"]}}"#;
    let program = format!("#!/bin/sh\n[ \"$1\" = --list ] && echo '{json}'\n");
    let inventory = load_files(&[("inventory*", &program)], "inventory").unwrap();
    assert_eq!(members(&inventory, "web"), "web1 web2");
    assert_eq!(target(&inventory, "web1").port, Some(22));
    let files = [
        ("d/10-hosts.yaml", "hosts: [web1, web2]"),
        ("d/20-groups.yaml", "groups: {web: [web1, web2]}"),
        ("d/README.md", "not read"),
        ("d/.hidden.yaml", "not: read"),
    ];
    assert_eq!(members(&load_files(&files, "d").unwrap(), "web"), "web1 web2");
}

#[test]
fn programs_that_fail_are_reported() {
    for (program, expected) in [
        ("#!/bin/sh\necho reason >&2; exit 3\n", "inventory: it ended with exit code 3: reason"),
        ("#!/bin/sh\necho nothing\n", "inventory: its output is not JSON: expected ident at line 1 column 2"),
        ("#!/bin/sh\nyes '{' | tr -d '\\n'\n", "inventory: it printed more than"),
    ] {
        let fault = load_files(&[("inventory*", program)], "inventory").unwrap_err();
        assert!(fault.starts_with(expected), "{fault}");
    }
}

#[test]
fn all_problems_of_a_file_have_their_places() {
    let text = "
hosts:
  web1: {shh: {user: a}}
  web2: {ssh: {prot: 22, port: 0, user: -x}}
  web[9:1]:
  web3: {become: pbrun, connection: telnet}
  web4: {connection: local, transport: nx9k}
groups:
  web: {hosts: [web1], groups: [wbe], ssh: {host: a}}
  loop1: {groups: [loop2]}
  loop2: {groups: [loop1]}
  a b: {}
";
    let fault = load_text("hosts.yaml", text).unwrap_err();
    for expected in [
        "hosts.yaml:3:10: there is no option `shh` (did you mean `ssh`?)",
        "hosts.yaml:4:16: there is no option `prot` (did you mean `port`?)",
        "hosts.yaml:4:32: a port, 1 to 65535, is expected, not `0`",
        "hosts.yaml:4:41: `-x` is not a user: programs would read it as an option",
        "hosts.yaml:5:3: `[9:1]` is not a range: the last number is below the first one (such as web[01:20] or \
         db-[a:f])",
        "hosts.yaml:6:18: sudo, doas, su or run0 is expected, not `pbrun`",
        "hosts.yaml:6:37: ssh, local, {podman: CONTAINER}, {nspawn: MACHINE} or {chroot: DIRECTORY} is expected, not \
         `telnet`",
        "hosts.yaml:7:9: `connection` and `transport` are two ways to reach the target (remove one of them)",
        "hosts.yaml:9:45: `host` is the address of one host: a group has none (write it below the host)",
        "hosts.yaml:12:3: `a b` is not a name of a group (letters, digits, `_`, `-` and `.` are allowed)",
    ] {
        assert!(fault.contains(expected), "{expected}\n---\n{fault}");
    }
    let fault =
        load_text("hosts.yaml", "groups: {web: {groups: [wbe]}, a: {groups: [b]}, b: {groups: [a]}}").unwrap_err();
    assert!(fault.contains("hosts.yaml:1:25: there is no group `wbe` (did you mean `web`?)"), "{fault}");
    assert!(fault.contains("the group `a` is inside of a cycle of groups"), "{fault}");
}

#[test]
fn files_that_are_no_inventory_are_refused() {
    let fault = load_files(&[], "missing").unwrap_err();
    assert_eq!(
        fault,
        "missing: No such file or directory (os error 2) (an inventory is a file, a directory or a program)"
    );
    assert!(load_files(&[("d/x.md", "")], "d").unwrap_err().contains("the directory has no inventory in it"));
    let fault = load_text("h.yaml", "hosts: [a\n").unwrap_err();
    assert!(fault.contains("h.yaml:1:8: not valid YAML"), "{fault}");
    assert!(
        load_text("h.yaml", "hosts: {a: {vars: !vault x}}").unwrap_err().contains("the tag `!vault` is not supported")
    );
}

#[test]
fn hostile_texts_are_bounded() {
    let many = (0..20).map(|at| format!("h{at}x[0:60000]")).collect::<Vec<_>>().join(", ");
    let fault = load_text("h.yaml", &format!("hosts: ['{}']", many.replace(", ", "', '"))).unwrap_err();
    assert!(fault.contains("the inventory has more than 100000 hosts"), "{fault}");
    let bomb = "hosts: [a]\ngroups:\n  a: {vars: {x: &a [1,1,1,1,1,1,1,1,1,1]";
    let aliases: String = (0..7)
        .map(|at| {
            format!(
                ", y{at}: &b{at} [{}]",
                vec![if at == 0 { "*a".into() } else { format!("*b{}", at - 1) }; 10].join(",")
            )
        })
        .collect();
    let fault = load_text("h.yaml", &format!("{bomb}{aliases}}}}}")).unwrap_err();
    assert!(fault.contains("it has more than 1000000 parts"), "{fault}");
    let groups: String = (0..300).map(|at| format!("  g{at}: ['h[0:9999]']\n")).collect();
    let fault = load_text("h.yaml", &format!("groups:\n{groups}")).unwrap_err();
    assert!(fault.contains("the groups have more than 1000000 entries"), "{fault}");
    let deep = format!("hosts: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    let fault = load_text("h.yaml", &deep).unwrap_err();
    assert!(fault.contains("recursion limit exceeded"), "{fault}");
}

#[test]
fn directory_that_contains_itself_is_one_problem() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(".", directory.path().join("loop")).unwrap();
    fs::write(directory.path().join("x.yaml"), "hosts: [a]").unwrap();
    let options = LoadOptions { trust: TrustPolicy::any(), variable: &|_| None, cancel: None };
    let problems = load(directory.path(), &options).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.contains("8 directories deep"), "{}", problems[0]);
}

/// Generator of random numbers, with the constants of Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    /// Returns a text with some characters removed, doubled, moved or replaced.
    fn damaged(&mut self, text: &str) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..1 + self.below(6) {
            if chars.is_empty() {
                break;
            }
            let at = self.below(chars.len());
            match self.below(5) {
                0 => drop(chars.remove(at)),
                1 => chars.insert(at, chars[at]),
                2 => chars.truncate(at),
                3 => {
                    let other = self.below(chars.len());
                    chars.swap(at, other);
                }
                _ => {
                    chars[at] = ['[', ']', ':', '{', '}', '"', '\'', '#', '-', '\\', '\n', '&', '*', '!', '~', 'é']
                        [self.below(16)]
                }
            }
        }
        chars.into_iter().collect()
    }
}

#[test]
fn damaged_texts_give_targets_or_problems() {
    let ini =
        "[web]\nwww[01:03].example.com:22 a=\"[1, {'b': 2}]\"\n[web:vars]\nansible_become=True\n[top:children]\nweb\n";
    let bolt = "groups:\n- name: web\n  targets: [a, {uri: 'ssh://u@b:22', alias: x}]\n  config: {ssh: {run-as: \
                root}}\nvars: {a: {_plugin: prompt, message: m}}\n";
    let ansible =
        "all:\n  children:\n    web: {hosts: {'a[1:3]:22': {ansible_port: 5}}, vars: {x: 0644, <<: {y: yes}}}\n";
    let selector = "~(web|db)[12],web[0:2]:&prod,!lone,[a-c]*";
    let condition = "vars.site == \"ams\" && !(\"web\" in groups) || has(vars.x)";
    let inventory = load_text("hosts.yaml", OWN).unwrap();
    let mut random = Random(7);
    for _ in 0..150 {
        for (name, text) in [("h.yaml", OWN), ("hosts", ini), ("bolt.yaml", bolt), ("a.yaml", ansible)] {
            let damaged = random.damaged(text);
            if let Err(fault) = load_text(name, &damaged) {
                assert!(fault.starts_with(name), "{fault}\n---\n{damaged}");
            }
        }
        for text in [selector, condition] {
            if let Ok(selector) = crate::Selector::parse(&random.damaged(text)) {
                let _ = selector.select(&inventory);
            }
        }
    }
}
