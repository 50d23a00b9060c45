//! Types that a manifest makes of others.

mod shown;
mod support;

use kilter_model::expr::{EvalError, Lookup, Scope};
use kilter_model::{Catalog, RelationKind, Resource, ResourceRef, Value};
use shown::{find, references, told};
use support::World;

const SITE: &str = r#"
types:
  site:
    desc: a site behind the server
    attributes:
      port: { type: "Integer[1, 65535]", default: 80, desc: where it listens }
      owner: { type: "Optional[String]", desc: whose it is }
      token: { type: "Optional[String]", desc: what it is asked with }
      secret: { type: "Optional[Sensitive[String]]", desc: its key }
    resources:
      "file[/etc/${self.name}.conf]":
        content: "listen ${self.port}"
        owner: ${self.owner}
        notify: "service[${self.name}]"
      "service[${self.name}]": { enable: true }
"#;

fn shown(resource: &Resource) -> String {
    let parts: Vec<String> = resource.attributes.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    parts.join(" ")
}

fn relations(catalog: &Catalog) -> Vec<String> {
    let name = |at: u32| catalog.resources[at as usize].reference.to_string();
    let arrow = |kind| if matches!(kind, RelationKind::Notify | RelationKind::Subscribe) { "~>" } else { "->" };
    catalog.relations.iter().map(|r| format!("{} {} {}", name(r.first), arrow(r.kind), name(r.second))).collect()
}

/// The machine during the run: each output is its own name.
struct OutputNames<'c>(&'c Catalog);

impl Scope for OutputNames<'_> {
    fn var(&self, name: &str) -> Lookup {
        self.0.vars.get(name).map_or(Lookup::Missing, |value| Lookup::Found(value.clone()))
    }

    fn fact(&self, _: &str) -> Lookup {
        Lookup::Missing
    }

    fn output(&self, reference: &ResourceRef, name: &str) -> Lookup {
        Lookup::Found(Value::from(format!("<{reference}.{name}>").as_str()))
    }
}

fn rendered(catalog: &Catalog, resource: &Resource) -> Result<Vec<Value>, EvalError> {
    resource.deferred().iter().map(|deferred| deferred.template.render(&OutputNames(catalog))).collect()
}

#[test]
fn composite_resource_expands_to_its_members() {
    let text = format!("{SITE}resources:\n  site[blog]: {{ port: 8080, owner: www }}\n  site[shop]:\n");
    let catalog = World::new().catalog(&text);
    assert_eq!(
        references(&catalog),
        ["file[/etc/blog.conf]", "service[blog]", "file[/etc/shop.conf]", "service[shop]"]
    );
    assert_eq!(shown(find(&catalog, "file[/etc/blog.conf]")), r#"content="listen 8080" owner="www" ensure="present""#);
    let shop = shown(find(&catalog, "file[/etc/shop.conf]"));
    assert_eq!(shop, r#"content="listen 80" ensure="present""#, "what is not said of it is not said of its parts");
    assert_eq!(relations(&catalog), ["file[/etc/blog.conf] ~> service[blog]", "file[/etc/shop.conf] ~> service[shop]"]);
    assert!(catalog.vars.is_empty());
}

#[test]
fn relation_to_composite_applies_to_all_members() {
    let text = format!(
        "{SITE}resources:\n  site[a]: {{ require: \"user[u]\", before: \"site[b]\" }}\n  user[u]:\n  site[b]:\n    \
         when: false\n  \
         site[c]:\n  user[v]: {{ subscribe: \"site[c]\" }}\n"
    );
    let catalog = World::new().catalog(&text);
    let mut relations = relations(&catalog);
    relations.sort();
    assert_eq!(
        relations,
        [
            "file[/etc/a.conf] ~> service[a]",
            "file[/etc/c.conf] ~> service[c]",
            "file[/etc/c.conf] ~> user[v]",
            "service[c] ~> user[v]",
            "user[u] -> file[/etc/a.conf]",
            "user[u] -> service[a]",
        ]
    );
}

#[test]
fn composite_resources_may_be_nested() {
    let text = format!(
        "{SITE}  farm:\n    attributes: {{ base: {{ type: Integer, desc: x }} }}\n    resources:\n      \
         \"site[${{self.name}}-1]\": {{ port: \"${{self.base + 1}}\" }}\n      \"site[${{self.name}}-2]\":\n        \
         port: ${{self.base + 2}}\n        require: site[${{self.name}}-1]\nresources:\n  farm[f]: {{ base: 8000, \
         before: \"user[u]\" }}\n  user[u]:\n"
    );
    let catalog = World::new().catalog(&text);
    let expected = ["file[/etc/f-1.conf]", "service[f-1]", "file[/etc/f-2.conf]", "service[f-2]", "user[u]"];
    assert_eq!(references(&catalog), expected);
    assert!(shown(find(&catalog, "file[/etc/f-2.conf]")).contains("listen 8002"));
    let relations = relations(&catalog);
    assert_eq!(relations.iter().filter(|relation| relation.ends_with("-> user[u]")).count(), 4, "{relations:?}");
    assert!(relations.contains(&"service[f-1] -> file[/etc/f-2.conf]".into()), "{relations:?}");
}

/// Each composite resource, what it is a part of, and what it stands for.
fn composites(catalog: &Catalog) -> Vec<String> {
    let name = |at: u32| catalog.composites[at as usize].reference.to_string();
    let shown = |composite: &kilter_model::Composite| {
        let parts = composite.parts.clone().map(|at| catalog.resources[at as usize].reference.to_string());
        let owner = composite.owner.map_or_else(String::new, |owner| format!(" of {}", name(owner)));
        format!("{}{owner}: {}", composite.reference, parts.collect::<Vec<_>>().join(" "))
    };
    catalog.composites.iter().map(shown).collect()
}

#[test]
fn catalog_records_members_of_composite_resource() {
    let text = format!(
        "{SITE}  farm:\n    resources:\n      \"site[${{self.name}}-1]\": {{}}\n      \"user[${{self.name}}]\": \
         {{}}\n      \
         \"site[${{self.name}}-2]\": {{ when: false }}\n  none: {{}}\nresources:\n  user[u]:\n  farm[f]:\n  \
         none[n]:\n  \
         site[a]: {{ when: false }}\n  site[b]:\n  user[v]:\n"
    );
    let catalog = World::new().catalog(&text);
    assert_eq!(
        composites(&catalog),
        [
            "farm[f]: file[/etc/f-1.conf] service[f-1] user[f]",
            "site[f-1] of farm[f]: file[/etc/f-1.conf] service[f-1]",
            "none[n]: ",
            "site[b]: file[/etc/b.conf] service[b]",
        ]
    );
    let owner = |at| catalog.owner_of(at).map(|owner| catalog.composites[owner as usize].reference.to_string());
    let owners: Vec<String> = (0..7).map(|at| owner(at).unwrap_or_default()).collect();
    assert_eq!(owners, ["", "site[f-1]", "site[f-1]", "farm[f]", "site[b]", "site[b]", ""]);
}

#[test]
fn nearest_metaparameters_win() {
    let text = format!(
        "{SITE}  farm:\n    resources:\n      \"site[${{self.name}}]\": {{ meta: {{ delay: 7 }} }}\n\
         defaults: {{ file: {{ meta: {{ retry: 1, timeout: 5 }} }} }}\nresources:\n  farm[f]: {{ meta: {{ noop: true, \
         retry: 2, delay: 3 }} }}\n"
    );
    let catalog = World::new().catalog(&text);
    let meta = find(&catalog, "file[/etc/f.conf]").meta().unwrap();
    assert_eq!((meta.noop, meta.retry, meta.delay, meta.timeout), (true, 2, 7, 5));
    assert_eq!(find(&catalog, "service[f]").meta().unwrap().timeout, 0);
}

#[test]
fn outputs_cross_composite_boundaries() {
    let text = r#"
types:
  site:
    attributes:
      token: { type: String, desc: x }
      line: { type: String, desc: x }
      port: { type: Integer, desc: x }
    resources:
      "exec[make-${self.name}]": { command: make }
      "file[/${self.name}]":
        content: "${self.port}: ${self.token} ${self.line} ${exec[make-${self.name}].stdout}"
resources:
  exec[t]: { command: t }
  site[a]: { port: 80, token: "${exec[t].stdout}", line: "a \"$\\ ${exec[t].stdout + '}'}" }
"#;
    let catalog = World::new().catalog(text);
    let file = find(&catalog, "file[/a]");
    assert_eq!(
        rendered(&catalog, file).unwrap(),
        [Value::from(r#"80: <exec[t].stdout> a "$\ <exec[t].stdout>} <exec[make-a].stdout>"#)]
    );
    let references: Vec<String> = file.deferred()[0].template.references().iter().map(ToString::to_string).collect();
    assert_eq!(references, ["exec[t]", "exec[make-a]"]);
    let vars: Vec<&str> = catalog.vars.keys().map(|name| name.as_str()).collect();
    assert_eq!(vars, ["site[a].port"], "what the run needs is there, and only that");
    let again = kilter_model::expr::Template::parse(file.deferred()[0].template.source().unwrap()).unwrap();
    assert_eq!(
        again.render(&OutputNames(&catalog)).unwrap(),
        rendered(&catalog, file).unwrap()[0],
        "a plan keeps the text"
    );
}

#[test]
fn composite_keeps_secrets_sensitive() {
    let text = r#"
types:
  site:
    attributes:
      key: { type: "Sensitive[String]", desc: x }
    resources:
      "file[/${self.name}]": { content: "key ${self.key}" }
resources:
  exec[t]: { command: t }
  site[a]: { key: hunter2 }
  site[b]: { key: "${exec[t].stdout}" }
"#;
    let catalog = World::new().catalog(text);
    let content = find(&catalog, "file[/a]").attributes.get("content").unwrap().clone();
    assert!(content.holds_sensitive(), "{content:?}");
    assert!(rendered(&catalog, find(&catalog, "file[/b]")).unwrap()[0].holds_sensitive());
    let odd = text.replace("resources:\n  exec", "resources:\n  user[u]: { uid: x }\n  exec");
    let odd = odd.replace("desc: x }", "desc: x, defautl: hunter3 }").replace("content:", "contend:");
    let told = told(&odd);
    assert!(!told.contains("hunter"), "{told}");
    assert!(told.contains(r#"type: "Sensitive[String]", desc: x"#), "{told}");
}

#[test]
fn composite_type_problems_have_places() {
    let wrong = |types: &str, resources: &str| told(&format!("types:\n{types}resources:\n{resources}"));
    let contains =
        |told: String, parts: &[&str]| parts.iter().for_each(|part| assert!(told.contains(part), "{part}: {told}"));
    contains(
        wrong("  site:\n    resources:\n      file[/etc/x]: {}\n", "  site[a]:\n  site[b]:\n"),
        &["`file[/etc/x]` is written twice", "part of `site[b]`", "put `${self.name}` into the title"],
    );
    contains(wrong("  file: {}\n", "  user[u]:\n"), &["there is a type `file` already", "site.yaml:2:3"]);
    contains(
        wrong("  a:\n    resources:\n      b[x]: {}\n  b:\n    resources:\n      a[x]: {}\n", "  a[y]:\n"),
        &["the type `a` contains itself: a -> b -> a"],
    );
    contains(
        wrong(
            "  a:\n    attributes: { port: { type: Integer, desc: x } }\n    resources:\n      \"user[${self.prt}]\": \
             {}\n",
            "  a[y]: { port: 1 }\n",
        ),
        &["`a` has no attribute `prt`", "did you mean `port`?", "site.yaml:5:15"],
    );
    contains(
        wrong("  a:\n    attributes: { port: { type: Intger, desc: x } }\n", "  a[y]: { port: 1 }\n"),
        &["there is no type Intger", "site.yaml:3:"],
    );
    contains(
        wrong("  a:\n    attributes: { port: { type: Integer, desc: x } }\n", "  a[y]: { port: x, prt: 2 }\n  a[z]:\n"),
        &["`port` expects an Integer", "`a` has no attribute `prt`", "`a[z]`"],
    );
    contains(
        wrong("  a:\n    resurces: {}\n", "  user[u]:\n"),
        &["a composite type has no `resurces`", "did you mean `resources`?"],
    );
    contains(
        wrong("  a:\n    attributes: { name: { type: String } }\n", "  user[u]:\n"),
        &["`name` is the title of the resource"],
    );
    contains(wrong("  a:\n    resources:\n      user[u]: {}\n", "  a[y]: { provider: x }\n"), &["has no provider"]);
    contains(
        wrong("  a:\n    resources:\n      user[u]: { require: \"a[${self.name}]\" }\n", "  a[y]:\n"),
        &["a relation between a composite resource and a part of it"],
    );
    contains(
        wrong("  a: {}\n", "  user[u]: { uid: \"${self.x}\" }\n"),
        &["`self` is the resource of a composite type", "site.yaml:4:"],
    );
    contains(
        wrong("  a:\n    resources:\n      user[u]: { uid: \"${exec[t-${self.name}].stdout}\" }\n", "  a[y]:\n"),
        &["there is no resource `exec[t-y]`", "part of `a[y]`"],
    );
    contains(
        wrong(
            "  a:\n    attributes: { t: { type: \"Array[String]\", desc: x } }\n",
            "  exec[e]: { command: x }\n  a[y]: { t: [ \"${exec[e].stdout}\" ] }\n",
        ),
        &["a list, a mapping or a template with outputs cannot be handed to a composite resource"],
    );
    contains(
        wrong("  a:\n    attributes: { t: { type: String, desc: x } }\n", "  a[y]: { t: \"${exec[e].stdout}\" }\n"),
        &["there is no resource `exec[e]`"],
    );
}

#[test]
fn variable_cannot_use_self() {
    let told = told(
        "vars: { v: \"${self.name}\" }\ntypes:\n  a:\n    resources:\n      \"user[${vars.v}]\": {}\nresources:\n  \
         a[y]:\n",
    );
    assert!(told.contains("`self` is the resource of a composite type"), "{told}");
}

#[test]
fn a_title_is_never_read_as_an_expression() {
    let types = "types:\n  site:\n    resources:\n      \"exec[mk q]\": { command: x }\n      \
                 \"file[/${self.name}]\": { content: \"${exec[mk ${self.name}].stdout}\" }\n";
    let manifest = |title: &str| {
        format!("vars: {{ t: '{title}', pub: INJECTED }}\n{types}resources:\n  \"site[${{vars.t}}]\": {{}}\n")
    };
    for title in ["q].stdout + string(vars.pub) + exec[mk q", "a]b", "a[b", "]["] {
        let told = told(&manifest(title));
        assert!(told.contains("a resource whose title has unbalanced brackets"), "{title}: {told}");
    }
    let told = told(&manifest("a[b]c"));
    assert!(told.contains("there is no resource `exec[mk a[b]c]`"), "{told}");
}

#[test]
fn given_attribute_is_recognised_in_every_form() {
    let text = r#"
types:
  app:
    attributes:
      x: { type: "Optional[String]", desc: x }
    resources:
      "file[/${self.name}]": { content: '${has(self.x) ? self.x : "none"}' }
resources:
  exec[t]: { command: t }
  app[a]: { x: "pre ${exec[t].stdout}" }
  app[b]: { x: "${exec[t].stdout}" }
  app[c]: { x: plain }
  app[d]:
"#;
    let catalog = World::new().catalog(text);
    let waits = |name: &str| rendered(&catalog, find(&catalog, name)).unwrap();
    assert_eq!(waits("file[/a]"), [Value::from("pre <exec[t].stdout>")]);
    assert_eq!(waits("file[/b]"), [Value::from("<exec[t].stdout>")]);
    assert_eq!(find(&catalog, "file[/c]").attributes.text("content"), Some("plain"));
    assert_eq!(find(&catalog, "file[/d]").attributes.text("content"), Some("none"));
}

#[test]
fn variable_cannot_override_attribute_of_composite() {
    let text = format!("vars: {{ \"site[a].port\": 9 }}\n{SITE}resources:\n  site[a]: {{ port: 81 }}\n");
    assert!(shown(find(&World::new().catalog(&text), "file[/etc/a.conf]")).contains("listen 81"));
}

#[test]
fn unsupported_keys_of_composite_types_are_reported() {
    let wrong =
        |attribute: &str| told(&format!("types:\n  a:\n    attributes: {{ {attribute} }}\nresources:\n  a[y]:\n"));
    for (attribute, problem) in [
        ("when: { type: String, desc: x }", "`when` cannot be the name of an attribute"),
        ("meta: { type: String, desc: x }", "`meta` cannot be the name of an attribute"),
        (
            "p: { type: Integer, desc: x, behaviour: read_only, default: 3 }",
            "an attribute of a composite type has no `behaviour`",
        ),
        (
            "p: { type: String, desc: x, default: \"${vars.zz}\" }",
            "a default is a value, and nothing in it is an expression",
        ),
    ] {
        assert!(wrong(attribute).contains(problem), "{attribute}: {}", wrong(attribute));
    }
}

#[test]
fn composite_defaults_yield_to_resource_metaparameters() {
    let text = format!(
        "{SITE}defaults: {{ site: {{ meta: {{ retry: 2, delay: 3 }} }}, file: {{ meta: {{ retry: 1, timeout: 5 }} }} \
         }}\nresources:\n  \
         site[a]: {{ meta: {{ delay: 7 }} }}\n  user[u]:\n"
    );
    let catalog = World::new().catalog(&text);
    let meta = |reference| find(&catalog, reference).meta().cloned().unwrap_or_default();
    let file = meta("file[/etc/a.conf]");
    assert_eq!((file.retry, file.delay, file.timeout), (2, 7, 5));
    assert_eq!((meta("service[a]").retry, meta("user[u]").retry), (2, 0));
    let told =
        told(&format!("{SITE}defaults: {{ site: {{ meta: {{ rtry: 2 }} }} }}\nresources:\n  site[a]:\n  site[b]:\n"));
    assert_eq!(told.matches("unknown metaparameter `rtry`").count(), 1, "{told}");
}

#[test]
fn wrong_composite_defaults_are_reported_once() {
    let defaults = |text: &str| told(&format!("{SITE}defaults:\n  {text}\nresources:\n  site[a]:\n  site[b]:\n"));
    for (text, problem, hint) in [
        ("site: { port: x }", "`port` expects an Integer", ""),
        ("site: { name: x }", "there are no defaults for `name`", "names a single resource"),
        ("site: { prot: 81 }", "`site` has no attribute `prot`", "did you mean `port`?"),
        ("siet: { meta: { retry: 1 } }", "unknown type `siet`", "did you mean `site`?"),
        ("site: 3", "defaults of a type are a mapping", "such as file: { mode: \"0644\", meta: { retry: 3 } }"),
    ] {
        let told = defaults(text);
        assert!(told.contains(problem) && told.contains(hint) && told.contains("site.yaml:17:"), "{text}: {told}");
        assert_eq!(told.matches("error:").count(), 1, "{text}: {told}");
    }
    let secret = defaults("site: { secret: [hunter2] }");
    assert!(secret.contains("`secret` expects") && !secret.contains("hunter2"), "{secret}");
}

#[test]
fn composite_problem_is_reported_once() {
    let text = |given: &str| {
        format!(
            "types:\n  site:\n    attributes:\n      root: {{ type: String, desc: r }}\n    resources:\n      \
             \"file[${{self.root}}]\": {{}}\n      \
             \"file[${{self.root}}/a]\": {{ content: \"${{self.root}}\" }}\nresources:\n  site[a]: {given}\n"
        )
    };
    let missing = told(&text("{}"));
    assert!(missing.contains("`site[a]`: mandatory attributes were not provided: `root`"), "{missing}");
    assert_eq!(missing.matches("error:").count(), 1, "{missing}");
    let wrong = told(&text("{ root: [a] }"));
    assert!(wrong.contains("`root` expects a String value, got"), "{wrong}");
    assert_eq!(wrong.matches("error:").count(), 1, "{wrong}");
}

#[test]
fn null_attribute_counts_as_missing() {
    let text = |given: &str| {
        format!(
            "vars: {{ p: null }}\ntypes:\n  site:\n    attributes:\n      port: {{ type: \"Optional[Integer]\", desc: \
             p }}\n    resources:\n      \
             \"file[/x]\":\n        content: \"port ${{default(self.port, 80)}}\"\n      \
             \"file[/y]\": {{ when: self.port == null }}\n  \
             outer:\n    attributes:\n      port: {{ type: \"Optional[Integer]\", desc: p }}\n    resources:\n      \
             \"site[a]\": {{ port: \"${{self.port}}\" }}\nresources:\n  {given}\n"
        )
    };
    for given in
        ["site[a]:", "site[a]: { port: \"${vars.p}\" }", "site[a]: { port: \"${default(vars.p, null)}\" }", "outer[a]:"]
    {
        let catalog = World::new().catalog(&text(given));
        let titles: Vec<&str> = catalog.resources.iter().map(|resource| resource.name.as_str()).collect();
        assert_eq!(titles, ["/x", "/y"], "{given}");
        assert_eq!(catalog.resources[0].attributes.text("content"), Some("port 80"), "{given}");
    }
}
