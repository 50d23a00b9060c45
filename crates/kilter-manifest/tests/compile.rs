//! Manifests that are right, and what they amount to.

mod support;

use kilter_manifest::{AttributeSpans, Diagnostic, Source, Sources, render, to_json};
use kilter_model::expr::{EvalError, Lookup, Scope};
use kilter_model::{Catalog, EventLimit, Meta, Policy, Poll, RelationKind, Resource, ResourceRef, Semaphore, Value};
use support::World;

fn find<'c>(catalog: &'c Catalog, reference: &str) -> &'c Resource {
    catalog.resources.iter().find(|r| r.reference.to_string() == reference).unwrap_or_else(|| panic!("{reference}"))
}

fn shown(resource: &Resource) -> String {
    let parts: Vec<String> = resource.attributes.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    parts.join(" ")
}

#[test]
fn resources_come_in_manifest_order_with_defaults() {
    let catalog = World::new().catalog(
        "resources:\n  file[/b]:\n    content: |\n      one\n      two\n    mode: 0644\n  file[/a]: { ensure: absent \
         }\n  exec[x]: { command: [a, b] }\n  user[u]:\n",
    );
    let references: Vec<String> = catalog.resources.iter().map(|r| r.reference.to_string()).collect();
    assert_eq!(references, ["file[/b]", "file[/a]", "exec[x]", "user[u]"]);
    assert_eq!(shown(find(&catalog, "file[/b]")), r#"content="one\ntwo\n" mode="0644" ensure="present""#);
    assert_eq!(shown(find(&catalog, "file[/a]")), r#"ensure="absent""#);
    assert_eq!(shown(find(&catalog, "exec[x]")), r#"command=["a", "b"] tries=1"#);
    assert_eq!(shown(find(&catalog, "user[u]")), "");
}

#[test]
fn plain_scalar_is_text_only_for_text_attributes() {
    let catalog = World::new().catalog(
        "resources:\n  file[/a]:\n    mode: 644\n    content: 1.50\n    owner: 0\n    backup: true\n    tags: [1, \
         true, 0x1f, ~x]\n    limits: { a: 1 }\n  file[/b]: { owner: 0777, content: null }\n  service[s]: { enable: \
         mask }\n  exec[e]: { command: x, environment: { A: 1, B: yes } }\n",
    );
    assert_eq!(
        shown(find(&catalog, "file[/a]")),
        r#"mode="644" content="1.50" owner=0 backup=true tags=["1", "true", "0x1f", "~x"] limits={"a": 1} ensure="present""#
    );
    assert_eq!(shown(find(&catalog, "file[/b]")), r#"owner="0777" ensure="present""#);
    assert_eq!(shown(find(&catalog, "service[s]")), r#"enable="mask""#);
    assert_eq!(shown(find(&catalog, "exec[e]")), r#"command="x" environment={"A": "1", "B": "yes"} tries=1"#);
}

#[test]
fn expressions_over_vars_and_facts_are_evaluated_everywhere() {
    let world = World::new();
    let catalog = world.catalog(
        "vars:\n  port: 8080\n  dir: /etc/${vars.name}\n  name: app\n  list: [a, \"${facts.networking.hostname}\"]\n  \
         deep: { x: { y: \"${vars.port + 1}\" } }\nresources:\n  file[${vars.dir}/x]:\n    content: port ${vars.port} \
         on ${facts.networking.hostname} $${HOME}\n    tags: ${vars.list}\n    limits: { \"${vars.name}\": 3 }\n    \
         notify: service[${vars.name}]\n  service[app]: {}\n  user[u]: { uid: \"${vars.deep.x.y}\" }\n",
    );
    assert_eq!(
        shown(find(&catalog, "file[/etc/app/x]")),
        r#"content="port 8080 on web1 ${HOME}" tags=["a", "web1"] limits={"app": 3} ensure="present""#
    );
    assert_eq!(shown(find(&catalog, "user[u]")), "uid=8081");
    assert_eq!(*world.asked.borrow(), ["networking"], "each fact is asked for once, and only if it is named");
    assert!(catalog.vars.is_empty() && catalog.facts.is_empty());
}

#[test]
fn command_line_variables_and_later_files_override() {
    let mut world = World::new();
    world.overrides.push(("b".into(), Value::Integer(9)));
    let mut sources = Sources::new();
    sources.add(Source::new(
        "1.yaml",
        "vars: { a: 1, b: 1, c: 1 }\nresources:\n  file[/x]: { content: \"${vars.a} \
                                       ${vars.b} ${vars.c} ${vars.colour}\" }\n",
    ));
    sources.add(Source::new("2.json", "{\"include\": \"common.yaml\", \"vars\": {\"c\": 2, \"colour\": \"red\"}}"));
    let compiled = world.compile_all(&mut sources).unwrap_or_else(|p| panic!("{}", render(&p, &sources, false)));
    assert_eq!(shown(&compiled.catalog.resources[0]), r#"content="1 9 2 red" ensure="present""#);
    assert_eq!(compiled.catalog.resources[1].reference.to_string(), "user[www]");
}

#[test]
fn times_and_versions_are_written_as_their_texts() {
    let world = World::new();
    let catalog = world.catalog(
        "resources:\n  service[s]: { since: 2026-01-31T12:00:00+01:00, pause: 90, versions: [1.2.3, \"2.0.0-rc.1\"] \
         }\n",
    );
    let attributes = &find(&catalog, "service[s]").attributes;
    assert_eq!(attributes.get("since"), Some(&Value::Timestamp("2026-01-31T11:00:00".parse().unwrap())));
    assert_eq!(attributes.get("pause"), Some(&Value::Timespan("0-00:01:30".parse().unwrap())));
    assert_eq!(attributes.get("versions").map(ToString::to_string).as_deref(), Some("[1.2.3, 2.0.0-rc.1]"));
    let (result, _) = world.compile("resources:\n  service[s]: { since: noon }\n");
    let problems = result.expect_err("noon has no date");
    assert_eq!(problems[0].message, "`since` expects a value of type Undef or Timestamp, got String");
}

#[test]
fn relations_are_directed_and_those_to_resources_left_out_are_ignored() {
    let catalog = World::new().catalog(
        "resources:\n  file[/gone]:\n    when: facts.os.family == \"redhat\"\n    notify: service[s]\n  \
         file[/a]:\n    notify: service[s]\n    require: [\"user[u]\", \"file[/gone]\"]\n  service[s]:\n    \
         subscribe: user[u]\n  user[u]:\n    before: [\"service[s]\"]\n    when: true\n",
    );
    let relations: Vec<(u32, u32, RelationKind)> =
        catalog.relations.iter().map(|r| (r.first, r.second, r.kind)).collect();
    use RelationKind::{Before, Notify, Require, Subscribe};
    assert_eq!(relations, [(0, 1, Notify), (2, 0, Require), (2, 1, Subscribe), (2, 1, Before)]);
}

#[test]
fn false_condition_skips_evaluation() {
    let catalog = World::new().catalog(
        "resources:\n  file[/a]:\n    when: false\n    content: ${facts.nowhere.to.be.found}\n    owner: { sensitive: \
         { file: /none } }\n",
    );
    assert!(catalog.resources.is_empty());
}

#[test]
fn meta_sets_engine_options() {
    let catalog = World::new().catalog(
        "resources:\n  user[a]: { meta: { noop: true, retry: -1, delay: 500, autoedge: false } }\n  user[b]: \
                  { meta: {} }\n",
    );
    let meta = find(&catalog, "user[a]").meta().cloned().unwrap_or_default();
    assert!(meta.noop && meta.no_autoedge && meta.retry == -1 && meta.delay == 500);
    assert!(find(&catalog, "user[b]").meta().is_none());
    let catalog = World::new().catalog(
        "resources:\n  user[a]: { meta: { policy: warn, timeout: 500, poll: -1, limit: 0.5, burst: 3, sema: [\"a\", \
         \"b:2\", a], \
         retryreset: true, autogroup: false } }\n",
    );
    let meta = find(&catalog, "user[a]").meta().cloned().unwrap_or_default();
    let semaphores = ["a", "b:2"].map(Semaphore::of).to_vec();
    let limit = Some(EventLimit { per_second: 0.5, burst: 3 });
    let (policy, poll) = (Policy::Warn, Poll::Once);
    let (retry_reset, no_autogroup) = (true, true);
    let wanted = Meta { policy, timeout: 500, poll, limit, semaphores, retry_reset, no_autogroup, ..Meta::default() };
    assert_eq!(meta, wanted);
}

#[test]
fn defaults_set_metaparameters_for_types_and_all() {
    let text = "\
resources:
  user[a]: {}
  user[b]: { meta: { retry: 5, burst: 9 } }
  file[/a]: {}
  file[/b]: { meta: { noop: false, retry: 0 } }
defaults:
  file: { meta: { noop: true } }
  \"*\": { meta: { retry: 1, limit: 2, burst: 3 } }
";
    let catalog = World::new().catalog(text);
    let meta = |name: &str| find(&catalog, name).meta().cloned().unwrap_or_default();
    let begun = Meta { retry: 1, limit: Some(EventLimit { per_second: 2.0, burst: 3 }), ..Meta::default() };
    assert_eq!(meta("user[a]"), begun);
    let limit = Some(EventLimit { per_second: 2.0, burst: 9 });
    assert_eq!(meta("user[b]"), Meta { retry: 5, limit, ..Meta::default() });
    assert_eq!(meta("file[/a]"), Meta { noop: true, ..begun.clone() });
    assert_eq!(meta("file[/b]"), Meta { retry: 0, ..begun });
    // What is said of all is said of those that are declared elsewhere too.
    // A type may take back what is said of all, and a resource what is said of its type.
    let text = "defaults:\n  \"*\": { meta: { policy: observe, timeout: 9, limit: 2, burst: 3 } }\n  \
                file: { meta: { policy: repair, timeout: 0, limit: 0 } }\n  user: { meta: { retry: 1 } }\n\
                resources:\n  file[/a]: {}\n  user[a]: { meta: { limit: 0, retry: 0, policy: repair, timeout: 0 } \
                }\n  user[b]: {}\n";
    let catalog = World::new().catalog(text);
    assert!(find(&catalog, "file[/a]").meta().is_none() && find(&catalog, "user[a]").meta().is_none());
    assert_eq!(find(&catalog, "user[b]").meta().map(|meta| (meta.retry, meta.timeout)), Some((1, 9)));
    let empty = World::new().catalog("defaults: {}\nresources:\n  user[a]: {}\n");
    assert!(find(&empty, "user[a]").meta().is_none());
}

#[test]
fn the_namevar_is_kept_only_if_it_differs_from_the_title() {
    let catalog = World::new().catalog(
        "resources:\n  file[motd]: { path: /etc/motd }\n  file[/a]: { path: /a }\n  exec[greet]: { command: echo }\n",
    );
    assert_eq!(find(&catalog, "file[motd]").name, "/etc/motd");
    assert_eq!(find(&catalog, "file[motd]").attributes.text("path"), Some("/etc/motd"));
    assert_eq!(find(&catalog, "file[/a]").attributes.text("path"), None);
    assert_eq!(find(&catalog, "exec[greet]").name, "greet");
}

struct PortScope;

impl Scope for PortScope {
    fn var(&self, name: &str) -> Lookup {
        if name == "port" { Lookup::Found(Value::Integer(80)) } else { Lookup::Missing }
    }

    fn fact(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn output(&self, reference: &ResourceRef, name: &str) -> Lookup {
        Lookup::Found(format!("<{reference}.{name}>").into())
    }
}

#[test]
fn hidden_resource_may_share_a_name() {
    let catalog = World::new().catalog(
        r#"
resources:
  file[/p]: { meta: { hidden: true } }
  file[h]: { path: /p, meta: { hidden: true } }
  file[v]: { path: /p, require: "file[/p]" }
  file[/q]: { before: "file[h2]" }
  file[h2]: { path: /q, meta: { hidden: true } }
"#,
    );
    let named: Vec<(&str, bool)> = catalog.resources.iter().map(|one| (one.name.as_str(), one.is_hidden())).collect();
    assert_eq!(named, [("/p", true), ("/p", true), ("/p", false), ("/q", false), ("/q", true)]);
    // A reference is to a title.
    let relations: Vec<(u32, u32)> = catalog.relations.iter().map(|one| (one.first, one.second)).collect();
    assert_eq!(relations, [(0, 2), (3, 4)]);
}

#[test]
fn values_from_outputs_are_deferred_to_the_run() {
    let catalog = World::new().catalog(
        "vars: { port: 80, other: 1 }\nresources:\n  exec[token]: { command: x }\n  file[/a]:\n    content: \
         \"${exec[token].stdout}:${vars.port}\"\n    tags: [plain, \"${exec[token].stdout}\"]\n    owner: \"${true ? \
         'root' : exec[token].stdout}\"\n  user[u]: { password: \"${exec[token].stdout}\" }\n  exec[e]: { command: x, \
         environment: { A: { sensitive: \"${exec[token].stdout}\" } } }\n",
    );
    let file = find(&catalog, "file[/a]");
    assert_eq!(shown(file), r#"owner="root" ensure="present""#, "what is known already is no deferred value");
    let values: Vec<Value> = file.deferred().iter().map(|d| d.template.render(&PortScope).unwrap()).collect();
    assert_eq!(values[0], "<exec[token].stdout>:80".into());
    assert_eq!(values[1], Value::strings(["plain", "<exec[token].stdout>"]));
    assert_eq!(file.deferred()[0].template.references()[0].to_string(), "exec[token]");
    let kept: Vec<&str> = catalog.vars.keys().map(|k| k.as_str()).collect();
    assert_eq!(kept, ["port"], "only variables that the run needs are kept");
    assert!(find(&catalog, "user[u]").deferred()[0].sensitive);
    assert!(matches!(find(&catalog, "user[u]").deferred()[0].template.render(&PortScope), Ok(Value::Sensitive(_))));
    assert!(find(&catalog, "exec[e]").deferred()[0].template.render(&PortScope).unwrap().holds_sensitive());
    assert!(!matches!(file.deferred()[0].template.render(&PortScope), Err(EvalError::Unknown(_))));
}

#[test]
fn output_of_omitted_resource_may_have_default() {
    let catalog = World::new().catalog(
        "resources:\n  exec[t]: { command: x, when: false }\n  file[/a]: { content: \"${default(exec[t].stdout, \
         'none')}\" }\n",
    );
    assert_eq!(find(&catalog, "file[/a]").attributes.text("content"), Some("none"));
}

#[test]
fn secrets_are_sensitive_and_trimmed() {
    let catalog = World::new().catalog(
        "vars:\n  token: { sensitive: { env: TOKEN } }\n  file: /etc/secret\nresources:\n  file[/a]: { content: \
         \"t=${vars.token}\" }\n  file[/b]: { content: { sensitive: { file: \"${vars.file}\" } } }\n  file[/c]: { \
         content: { sensitive: { command: [pass, web] } } }\n  user[u]: { password: hunter2 }\n  exec[e]: { command: \
         x, environment: { A: { sensitive: literal }, B: open } }\n",
    );
    let clear = |reference: &str, name: &str| {
        let value = find(&catalog, reference).get(name).cloned().unwrap_or_default();
        assert!(matches!(value, Value::Sensitive(_)), "{reference}");
        value.as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(clear("file[/a]", "content"), "t=from env\n");
    assert_eq!(clear("file[/b]", "content"), "from file");
    assert_eq!(clear("file[/c]", "content"), "from web");
    assert_eq!(clear("user[u]", "password"), "hunter2");
    assert_eq!(shown(find(&catalog, "exec[e]")), r#"command="x" environment={"A": [redacted], "B": "open"} tries=1"#);
}

#[test]
fn problem_never_shows_secret() {
    let world = World::new();
    for text in [
        "resources:\n  user[u]: { password: hunter2, uid: x }\n",
        "resources:\n  user[u]: { uid: x, password: { sensitive: hunter2 } }\n",
        "resources:\n  file[/a]: { ensure: { sensitive: hunter2 } }\n",
        "resources:\n  wibble[u]: { password: hunter2 }\n",
        "vars:\n  s: { sensitive: hunter2 }\nresources:\n  user[u]: { uid: \"${vars.s}\" }\n  file[/a]: { ensure: \
         \"${vars.s}\" }\n",
        "resources:\n  user[u]: { password: hunter2, uid: [ }\n",
        "resources:\n  user[u]: { \"password\": \"hunter2\", uid: ] }\n",
        "resources:\n  user[u]: { password: [hunter2] }\n",
        "resources:\n  user[u]:\n    password: |\n      hunter2\n  broken: [\n",
        "resources:\n  user[u]:\n    wrong1: 1\n    password: >-\n      hunter2\n    wrong2: 2\n",
        "resources:\n  user[u]: { password: \"hunter2 ${vars.nope}\" }\n",
        "vars:\n  s: { sensitive: hunter2 }\nresources:\n  user[u]: { uid: \"${int(vars.s)}\" }\n",
    ] {
        let (result, sources) = world.compile(text);
        let problems = result.expect_err(text);
        for rendered in [
            render(&problems, &sources, false),
            render(&problems, &sources, true),
            to_json(&problems, &sources).to_string(),
        ] {
            assert!(!rendered.contains("hunter2"), "{text}\n{rendered}");
        }
    }
}

#[test]
fn later_problem_redacts_secret() {
    let world = World::new();
    let (result, sources) = world.compile("resources:\n  user[u]: { uid: 1, password: hunter2 }\n");
    let compiled = result.expect("it is right");
    let mut places = compiled.places;
    let resource = &compiled.catalog.resources[0];
    let problem = Diagnostic::new("no such number").at(places.of(&sources, resource, Some("uid"))).hint("take another");
    let rendered = render(&[problem], &sources, false);
    assert!(rendered.contains("site.yaml:2:19") && rendered.contains("= help: take another"), "{rendered}");
    assert!(!rendered.contains("hunter2"), "{rendered}");
    assert_eq!(places.of(&sources, resource, Some("gid")), resource.span);
    assert_eq!(AttributeSpans::new().of(&sources, resource, None), resource.span);
}

#[test]
fn anchors_aliases_and_merge_keys_are_followed() {
    let catalog = World::new().catalog(
        "vars:\n  base: &base { ensure: file, mode: '0600' }\n  more: &more { owner: root, mode: '0644' \
         }\nresources:\n  file[/a]: *base\n  file[/b]: { <<: *base, mode: '0755' }\n  file[/c]:\n    <<: [*base, \
         *more]\n    content: x\n",
    );
    assert_eq!(shown(find(&catalog, "file[/a]")), r#"ensure="file" mode="0600""#);
    assert_eq!(shown(find(&catalog, "file[/b]")), r#"mode="0755" ensure="file""#);
    assert_eq!(shown(find(&catalog, "file[/c]")), r#"content="x" ensure="file" mode="0600" owner="root""#);
}

#[test]
fn several_documents_in_a_file_are_merged() {
    let catalog = World::new().catalog(
        "---\nvars: { a: 1 }\n---\nresources:\n  user[a]: { uid: \"${vars.a}\" \
                                        }\n---\n...\n---\nresources:\n  user[b]: {}\n",
    );
    assert_eq!(catalog.resources.len(), 2);
    assert!(World::new().catalog("").resources.is_empty());
    assert!(World::new().catalog("# nothing\n").resources.is_empty());
    assert!(World::new().catalog("\u{feff}resources: {}\n").resources.is_empty());
}

#[test]
fn json_is_read_as_yaml_is() {
    let text = r#"{"vars":{"p":8080},"resources":{"file[/a\u00e9\ud83d\ude00\n]":{"content":"a\tb \/ ${vars.p}","tags":["x",""],"limits":{"a":1}},"user[u]":{"uid":-0,"meta":{"noop":true}}}}"#;
    let world = World::new();
    let mut sources = Sources::new();
    sources.add(Source::new("a.json", text));
    let json = world.compile_all(&mut sources).unwrap_or_else(|p| panic!("{}", render(&p, &sources, false)));
    let yaml = world.catalog(&format!("# as YAML\n{text}"));
    assert_eq!(json.catalog.resources.len(), 2);
    for (a, b) in json.catalog.resources.iter().zip(&yaml.resources) {
        assert_eq!(a.reference, b.reference);
        assert_eq!(a.attributes, b.attributes);
        assert_eq!(a.meta(), b.meta());
    }
}

#[test]
fn many_problems_are_cut_and_counted() {
    let text: String = (0..80).map(|n| format!("  file[/{n}]: {{ nope: 1 }}\n")).collect();
    let (result, sources) = World::new().compile(&format!("resources:\n{text}"));
    let problems = result.expect_err("all are wrong");
    assert_eq!(problems.len(), 80);
    let rendered = render(&problems, &sources, false);
    assert!(rendered.ends_with("and 30 more\n"), "{rendered}");
    assert_eq!(to_json(&problems, &sources).as_array().map(Vec::len), Some(50));
}

#[test]
fn a_problem_is_an_object_for_programs() {
    let (result, sources) = World::new().compile("resources:\n  file[/a]: {}\n  file[/a]: { mdoe: 1 }\n");
    let json = to_json(&result.expect_err("it is broken"), &sources);
    assert_eq!(
        json,
        serde_json::json!([{
            "file": "site.yaml", "line": 3, "column": 3, "message": "`file[/a]` is written twice",
            "related": [{"file": "site.yaml", "line": 2, "column": 3, "message": "first written here"}],
        }, {
            "file": "site.yaml", "line": 3, "column": 15, "message": "`file` has no attribute `mdoe`",
            "hint": "did you mean `mode`?",
        }])
    );
}

#[test]
fn bytes_are_written_in_base_64() {
    for text in [
        "resources:\n  file[/a]: { content: { base64: \"/wA=\" } }\n",
        "resources:\n  file[/a]:\n    content: !!binary /wA=\n",
        "resources:\n  file[/a]:\n    content: !!binary |\n      /w\n      A=\n",
        "vars:\n  b: { base64: /wA= }\nresources:\n  file[/a]: { content: \"${vars.b}\" }\n",
        "{\"resources\": {\"file[/a]\": {\"content\": {\"base64\": \"/wA=\"}}}}",
    ] {
        let catalog = World::new().catalog(text);
        assert_eq!(catalog.resources[0].get("content"), Some(&Value::Binary(b"\xff\x00".as_slice().into())), "{text}");
    }
    let catalog = World::new().catalog("resources:\n  file[/a]: { content: { base64: aGk= } }\n");
    assert_eq!(catalog.resources[0].get("content"), Some(&Value::from("hi")), "bytes that are text are a text");
    let catalog = World::new().catalog("resources:\n  file[/a]: { content: { sensitive: { base64: /wA= } } }\n");
    assert!(catalog.resources[0].get("content").is_some_and(Value::holds_sensitive));
    let catalog = World::new().catalog("resources:\n  exec[e]: { command: x, environment: { base64: /wA= } }\n");
    assert_eq!(shown(&catalog.resources[0]), r#"command="x" environment={"base64": "/wA="} tries=1"#);
}

#[test]
fn invalid_base64_is_reported_without_secret() {
    let (result, sources) = World::new().compile("resources:\n  file[/a]: { content: { base64: \"%%\" } }\n");
    let rendered = render(&result.expect_err("it is none"), &sources, false);
    assert!(rendered.contains("the text below `base64` is none") && rendered.contains(":2:34"), "{rendered}");
    let (result, sources) =
        World::new().compile("resources:\n  file[/a]: { content: { sensitive: { base64: \"%hunter2%\" } } }\n");
    let rendered = render(&result.expect_err("it is none"), &sources, false);
    assert!(!rendered.contains("hunter2"), "{rendered}");
}

#[test]
fn secret_of_unused_variable_is_not_fetched() {
    let unused = "vars:\n  s: { sensitive: { command: [nowhere] } }\n  t: \"x${vars.s}\"\n  list: [\"${vars.t}\"]\n";
    World::new().catalog(unused);
    World::new().catalog(&format!("{unused}resources:\n  file[/a]: {{ when: false, content: \"${{vars.t}}\" }}\n"));
    let (result, _) =
        World::new().compile(&format!("{unused}resources:\n  file[/a]: {{ content: \"${{vars.t}}\" }}\n"));
    let problems = result.expect_err("it is used");
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.starts_with("cannot fetch the secret"), "{problems:?}");
}

#[test]
fn error_in_unused_variable_is_reported() {
    for (text, message) in [
        ("vars: { s: { sensitive: { fiel: /x } } }\n", "unknown source of a secret `fiel`"),
        ("vars: { s: { sensitive: { file: \"${vars.none}\" } } }\n", "none"),
        ("vars: { a: \"${vars.none}\" }\n", "none"),
    ] {
        let (result, _) = World::new().compile(text);
        let problems = result.expect_err(text);
        assert!(problems[0].message.contains(message), "{problems:?}");
    }
}

#[test]
fn suggestions_for_unknown_references_are_limited() {
    const COUNT: usize = 4000;
    let resources: String = (0..COUNT).map(|n| format!("  file[/{n}]: {{ require: 'file[/x{n}]' }}\n")).collect();
    let (result, _) = World::new().compile(&format!("resources:\n{resources}"));
    let problems = result.expect_err("there are none of them");
    assert_eq!(problems.len(), COUNT);
    let guessed = problems.iter().filter(|problem| problem.hints[0].starts_with("did you mean")).count();
    assert!((1..=10).contains(&guessed), "{guessed}");
}

#[test]
fn outputs_with_overlapping_type_are_accepted() {
    let world = World::new();
    for attributes in [
        "user[a]: { uid: \"${int(exec[b].stdout)}\" }",
        "user[a]: { uid: \"${exec[b].exit_code}\", password: { sensitive: \"${exec[b].stdout}\" } }",
        "user[a]: { uid: \"${vars.on ? exec[b].stdout : exec[b].exit_code}\" }",
        "user[a]: { uid: \"${default(exec[b].exit_code, 'none')}\" }",
        "user[a]: { uid: \"${exec[b].stdout.split(':')[2]}\" }",
        "file[/a]: { owner: \"${exec[b].exit_code}\", backup: \"${exec[b].stdout == 'yes'}\", content: \
         \"${exec[b].stdout}\" }",
        "file[/a]: { mode: \"0${exec[b].exit_code}\", limits: { a: \"${exec[b].exit_code}\" }, tags: \
         \"${exec[b].stdout.split(' ')}\" }",
        "service[a]: { enable: \"${exec[b].stdout}\" }",
        "exec[a]: { command: [\"${exec[b].stdout}\"] }",
    ] {
        let text = format!("vars: {{ on: true }}\nresources:\n  exec[b]: {{ command: x }}\n  {attributes}\n");
        let (result, sources) = world.compile(&text);
        let problems = result.err().unwrap_or_default();
        assert!(problems.is_empty(), "{text}{}", kilter_manifest::render(&problems, &sources, false));
    }
}
