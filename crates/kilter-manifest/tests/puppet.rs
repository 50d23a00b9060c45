//! Resources as `puppet resource TYPE --to_yaml` prints them, below `resources` of a manifest.
//!
//! The texts in `tests/puppet` are what Puppet 7.23 has printed on a Debian 12, some of its resources left out.

use kilter_manifest::{render, render_warnings};
use kilter_model::{Behaviour, TypeSchema};

mod support;

use support::World;

const TYPES: [(&str, &str, &str); 11] = [
    ("cron", "name", "ensure command user minute hour monthday month weekday special environment"),
    ("file", "path", "ensure content target owner group mode"),
    ("group", "name", "ensure gid"),
    ("host", "name", "ensure ip host_aliases"),
    ("known_hosts", "name", "ensure type key host_aliases target"),
    ("mount", "name", "ensure device fstype options dump pass"),
    ("package", "name", "ensure version latest purge mark"),
    ("selboolean", "name", "value persistent"),
    ("service", "name", "ensure enable"),
    ("ssh_authorized_key", "name", "ensure user type key options"),
    (
        "user",
        "name",
        "ensure uid gid groups home shell comment password password_min_age password_max_age password_warn_days",
    ),
];

/// Types that take whatever they are given.
fn world() -> World {
    let schema = |(name, namevar, attributes): &(&str, &str, &str)| {
        let schema = TypeSchema::new(*name, "").attribute(namevar, "String[1]", Behaviour::Namevar, "");
        attributes
            .split(' ')
            .fold(schema, |schema, attribute| schema.attribute(attribute, "Data", Behaviour::Parameter, ""))
    };
    World { types: TYPES.iter().map(schema).collect(), ..World::new() }
}

/// Each resource as `type[title] {attribute: value, …}`, and the warnings.
fn compiled(text: &str) -> (Vec<String>, String) {
    let (result, sources) = world().compile(text);
    let compiled = result.unwrap_or_else(|problems| panic!("{}", render(&problems, &sources, false)));
    let shown = |resource: &kilter_model::Resource| {
        let attributes = resource.attributes.iter().map(|(name, value)| format!("{name}: {value}"));
        format!("{} {{{}}}", resource.reference, attributes.collect::<Vec<_>>().join(", "))
    };
    let warnings = render_warnings(&compiled.warnings, &sources, false);
    (compiled.catalog.resources.iter().map(|one| shown(one)).collect(), warnings)
}

/// The problems of a manifest, as they are shown.
fn refused(text: &str) -> String {
    let (result, sources) = world().compile(text);
    render(&result.expect_err("it is refused"), &sources, false)
}

/// Output of Puppet, below `resources`.
fn printed(type_name: &str) -> String {
    let path = format!("{}/tests/puppet/{type_name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the output is recorded");
    let lines = text.lines().filter(|line| *line != "---").map(|line| format!("  {line}\n"));
    format!("resources:\n{}", lines.collect::<String>())
}

#[test]
fn puppet_output_of_each_type_is_read() {
    for (type_name, expected) in [
        (
            "cron",
            &[
                "cron[backup] {ensure: present, command: /bin/true, hour: 3, minute: 15,45, user: root}",
                "cron[daily] {ensure: present, command: /bin/date, special: daily, user: root}",
                "cron[env] {ensure: present, command: /bin/echo $HOME, environment: [MAILTO=root, A=b], minute: 5, \
                 user: root, weekday: 1-5}",
            ][..],
        ),
        (
            "file",
            &[
                "file[/etc/passwd] {ensure: file, group: 0, mode: 0644, owner: 0}",
                "file[/etc] {ensure: directory, group: 0, mode: 0755, owner: 0}",
                "file[/root/link] {ensure: link, group: 0, owner: 0, target: /etc/passwd}",
            ],
        ),
        ("group", &["group[adm] {ensure: present, gid: 4}", "group[alice] {ensure: present, gid: 1000}"]),
        (
            "host",
            &[
                "host[box] {ensure: present, host_aliases: [box.lan], ip: 127.0.0.9}",
                "host[localhost] {ensure: present, ip: 127.0.0.1}",
            ],
        ),
        (
            "package",
            &[
                "package[adduser] {version: 3.134, ensure: present, mark: none}",
                "package[apt] {version: 2.6.2, ensure: present, mark: none}",
            ],
        ),
        (
            "service",
            &[
                "service[apt-daily.service] {ensure: stopped, enable: true}",
                "service[cron.service] {ensure: running, enable: true}",
                "service[cryptdisks.service] {ensure: stopped, enable: false}",
            ],
        ),
        (
            "user",
            &[
                "user[alice] {ensure: present, gid: 1000, home: /home/alice, password: [redacted], password_max_age: \
                 99999, \
                 password_min_age: 0, password_warn_days: 7, shell: /bin/sh, uid: 1000}",
                "user[root] {ensure: present, comment: root, gid: 0, home: /root, password: [redacted], \
                 password_max_age: 99999, password_min_age: 0, password_warn_days: 7, shell: /bin/bash, uid: 0}",
            ],
        ),
    ] {
        let is_checksum = |line: &&str| line.contains("{sha256}");
        let printed = printed(type_name);
        let without: Vec<&str> = printed.lines().filter(|line| !is_checksum(line)).collect();
        let (resources, warnings) = compiled(&without.join("\n"));
        assert_eq!(resources, expected, "{type_name}");
        let expected = match type_name {
            "package" => "packages of Puppet's provider `gem` are left out (here and 1 more time)",
            _ => "",
        };
        assert!(warnings.contains(expected) && warnings.is_empty() == expected.is_empty(), "{warnings}");
    }
}

#[test]
fn checksum_as_content_is_refused_with_hint() {
    let problems = refused(&printed("file"));
    assert!(problems.contains("this is the checksum of a content, not the content"), "{problems}");
    assert!(problems.contains("site.yaml:5:16") && problems.contains("or remove it"), "{problems}");
    assert_eq!(problems.matches("error: ").count(), 1, "{problems}");
}

#[test]
fn package_hold_is_a_mark() {
    for (package, expected) in [
        ("{ensure: held}", "package[a] {mark: hold, ensure: present}"),
        ("{ensure: present, mark: hold}", "package[a] {ensure: present, mark: hold}"),
    ] {
        let (resources, warnings) = compiled(&format!("resources:\n  package: {{a: {package}}}\n"));
        assert_eq!((resources, warnings.as_str()), (vec![expected.to_owned()], ""), "{package}");
    }
}

#[test]
fn templates_and_unmanaged_entries_of_puppet_are_left_out_with_a_warning() {
    for (type_name, left, taken, warning) in [
        ("service", "service[getty@.service]", "service[cron.service]", "templates of units are left out"),
        ("mount", "mount[/proc]", "mount[/mnt/data]", "mounts without an entry in /etc/fstab are left out"),
        ("cron", "cron[unmanaged:unnamed-1]", "cron[named]", "entries that Puppet does not manage are left out"),
    ] {
        let (resources, warnings) = compiled(&printed(&format!("{type_name}-left-out")));
        assert!(resources.iter().any(|one| one.starts_with(taken)), "{resources:#?}");
        assert!(!resources.iter().any(|one| one.starts_with(left)), "{resources:#?}");
        assert!(warnings.contains(warning), "{warnings}");
    }
}

#[test]
fn indented_document_marker_of_puppet_is_named_in_the_hint() {
    let problem = refused("resources:\n  ---\n  host:\n    a:\n      ip: 10.0.0.1\n");
    assert!(problem.contains("take the line `---` out"), "{problem}");
}

#[test]
fn a_target_that_is_not_the_default_is_a_problem() {
    for resource in [
        "ssh_authorized_key: {a: {type: rsa, key: A, user: alice, target: /etc/ssh/keys/alice}}",
        "ssh_authorized_key: {a: {type: rsa, key: A, user: root, target: /home/x/.ssh/authorized_keys}}",
        "cron: {a: {command: x, user: root, target: alice}}",
    ] {
        let problems = refused(&format!("resources:\n  {resource}\n"));
        assert!(problems.contains("`target: ") && problems.contains("is not supported"), "{problems}");
    }
}

#[test]
fn puppet_values_map_to_values_of_the_type() {
    for (resource, expected) in [
        ("package: {a: {ensure: installed}}", "package[a] {ensure: present}"),
        ("package: {a: {ensure: latest}}", "package[a] {ensure: present, latest: true}"),
        ("package: {a: {ensure: purged}}", "package[a] {ensure: absent, purge: true}"),
        ("package: {a: {ensure: absent, provider: dpkg}}", "package[a] {ensure: absent}"),
        (
            "ssh_authorized_key: {a: {type: rsa, key: A, options: absent, target: /home/a/.ssh/authorized_keys}}",
            "ssh_authorized_key[a] {type: ssh-rsa, key: A}",
        ),
        (
            "ssh_authorized_key: {a: {type: ed25519, options: no-pty}}",
            "ssh_authorized_key[a] {type: ssh-ed25519, options: [no-pty]}",
        ),
        (
            "sshkey: {a@ssh-rsa: {ensure: present, type: rsa, key: A, host_aliases: b, target: \
             /etc/ssh/ssh_known_hosts}}",
            "known_hosts[a@ssh-rsa] {ensure: present, type: ssh-rsa, key: A, host_aliases: [b]}",
        ),
        (
            "selboolean: {a: {value: 'on', persistent: true, provider: getsetsebool}}",
            "selboolean[a] {value: on, persistent: true}",
        ),
        ("cron: {a: {environment: A=b, minute: '*'}}", "cron[a] {environment: [A=b], minute: *}"),
        ("file: {/a: {content: '{x} y', ensure: absent}}", "file[/a] {content: {x} y, ensure: absent}"),
        ("file: {/a: {content: '${x}'}}", "file[/a] {content: ${x}}"),
        (
            "mount: {/a: {ensure: unmounted, dump: '0', pass: '2', provider: parsed, target: /etc/fstab}}",
            "mount[/a] {ensure: unmounted, dump: 0, pass: 2}",
        ),
        ("file: {/a: }", "file[/a] {}"),
    ] {
        assert_eq!(compiled(&format!("resources:\n  {resource}\n")).0, [expected], "{resource}");
    }
}

#[test]
fn both_puppet_formats_may_be_mixed() {
    let text = "vars: {x: /tmp}\nresources:\n  file:\n    /tmp/x:\n      ensure: present\n  \
                file[y]: {path: \"${vars.x}/y\", require: \"file[/tmp/x]\"}\n  ssh_authorized_key:\n";
    assert_eq!(compiled(text).0, ["file[/tmp/x] {ensure: present}", "file[y] {path: /tmp/y}"]);
    assert_eq!(world().catalog(text).relations.len(), 1);
    let twice = refused("resources:\n  file: {/x: {}}\n  file[/x]: {}\n");
    assert!(twice.contains("file[/x]` is written twice"), "{twice}");
}

#[test]
fn puppet_output_problems_have_places() {
    for (text, message, place) in [
        ("resources:\n  file:\n    /x:\n      mood: good\n", "`file` has no attribute `mood`", "4:7"),
        ("resources:\n  fiel:\n    /x:\n      mode: '0644'\n", "unknown type `fiel`", "3:5"),
        ("resources:\n  file:\n    path: /x\n", "write `file[TITLE]`, or a list of titles below `file`", "2:3"),
        ("resources:\n  file: /x\n", "write `file[TITLE]`", "2:3"),
        ("file:\n  /x:\n    mode: '0644'\n", "below `resources:`, indented", "1:1"),
    ] {
        let told = refused(text);
        assert!(told.contains(message) && told.contains(&format!("site.yaml:{place}")), "{told}");
    }
}
