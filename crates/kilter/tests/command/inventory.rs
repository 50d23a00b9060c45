//! `kilter inventory`.

use crate::support::Place;

const INVENTORY: &str = "\
hosts:
  web[1:2]:
  db1: {ssh: {host: 10.0.0.9, user: postgres, port: 2222, password: s3cret}, vars: {role: primary, api_password: \
  s3cret}}
  edge1: {transport: {host: 10.1.1.1, password: s3cret}}
  box: {connection: podman}
groups:
  all: {ssh: {user: ops}, vars: {site: fra}}
  web: {hosts: ['web[1:2]'], become: sudo}
  servers: {groups: [web], hosts: [db1]}
  also: {groups: [web]}
  switches: {hosts: edge1, transport: nx9k}
";

fn place() -> Place {
    let place = Place::new();
    place.file("hosts.yaml", INVENTORY);
    place
}

#[test]
fn targets_are_listed_with_their_destinations() {
    let place = place();
    let ended = place.run(&["inventory", "-i", "hosts.yaml"]);
    let expected = "\
NAME   CONNECTION  DESTINATION             BECOME     GROUPS
web1   ssh         ops@web1                sudo root  also, servers, web
web2   ssh         ops@web2                sudo root  also, servers, web
db1    ssh         postgres@10.0.0.9:2222             servers
edge1  device      nx9k 10.1.1.1                      switches
box    podman      box                                ungrouped
";
    assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (0, expected, ""));
    let ended =
        place.end(place.command(&["inventory", "servers:!web1", "--list"]).env("KILTER_INVENTORY", "hosts.yaml"));
    assert_eq!(
        ended.stdout.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(),
        ["db1", "web2"]
    );
    place.file("kilter.yaml", "inventory: hosts.yaml\n");
    let ended = place.end(place.command(&["inventory", "db1"]).env("KILTER_CONFIG", "kilter.yaml"));
    assert!(ended.stdout.contains("postgres@10.0.0.9:2222"), "{}", ended.stderr);
}

#[test]
fn groups_are_a_tree_and_one_target_has_details_without_passwords() {
    let place = place();
    let tree = place.run(&["inventory", "-i", "hosts.yaml", "--graph"]);
    let expected = "\
all:
  servers:
    web:
      web1
      web2
    db1
  also:
    web: (above)
  switches:
    edge1
  ungrouped:
    box
";
    assert_eq!(tree.stdout, expected);
    let host = place.run(&["inventory", "-i", "hosts.yaml", "--host", "db1"]);
    let expected = "\
name: db1
connection:
  kind: ssh
address: 10.0.0.9
user: postgres
port: 2222
password: [redacted]
groups: all, servers
vars:
  site: fra
  role: primary
  api_password: [redacted]
";
    assert_eq!(host.stdout, expected);
    let json = place.run(&["inventory", "-i", "hosts.yaml", "--format", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(shown["groups"]["servers"]["targets"], serde_json::json!(["db1", "web1", "web2"]));
    assert_eq!(shown["targets"][3]["connection"]["attributes"]["password"], "[redacted]");
    assert!(!json.stdout.contains("s3cret"));
    let host = place.run(&["inventory", "-i", "hosts.yaml", "--host", "db"]);
    assert_eq!(
        (host.code, &*host.stderr),
        (1, "error: the inventory has no target `db`\n  hint: did you mean `db1`?\n")
    );
}

#[test]
fn problems_and_selections_without_result_are_reported() {
    let place = place();
    let ended = place.run(&["inventory", "-i", "hosts.yaml", "serves"]);
    let expected = "error: the inventory has no host and no group `serves`\n  hint: did you mean `servers`? \
                    ssh://serves is a host outside of the inventory\n";
    assert_eq!((ended.code, &*ended.stderr), (1, expected));
    place.file("bad.yaml", "hosts:\n  a: {shh: 1}\ngroups: {g: {groups: [x]}}\n");
    let ended = place.run(&["inventory", "-i", "bad.yaml"]);
    assert_eq!((ended.code, &*ended.stdout), (1, ""));
    assert!(
        ended.stderr.starts_with("error: bad.yaml:2:7: there is no option `shh`\n  hint: did you mean `ssh`?\n"),
        "{}",
        ended.stderr
    );
    let ended = place.run_unprivileged(&["inventory"]);
    assert!(
        ended.stderr.starts_with(
            "error: there is no inventory\n  hint: name one with --inventory or KILTER_INVENTORY, or write "
        ),
        "{}",
        ended.stderr
    );
}

#[test]
fn login_password_is_refused_before_a_question() {
    let place = Place::new();
    place.file("hosts.yaml", "hosts: { h: { ssh: { password: { prompt: PW } } } }\n");
    let ended = place.run(&["-i", "hosts.yaml", "--on", "h", "facts"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let refused = "error: the host h: its inventory has a password for the login, and kilter logs in with keys only";
    assert!(ended.stderr.starts_with(refused), "{ended:?}");
}

#[test]
fn root_uses_no_inventory_of_another_user() {
    let place = place();
    let path = place.path().join("hosts.yaml");
    std::os::unix::fs::chown(&path, Some(65533), None).unwrap();
    let ended = place.run(&["inventory", "-i", "hosts.yaml"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("hosts.yaml: not used by root: it belongs to user 65533"), "{}", ended.stderr);
}
