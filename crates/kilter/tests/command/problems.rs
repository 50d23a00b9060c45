//! All problems of a manifest are reported at once.

use crate::support::*;

/// Each line says in a comment which problems it has. Together they are of every kind that the stages of a
/// compilation find: includes, variables, facts, defaults, types, resources, attributes, relations, providers, names,
/// cycles.
const MANIFEST: &str = r##"
vars:
  loop: ${vars.pool} #! the variable `loop` refers to itself: loop -> pool -> loop
  pool: ${vars.loop}
  facts: ${facts.one} and ${facts.two} #! there is no fact `one` #! there is no fact `two`
  sum: ${vars.three + vars.four} #! there is no variable `three` #! there is no variable `four`
  syntax: "${1 +} and ${vars.}" #! unexpected `}`, expected a value #! `vars` is not followed by a name
defaults:
  fil: { meta: { retry: 3 } } #! unknown type `fil`
  file: { meta: { retri: 3 }, mdoe: "0644" } #! unknown metaparameter `retri` #! `file` has no attribute `mdoe`
types:
  site:
    attributes:
      port: { type: Integer, required: true } #! an attribute of a composite type has no `required`
    resources:
      file[/srv/site]: { conten: x, owner: "${self.a} ${self.b}" } #! `file` has no attribute `conten` #! `site` has no attribute `a` #! `site` has no attribute `b`
resources:
  file[/a]:
    mode: "9" #! file[/a]: mode: `9` is not a mode
    contnt: x #! `file` has no attribute `contnt`
    owner: "a:b" #! file[/a]: owner: `owner` is neither a name nor a number
    content: ${facts.five} ${facts.six} #! there is no fact `five` #! there is no fact `six`
    require: ["file[/nope]", "file[/none]"] #! there is no resource `file[/nope]` #! there is no resource `file[/none]`
    meta: { nop: true, retry: x } #! unknown metaparameter `nop` #! `retry` expects an Integer value, got String
  file[/b]: { mode: "9", recurse: perhaps, provider: nope } #! file[/b]: the type `file` has no provider `nope`: it has posix #! file[/b]: mode: `9` is not a mode #! `recurse` expects a Boolean value, got String
  file[/c]: { content: "${exec[nope].stdout} ${facts.seven}", mode: "9" } #! there is no resource `exec[nope]` #! there is no fact `seven` #! file[/c]: mode: `9` is not a mode
  file[/d]: { content: "${exec[one].stdout} ${facts.eight}" } #! there is no fact `eight`
  exec[one]: { command: "a | b", require: "exec[two]" } #! exec[one]: command: `|` needs a shell
  exec[two]: { command: "true", require: "exec[one]" } #! resources wait for each other: exec[one] → exec[two] → exec[one]
  user[eve]: { uid: x, when: facts.nine == 3 } #! `uid` expects an Integer value, got String #! there is no fact `nine`
  site[a]: { prt: 3 } #! `site[a]`: mandatory attributes were not provided: `port` #! `site` has no attribute `prt`
  fiel[q]: {} #! unknown type `fiel`
  file[/b]: {} #! `file[/b]` is written twice
  file[/e]: { path: /e/ }
  file[g]: { path: /e, content: x, source: /f } #! file[g]: file[/e] manages the same `/e` #! file[g]: source: `content` and `source` exclude each other
  file[/h]: { content: x }
  file[/h/x]: { content: x } #! file[/h/x]: file[/h] above it is declared as a file
"##;

#[test]
fn all_problems_of_a_manifest_are_reported_at_once() {
    let place = Place::new();
    place.file("m.yaml", MANIFEST);
    let ended = place.run(&["plan", "m.yaml", "--format", "json"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let problems = document["problems"].as_array().unwrap();
    let told = |problem: &serde_json::Value| {
        (problem["line"].as_u64().unwrap(), problem["message"].as_str().unwrap().to_owned())
    };
    let mut found: Vec<(u64, String)> = problems.iter().map(told).collect();
    let lines = MANIFEST.lines().zip(1..);
    let expected = lines.flat_map(|(line, number)| line.split(" #! ").skip(1).map(move |of| (number, of.to_owned())));
    let mut expected: Vec<(u64, String)> = expected.collect();
    found.sort();
    expected.sort();
    let missing: Vec<_> = expected.iter().filter(|one| !found.contains(one)).collect();
    let surplus: Vec<_> = found.iter().filter(|one| !expected.contains(one)).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:#?}\nnot expected: {surplus:#?}");
    assert!(ended.stderr.ends_with(&format!("{} problems; nothing was touched\n", expected.len())), "{}", ended.stderr);
}

#[test]
fn problems_are_reported_with_unreadable_manifest() {
    let place = Place::new();
    place.file("m.yaml", "resources:\n  file[/a]: { mode: \"9\", ownr: x, require: \"file[in the other]\" }\n");
    let ended = place.run(&["plan", "missing.yaml", "m.yaml", "gone.yaml"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    for problem in ["missing.yaml: No such file", "gone.yaml: No such file", "`ownr`", "`9` is not a mode"] {
        assert!(ended.stderr.contains(problem), "{problem}: {ended:?}");
    }
    // The manifest that could not be read may declare it.
    assert!(!ended.stderr.contains("in the other]`"), "{ended:?}");
}

#[test]
fn secret_command_does_not_run_for_invalid_manifest() {
    let secret = "content: {sensitive: {command: [touch, fetched]}}";
    for (rest, runs) in [
        (", when: 'facts.os.famly == \"debian\"'}", false),
        ("}\n  file[/b]: {content: [ }", false),
        (", when: 'true', mode: \"9\"}", true),
    ] {
        let place = Place::new();
        place.file("m.yaml", format!("resources:\n  file[/a]: {{{secret}{rest}\n"));
        let ended = place.run(&["plan", "m.yaml"]);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert_eq!(place.path().join("fetched").exists(), runs, "{rest}: {ended:?}");
    }
    let place = Place::new();
    place.file("m.yaml", format!("resources:\n  file[/a]: {{mode: \"0644\"}}\n  file[/a]: {{{secret}}}\n"));
    let ended = place.run(&["plan", "m.yaml"]);
    assert!(ended.code == 1 && !place.path().join("fetched").exists(), "{ended:?}");
}

#[test]
fn terms_of_other_tools_suggest_kilter_terms() {
    let place = Place::new();
    let lines = [
        ("svc[a]: {}", "kilter's type is `service`"),
        ("service[b]: { ensure: started }", "kilter's term is `running`"),
        ("service[c]: { state: running }", "kilter's attribute is `ensure`"),
        ("service[d]: { enabled: yes }", "kilter's attribute is `enable`"),
        ("service[e]: { ensure: restarted }", "write `ensure: running`; `subscribe` restarts the service"),
        ("package[f]: { ensure: newest }", "write `latest: true`"),
        ("package[g]: { ensure: install }", "kilter's term is `present`"),
        ("package[h]: { ensure: \"=1.2-3\" }", "write `version: \"1.2-3\"`"),
        ("file[/i]: { ensure: dir }", "kilter's term is `directory`"),
        ("file[/j]: { ensure: symlink, src: /x }", "kilter's attribute is `source`"),
        ("file[k]: { dest: /k, onlyif: x }", "guards belong to `exec`; `when:`"),
        ("file[/l]: { perms: \"0644\", user: root }", "kilter's attribute is `owner`"),
        ("exec[m]: { cmd: \"true\", chdir: / }", "kilter's attribute is `cwd`"),
        ("directory[/n]: {}", "kilter's type is `file` with `ensure: directory`"),
        ("cron[o]: { job: x, special: \"@daily\" }", "kilter's term is `daily`"),
        ("user[p]: { ensure: removed }", "kilter's term is `absent`"),
        ("host[q]: { ensure: disabled }", "kilter's term is `absent`"),
        ("service[r]: { ensure: enabled }", "another attribute, `enable`"),
    ];
    let text: String = lines.iter().map(|(line, _)| format!("  {line}\n")).collect();
    place.file("m.yaml", format!("resources:\n{text}"));
    let ended = place.run(&["plan", "m.yaml"]);
    assert_eq!(ended.code, 1);
    for (number, (line, hint)) in (2..).zip(lines) {
        let at = |number: usize| format!("--> m.yaml:{number}:");
        let start = ended.stderr.find(&at(number)).unwrap_or_else(|| panic!("{line}: {}", ended.stderr));
        let end = ended.stderr.find(&at(number + 1)).unwrap_or(ended.stderr.len());
        assert!(ended.stderr[start..end].contains(hint), "{line}: {}", &ended.stderr[start..end]);
    }
    assert!(
        !ended.stderr.contains("`stopped`?") && !ended.stderr.contains("did you mean `absent`"),
        "{}",
        ended.stderr
    );
    let set = place.run(&["set", "service", "x", "ensure=started"]);
    assert!(set.code == 1 && set.stderr.contains("kilter's term is `running`"), "{set:?}");
    let set = place.run(&["set", "file", "/x", "perms=0644"]);
    assert!(set.code == 1 && set.stderr.contains("kilter's attribute is `mode`"), "{set:?}");
    let get = place.run(&["get", "symlink"]);
    assert!(get.code == 1 && get.stderr.contains("kilter's type is `file`"), "{get:?}");
}

#[test]
fn suggested_terms_exist_in_kilter() {
    use kilter_model::foreign_words::{ANY, ATTRIBUTES, TYPES, VALUES};
    let place = Place::new();
    let of_type = |name: &str| {
        let ended = place.run(&["types", name, "--format", "json"]);
        assert_eq!(ended.code, 0, "{name}: {ended:?}");
        ended.stdout
    };
    let mut known = std::collections::BTreeMap::new();
    let named = TYPES.iter().map(|(_, name, _)| *name);
    let named = named.chain(ATTRIBUTES.iter().map(|(name, ..)| *name)).chain(VALUES.iter().map(|(name, ..)| *name));
    for name in named.filter(|name| *name != ANY) {
        known.entry(name).or_insert_with(|| of_type(name));
    }
    let relations = ["require", "before", "notify", "subscribe", "when", "provider", "ensure"];
    for (of, words, name) in ATTRIBUTES {
        match known.get(of) {
            Some(schema) => {
                assert!(schema.contains(&format!("\"{name}\"")), "{of}: {name}");
                for word in *words {
                    let own = format!("\"{word}\": {{\n      \"");
                    assert!(!schema.contains(&own), "{of} has `{word}` itself");
                }
            }
            None => assert!(relations.contains(name), "{name}"),
        }
    }
    for (of, attribute, _, answer) in VALUES.iter().filter(|(of, ..)| *of != ANY) {
        assert!(known[of].contains(&format!("\"{attribute}\"")), "{of}: {attribute}");
        assert!(answer.contains(' ') || known[of].contains(&format!("'{answer}'")), "{of}: {attribute}: {answer}");
    }
}

#[test]
fn comparison_that_a_fact_never_meets_is_a_warning_with_its_place() {
    let place = Place::new();
    let text = "vars:\n  a: ${facts.kernel == \"linux\"}\nresources:\n  \
                file[DIR/b]: { content: b, when: 'facts.os.name == \"Debian\"' }\n  \
                file[DIR/c]: { content: c, when: '\"RedHat\" != facts[\"os\"].family' }\n  \
                file[DIR/d]: { content: d, when: 'facts.os.name in [\"ubuntu\", \"Debian\"]' }\n  \
                file[DIR/e]: { content: 'x${facts.os.distro.id.startsWith(\"Deb\")}' }\n  \
                file[DIR/f]: { content: f, when: 'facts.os.name == \"debian\" && facts.kernel == \"Linux\"' }\n  \
                file[DIR/g]: { content: g, when: 'facts.kernel == \"Darwin\"' }\n";
    place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let ended = place.run(&["plan", "m.yaml"]);
    assert_eq!(ended.code, 2, "{ended:?}");
    for (line, said, right) in [
        (2, "the fact `kernel` never equals `linux`: it is `Linux` here, and comparisons are exact", "Linux"),
        (4, "the fact `os.name` never equals `Debian`: its values are in lower case", "debian"),
        (5, "the fact `os.family` never equals `RedHat`: its values are in lower case", "redhat"),
        (6, "the fact `os.name` never equals `Debian`: its values are in lower case", "debian"),
        (7, "the fact `os.distro.id` never equals `Deb`: its values are in lower case", "deb"),
    ] {
        let start = ended.stderr.find(&format!("--> m.yaml:{line}:")).unwrap_or_else(|| panic!("{line}: {ended:?}"));
        assert!(ended.stderr[..start].trim_end().ends_with(said), "{line}: {ended:?}");
        assert!(ended.stderr[start..].contains(&format!("write \"{right}\"")), "{line}: {ended:?}");
    }
    assert_eq!(ended.stderr.matches("never equals").count(), 5, "{ended:?}");
}

#[test]
fn summary_counts_resources_omitted_by_when() {
    let place = Place::new();
    let text = "types:\n  pair:\n    attributes: {}\n    resources:\n      file[DIR/${self.name}]: { content: x, \
                when: 1 == 2 }\n\
                resources:\n  file[DIR/a]: { content: a }\n  file[DIR/b]: { content: b, when: 1 == 2 }\n  pair[c]: \
                {}\n";
    place.file("m.yaml", text.replace("DIR", &place.path().display().to_string()));
    let plan = place.run(&["plan", "m.yaml"]);
    assert!(plan.stdout.contains("1 resource: 1 to change, 2 left out by `when` ("), "{plan:?}");
    let apply = place.run(&["apply", "m.yaml"]);
    assert!(apply.stdout.contains("1 resource: 1 changed, 2 left out by `when` ("), "{apply:?}");
    let run = place.run(&["run", "m.yaml", "--max-runtime", "1"]);
    assert!(
        format!("{}{}", run.stdout, run.stderr).contains("1 resource: 1 unchanged, 2 left out by `when`"),
        "{run:?}"
    );
    for args in [&["plan", "m.yaml", "--format", "json"], &["apply", "m.yaml", "--format", "json"]] {
        let document: serde_json::Value = serde_json::from_str(&place.run(args).stdout).unwrap();
        assert_eq!((&document["counts"]["total"], &document["counts"]["left_out"]), (&1.into(), &2.into()), "{args:?}");
    }
    let running = crate::run::Running::begin(&place, &["m.yaml"]);
    crate::run::wait("the state", || place.run(&["status"]).stdout.contains("1 in their state"));
    let status = place.run(&["status"]);
    assert!(
        status.stdout.contains("holds 1 resource, for") && status.stdout.contains("2 left out by `when`"),
        "{status:?}"
    );
    let document: serde_json::Value = serde_json::from_str(&place.run(&["status", "--format", "json"]).stdout).unwrap();
    assert_eq!(document["counts"]["left_out"], 2);
    running.end();
}

/// Pairs of resources that set the same object, with the object in the message.
const SAME_OBJECTS: &[(&str, &str, &str)] = &[
    ("timezone[UTC]: {}", "timezone[Europe/Berlin]: {}", "/etc/localtime"),
    ("timezone[a]: {zone: UTC}", "timezone[UTC]: {}", "/etc/localtime"),
    ("hostname[web1]: {}", "hostname[b]: {static: web2}", "/etc/hostname"),
    ("locale[de_DE.UTF-8]: {default: true}", "locale[en_US.UTF-8]: {default: true}", "LANG"),
    (
        "ini[a]: {path: /a, section: s, setting: x, value: 1}",
        "ini[b]: {path: /a, section: s, setting: x, value: 2}",
        "/a [s] x",
    ),
    ("ini[a]: {path: /a, setting: x, value: 1}", "ini[b]: {path: /a, setting: x, ensure: absent}", "/a [] x"),
    (
        "structured[a]: {path: /a.json, key: [k, l], value: 1}",
        "structured[b]: {path: /a.json, key: [k, l], value: 2}",
        "/a.json k.l",
    ),
    (
        "structured[a]: {path: /a.json, key: k, value: {l: 1}}",
        "structured[b]: {path: /a.json, key: [k, m], value: 1}",
        "/a.json k",
    ),
    (
        "structured[a]: {path: /a.json, key: k, value: {l: {m: 1}}, merge: true}",
        "structured[b]: {path: /a.json, key: [k, l, m], value: 2}",
        "/a.json k.l.m",
    ),
    (
        "line[a]: {path: /a, line: Port 22, match: ^Port}",
        "line[b]: {path: /a, line: Port 23, match: ^Port}",
        "/a match: ^Port",
    ),
    (
        "line[a]: {path: /a, line: Port 22, match: ^Port}",
        "line[b]: {path: /a, match: ^Port, match_for_absence: true, ensure: absent}",
        "/a match: ^Port",
    ),
    ("line[a]: {path: /a, line: x}", "line[b]: {path: /a, line: x, ensure: absent}", "/a line: x"),
    (
        "block[a]: {path: /a, content: x, marker: '# {mark}'}",
        "block[b]: {path: /a, content: y, marker: '# {mark}'}",
        "/a # BEGIN",
    ),
    ("cron[a]: {user: root, command: x}", "cron[root:a]: {command: y}", "root:a"),
    ("ssh_authorized_key[a]: {user: root, KEY}", "ssh_authorized_key[root:a]: {KEY}", "root:a"),
    (
        "ssh_authorized_key[a]: {user: root, KEY}",
        "ssh_authorized_key[b]: {user: root, KEY, ensure: absent}",
        "root AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh",
    ),
    (
        "known_hosts[git]: {KEY}",
        "known_hosts[git@ssh-ed25519]: {ensure: absent}",
        "/etc/ssh/ssh_known_hosts git@ssh-ed25519",
    ),
    ("known_hosts[git@ssh-ed25519]: {KEY}", "known_hosts[git]: {ensure: absent}", "/etc/ssh/ssh_known_hosts git"),
];

/// Pairs of resources that would undo each other, with the problem of the second one.
const OPPOSITES: &[(&str, &str, &str)] = &[
    (
        "line[a]: {path: /a, line: x=1}",
        "line[b]: {path: /a, ensure: absent, match: ^x, match_for_absence: true}",
        "line[b]: line[a] sets a line that this resource removes",
    ),
    (
        "line[b]: {path: /a, ensure: absent, match: ^x, match_for_absence: true}",
        "line[a]: {path: /a, line: x=1}",
        "line[a]: line[b] removes the line that this resource sets",
    ),
    (
        "line[q]: {path: /a, line: x=1, match: '^#?x'}",
        "line[r]: {path: /a, line: x=2, match: ^x}",
        "line[r]: line[q] and this resource replace the line of each other",
    ),
];

/// Pairs of resources that set different objects.
const DIFFERENT_OBJECTS: &[(&str, &str)] = &[
    ("locale[de_DE.UTF-8]: {default: true}", "locale[en_US.UTF-8]: {default: false}"),
    ("ini[a]: {path: /a, section: s, setting: x, value: 1}", "ini[b]: {path: /a, setting: x, value: 2}"),
    (
        "structured[a]: {path: /a.json, key: k, value: {l: 1}, merge: true}",
        "structured[b]: {path: /a.json, key: k, value: {m: 2}, merge: true}",
    ),
    ("structured[a]: {path: /a.json, key: k.l, value: 1}", "structured[b]: {path: /a.json, key: [k, l], value: 2}"),
    (
        "line[a]: {path: /a, line: include a, match: '^# include'}",
        "line[b]: {path: /a, line: include b, match: '^# include'}",
    ),
    ("line[a]: {path: /a, line: x}", "line[b]: {path: /a, line: x, match: ^y}"),
    ("line[a]: {path: /a, line: x=1, match: ^x}", "line[b]: {path: /a, line: y=1, match: '^[xy]'}"),
    ("line[a]: {path: /a, line: x=1, match: '^#?x'}", "line[b]: {path: /b, line: x=2, match: ^x}"),
    (
        "line[a]: {path: /a, line: x=1, match: '^#x', append_on_no_match: false}",
        "line[b]: {path: /a, ensure: absent, match: ^x, match_for_absence: true}",
    ),
    ("line[a]: {path: /a, line: Port 22, match: ^Port}", "line[b]: {path: /b, line: Port 23, match: ^Port}"),
    ("cron[a]: {user: root, command: x}", "cron[daemon:a]: {command: y}"),
    ("ssh_authorized_key[a]: {user: root, KEY}", "ssh_authorized_key[b]: {user: root, KEY}"),
    ("known_hosts[git@ssh-ed25519]: {KEY}", "known_hosts[git@ssh-rsa]: {ensure: absent}"),
    (
        "value[v]: {any: x}",
        "ini[a]: {path: /a, setting: '${value[v].any}', value: 1}, ini[b]: {path: /a, setting: '${value[v].any}', \
         value: 2}",
    ),
];

#[test]
fn resources_that_set_the_same_object_are_refused() {
    let place = Place::new();
    let key = "type: ssh-ed25519, key: AAAAC3NzaC1lZDI1NTE5AAAAIHB5dGhvbiBpcyBmdW4gYW5kIHNvIGlzIHJ1c3QhISEh";
    let manifest = |first: &str, second: &str| {
        let resources = format!("{first}\n{second}").replace("KEY", key).replace(", ini", "\nini");
        let lines: String = resources.lines().map(|line| format!("  {line}\n")).collect();
        place.file("m.yaml", format!("resources:\n{lines}"));
    };
    for (first, second, object) in SAME_OBJECTS {
        manifest(first, second);
        for command in ["check", "plan"] {
            let ended = place.run(&[command, "m.yaml"]);
            let reference = |text: &str| text.split_inclusive(']').next().unwrap().to_owned();
            let message = format!("{}: {} manages the same `{object}`", reference(second), reference(first));
            assert!(ended.code == 1 && ended.stderr.contains(&message), "{message}: {ended:?}");
        }
    }
    for (first, second, message) in OPPOSITES {
        manifest(first, second);
        let ended = place.run(&["check", "m.yaml"]);
        assert!(ended.code == 1 && ended.stderr.contains(message), "{message}: {ended:?}");
    }
    for (first, second) in DIFFERENT_OBJECTS {
        manifest(first, second);
        let ended = place.run(&["check", "m.yaml"]);
        assert_eq!(ended.code, 0, "{first} {second}: {ended:?}");
    }
}
