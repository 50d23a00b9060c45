//! Broken manifests: each is refused with just the problems that it has, each at its place.

#[expect(dead_code, reason = "it serves several test files")]
mod support;

use kilter_manifest::{Inputs, Source, Sources, compile_partly, render};
use support::World;

/// A manifest, and per problem: what its message and hints hold, and `line:column`.
type BrokenCase = (&'static str, &'static [(&'static str, &'static str)]);

const CASES: &[BrokenCase] = &[
    // Syntax.
    ("resources:\n\tfile[/a]: {}\n", &[("indent with spaces", "2:1")]),
    ("resources: [1, 2\nvars: {}\n", &[("not valid YAML", "2:5")]),
    ("vars: { a: ${vars.b} }\n", &[("put in quotes", "1:13")]),
    ("resources:\n  file[/a]: { notify: service[s] }\n", &[("a reference is put in quotes", "2:30")]),
    ("resources:\n  file[/a]:\n    notify: [service[s]]\n", &[("a reference is put in quotes", "3:21")]),
    ("vars:\n  a: b: c\n", &[("unexpected `:`", "2:7")]),
    ("vars:\n  a: @b\n", &[("cannot start with `@`", "2:6")]),
    ("vars:\n  a: \"never closed\n", &[("not valid YAML", "3:1")]),
    ("vars:\n  a: *nothing\n", &[("there is no anchor `&nothing`", "2:6")]),
    ("vars:\n  a: &x [*x]\n", &[("refers to a node that contains it", "2:10")]),
    ("vars:\n  a: !secret x\n", &[("the tag `!secret` is not known", "2:14")]),
    ("vars:\n  {{ a }}: 1\n", &[("a key must be a text", "2:3")]),
    ("vars:\n  ? [a]\n  : 1\n", &[("a key must be a text", "2:5")]),
    ("vars:\n  a: 1\n  b: 2\n  a: 3\n", &[("`a` is written twice", "4:3")]),
    ("vars:\n  <<: 1\n", &[("`<<` merges mappings", "2:7")]),
    // The top.
    ("- file\n", &[("a manifest is a mapping", "1:1")]),
    ("just text\n", &[("a manifest is a mapping", "1:1")]),
    ("resource: {}\n", &[("did you mean `resources`?", "1:1")]),
    ("file[/etc/motd]: {}\n", &[("resources belong below `resources:`", "1:1")]),
    ("resources:\n  - file[/a]\n", &[("`resources` is a mapping", "2:3")]),
    ("vars: 1\n", &[("`vars` is a mapping", "1:7")]),
    ("include: missing.yaml\n", &[("cannot include `missing.yaml`: No such file", "1:10")]),
    ("include:\n  - loop.yaml\n", &[("`loop.yaml` includes itself: loop.yaml -> loop2.yaml", "1:11")]),
    ("include: { a: b }\n", &[("`include` is a list of paths", "1:10")]),
    ("include: [[a]]\n", &[("`include` is a list of paths", "1:11")]),
    // References.
    ("resources:\n  motd: {}\n", &[("`motd` is not a reference", "2:3")]),
    ("resources:\n  File[/a]: {}\n", &[("type names are in lower case: `file[/a]`", "2:3")]),
    ("resources:\n  file[]: {}\n", &[("has an empty title", "2:3")]),
    ("resources:\n  fil[/a]: {}\n", &[("did you mean `file`?", "2:3")]),
    ("resources:\n  wibble[/a]: { x: 1 }\n", &[("known types: file, exec, user, service", "2:3")]),
    ("resources:\n  file[/a]: present\n", &[("is not followed by attributes", "2:13")]),
    ("resources:\n  file[a]: {}\n", &[("the title is the `path`", "2:3")]),
    ("resources:\n  file[/a]: {}\n  user[x]: {}\n  file[/a]: {}\n", &[("`file[/a]` is written twice", "4:3")]),
    (
        "vars: { d: /etc }\nresources:\n  file[/etc/a]: {}\n  file[${vars.d}/a]: {}\n",
        &[("`file[/etc/a]` is written twice", "4:3")],
    ),
    ("resources:\n  file[/a]: {}\n  file[/b]: { path: /a }\n", &[("two resources manage the file `/a`", "3:3")]),
    (
        "resources:\n  file[/a]: { meta: { hidden: true } }\n  file[/b]: { path: /a }\n  file[/c]: { path: /a }\n",
        &[("two resources manage the file `/a`", "4:3")],
    ),
    ("resources:\n  file[/a]: { meta: { hidden: true } }\n  file[/a]: {}\n", &[("`file[/a]` is written twice", "3:3")]),
    (
        "resources:\n  user[a]: { name: root }\n  user[b]: { name: root }\n",
        &[("two resources manage the user `root`", "3:3")],
    ),
    // Attributes.
    ("resources:\n  file[/a]:\n    mdoe: '0644'\n", &[("did you mean `mode`?", "3:5")]),
    ("resources:\n  user[a]:\n    wibble: 1\n", &[("its attributes: name, uid, password, require", "3:5")]),
    ("resources:\n  user[a]:\n    retry: 1\n", &[("it belongs below `meta`", "3:5")]),
    ("resources:\n  file[/a]: { size: 1 }\n", &[("`size` is read_only", "2:15")]),
    (
        "types:\n  t:\n    attributes:\n      a: {type: String, desc: The first.}\n      b: {type: String, desc: \
         d}\n    resources: {}\nresources:\n  t[a]: {}\n",
        &[("`t[a]`: mandatory attributes were not provided: `a`, `b`", "8:3")],
    ),
    ("resources:\n  exec[a]: {}\n", &[("`exec[a]`: mandatory attributes were not provided: `command`", "2:3")]),
    ("resources:\n  exec[a]: { command: null }\n", &[("mandatory attributes were not provided: `command`", "2:3")]),
    (
        "resources:\n  file[/a]: { ensure: presnt }\n",
        &[("expects a match for Enum['absent', 'directory', 'file', 'link', 'present'], got 'presnt'", "2:23")],
    ),
    // The hint is the description of the attribute.
    ("resources:\n  file[a]: { path: b }\n", &[("The path.", "2:20")]),
    ("resources:\n  file[/a]: { ensure: 1 }\n", &[("allowed are: present, absent", "2:23")]),
    ("resources:\n  file[/a]: { backup: yes }\n", &[("write true, without quotes", "2:23")]),
    ("resources:\n  file[/a]: { backup: 'false' }\n", &[("write false, without quotes", "2:23")]),
    ("resources:\n  user[a]: { uid: '1' }\n", &[("write 1, without quotes", "2:19")]),
    ("resources:\n  user[a]: { uid: 0100 }\n", &[("write 100, or 0o100 for an octal one", "2:19")]),
    ("resources:\n  exec[a]: { command: x, tries: 0 }\n", &[("`tries` expects an Integer[1] value, got 0", "2:33")]),
    ("resources:\n  file[/a]: { mode: [a] }\n", &[("`mode` expects a String value, got Tuple", "2:21")]),
    ("resources:\n  file[/a]: { tags: a }\n", &[("write a list", "2:21")]),
    ("resources:\n  file[/a]: { tags: [a, [b]] }\n", &[("`tags` index 1 expects a String value", "2:21")]),
    ("resources:\n  file[/a]: { limits: { cpu: 11 } }\n", &[("`limits` entry 'cpu' expects", "2:23")]),
    (
        "vars: { port: 80 }\nresources:\n  file[/a]: { mode: '${vars.port}' }\n",
        &[("string(x) converts a value to text", "3:21")],
    ),
    // Expressions.
    ("resources:\n  file[/a]:\n    content: echo ${HOME}\n", &[("shell text needs `$${HOME}`", "3:21")]),
    (
        "vars: { port: 1 }\nresources:\n  file[/a]:\n    content: |\n      x\n      y ${vars.prot}\n",
        &[("did you mean `vars.port`?", "6:11")],
    ),
    ("resources:\n  file[/a]:\n    content: \"a\\tb ${facts.oss.family}\"\n", &[("did you mean `facts.os`?", "3:22")]),
    ("resources:\n  file[/a]:\n    content: 'it''s ${facts.os.familie}'\n", &[("did you mean `family`?", "3:23")]),
    ("resources:\n  file[/a]:\n    content: ${facts.os\n", &[("this `${` is never closed", "3:14")]),
    ("resources:\n  file[/a]:\n    content: x ${facts.os}\n", &[("a map has no text", "3:18")]),
    ("vars:\n  a: ${vars.b}\n  b: ${vars.c}\n  c: x${vars.a}\n", &[("refers to itself: a -> b -> c -> a", "2:3")]),
    ("vars:\n  a: ${vars.a}\n", &[("the variable `a` refers to itself: a -> a", "2:3")]),
    (
        "vars:\n  a: ${exec[b].stdout}\nresources:\n  exec[b]: { command: c }\n",
        &[("sends its outputs to attributes only", "2:8")],
    ),
    ("resources:\n  file[/a]: { content: '${exec[b].stdout}' }\n", &[("there is no resource `exec[b]`", "2:27")]),
    (
        "resources:\n  exec[b]: { command: c }\n  file[/a]: { content: '${exec[b].stdot}' }\n",
        &[("did you mean `stdout`?", "3:27")],
    ),
    ("resources:\n  user[b]: {}\n  file[/a]: { content: '${user[b].uid}' }\n", &[("send nothing", "3:27")]),
    ("resources:\n  exec[b]: { command: 'x ${exec[b].stdout}' }\n", &[("refers to its own output", "2:28")]),
    (
        "resources:\n  exec[b]: { command: c }\n  user[a]: { uid: '1${exec[b].stdout}' }\n",
        &[("`uid` takes Integer, but this is a text", "3:19")],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  user[a]: { uid: '${exec[b].stdout}' }\n",
        &[(
            "`uid` takes Integer, but `exec[b].stdout` is Variant[String, Binary] | write `${int(exec[b].stdout)}`",
            "3:19",
        )],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  file[/a]: { backup: '${exec[b].exit_code}' }\n",
        &[("`backup` takes Boolean, but `exec[b].exit_code` is Integer | write `${exec[b].exit_code == 0}`", "3:23")],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  file[/a]: { content: '${exec[b].exit_code}' }\n",
        &[("is Integer | write `${string(exec[b].exit_code)}`", "3:24")],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  file[/a]: { tags: '${exec[b].stdout}' }\n",
        &[("write `${exec[b].stdout.split(',')}`", "3:21")],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  file[/a]: { tags: [a, '${exec[b].exit_code}'], limits: { a: \
         'x${exec[b].stdout}' } }\n",
        &[("`tags` takes String, but", "3:25"), ("`limits` takes Integer[0, 10], but this is a text", "3:63")],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  user[a]: { uid: '${true ? exec[b].stdout : \"hunter2\"}', password: \
         { sensitive: '${exec[b].exit_code + 1}' } }\n",
        &[
            ("but this is Variant[String, Binary] | write `${int(x)}`", "3:19"),
            ("`password` takes Sensitive[String], but this is Numeric | write `${string(x)}`", "3:82"),
        ],
    ),
    (
        "resources:\n  exec[b]: { command: c, when: 'false' }\n  file[/a]: { content: '${exec[b].stdout}' }\n",
        &[("`exec[b]` has no output `stdout`", "3:27")],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  file[/a]: { content: '${exec[b].stdout} ${vars.no}' }\n",
        &[("there is no variable `no`", "3:45")],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  file[a]: { path: '${exec[b].stdout}' }\n",
        &[("must be known before the run | give it without outputs", "3:20")],
    ),
    (
        "resources:\n  exec[b]: { command: c }\n  file[/a]: { meta: { retry: '${exec[b].stdout}' } }\n",
        &[("`retry` must be known before the run | give it without outputs", "3:30")],
    ),
    // Relations.
    ("resources:\n  file[/a]: { notify: 'service[x]' }\n", &[("relations and outputs name resources", "2:23")]),
    (
        "resources:\n  service[nginx]: {}\n  file[/a]:\n    notify: service[ngnix]\n",
        &[("did you mean `service[nginx]`?", "4:13")],
    ),
    ("resources:\n  file[/a]:\n    require:\n      - fil[/b]\n", &[("unknown type `fil`", "4:9")]),
    ("resources:\n  file[/a]:\n    require: nginx\n", &[("`nginx` is not a reference", "3:14")]),
    ("resources:\n  file[/a]:\n    before: { a: b }\n", &[("expects a reference or a list", "3:13")]),
    ("resources:\n  file[/a]:\n    subscribe: file[/a]\n", &[("`file[/a]` refers to itself", "3:16")]),
    // when and meta.
    ("resources:\n  file[/a]:\n    when: facts.os.family = 1\n", &[("`==` compares", "3:27")]),
    ("resources:\n  file[/a]:\n    when: facts.os.family\n", &[("`when` expects a Boolean value", "3:11")]),
    ("resources:\n  file[/a]:\n    when: ${facts.os.family}\n", &[("write it without `${`", "3:11")]),
    ("resources:\n  file[/a]:\n    when: vars.x == 1\n", &[("there is no variable `x`", "3:11")]),
    ("resources:\n  file[/a]: { when: [a] }\n", &[("`when` expects an expression", "2:21")]),
    ("resources:\n  file[/a]: { meta: { export: [x/y] } }\n", &[("`x/y` is not a machine name", "2:31")]),
    ("resources:\n  file[/a]: { meta: { limit: 1 } }\n", &[("`limit` needs a `burst`", "2:23")]),
    ("resources:\n  file[/a]: { meta: { burst: 1 } }\n", &[("`burst` needs a `limit`", "2:23")]),
    ("resources:\n  file[/a]: { meta: { limit: null, burst: 1 } }\n", &[("`burst` needs a `limit`", "2:36")]),
    ("resources:\n  file[/a]: { meta: { limit: 1, burst: 0 } }\n", &[("`burst` expects", "2:40")]),
    ("resources:\n  file[/a]: { meta: { poll: often } }\n", &[("`poll` expects", "2:29")]),
    ("resources:\n  file[/a]: { meta: { policy: mend } }\n", &[("`policy` expects", "2:31")]),
    ("resources:\n  file[/a]: { meta: { sema: [\"\"] } }\n", &[("it is empty", "2:29")]),
    ("resources:\n  file[/a]: { meta: { sema: [\"42\"] } }\n", &[("it is only a number", "2:29")]),
    (
        "resources:\n  file[/a]: { meta: { sema: [\"a:0\", \"b:c\"] } }\n",
        &[("`a:0` is no", "2:29"), ("`b:c` is no", "2:29")],
    ),
    ("defaults: 3\n", &[("`defaults` is a mapping", "1:11")]),
    ("defaults:\n  file: 3\n", &[("defaults of a type are a mapping", "2:9")]),
    ("defaults:\n  flie: { meta: { retry: 1 } }\n", &[("unknown type `flie`", "2:3")]),
    ("defaults:\n  file: { mdoe: \"0644\" }\n", &[("`file` has no attribute `mdoe`", "2:11")]),
    ("defaults:\n  \"*\": { meta: { retires: 1 } }\n", &[("unknown metaparameter `retires`", "2:18")]),
    ("resources:\n  file[/a]: { meta: { retires: 1 } }\n", &[("unknown metaparameter `retires`", "2:23")]),
    ("resources:\n  file[/a]: { meta: { noop: 1 } }\n", &[("`noop` expects a Boolean value", "2:29")]),
    ("resources:\n  file[/a]: { meta: { delay: -1 } }\n", &[("`delay` expects", "2:30")]),
    ("resources:\n  file[/a]: { meta: 3 }\n", &[("`meta` is a mapping", "2:21")]),
    // Secrets.
    ("resources:\n  user[a]:\n    password: { sensitive: { fiel: x } }\n", &[("did you mean `file`?", "3:30")]),
    (
        "resources:\n  user[a]:\n    password: { sensitive: { file: /none } }\n",
        &[("cannot fetch the secret: nothing", "3:28")],
    ),
    ("resources:\n  user[a]:\n    password: { sensitive: [] }\n", &[("`sensitive` needs exactly one source", "3:28")]),
    ("resources:\n  user[a]:\n    password: { sensitive: { command: x } }\n", &[("is a list of texts", "3:39")]),
    ("resources:\n  user[a]:\n    uid: { sensitive: hunter2 }\n", &[("got a sensitive value of another type", "3:10")]),
    // Many at once.
    (
        "resources:\n  file[/a]: { mdoe: 1, backup: on }\n  wibble[x]: {}\n  user[u]: { uid: x, require: 'file[/b]' \
         }\n",
        &[
            ("did you mean `mode`?", "2:15"),
            ("write true", "2:32"),
            ("unknown type `wibble`", "3:3"),
            ("`uid` expects an Integer value", "4:19"),
            ("did you mean `file[/a]`?", "4:31"),
        ],
    ),
];

#[test]
fn broken_manifests_report_expected_problems_with_places() {
    let world = World::new();
    let mut wrong = Vec::new();
    for (text, expected) in CASES {
        let (result, sources) = world.compile(text);
        let problems = result.err().unwrap_or_default();
        let shown = render(&problems, &sources, false);
        if problems.len() != expected.len() {
            wrong.push(format!("{} problems, not {}, in\n{text}\n{shown}", problems.len(), expected.len()));
            continue;
        }
        for (problem, (fragment, place)) in problems.iter().zip(*expected) {
            let said = format!("{} | {}", problem.message, problem.hints.join(" | "));
            let found = problem.span.map(|span| sources.locate(span)).map(|l| format!("{}:{}", l.line, l.column));
            if !said.contains(fragment) || found.as_deref() != Some(*place) {
                wrong.push(format!("wanted {place} {fragment:?}, got {found:?} {said:?} in\n{text}"));
            }
        }
    }
    assert!(CASES.len() >= 40);
    assert!(wrong.is_empty(), "{}\n\n{} wrong", wrong.join("\n----\n"), wrong.len());
}

#[test]
fn broken_json_error_uses_json_terms() {
    let world = World::new();
    for (text, fragment, place) in [
        ("{\"resources\": {\"file[/a]\": {}}", "the text ends, expected `,` or `}`", "1:31"),
        ("{'a': 1}", "a key in double quotes", "1:2"),
        ("{\"vars\": {\"a\": 1,}}", "no comma after the last element", "1:18"),
        ("{\"vars\": {\"a\": 01}}", "`01` is not a value", "1:16"),
        ("{\"vars\": {\"a\": \"x\ny\"}}", "a control character", "1:18"),
        ("{\"vars\": {\"a\": 1, \"a\": 2}}", "`a` is written twice", "1:19"),
        ("{\"vars\": {}} x", "after the end", "1:14"),
        ("// no\n{}", "JSON has no comments", "1:1"),
    ] {
        let mut sources = Sources::new();
        sources.add(Source::new("site.json", text));
        let problems = world.compile_all(&mut sources).expect_err(text);
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        let said = format!("{} | {}", problems[0].message, problems[0].hints.join(" | "));
        let found = sources.locate(problems[0].span.expect("it has a place"));
        assert!(said.contains(fragment), "{text}: {said}");
        assert_eq!(format!("{}:{}", found.line, found.column), place, "{text}: {said}");
    }
}

#[test]
fn entries_before_syntax_error_and_includes_are_checked() {
    let world = World::new();
    let mut wrong = Vec::new();
    for (text, expected) in [
        (
            "resources:\n  file[/a]: { mod: x }\n  file[/b]: { content: [ }\n  file[/c]: { mod: x }\n",
            &["2:15", "3:24"][..],
        ),
        ("include: wrong.yaml\nresources:\n  file[/b]: { notify: service[s] }\n", &["2:22", "3:30"]),
        ("resources:\n  file[/a]: { mod: x }\nvars:\n  a: b: c\n", &["2:15", "4:7"]),
        // What may be in the rest of the text is not missed.
        ("resources:\n  pair[x]: {}\n  file[/a]: { require: 'file[/b]' }\n  x: [\ntypes:\n  pair: {}\n", &["6:7"]),
        ("graph: g\nresources:\n  file:\n  - name: [\n", &["4:11"]),
        ("- a\n- [\n", &["2:3"]),
        ("? {a: b}\n: [\n", &["2:3"]),
        ("vars: {}\n---\nresources:\n  file[/a]: { mod: x }\n  file[/b]: [\n", &["4:15", "5:13"]),
    ] {
        let (result, sources) = world.compile(text);
        let problems = result.err().unwrap_or_default();
        let place = |span| format!("{}:{}", sources.locate(span).line, sources.locate(span).column);
        let mut places: Vec<String> = problems.iter().filter_map(|problem| problem.span.map(place)).collect();
        places.sort();
        if places != expected {
            wrong.push(format!("{places:?}, not {expected:?}, in\n{text}\n{}", render(&problems, &sources, false)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n----\n"));
}

#[test]
fn duplicate_or_wrongly_conditional_resource_is_checked() {
    let world = World::new();
    for (text, expected) in [
        (
            "resources:\n  file[/a]: { content: x }\n  file[/a]: { mod: x, require: 'file[/none]' }\n",
            &["written twice", "did you mean `mode`?", "there is no resource `file[/none]`"][..],
        ),
        ("resources:\n  file[/a]: { when: 'nope(', mod: x }\n", &["unknown function", "did you mean `mode`?"]),
        // Which of these are part of the run is not known.
        (
            "resources:\n  file[/a]: { when: 'facts.none', path: /x, require: 'file[/b]' }\n  \
             file[/b]: { when: '!facts.none', path: /x, require: 'file[/a]' }\n",
            &["there is no fact `none`", "there is no fact `none`"],
        ),
    ] {
        let (result, sources) = world.compile(text);
        let shown = render(&result.err().unwrap_or_default(), &sources, false);
        assert_eq!(shown.matches("error: ").count(), expected.len(), "{shown}");
        expected.iter().for_each(|part| assert!(shown.contains(part), "{part}: {shown}"));
    }
}

#[test]
fn secret_of_invalid_or_duplicate_resource_is_not_fetched() {
    let world = World::new();
    let fetched = |text: &str| {
        let (result, sources) = world.compile(text);
        render(&result.err().unwrap_or_default(), &sources, false).matches("cannot fetch the secret").count()
    };
    let secret = "{ sensitive: { command: [none] } }";
    assert_eq!(fetched(&format!("resources:\n  file[/a]: {{ content: {secret} }}\n")), 1, "a control");
    for text in [
        format!("resources:\n  file[/a]: {{ when: 'facts.os.famly == \"debian\"', content: {secret} }}\n"),
        format!("vars:\n  s: {secret}\nresources:\n  file[/a]: {{ when: 'facts.none', content: '${{vars.s}}' }}\n"),
        format!("resources:\n  file[/a]: {{ content: {secret} }}\n  file[/b]: {{ content: [ }}\n"),
        format!("resources:\n  file[/a]: {{}}\n  file[/a]: {{ content: {secret} }}\n"),
        format!(
            "vars:\n  s: {secret}\nresources:\n  file[/a]: {{}}\n  file[/a]: {{ meta: {{ retry: '${{vars.s}}' }} }}\n"
        ),
        format!("include: none.yaml\nresources:\n  file[/a]: {{ content: {secret} }}\n"),
    ] {
        assert!(world.compile(&text).0.is_err(), "{text}");
        assert_eq!(fetched(&text), 0, "{text}");
    }
    let beside = format!("resources:\n  file[/a]: {{ when: 'facts.none' }}\n  file[/b]: {{ content: {secret} }}\n");
    assert_eq!(fetched(&beside), 1, "a certain resource beside a doubtful one");
}

#[test]
fn duplicate_composite_resource_is_not_in_catalog() {
    let world = World::new();
    let text = "types:\n  pair:\n    attributes: { a: { type: 'Optional[String]' } }\n    resources: { 'file[/a]': {} \
                }\n\
                resources:\n  pair[x]: {}\n  pair[x]: { b: 1 }\n";
    let mut sources = Sources::new();
    sources.add(Source::new("site.yaml", text));
    let inputs = Inputs { schemas: &world, facts: &world, secrets: &world, loader: &world, overrides: &[] };
    let (compiled, problems) = compile_partly(&mut sources, &inputs);
    let shown = render(&problems, &sources, false);
    assert!(problems.len() == 2 && shown.contains("written twice") && shown.contains("no attribute `b`"), "{shown}");
    assert!(compiled.catalog.resources.iter().all(|one| one.reference.type_name == *"file"), "{:?}", compiled.catalog);
}

#[test]
fn problems_of_several_files_are_reported_together() {
    let world = World::new();
    let mut sources = Sources::new();
    sources.add(Source::new("a.yaml", "include: wrong.yaml\nresources:\n  file[/a]: {}\n"));
    sources.add(Source::new("b.yaml", "resources:\n  file[/a]: {}\n"));
    sources.add(Source::new("c.yaml", "resources:\n  file[/c]: [\n"));
    let problems = world.compile_all(&mut sources).expect_err("all of them are broken");
    let shown = render(&problems, &sources, false);
    assert_eq!(problems.len(), 3, "{shown}");
    assert!(shown.contains("b.yaml:2:3") && shown.contains("first written here"), "{shown}");
    assert!(shown.contains("wrong.yaml:2:22") && shown.contains("did you mean `mode`?"), "{shown}");
    assert!(shown.contains("c.yaml:2:13"), "{shown}");
}

#[test]
fn definition_in_unreadable_file_is_not_reported_missing() {
    let world = World::new();
    let (result, sources) =
        world.compile("include: none.yaml\nresources:\n  file[/a]: { content: '${vars.x}', require: 'file[/b]' }\n");
    let problems = result.expect_err("the include cannot be read");
    assert_eq!(problems.len(), 1, "{}", render(&problems, &sources, false));
}
