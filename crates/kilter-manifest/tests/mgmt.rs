//! Graphs of mgmt: the resources for each kind, and refused graphs.

use ecow::EcoString;
use kilter_manifest::{
    Collect, Compiled, Diagnostic, Facts, Inputs, Loader, Schemas, SecretSource, Secrets, Source, Sources, compile,
    render, render_warnings,
};
use kilter_model::expr::Lookup;
use kilter_model::{Behaviour, Catalog, Poll, RelationKind, Resource, TypeSchema, Value};

/// Types that take whatever they are given.
struct AnyTypes(Vec<TypeSchema>);

const TYPES: [(&str, &str, &str); 24] = [
    ("virt", "name", "ensure uri cpus boot memory disks cdroms networks"),
    ("nspawn", "name", "ensure"),
    ("augeas", "name", "lens incl changes"),
    ("container", "name", "ensure image command environment ports"),
    ("image", "name", "ensure"),
    (
        "exec",
        "name",
        "command onlyif unless watch watchfiles mtimes done creates cwd user group environment timeout verify \
         logoutput \
         stop_signal fallback",
    ),
    ("file", "path", "ensure content source fragments target owner group mode recurse force purge create parents"),
    ("group", "name", "ensure gid"),
    ("kv", "name", "ensure key value mapped skiplessthan skipcmpstyle"),
    ("noop", "name", "comment"),
    ("notify", "name", "message level refreshonly journal syslog fields"),
    ("package", "name", "ensure version latest"),
    ("password", "name", "length saved check_recovery"),
    ("service", "name", "ensure enable refresh"),
    ("ssh_authorized_key", "name", "ensure user type key options"),
    ("hostname", "name", "static transient pretty"),
    ("mount", "name", "ensure device fstype options dump pass"),
    ("line", "name", "ensure path line create"),
    ("net", "name", "ensure addresses gateway"),
    ("structured", "name", "ensure path format key value"),
    ("sysctl", "name", "value live kept"),
    ("timer", "name", "interval"),
    ("value", "name", "any"),
    ("user", "name", "ensure uid gid groups membership home shell allowdupe"),
];

impl AnyTypes {
    fn new() -> AnyTypes {
        let schema = |(name, namevar, attributes): &(&str, &str, &str)| {
            let schema = TypeSchema::new(*name, "").attribute(namevar, "String[1]", Behaviour::Namevar, "");
            attributes
                .split(' ')
                .fold(schema, |schema, attribute| schema.attribute(attribute, "Data", Behaviour::Parameter, ""))
        };
        AnyTypes(TYPES.iter().map(schema).collect())
    }
}

impl Schemas for AnyTypes {
    fn schema(&self, type_name: &str) -> Option<&TypeSchema> {
        self.0.iter().find(|schema| schema.name == *type_name)
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|schema| schema.name.as_str()).collect()
    }
}

impl Facts for AnyTypes {
    fn fact(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn names(&self) -> Vec<EcoString> {
        Vec::new()
    }
}

impl Loader for AnyTypes {
    fn load(&self, _: &str, path: &str) -> Result<Source, String> {
        match path {
            "graph.yaml" => Ok(Source::new(path, "graph: g\nresources:\n  noop:\n  - name: included\n")),
            _ => Err("No such file".to_owned()),
        }
    }

    fn collect(&self, _: &str, wanted: &Collect) -> Result<Source, String> {
        let of_others = r#"[{"resource": "noop[of others]", "attributes": {}}]"#;
        Ok(Source::new(wanted.to_string(), if wanted.type_name == "noop" { of_others } else { "" }))
    }
}

impl Secrets for AnyTypes {
    fn resolve(&self, _: &SecretSource) -> Result<Value, String> {
        Err("none".to_owned())
    }
}

fn compiled(text: &str, lenient: bool) -> (Result<Compiled, Vec<Diagnostic>>, Sources) {
    compiled_in(&AnyTypes::new(), text, lenient)
}

fn compiled_in(world: &AnyTypes, text: &str, lenient: bool) -> (Result<Compiled, Vec<Diagnostic>>, Sources) {
    let mut sources = Sources::new();
    sources.add(Source::new("g.yaml", text).leniently(lenient));
    let inputs = Inputs { schemas: world, facts: world, secrets: world, loader: world, overrides: &[] };
    (compile(&mut sources, &inputs), sources)
}

fn catalog(text: &str) -> Catalog {
    let (result, sources) = compiled(text, false);
    result.unwrap_or_else(|problems| panic!("{}", render(&problems, &sources, false))).catalog
}

/// Returns the resource for one resource of a kind: `type[title] {attribute: value, …}`.
fn lowered(kind: &str, fields: &str) -> String {
    let catalog = catalog(&format!("graph: g\nresources:\n  {kind}:\n  - {{name: x, {fields}}}\n"));
    let resource = &catalog.resources[0];
    let attributes = resource.attributes.iter().map(|(name, value)| format!("{name}: {value}"));
    format!("{} {{{}}}", resource.reference, attributes.collect::<Vec<_>>().join(", "))
}

#[test]
fn mgmt_kinds_map_to_types() {
    for (kind, fields, expected) in [
        ("noop", "comment: why", "noop[x] {comment: why}"),
        (
            "augeas",
            "file: /etc/ssh/sshd_config, lens: Sshd.lns, sets: [{path: Port, value: 22}, {path: Banner, value: a b}]",
            "augeas[x] {lens: Sshd.lns, incl: /etc/ssh/sshd_config, changes: [set Port \"22\", set Banner \"a b\"]}",
        ),
        (
            "docker:container",
            "state: running, image: nginx, cmd: [a, b], env: [A=b], ports: {tcp: {8080: 80}, udp: {53: 53}}, force: \
             true",
            "container[x] {ensure: running, image: nginx, command: [a, b], environment: [A=b], ports: [8080:80/tcp, \
             53:53/udp]}",
        ),
        ("docker:container", "state: removed, apiversion: ''", "container[x] {ensure: absent}"),
        ("nspawn", "", "nspawn[x] {ensure: running}"),
        ("nspawn", "state: stopped", "nspawn[x] {ensure: stopped}"),
        ("virt", "", "virt[x] {ensure: running}"),
        (
            "virt",
            "state: shutoff, uri: 'qemu:///session', cpus: 2, memory: 524288, boot: [hd], disk: [{source: /a.img, type: \
             qcow2}, {source: /b.img}], cdrom: [{source: /c.iso, type: file}], network: [{name: default}]",
            "virt[x] {ensure: stopped, uri: qemu:///session, cpus: 2, boot: [hd], memory: 512, disks: [{path: /a.img, \
             format: qcow2}, /b.img], cdroms: [/c.iso], networks: [default]}",
        ),
        ("docker:image", "state: exists", "image[x] {ensure: present}"),
        ("timer", "interval: 30", "timer[x] {interval: 30}"),
        ("password", "length: 8, saved: yes", "password[x] {length: 8, saved: true}"),
        ("print", "msg: hello, refresh_only: true", "notify[x] {message: hello, refreshonly: true}"),
        ("msg", "body: hi, priority: Crit, journal: on", "notify[x] {message: hi, level: critical, journal: true}"),
        ("group", "state: exists, gid: 10", "group[x] {ensure: present, gid: 10}"),
        ("group", "state: absent", "group[x] {ensure: absent}"),
        (
            "hostname",
            "hostname: web1, pretty_hostname: The shop, static_hostname: web2",
            "hostname[x] {name: web1, pretty: The shop, static: web2}",
        ),
        ("kv", "key: k, value: '3', skipcmpstyle: 1", "kv[x] {key: k, value: 3, skipcmpstyle: str}"),
        ("kv", "key: k", "kv[x] {key: k, ensure: absent}"),
        ("kv", "key: k, value:", "kv[x] {key: k, ensure: absent}"),
        (
            "line",
            "state: exists, file: /etc/x, content: a b",
            "line[x] {ensure: present, path: /etc/x, line: a b, create: true}",
        ),
        (
            "json:edit",
            "store: file:///etc/x, edits: ['.a.\"b c\"[1] = {\"d\": [true, null, \"1\"]}']",
            "structured[x] {path: /etc/x, format: json, key: [a, b c, 1], value: {d: [true, undef, 1]}}",
        ),
        (
            "json:edit",
            "store: /etc/x, edits: ['del( .[\"a\"].b )']",
            "structured[x] {path: /etc/x, format: json, key: [a, b], ensure: absent}",
        ),
        (
            "mount",
            "state: exists, device: /dev/x, type: ext4, options: {ro: '', size: 1g}, freq: 0, passno: 2",
            "mount[x] {ensure: mounted, device: /dev/x, fstype: ext4, dump: 0, pass: 2, options: ro,size=1g}",
        ),
        (
            "net",
            "state: up, addrs: [10.0.0.1/24], gateway: 10.0.0.2",
            "net[x] {ensure: up, addresses: [10.0.0.1/24], gateway: 10.0.0.2}",
        ),
        ("net", "state: '', gateway: ''", "net[x] {ensure: present}"),
        ("svc", "state: running, startup: disabled", "service[x] {ensure: running, enable: false}"),
        ("svc", "session: false", "service[x] {}"),
        ("pkg", "state: uninstalled", "package[x] {ensure: absent}"),
        ("pkg", "state: newest, allowuntrusted: false", "package[x] {ensure: present, latest: true}"),
        ("pkg", "state: '1.0'", "package[x] {ensure: present, version: 1.0}"),
        ("sysctl", "value: '1'", "sysctl[x] {value: 1}"),
        ("sysctl", "value: 4096 131072, persist: false", "sysctl[x] {live: 4096 131072}"),
        ("sysctl", "value: 1, runtime: no, persist: yes", "sysctl[x] {kept: 1}"),
        (
            "ssh:authorized_key",
            "user: bob, type: ssh-ed25519, key: AAAA, comment: bob@desk, options: [no-pty], mkdir: true, state: exists",
            "ssh_authorized_key[x] {name: bob@desk, ensure: present, user: bob, type: ssh-ed25519, key: AAAA, \
             options: [no-pty]}",
        ),
        ("ssh:authorized_key", "state: absent, user: bob", "ssh_authorized_key[x] {ensure: absent, user: bob}"),
        (
            "user",
            "state: exists, uid: 0x10, group: g, groups: [], homedir: /home/x/, allowduplicateuid: no",
            "user[x] {ensure: present, uid: 16, gid: g, groups: [], membership: inclusive, home: /home/x, allowdupe: \
             false}",
        ),
    ] {
        assert_eq!(lowered(kind, fields), expected, "{kind} {fields}");
    }
}

#[test]
fn edits_of_a_json_file_keep_their_order() {
    let catalog =
        catalog("graph: g\nresources:\n  json:edit:\n  - {name: /etc/x, edits: ['.a = 1', '.b = 2', 'del(.c)']}\n");
    let references: Vec<String> = catalog.resources.iter().map(|resource| resource.reference.to_string()).collect();
    assert_eq!(references, ["structured[/etc/x (edit 1)]", "structured[/etc/x (edit 2)]", "structured[/etc/x]"]);
    assert_eq!(catalog.relations.len(), 2);
}

#[test]
fn mgmt_file_state_follows_path_and_state() {
    for (fields, expected) in [
        ("path: /a, state: exists, content: c, mode: 0741", "path: /a, ensure: file, content: c, mode: 0741"),
        ("path: /a/, state: exists, owner: 1, group: adm", "path: /a, ensure: directory, owner: 1, group: adm"),
        ("path: /a, content: c", "path: /a, ensure: file, create: false, content: c"),
        ("path: /a, state: absent", "path: /a, ensure: absent"),
        ("path: /a/, state: absent, recurse: true", "path: /a, ensure: absent, force: true"),
        ("path: /a/b/, state: exists, recurse: true", "path: /a/b, ensure: directory, parents: true"),
        (
            "path: /a/, state: exists, source: /s/, recurse: true, purge: true, force: true",
            "path: /a, ensure: directory, source: /s, recurse: true, parents: true, force: true, purge: true",
        ),
        ("path: /a, state: exists, symlink: true, source: ../b/", "path: /a, ensure: link, target: ../b/"),
        ("path: /a, state: exists, fragments: [/f, /d/]", "path: /a, ensure: file, fragments: [/f, /d/]"),
        ("path: /a/b, dirname: /c/, state: exists", "path: /c/b, ensure: file"),
        ("path: /a/b/, basename: d, state: exists", "path: /a/d, ensure: file"),
        ("path: /a/b, dirname: /c/, basename: d/, state: exists", "path: /c/d, ensure: directory"),
        ("path: /a, state: exists, content: ''", "path: /a, ensure: file, content: "),
    ] {
        assert_eq!(lowered("file", fields), format!("file[x] {{{expected}}}"), "{fields}");
    }
    let named = catalog("graph: g\nresources:\n  file:\n  - {name: /n/, state: exists}\n");
    assert_eq!(named.resources[0].name, "/n");
}

#[test]
fn mgmt_command_is_words_or_shell() {
    let rest = "timeout: 0, logoutput: true, verify: false";
    for (fields, expected) in [
        ("cmd: sleep  10s", "command: [sleep, 10s]"),
        ("cmd: touch 'a  b'", "command: [touch, 'a, b']"),
        ("cmd: a && b, shell: /bin/bash", "command: [/bin/bash, -c, a && b]"),
        ("cmd: /bin/echo, args: [a b, 'c']", "command: [/bin/echo, a b, c]"),
        ("args: [y]", "command: [x, y]"),
        (
            "cmd: a, ifcmd: test -e /x, nifcmd: c, nifshell: /bin/sh",
            "command: [a], onlyif: [[test, -e, /x]], unless: [[/bin/sh, -c, c]]",
        ),
        ("shell: /bin/sh", "command: [/bin/sh, -c, x]"),
        (
            "cmd: a, watchcmd: w 1, donecmd: d, watchcwd: /e, donecwd: /e, cwd: /e",
            "command: [a], watch: [w, 1], done: [d], cwd: /e",
        ),
        ("cmd: a, user: 1000, group: adm, creates: /c", "command: [a], creates: /c, user: 1000, group: adm"),
        (
            "cmd: a, watchfiles: [/w], mtimes: [/m], env: {A: 1}",
            "command: [a], watchfiles: [/w], mtimes: [/m], environment: {A: 1}",
        ),
        ("cmd: a, ifcmd: '', shell: '', watchcmd: ''", "command: [a]"),
        (
            "cmd: a, sig: SIGINT, send_stdout: '', send_output: b",
            "command: [a], stop_signal: SIGINT, fallback: {output: b, stdout: }",
        ),
        ("cmd: a, sig: ''", "command: [a]"),
    ] {
        assert_eq!(lowered("exec", fields), format!("exec[x] {{{expected}, {rest}}}"), "{fields}");
    }
    assert_eq!(
        catalog("graph: g\nresources:\n  exec:\n  - name: echo hi\n").resources[0]
            .attributes
            .get("command")
            .map(Value::to_string),
        Some("[echo, hi]".into())
    );
}

#[test]
fn mgmt_commands_have_own_cwd_and_output_guard() {
    let rest = "timeout: 0, logoutput: true, verify: false";
    for (fields, expected) in [
        ("cmd: a, ifcmd: b, ifcwd: /b", "command: [a], onlyif: [{command: [b], cwd: /b}]"),
        (
            "cmd: a, cwd: /a, nifcmd: b, nifcwd: /b, nifshell: /sh",
            "command: [a], unless: [{command: [/sh, -c, b], cwd: /b}], cwd: /a",
        ),
        // Not that of another command.
        ("cmd: a, cwd: /a, donecmd: b", "command: [a], done: {command: [b], cwd: /}, cwd: /a"),
        ("cmd: a, cwd: /, watchcmd: b", "command: [a], watch: [b], cwd: /"),
        ("cmd: a, watchcmd: b, watchcwd: /b", "command: [a], watch: {command: [b], cwd: /b}"),
        ("cmd: a, ifcwd: /b, ifequals: c", "command: [a]"),
        (
            "cmd: a, ifcmd: b, ifequals: \"c\\n\"",
            "command: [a], onlyif: [{command: [b], not_output: c\n, exact: true}]",
        ),
        (
            "cmd: a, ifcmd: b, ifequals: '', ifequals_stdout: 1, ifcwd: /b",
            "command: [a], onlyif: [{command: [b], not_output: , not_stdout: 1, exact: true, cwd: /b}]",
        ),
        ("cmd: a, ifcmd: b, ifequals:", "command: [a], onlyif: [[b]]"),
    ] {
        assert_eq!(lowered("exec", fields), format!("exec[x] {{{expected}, {rest}}}"), "{fields}");
    }
}

#[test]
fn mgmt_graph_has_no_expressions() {
    let catalog =
        catalog("graph: g\nresources:\n  file:\n  - {name: '/${vars.x}', state: exists, content: \"${PATH} $${x}\"}\n");
    assert_eq!(catalog.resources[0].reference.to_string(), "file[/${vars.x}]");
    assert_eq!(catalog.resources[0].get("content"), Some(&Value::from("${PATH} $${x}")));
}

#[test]
fn mgmt_metaparameters_equal_manifest_meta() {
    let catalog = catalog(
        "graph: g\nresources:\n  noop:\n  - {name: a, meta: {noop: true, retry: 3, delay: 500, poll: 5, autoedge: \
         false, sema: ['s:2']}}\n  \
         - {name: b, meta: {limit: .inf, burst: 0}}\n  - {name: c, meta: {limit: 0.5, burst: 3}}\n",
    );
    let meta = catalog.resources[0].meta().unwrap();
    assert!(meta.noop && meta.no_autoedge && !meta.no_autogroup);
    assert_eq!((meta.retry, meta.delay, meta.poll, meta.semaphores[0].count), (3, 500, Poll::Every(5), 2));
    assert_eq!(catalog.resources[1].meta(), None);
    assert_eq!(catalog.resources[2].meta().unwrap().limit.unwrap().burst, 3);
}

#[test]
fn mgmt_edges_are_relations_with_refresh() {
    let catalog = catalog(
        "graph: g\nresources:\n  noop:\n  - name: a\n  - name: b\n  exec:\n  - {name: c, cmd: c}\nedges:\n\
         - {name: e1, from: {kind: noop, name: a}, to: {kind: Noop, name: b}, notify: true}\n\
         - {name: e2, from: {kind: noop, name: b}, to: {kind: exec, name: c}, notify: true}\n\
         - {from: {kind: noop, name: a}, to: {kind: exec, name: c}}\n",
    );
    let relations: Vec<_> =
        catalog.relations.iter().map(|relation| (relation.first, relation.second, relation.kind)).collect();
    assert_eq!(relations, [(0, 2, RelationKind::Before), (0, 1, RelationKind::Notify), (1, 2, RelationKind::Before)]);
}

#[test]
fn notified_svc_reloads_and_notified_exec_is_warned_of() {
    let (result, _) = compiled(
        "graph: g\nresources:\n  noop: [{name: a}]\n  svc: [{name: s, state: running}, {name: t}]\n  exec: [{name: c, \
         cmd: c}]\nedges:\n\
         - {from: {kind: noop, name: a}, to: {kind: svc, name: s}, notify: true}\n\
         - {from: {kind: svc, name: t}, to: {kind: svc, name: s}, notify: true}\n\
         - {from: {kind: noop, name: a}, to: {kind: svc, name: t}}\n\
         - {from: {kind: noop, name: a}, to: {kind: exec, name: c}, notify: true}\n\
         - {from: {kind: svc, name: s}, to: {kind: exec, name: c}, notify: true}\n",
        false,
    );
    let compiled = result.unwrap();
    let services: Vec<_> = compiled.catalog.resources.iter().map(|one| one.attributes.text("refresh")).collect();
    assert_eq!(services, [None, Some("reload"), None, None]);
    let warnings: Vec<&str> = compiled.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(warnings, ["exec[c] cannot be refreshed: mgmt's exec has no refresh; `notify` only sets the order"]);
}

#[test]
fn mgmt_export_applies_here_only_if_collected() {
    let graph = |collect: &str| {
        let text = format!(
            "graph: g\nresources:\n  noop:\n  - name: mine\n  - {{name: '@@theirs', meta: {{retry: \
             2}}}}\n{collect}edges: []\n"
        );
        let shown = |one: &Resource| format!("{}{}", if one.is_hidden() { "hidden " } else { "" }, one.reference);
        catalog(&text).resources.iter().map(|one| shown(one)).collect::<Vec<_>>()
    };
    let of_others = ["noop[mine]", "hidden noop[theirs]", "exported[noop[theirs] for *]"];
    assert_eq!(graph(""), of_others);
    assert_eq!(graph("collect:\n- kind: file\n"), of_others);
    let collected = ["noop[of others]", "noop[mine]", "noop[theirs]", "exported[noop[theirs] for *]"];
    assert_eq!(graph("collect:\n- kind: noop\n"), collected);
}

#[test]
fn a_manifest_may_include_a_graph() {
    let catalog = catalog("include: graph.yaml\nresources:\n  noop[own]: {require: \"noop[included]\"}\n");
    assert_eq!(catalog.relations.len(), 1);
}

#[test]
fn broken_graphs_report_expected_problems_with_places() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("graph: ''\n", &[("a graph needs a name", "1:8")]),
        ("resources:\n  noop:\n  - name: x\n", &[("a graph needs a name", "1:1")]),
        ("graph: g\nresource: {}\n", &[("did you mean `resources`?", "2:1")]),
        ("graph: g\nremote: ssh://x\n", &[("`remote` no longer has an effect", "2:1")]),
        ("graph: g\nresources: []\n", &[("a mapping of kinds", "2:12")]),
        ("graph: g\nresources:\n  fiel: []\n", &[("did you mean `file`?", "3:3")]),
        ("graph: g\nresources:\n  tar:\n  - name: x\n", &[("kilter has no type for the kind `tar`", "3:3")]),
        ("graph: g\nresources:\n  noop: {name: x}\n", &[("followed by a list", "3:9")]),
        ("graph: g\nresources:\n  noop:\n  - x\n", &[("a resource is a mapping", "4:5")]),
        ("graph: g\nresources:\n  noop:\n  - comment: x\n", &[("a `noop` needs a name", "4:5")]),
        ("graph: g\nresources:\n  noop:\n  - {name: x, commment: y}\n", &[("did you mean `comment`?", "4:15")]),
        ("graph: g\nresources:\n  noop:\n  - {name: x, comment: [y]}\n", &[("`comment` is a text", "4:24")]),
        (
            "graph: g\nresources:\n  timer:\n  - {name: x, interval: often}\n",
            &[("`interval` is a whole number", "4:25")],
        ),
        ("graph: g\nresources:\n  noop:\n  - name: x\n  - name: x\n", &[("`noop[x]` is written twice", "5:11")]),
        ("graph: g\nresources:\n  noop:\n  - {name: x, meta: {retry: x}}\n", &[("`retry`", "4:29")]),
        ("graph: g\nresources:\n  noop:\n  - {name: x, meta: {rtry: 1}}\n", &[("did you mean `retry`?", "4:22")]),
        ("graph: g\nresources:\n  noop:\n  - {name: x, meta: {limit: 1}}\n", &[("needs a `burst`", "4:22")]),
        ("graph: g\nresources:\n  exec:\n  - {name: x, timeout: 5}\n", &[("give --lenient", "4:15")]),
        ("graph: g\nresources:\n  exec:\n  - {name: x, state: absent}\n", &[("give --lenient", "4:15")]),
        (
            "graph: g\nresources:\n  sysctl:\n  - {name: a.b, runtime: false, persist: false, value: '1'}\n",
            &[("there is nothing to set", "4:12")],
        ),
        ("graph: g\nresources:\n  sysctl:\n  - {name: a.b}\n", &[("needs a value", "4:12")]),
        ("graph: g\nresources:\n  json:edit:\n  - {name: /x}\n", &[("needs edits", "4:12")]),
        (
            "graph: g\nresources:\n  json:edit:\n  - {name: etcd://x, edits: ['.a = 1']}\n",
            &[("not the absolute path", "4:12")],
        ),
        (
            "graph: g\nresources:\n  json:edit:\n  - {name: /x, edits: ['.a = .b', '.a == 1']}\n",
            &[("not an edit that kilter understands", "4:24")],
        ),
        (
            "graph: g\nresources:\n  sysctl:\n  - {name: a.b, value: '1', path: /x}\n",
            &[("nothing like `path`", "4:29")],
        ),
        (
            "graph: g\nresources:\n  ssh:authorized_key:\n  - {name: x, content: ssh-rsa A}\n",
            &[("the parts of the key", "4:15")],
        ),
        ("graph: g\nresources:\n  cron:\n  - {name: x}\n", &[("needs `trigger`", "4:12"), ("needs `time`", "4:12")]),
        ("graph: g\nresources:\n  cron:\n  - {name: x, trigger: OnWhim, time: 1}\n", &[("allowed are", "4:24")]),
        ("graph: g\nresources:\n  cron:\n  - {name: x, state: absent}\n", &[("stops `service[x.timer]`", "4:22")]),
        // The file that would be made for a refused timer is no second problem, nor is an edge to a kind without a
        // type.
        (
            "graph: g\nresources:\n  cron:\n  - {name: x, trigger: OnCalendar, time: '1', session: true}\n",
            &[("nothing like `session`", "4:47")],
        ),
        (
            "graph: g\nresources:\n  noop:\n  - {name: x}\n  tar:\n  - {name: y}\n\
             edges:\n- {from: {kind: tar, name: y}, to: {kind: noop, name: x}}\n",
            &[("kilter has no type for the kind `tar`", "5:3")],
        ),
        (
            "graph: g\nresources:\n  exec:\n  - {name: x, ifcmd: y, ifequals: [z]}\n",
            &[("`ifequals` is a text", "4:35")],
        ),
        ("graph: g\nresources:\n  svc:\n  - {name: x, session: true}\n", &[("nothing like `session`", "4:15")]),
        ("graph: g\nresources:\n  exec:\n  - {name: x, args: [a], shell: /s}\n", &[("not for a shell", "4:21")]),
        (
            "graph: g\nresources:\n  file:\n  - {name: /x, state: absent, content: y}\n",
            &[("contradicts the state `absent`", "4:31")],
        ),
        ("graph: g\nresources:\n  file:\n  - {name: /x/, state: exists, content: y}\n", &[("of a directory", "4:32")]),
        ("graph: g\nresources:\n  file:\n  - {name: /x, state: present}\n", &[("allowed are", "4:23")]),
        ("graph: g\nresources:\n  group:\n  - name: x\n", &[("needs a state", "4:11")]),
        (
            "graph: g\nresources:\n  user:\n  - {name: x, state: exists, gid: 1, group: g}\n",
            &[("are the same attribute", "4:30")],
        ),
        ("graph: g\nresources:\n  msg:\n  - {name: x, body: y}\n", &[("needs a priority", "4:12")]),
        ("graph: g\nresources:\n  msg:\n  - {name: x, priority: loud}\n", &[("Emerg", "4:25")]),
        ("graph: g\ncollect:\n- pattern: x\n", &[("needs a kind", "3:3")]),
        (
            "graph: g\nresources:\n  noop:\n  - name: abc\nedges:\n- {from: {kind: noop, name: abd}, to: {kind: noop, \
             name: abc}}\n",
            &[("did you mean `abc`?", "6:29")],
        ),
        (
            "graph: g\nedges:\n- {from: {kind: noop, name: x}}\n",
            &[("the graph has no `noop` with the name", "3:29"), ("needs `to`", "3:3")],
        ),
        ("graph: g\nedges: 1\n", &[("`edges` is a list", "2:8")]),
        (
            "graph: g\nfoo: 1\nvars: {}\nresources: {}\n",
            &[("a graph has no key `foo`", "2:1"), ("a graph has no key `vars` | a manifest has it", "3:1")],
        ),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let (result, sources) = compiled(text, false);
        let mut problems = result.err().unwrap_or_default();
        problems.sort_by_key(|problem| std::cmp::Reverse(problem.message.clone()));
        let shown = render(&problems, &sources, false);
        let found: Vec<(String, String)> = problems
            .iter()
            .map(|problem| {
                let place =
                    problem.span.map(|span| sources.locate(span)).map(|at| format!("{}:{}", at.line, at.column));
                (format!("{} | {}", problem.message, problem.hints.join(" | ")), place.unwrap_or_default())
            })
            .collect();
        let fits =
            |(fragment, place): &(&str, &str)| found.iter().any(|(said, at)| said.contains(fragment) && at == place);
        if found.len() != expected.len() || !expected.iter().all(fits) {
            wrong.push(format!("{text}\nexpected {expected:?}, got {found:?}\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n----\n"));
}

#[test]
fn later_problem_uses_terms_of_the_graph() {
    let mut world = AnyTypes::new();
    world.0.retain(|schema| !matches!(schema.name.as_str(), "package" | "exec"));
    world.0.push(
        TypeSchema::new("exec", "")
            .attribute("name", "String[1]", Behaviour::Namevar, "")
            .attribute("creates", "Integer", Behaviour::Parameter, "")
            .attribute("stop_signal", "Enum['SIGINT']", Behaviour::Parameter, "")
            .with_others(kilter_model::AttributeSchema::new(
                "other",
                kilter_model::DataType::Any,
                Behaviour::Parameter,
                "",
            )),
    );
    let text = "graph: g\nresources:\n  pkg:\n  - {name: x, state: installed}\n  - {name: y, state: installed}\n  \
                exec:\n  - {name: x, sig: FOO, creates: a}\nedges:\n- {from: {kind: pkg, name: x}, to: {kind: exec, \
                name: x}}\n";
    let (result, sources) = compiled_in(&world, text, false);
    let problems = result.unwrap_err();
    let found = problems.iter().map(|problem| {
        let place = sources.locate(problem.span.unwrap());
        format!("{}:{} {}", place.line, place.column, problem.message)
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            "3:3 the kind `pkg` is the type `package` here, which no provider has",
            "7:20 `sig` expects a match for Enum['SIGINT'], got 'FOO'",
            "7:34 `creates` expects an Integer value, got String",
        ]
    );
    assert!(problems[0].hints[0].contains("-I"), "{problems:?}");
}

#[test]
fn ineffective_keys_are_accepted_with_one_warning() {
    let text = "graph: g\nresources:\n  exec:\n  - {name: a, timeout: 0, pollint: 5, state: present}\n  \
                - {name: b, timeout: 0}\ncollect:\n- {kind: exec, pattern: p}\n";
    let (result, sources) = compiled(text, false);
    let compiled = result.unwrap_or_else(|problems| panic!("{}", render(&problems, &sources, false)));
    assert_eq!(compiled.catalog.resources.len(), 2);
    let told = render_warnings(&compiled.warnings, &sources, false);
    assert_eq!(told.matches("no longer has an effect").count(), 4, "{told}");
    assert!(told.contains("`timeout` of `exec` no longer has an effect, here and 1 more time"), "{told}");
}

#[test]
fn mgmt_cron_is_systemd_timer() {
    let graph = "graph: g\nresources:\n  cron:\n  - {name: x, trigger: OnCalendar, time: '*:0/5', unit: y.service, \
                 persistent: true}\n  \
                 svc:\n  - {name: x, state: running}\nedges:\n- {name: e, from: {kind: cron, name: x}, to: {kind: \
                 svc, name: x}}\n";
    let catalog = catalog(graph);
    let names: Vec<String> = catalog.resources.iter().map(|one| one.reference.to_string()).collect();
    assert_eq!(names, ["file[/etc/systemd/system/x.timer]", "service[x.timer]", "service[x]"]);
    let content = catalog.resources[0].attributes.get("content").unwrap().to_string();
    assert!(content.contains("[Timer]\nOnCalendar=*:0/5\nUnit=y.service\nPersistent=true\n"), "{content}");
    let edges: Vec<_> = catalog.relations.iter().map(|one| (one.first, one.second, one.kind)).collect();
    assert_eq!(edges, [(0, 1, RelationKind::Notify), (1, 2, RelationKind::Before)]);
}

#[test]
fn mgmt_cron_metaparameters_apply_to_its_file() {
    let one = "trigger: OnCalendar, time: daily";
    let graph = format!(
        "graph: g\nresources:\n  cron:\n  - {{name: x, {one}, meta: {{noop: true}}}}\n  - {{name: '@@y', {one}}}\n"
    );
    let catalog = catalog(&graph);
    let meta: Vec<_> = catalog
        .resources
        .iter()
        .map(|one| {
            (
                one.reference.to_string(),
                one.meta().is_some_and(|meta| meta.noop),
                one.meta().is_some_and(|meta| meta.hidden),
            )
        })
        .collect();
    let file = |name: &str| format!("file[/etc/systemd/system/{name}.timer]");
    let unit = |name: &str| format!("service[{name}.timer]");
    let (x, y) = ((true, false), (false, true));
    let expected = [(file("x"), x.0, x.1), (unit("x"), x.0, x.1), (file("y"), y.0, y.1), (unit("y"), y.0, y.1)];
    // What is exported itself comes behind.
    assert_eq!(meta[..4], expected);
}

#[test]
fn obsolete_keys_are_accepted_on_request_with_one_warning() {
    let text = "graph: g\nremote: ssh://x\nresources:\n  exec:\n  - {name: a, timeout: 5, state: absent}\n  \
                - {name: b, timeout: 6}\ncollect:\n- {kind: exec, pattern: p}\n";
    let (strict, _) = compiled(text, false);
    assert_eq!(strict.unwrap_err().len(), 4);
    let (lenient, sources) = compiled(text, true);
    let compiled = lenient.unwrap();
    assert_eq!(compiled.catalog.resources.len(), 2);
    let told = render_warnings(&compiled.warnings, &sources, false);
    assert_eq!(told.matches("warning").count(), 4, "{told}");
    assert!(told.contains("`timeout` of `exec` no longer has an effect, here and 1 more time"), "{told}");
}

#[test]
fn alias_expansion_limit_is_enforced() {
    let mut text = String::from("graph: g\nx: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let before = format!("*a{}, ", level - 1).repeat(10);
        text += &format!("x{level}: &a{level} [{}]\n", before.trim_end_matches(", "));
    }
    text += "resources:\n  value:\n  - {name: v, any: *a9}\n";
    let (result, _) = compiled(&text, false);
    let problems = result.unwrap_err();
    assert!(problems.iter().any(|problem| problem.message.contains("aliases add up to too much")), "{problems:?}");
}
