//! Values that templates make.

mod support;

use ecow::EcoString;
use kilter_model::expr::{EvalError, Lookup, Scope};
use kilter_model::{Catalog, DataType, Resource, ResourceRef, Value};
use support::World;

fn find<'c>(catalog: &'c Catalog, reference: &str) -> &'c Resource {
    catalog.resources.iter().find(|r| r.reference.to_string() == reference).unwrap_or_else(|| panic!("{reference}"))
}

/// Returns the problems of a manifest in a world.
fn told_in(world: &World, text: &str) -> String {
    let (compiled, sources) = world.compile(text);
    kilter_manifest::render(&compiled.map(|_| ()).expect_err("the manifest is wrong"), &sources, false)
}

fn told(text: &str) -> String {
    told_in(&World::new(), text)
}

fn world(files: &[(&'static str, &'static str)]) -> World {
    World { files: files.to_vec(), ..World::new() }
}

fn content(catalog: &Catalog) -> &Value {
    find(catalog, "file[/a]").attributes.get("content").expect("it has a content")
}

/// Returns the content of `file[/a]` from an inline template.
fn inline(vars: &str, template: &str) -> String {
    let lines: String = template.lines().map(|line| format!("          {line}\n")).collect();
    let manifest = format!(
        "vars: {vars}\nresources:\n  exec[x]: {{ command: x }}\n  file[/a]:\n    content:\n      template:\n        \
         inline: |\n{lines}"
    );
    content(&World::new().catalog(&manifest)).as_str().expect("it is a text").to_owned()
}

/// The outputs of a run, and the variables of a catalog.
struct Done<'c>(&'c Catalog, &'static str);

impl Scope for Done<'_> {
    fn var(&self, name: &str) -> Lookup {
        self.0.vars.get(name).cloned().map_or(Lookup::Missing, Lookup::Found)
    }

    fn fact(&self, name: &str) -> Lookup {
        self.0.facts.get(name).cloned().map_or(Lookup::Missing, Lookup::Found)
    }

    fn output(&self, _: &ResourceRef, _: &str) -> Lookup {
        Lookup::Found(Value::from(self.1))
    }
}

#[test]
fn template_file_makes_the_content() {
    let world = world(&[(
        "app.j2",
        "listen {{ vars.port }} # ${kept}\n{% for user in vars.users %}\n  {# no line #}\n{{ loop.index }} {{ \
         user.name }} {{ user.admin }}\n{% else %}\nnobody\n{% endfor %}\n{% if facts.os.family == \"debian\" \
         %}\ndeb\n{% endif %}\n",
    )]);
    let catalog = world.catalog(
        "vars: { port: 80, users: [{ name: a, admin: true }, { name: b, admin: false }], kind: app }\nresources:\n  \
         file[/a]: { content: { template: \"${vars.kind}.j2\" } }\n",
    );
    assert_eq!(content(&catalog), &Value::from("listen 80 # ${kept}\n1 a true\n2 b false\ndeb\n"));
    assert!(find(&catalog, "file[/a]").deferred().is_empty());
}

#[test]
fn tags_leave_no_lines_and_nothing_is_escaped() {
    assert_eq!(
        inline("{ a: \"<&>\", n: 1.5 }", "{{ vars.a }} {{ vars.n }}\n  {% set x = 2 %}\n{{ x ~ 'b' }}"),
        "<&> 1.5\n2b\n"
    );
    assert_eq!(inline("{ l: [1, 2] }", "{{ vars.l | join(', ') }} {{ vars.l | tojson }}"), "1, 2 [1, 2]\n");
    assert_eq!(inline("{}", "{% for i in range(3) %}{{ i }}{% endfor %}"), "012");
}

#[test]
fn mappings_keep_their_order() {
    assert_eq!(
        inline("{ m: { z: 1, a: 2 } }", "{% for k, v in vars.m | items %}{{ k }}={{ v }} {% endfor %}"),
        "z=1 a=2 "
    );
}

#[test]
fn each_and_self_have_their_values() {
    let world =
        world(&[("s.j2", "{{ self.port }} {{ self.name }}\n"), ("e.j2", "{{ each.key }} {{ each.value.x }}\n")]);
    let catalog = world.catalog(
        "types:\n  site:\n    attributes: { port: { type: Integer, desc: p } }\n    resources:\n      file[/a]: { \
         content: { template: s.j2 } }\nresources:\n  site[blog]: { port: 8 }\n  file[/${each.key}]:\n    for_each: { \
         b: { x: 1 }, c: { x: 2 } }\n    content: { template: e.j2 }\n",
    );
    assert_eq!(content(&catalog), &Value::from("8 blog\n"));
    assert_eq!(find(&catalog, "file[/c]").attributes.get("content"), Some(&Value::from("c 2\n")));
}

#[test]
fn included_templates_see_names_and_locals() {
    let world = world(&[
        (
            "page.j2",
            "{% extends \"base.j2\" %}\n{% block body %}\n{{ super() }}{% for x in [1, 2] %}\n{% include \"row.j2\" \
             %}\n{% endfor %}\n{% endblock %}\n",
        ),
        (
            "base.j2",
            "head {{ vars.port }}\n{% block body %}base\n{% endblock %}\n{% include \"none.j2\" ignore missing %}\n",
        ),
        ("row.j2", "{% from \"m.j2\" import bold %}\n{{ bold(x) }} {{ facts.os.family }}\n"),
        ("m.j2", "{% macro bold(text) %}*{{ text }}*{{ vars.port }}{% endmacro %}\n"),
    ]);
    let catalog = world.catalog("vars: { port: 80 }\nresources:\n  file[/a]: { content: { template: page.j2 } }\n");
    assert_eq!(content(&catalog), &Value::from("head 80\nbase\n*1*80 debian\n*2*80 debian\n"));
}

#[test]
fn outputs_make_the_content_unknown() {
    let world = world(&[("t.j2", "{{ vars.a }} {{ exec[\"x\"].stdout }} {{ facts.os.family }}\n")]);
    let catalog = world.catalog(
        "vars: { a: 1 }\nresources:\n  exec[x]: { command: x }\n  file[/a]: { content: { template: t.j2 } }\n",
    );
    let deferred = &find(&catalog, "file[/a]").deferred()[0];
    assert_eq!(deferred.template.references()[0].to_string(), "exec[x]");
    assert_eq!(deferred.template.data_type(&|_, _| DataType::Any), DataType::text());
    assert!(!deferred.template.is_sealed());
    let waiting = deferred.template.render(&NoOutputs(&catalog));
    assert!(matches!(waiting, Err(EvalError::Unknown(_))), "{waiting:?}");
    assert_eq!(deferred.template.render(&Done(&catalog, "out")), Ok(Value::from("1 out debian\n")));
}

struct NoOutputs<'c>(&'c Catalog);

impl Scope for NoOutputs<'_> {
    fn var(&self, name: &str) -> Lookup {
        Done(self.0, "").var(name)
    }

    fn fact(&self, name: &str) -> Lookup {
        Done(self.0, "").fact(name)
    }

    fn output(&self, reference: &ResourceRef, _: &str) -> Lookup {
        Lookup::Unknown(EcoString::from(format!("after {reference} has run")))
    }
}

#[test]
fn edited_template_is_another_value() {
    let compiled = |text: &'static str| {
        let catalog = world(&[("t.j2", text)])
            .catalog("resources:\n  exec[x]: { command: x }\n  file[/a]: { content: { template: t.j2 } }\n");
        find(&catalog, "file[/a]").deferred()[0].template.clone()
    };
    assert_eq!(compiled("{{ exec['x'].stdout }}"), compiled("{{ exec['x'].stdout }}"));
    assert_ne!(compiled("{{ exec['x'].stdout }}"), compiled("{{ exec['x'].stdout }}!"));
}

#[test]
fn sensitive_value_makes_the_content_sensitive() {
    let world = world(&[("t.j2", "pw {{ vars.pw }} {{ vars.other | length }}\n")]);
    let catalog = world.catalog(
        "vars: { pw: { sensitive: hunter2 }, other: abc }\nresources:\n  file[/a]: { content: { template: t.j2 } }\n",
    );
    assert_eq!(content(&catalog), &Value::sensitive(Value::from("pw hunter2 3\n")));
    let catalog = world.catalog(
        "vars: { pw: a, other: { sensitive: abc } }\nresources:\n  file[/a]: { content: { sensitive: { template: t.j2 \
         } } }\n",
    );
    assert_eq!(content(&catalog), &Value::sensitive(Value::from("pw a 3\n")));
    let catalog = World::new().catalog(
        "vars: { pw: { sensitive: hunter2 } }\nresources:\n  exec[x]: { command: x }\n  file[/a]: { content: { \
         template: { inline: \"{{ vars.pw }} {{ exec['x'].stdout }}\" } } }\n",
    );
    let deferred = &find(&catalog, "file[/a]").deferred()[0];
    assert!(deferred.template.is_sealed());
    let value = deferred.template.render(&Done(&catalog, "out"));
    assert_eq!(value, Ok(Value::sensitive(Value::from("hunter2 out"))));
}

#[test]
fn error_shows_no_secret() {
    let world = world(&[("t.j2", "{{ vars.pw - 1 }} {{ [1] | join(vars.pw, vars.pw, vars.pw) }}\n")]);
    let problem = told_in(
        &world,
        "vars: { pw: { sensitive: hunter2 } }\nresources:\n  file[/a]: { content: { template: t.j2 } }\n",
    );
    assert!(problem.contains("t.j2:1:4") && !problem.contains("hunter2"), "{problem}");
}

#[test]
fn problem_in_secret_template_shows_no_line_of_it() {
    let world = world(&[("t.j2", "hunter2 {{ vars.none }}\n")]);
    let shown = told_in(&world, "resources:\n  file[/a]: { content: { sensitive: { template: t.j2 } } }\n");
    assert!(shown.contains("t.j2:1:12") && !shown.contains("hunter2"), "{shown}");
    let shown = told(
        "resources:\n  file[/a]: { content: { sensitive: { template: { inline: \"hunter2 {{ vars.none }}\" } } } }\n",
    );
    assert!(shown.contains("no variable `none`") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn resource_that_is_left_out_reads_no_template() {
    let catalog = World::new().catalog("resources:\n  file[/a]: { content: { template: none.j2 }, when: 1 > 2 }\n");
    assert_eq!(catalog.left_out, 1);
}

#[test]
fn mapping_with_the_key_template_stays_data_elsewhere() {
    let catalog = World::new().catalog(
        "vars: { page: { template: x } }\nresources:\n  file[/a]: { content: \"${vars.page.template}\" }\n  chain[c]: \
         { rules: { template: { template: x } } }\n",
    );
    assert_eq!(content(&catalog), &Value::from("x"));
}

/// Problem of a template, which is the file `t.j2`.
fn problem(template: &'static str) -> String {
    let manifest = "vars: { port: 80, l: [1], n: null }\nresources:\n  exec[x]: { command: x }\n  file[/a]: { content: \
                    { template: t.j2 } }\n";
    told_in(&world(&[("t.j2", template), ("inner.j2", "a\n{{ vars.port.x }}\n"), ("bad.j2", "{% if %}")]), manifest)
}

#[test]
fn problems_name_place_cause_and_remedy() {
    for (template, place, words) in [
        ("a\n  {{ vars.prot }}\n", "t.j2:2:6", &["no variable `prot`", "did you mean `vars.port`?"][..]),
        ("{{ port }}", "t.j2:1:4", &["knows no `port`", "write vars.port"]),
        ("{{ os }}", "t.j2:1:4", &["knows no `os`", "write facts.os"]),
        ("{{ facts.os.famly }}", "t.j2:1:4", &["there is no `facts.os.famly`", "did you mean `family`?"]),
        ("{{ facts.ox.family }}", "t.j2:1:4", &["no fact `ox`", "did you mean `facts.os`?"]),
        ("{% if vars.port %}", "t.j2:1:", &["unexpected end of input"]),
        ("{{ vars.port | uper }}", "t.j2:1:16", &["no filter `uper`"]),
        ("{% if false %}{{ 1 | uper }}{% endif %}", "t.j2:1:22", &["no filter `uper`"]),
        ("{{ vars.port is od }}", "t.j2:1:17", &["no test `od`"]),
        ("{{ now() }}", "t.j2:1:4", &["no function `now`"]),
        ("{{ vars.l }}", "t.j2:1:4", &["a list is no text", "join"]),
        ("{{ vars.n }}", "t.j2:1:4", &["null", "default"]),
        ("{{ vars }}", "t.j2:1:4", &["`vars` is no value by itself"]),
        ("{% set vars = 1 %}", "t.j2:1:8", &["cannot assign `vars`"]),
        ("{{ exec }}", "t.j2:1:4", &["`exec` is a type", "exec[\"TITLE\"]"]),
        ("{{ exec['y'].stdout }}", "t.j2:1:4", &["no resource `exec[y]`", "did you mean `exec[x]`?"]),
        ("{{ exec['x'].stdot }}", "t.j2:1:4", &["no output `stdot`", "did you mean `stdout`?"]),
        ("{{ each.value }}", "t.j2:1:4", &["each"]),
        ("{% include 'inner.j2' %}", "inner.j2:2:", &["vars.port.x", "the template is used here"]),
        ("{% include 'bad.j2' %}", "bad.j2:1:", &["unexpected"]),
        ("{% include 'none.j2' %}", "t.j2:1:12", &["cannot read the template `none.j2`"]),
        ("{% include '../x.j2' %}", "t.j2:1:12", &["not below the directory"]),
        ("{% include '/etc/x.j2' %}", "t.j2:1:12", &["not below the directory"]),
        ("{% include vars.port %}", "t.j2:1:12", &["a text between quotes"]),
        (
            "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
            "t.j2:1:",
            &["too much work"],
        ),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "t.j2:1:", &["recursion limit"]),
        ("{{ exec['x'].stdout }} {{ vars.prot }}", "t.j2:1:27", &["no variable `prot`"]),
    ] {
        let shown = problem(template);
        assert!(shown.contains(&format!("--> {place}")), "{template}: {place}\n{shown}");
        assert!(words.iter().all(|word| shown.contains(word)), "{template}: {words:?}\n{shown}");
    }
}

#[test]
fn all_unknown_names_are_reported_at_once() {
    let shown = problem("{{ vars.prot }}\n{{ vars.prt }} {{ nothing }} {{ 1 | uper }}\n");
    for place in ["t.j2:1:4", "t.j2:2:4", "t.j2:2:19", "t.j2:2:37"] {
        assert!(shown.contains(place), "{place}\n{shown}");
    }
}

#[test]
fn names_in_branches_that_are_not_taken_may_be_missing() {
    assert_eq!(inline("{ a: 1 }", "{% if vars.a > 1 %}{{ vars.none }}{{ facts.none.x }}{% endif %}-"), "-\n");
    assert_eq!(inline("{}", "{{ vars.none | default('d') }} {{ vars.none is defined }}"), "d false\n");
}

#[test]
fn problem_of_inline_template_is_shown_in_the_manifest() {
    let shown = told(
        "resources:\n  file[/a]:\n    content:\n      template:\n        inline: |\n          a\n          b {{ vars.x \
         }}\n",
    );
    assert!(shown.contains("site.yaml:7:16"), "{shown}");
    let shown = told(
        "resources:\n  file[/a]:\n    content: { template: { text: x } }\n  file[/b]: { content: { template: [] } }\n",
    );
    assert!(shown.contains("unknown key `text`") && shown.contains("has the key `inline`"), "{shown}");
}

#[test]
fn template_with_outputs_is_not_handed_to_composite_resources() {
    let shown = told(
        "types: { site: { attributes: { text: { type: String, desc: t } }, resources: { \"file[/a]\": { content: \
         \"${self.text}\" } } } }\nresources:\n  exec[x]: { command: x }\n  site[s]: { text: { template: { inline: \
         \"{{ exec['x'].stdout }}\" } } }\n",
    );
    assert!(shown.contains("a template with outputs cannot be handed"), "{shown}");
}

#[test]
fn keys_beside_a_template_are_a_problem() {
    let told = told("resources:\n  file[/a]: { content: { template: x.j2, vars: { a: 1 } } }\n");
    assert!(
        told.contains("`template` has no keys beside it") && told.contains("put the values below `vars:`"),
        "{told}"
    );
    assert!(told.contains(":2:42"), "{told}");
}
