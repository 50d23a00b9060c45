//! `kilter graph`.

use std::os::unix::fs::PermissionsExt;

use kilter_testkit::declarations::Declarations;

use crate::support::{Place, snapshot};

const MANIFEST: &str = "\
resources:
  file[/kilter/conf.d/app]:
    content: ${exec[token].stdout}
    notify: exec[reload]
  exec[reload]: { command: [/bin/true], refreshonly: true }
  file[/kilter/conf.d]: { ensure: directory }
  file[/kilter]: { ensure: directory }
  exec[token]: { command: [/bin/echo, x], before: 'notify[done]' }
  notify[done]: { require: 'exec[reload]' }
  notify[alone]: {}
";

#[test]
fn a_manifest_is_drawn_in_every_format() {
    let place = Place::new();
    let manifest = place.file("m.yaml", MANIFEST);
    for (format, name) in [
        ("human", "graph.txt"),
        ("json", "graph.json"),
        ("dot", "graph.dot"),
        ("mermaid", "graph.mmd"),
        ("svg", "graph.svg"),
    ] {
        let ended = place.run(&["graph", &manifest, "--format", format]);
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{format}");
        snapshot(name, &ended.stdout);
    }
}

/// The edges that nobody wrote, as `first < second`.
fn automatic(resources: &str) -> Vec<String> {
    let place = Place::new();
    let manifest = place.file("m.yaml", format!("resources:\n{resources}"));
    let ended = place.run(&["graph", &manifest, "--format", "json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let graph: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let edges = graph["edges"].as_array().unwrap().iter().filter(|edge| edge["origin"] == "automatic");
    let mut edges: Vec<String> = edges
        .map(|edge| format!("{} < {}", edge["first"].as_str().unwrap(), edge["second"].as_str().unwrap()))
        .collect();
    edges.sort_unstable();
    edges
}

#[test]
fn file_runs_after_nearest_declared_directory() {
    let directories = ["/tmp/a/b", "/tmp/a"].map(|path| format!("  file[{path}]: {{ensure: directory}}\n"));
    let file = "  file[/tmp/a/b/c]: {content: c}\n";
    let [b, a] = &directories;
    assert_eq!(automatic(&format!("{file}{a}")), ["file[/tmp/a] < file[/tmp/a/b/c]"]);
    let nearest = ["file[/tmp/a/b] < file[/tmp/a/b/c]", "file[/tmp/a] < file[/tmp/a/b]"];
    assert_eq!(automatic(&format!("{file}{a}{b}")), nearest);
    // What is not above it only begins like it.
    assert_eq!(
        automatic(&format!("{file}  file[/tmp/a/b/cc]: {{}}\n  file[/tmp/ab]: {{ensure: directory}}\n")),
        [""; 0]
    );
    let opted_out = file.replace("content: c", "content: c, meta: {autoedge: false}");
    assert_eq!(automatic(&format!("{opted_out}{b}")), [""; 0]);
    let opted_out = b.replace("ensure: directory", "ensure: directory, meta: {autoedge: false}");
    assert_eq!(automatic(&format!("{file}{opted_out}")), [""; 0], "nothing leads from what wants no edges");
}

#[test]
fn packages_run_after_repositories_except_those_that_a_repository_needs() {
    let repositories = "  apt_repository[a]: {uris: \"https://a.example\", suites: ./, require: 'package[gnupg]'}\n  \
                        apt_repository[b]: {ensure: absent}\n";
    let packages = "  package[ca-certificates]: {}\n  package[gnupg]: {}\n  package[nginx]: {}\n  \
                    package[old]: {ensure: absent}\n  package[requests]: {provider: pip}\n";
    let edges = [
        "apt_repository[a] < package[nginx]",
        "apt_repository[b] < package[ca-certificates]",
        "apt_repository[b] < package[gnupg]",
        "apt_repository[b] < package[nginx]",
        "package[ca-certificates] < apt_repository[a]",
    ];
    assert_eq!(automatic(&format!("{packages}{repositories}")), edges);
    assert_eq!(automatic(&format!("{repositories}{packages}")), edges);
}

#[test]
fn accounts_are_ordered_with_groups_and_owned_files() {
    let made = "  file[/srv/x]: {owner: deploy, group: staff}\n  user[deploy]: {gid: staff, groups: [docker]}\n  \
                group[docker]: {}\n  group[staff]: {}\n";
    let edges = [
        "group[docker] < user[deploy]",
        "group[staff] < file[/srv/x]",
        "group[staff] < user[deploy]",
        "user[deploy] < file[/srv/x]",
    ];
    assert_eq!(automatic(made), edges);
    let numbered =
        "  file[/srv/x]: {owner: 4711, group: \"4712\"}\n  user[deploy]: {uid: 4711}\n  group[staff]: {gid: 4712}\n";
    assert_eq!(automatic(numbered), ["group[staff] < file[/srv/x]", "user[deploy] < file[/srv/x]"]);
    // A number is nobody's before the account is there, and the file can be.
    let around = "  file[/srv/x]: {owner: 4711}\n  user[deploy]: {uid: 4711}\n  \
                  exec[mk]: {require: \"file[/srv/x]\", before: \"user[deploy]\"}\n";
    assert_eq!(automatic(around), [""; 0]);
    // A group runs after its members, except after those that run after the group.
    let listed = "  group[ops]: {members: [alice, bob, carl]}\n  user[alice]: {}\n  user[bob]: {groups: [ops]}\n  \
                  user[carl]: {gid: ops}\n";
    assert_eq!(automatic(listed), ["group[ops] < user[bob]", "group[ops] < user[carl]", "user[alice] < group[ops]"]);
    let gone = "  group[deploy]: {ensure: absent}\n  user[deploy]: {ensure: absent}\n";
    assert_eq!(automatic(gone), ["user[deploy] < group[deploy]"]);
}

const KEY: &str = "type: ssh-ed25519, key: AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";

#[test]
fn entries_of_a_user_are_removed_before_the_user() {
    let entries = |ensure: &str| {
        format!(
            "  cron[job]: {{user: ci, command: /bin/true, ensure: {ensure}}}\n  \
             ssh_authorized_key[work]: {{user: ci, ensure: {ensure}, {KEY}}}\n  \
             systemd_timer[tick]: {{user: ci, command: [/bin/true], on_calendar: daily, ensure: {ensure}}}\n"
        )
    };
    let user = |ensure: &str| format!("  user[ci]: {{ensure: {ensure}}}\n");
    let removed = ["cron[job] < user[ci]", "ssh_authorized_key[work] < user[ci]", "systemd_timer[tick] < user[ci]"];
    assert_eq!(automatic(&format!("{}{}", user("absent"), entries("absent"))), removed);
    let after = ["user[ci] < cron[job]", "user[ci] < ssh_authorized_key[work]", "user[ci] < systemd_timer[tick]"];
    assert_eq!(automatic(&format!("{}{}", user("present"), entries("present"))), after);
    assert_eq!(automatic(&format!("{}{}", user("present"), entries("absent"))), after);
}

/// A type of packages that are lists in a directory, as those of dpkg are.
fn packer() -> Place {
    let place = Place::new();
    let at = place.path().display();
    let metadata = format!(
        "provider:\n  type: pack\n  invoke: simple\n  actions: [find, update]\n  suitable: true\n  owns:\n    \
         lists: '{at}/${{vars.name}}.list'\n    shared: [/*, /usr/**]\n  attributes:\n    name:\n    \
         ensure: {{type: 'enum[present, absent]'}}\n"
    );
    std::fs::create_dir(place.path().join("providers")).unwrap();
    place.file("providers/pack.yaml", metadata);
    let script = place.file("providers/pack.prov", "#!/bin/sh\nexit 1\n");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.file("web.list", "/.\n/etc\n/etc/web\n/etc/web/web.conf\n/usr\n/usr/sbin\n/usr/sbin/web\n/usr/bin/awk\n");
    place
}

const PACKED: &str = "resources:
  pack[web]: {}
  pack[not-yet]: {}
  file[/etc/web/web.conf]: {content: x}
  file[/etc/web/sites/mine]: {content: x}
  file[/etc/other]: {content: x}
  exec[web -t]: {path: '/usr/sbin:/usr/bin'}
  exec[other]: {command: [/bin/awk], unless: [[/usr/sbin/webb]]}
  exec[left alone]: {command: [/usr/sbin/web], meta: {autoedge: false}}
";

#[test]
fn package_runs_before_its_files_and_programs() {
    let place = packer();
    let manifest = place.file("m.yaml", PACKED);
    let drawn = place.run(&["-I", ".", "graph", &manifest]);
    let expected = "pack[web]
pack[not-yet]
file[/etc/web/web.conf]
    after pack[web] (automatic: owner)
file[/etc/web/sites/mine]
    after pack[web] (automatic: owner)
file[/etc/other]
exec[web -t]
    after pack[web] (automatic: owner)
exec[other]
    after pack[web] (automatic: owner)
exec[left alone]
8 resources, 4 edges: 4 automatic
";
    assert_eq!((drawn.stdout.as_str(), drawn.stderr.as_str()), (expected, ""));
}

/// Installs a provider of this repository with its metadata, with the lists of dpkg in the test directory, on any
/// machine.
fn shipped(place: &Place, name: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let metadata = std::fs::read_to_string(file.with_extension("yaml")).unwrap();
    let is_kept = |line: &&str| !line.starts_with("  suitable:") && !line.starts_with("  default:");
    let lines: Vec<&str> = metadata.lines().filter(is_kept).chain(["  suitable: true", "  default: true"]).collect();
    let metadata = lines.join("\n").replace("/var/lib/dpkg/info", &place.path().display().to_string());
    std::fs::create_dir_all(place.path().join("providers")).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    place.file(&format!("providers/{name}.yaml"), metadata + "\n");
    let script = place.file(&format!("providers/{name}.prov"), "#!/bin/sh\nexit 1\n");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn shared_directories_have_no_owning_package() {
    let is_directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let directories = std::fs::read_dir("/lib").unwrap().map(Result::unwrap).filter(is_directory);
    let directory = directories.map(|entry| entry.file_name().into_string().unwrap()).min().unwrap();
    let place = Place::new();
    shipped(&place, "examples/providers/apt");
    shipped(&place, "examples/providers/systemctl");
    // As packages were made before `/lib` was a link.
    place.file("web.list", format!("/.\n/lib\n/lib/{directory}\n/lib/{directory}/web\n"));
    let manifest = place.file(
        "m.yaml",
        format!(
            "resources:\n  package[web]: {{}}\n  file[/lib/{directory}/web]: {{content: x}}\n  \
             file[/lib/{directory}/mine]: {{content: x}}\n  \
             file[/lib/systemd/system/own.service]: {{content: x}}\n  service[own]: {{provider: systemctl}}\n"
        ),
    );
    let drawn = place.run(&["-I", ".", "graph", &manifest]);
    let expected = format!(
        "package[web]\nfile[/lib/{directory}/web]\n    after package[web] (automatic: \
         owner)\nfile[/lib/{directory}/mine]\n\
         file[/lib/systemd/system/own.service]\nservice[own]\n    after file[/lib/systemd/system/own.service] \
         (automatic: name)\n\
         5 resources, 2 edges: 2 automatic\n"
    );
    assert_eq!((drawn.stdout, drawn.stderr.as_str()), (expected, ""));
}

#[test]
fn owned_paths_are_recorded_for_replay() {
    let place = packer();
    let manifest = place.file("m.yaml", PACKED);
    let drawn = place.run(&["-I", ".", "graph", &manifest]);
    let recorded = place.run(&["-I", ".", "provider", "record", "r.jsonl", "graph", &manifest]);
    assert_eq!((recorded.code, &recorded.stdout), (0, &drawn.stdout), "{recorded:?}");
    std::fs::remove_file(place.path().join("web.list")).unwrap();
    let replayed = place.run(&["provider", "replay", "r.jsonl"]);
    assert_eq!((replayed.code, &replayed.stdout), (0, &drawn.stdout), "{replayed:?}");
}

#[test]
fn a_wrong_manifest_is_not_drawn() {
    let place = Place::new();
    let manifest = place.file("m.yaml", "resources:\n  fiel[/x]: {}\n");
    let ended = place.run(&["graph", &manifest]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.contains("unknown type `fiel`"), "{}", ended.stderr);
}

#[test]
fn resource_is_found_by_its_aliases() {
    let place = Place::new();
    let path =
        place.file("m.yaml", "resources:\n  user[u]: {gid: 4711}\n  group[g]: {gid: 4711}\n  group[h]: {gid: 4712}\n");
    let graph = place.run(&["graph", &path]);
    assert!(graph.stdout.contains("user[u]\n    after group[g] (automatic: name)\n"), "{graph:?}");
    assert!(!graph.stdout.contains("after group[h]"), "{graph:?}");
}

#[test]
fn absent_image_comes_after_all_containers() {
    let place = Place::new();
    let path = place.file(
        "m.yaml",
        "resources:\n  image[a:1]: {ensure: absent}\n  image[a:2]: {}\n  container[old]: {ensure: absent}\n  \
         container[new]: {image: a:2}\n",
    );
    let graph = place.run(&["graph", &path]);
    let after = |name: &str| format!("image[a:1]\n{name}");
    assert!(graph.stdout.contains(&after("    after container[old] (automatic: type)")), "{graph:?}");
}

#[test]
fn shuffled_server_has_the_same_graph() {
    let place = Place::new();
    let graph = |texts: &[String]| {
        let names = texts.iter().enumerate().map(|(number, text)| place.file(&format!("{number}.yaml"), text));
        let mut words = vec!["graph".to_owned(), "--format".to_owned(), "json".to_owned()];
        words.extend(names);
        let ended = place.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
        let graph: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let elements = ["resources", "edges"].map(|key| graph[key].as_array().unwrap());
        let mut elements: Vec<String> = elements.into_iter().flatten().map(ToString::to_string).collect();
        elements.sort_unstable();
        elements
    };
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/server");
    let mut paths: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let texts: Vec<String> = paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let declarations = Declarations::new(&texts);
    let expected = graph(&texts);
    assert!(expected.len() > declarations.count(), "{expected:#?}");
    for seed in 0..5 {
        let shuffled = declarations.shuffled(texts.len(), &mut fastrand::Rng::with_seed(seed));
        same_elements(&graph(&shuffled), &expected, seed);
    }
}

/// Fails with the elements that only one of the two has.
fn same_elements(found: &[String], expected: &[String], seed: u64) {
    let more: Vec<&String> = found.iter().filter(|element| !expected.contains(element)).collect();
    let missing: Vec<&String> = expected.iter().filter(|element| !found.contains(element)).collect();
    assert!(more.is_empty() && missing.is_empty(), "shuffle {seed}: more: {more:#?}, missing: {missing:#?}");
}
