//! Entries that declare several resources: `for_each` and lists of titles.

mod shown;
mod support;

use kilter_manifest::{AttributeSpans, Source, Sources};
use kilter_model::{Catalog, Value};
use shown::{find, references, told};
use support::World;

fn attribute<'c>(catalog: &'c Catalog, reference: &str, name: &str) -> Option<&'c Value> {
    find(catalog, reference).attributes.get(name)
}

#[test]
fn titles_below_a_type_share_a_body() {
    let catalog = World::new().catalog(
        "vars: { more: [c, 7] }\nresources:\n  user: [root, { titles: [a, 'b,c'], uid: 5 }, { titles: '${vars.more}' \
         }]\n  file:\n    titles: [/srv, /srv/app, 1.50/../..]\n    ensure: directory\n    mode: \"0750\"\n"
            .replace("1.50/../..", "/1.50")
            .as_str(),
    );
    assert_eq!(
        references(&catalog),
        ["user[root]", "user[a]", "user[b,c]", "user[c]", "user[7]", "file[/srv]", "file[/srv/app]", "file[/1.50]"]
    );
    assert_eq!(attribute(&catalog, "user[b,c]", "uid"), Some(&Value::Integer(5)));
    assert_eq!(attribute(&catalog, "user[root]", "uid"), None);
    for title in ["/srv", "/srv/app", "/1.50"] {
        let reference = format!("file[{title}]");
        assert_eq!(attribute(&catalog, &reference, "mode"), Some(&Value::from("0750")), "{title}");
    }
}

#[test]
fn list_of_titles_alone_is_no_graph_of_mgmt() {
    let catalog = World::new().catalog("resources:\n  user: [a, b]\n");
    assert_eq!(references(&catalog), ["user[a]", "user[b]"]);
    let catalog = World::new().catalog("resources:\n  user:\n    - titles: [a, b]\n      uid: 5\n");
    assert_eq!(references(&catalog), ["user[a]", "user[b]"]);
}

#[test]
fn title_of_a_list_is_each_value() {
    let catalog = World::new()
        .catalog("resources:\n  file:\n    titles: [/a, /b]\n    content: name ${each.value} ${each.key}\n");
    assert_eq!(attribute(&catalog, "file[/b]", "content"), Some(&Value::from("name /b /b")));
}

#[test]
fn for_each_declares_a_resource_for_each_element() {
    let catalog = World::new().catalog(
        "vars:\n  users:\n    alice: { uid: 1001, shell: sh }\n    bob: { uid: 1002 }\nresources:\n  \
         user[${each.key}]:\n    for_each: ${vars.users}\n    uid: ${each.value.uid}\n  \
         file[/home/${each.value}]:\n    for_each: [alice, bob]\n    owner: ${each.key}\n    require: \
         user[${each.value}]\n  exec[${each.key} of ${facts.os.family}]:\n    for_each: { x: 1, y: 2 }\n    command: \
         echo\n    tries: ${each.value}\n    when: each.value > 1\n",
    );
    let expected = ["user[alice]", "user[bob]", "file[/home/alice]", "file[/home/bob]", "exec[y of debian]"];
    assert_eq!(references(&catalog), expected);
    assert_eq!(attribute(&catalog, "user[bob]", "uid"), Some(&Value::Integer(1002)));
    assert_eq!(attribute(&catalog, "file[/home/bob]", "owner"), Some(&Value::from("bob")));
    assert_eq!(attribute(&catalog, "exec[y of debian]", "tries"), Some(&Value::Integer(2)));
    assert_eq!(catalog.left_out, 1);
    let relations: Vec<(u32, u32)> = catalog.relations.iter().map(|one| (one.first, one.second)).collect();
    assert_eq!(relations, [(0, 2), (1, 3)], "each file requires its own user");
}

#[test]
fn outputs_and_secrets_may_stand_beside_each() {
    let catalog = World::new().catalog(
        "vars:\n  keys: { a: { sensitive: one }, b: { sensitive: two } }\nresources:\n  exec[make]: { command: x }\n  \
         file[/${each.key}]:\n    for_each: ${vars.keys}\n    content: ${each.value} ${exec[make].stdout}\n  \
         user[${each.key}]:\n    for_each: ${vars.keys}\n    password: ${each.value}\n",
    );
    assert!(attribute(&catalog, "user[b]", "password").is_some_and(Value::holds_sensitive));
    let templates: Vec<String> = ["file[/a]", "file[/b]"]
        .iter()
        .map(|name| format!("{:?}", find(&catalog, name).deferred()[0].template))
        .collect();
    assert_ne!(templates[0], templates[1], "each waits with its own value");
    assert_eq!(catalog.vars.len(), 2, "{:?}", catalog.vars.keys());
    assert!(catalog.vars.values().all(Value::holds_sensitive));
}

#[test]
fn empty_list_declares_nothing() {
    let catalog = World::new()
        .catalog("resources:\n  user[a]: {}\n  user[${each.key}]: { for_each: {} }\n  file: { titles: [] }\n");
    assert_eq!(references(&catalog), ["user[a]"]);
}

#[test]
fn composite_types_use_for_each_inside_and_outside() {
    let catalog = World::new().catalog(
        "types:\n  site:\n    attributes:\n      hosts: { type: \"Array[String]\", desc: its names }\n    \
         resources:\n      file[/etc/${self.name}/${each.value}]:\n        for_each: ${self.hosts}\n        content: \
         ${self.name} ${each.key}\n      user: { titles: [\"${self.name}-r\", \"${self.name}-w\"] }\nresources:\n  \
         site[${each.key}]:\n    for_each: { blog: [a, b], shop: [a] }\n    hosts: ${each.value}\n    meta: { retry: 2 \
         }\n",
    );
    let expected = [
        "file[/etc/blog/a]",
        "file[/etc/blog/b]",
        "user[blog-r]",
        "user[blog-w]",
        "file[/etc/shop/a]",
        "user[shop-r]",
        "user[shop-w]",
    ];
    assert_eq!(references(&catalog), expected);
    assert_eq!(attribute(&catalog, "file[/etc/shop/a]", "content"), Some(&Value::from("shop a")));
    assert_eq!(catalog.composites.iter().map(|one| one.parts.clone()).collect::<Vec<_>>(), [0..4, 4..7]);
    assert_eq!(find(&catalog, "user[shop-w]").meta().map(|meta| meta.retry), Some(2));
}

#[test]
fn each_of_a_composite_resource_is_unknown_in_its_members() {
    let problem = told(
        "types:\n  site: { resources: { \"file[/${self.name}/${each.key}]\": {} } }\nresources:\n  site[${each.key}]: \
         { for_each: [a] }\n",
    );
    assert!(problem.contains("belongs to no resource with `for_each`"), "{problem}");
}

#[test]
fn wrong_lists_are_reported_at_their_place() {
    let mut wrong = Vec::new();
    for (text, message, place) in [
        (
            "resources:\n  user[${each.key}]: { for_each: text }\n",
            "`for_each` expects a list or a mapping, got a String",
            "2:34",
        ),
        ("resources:\n  user[${each.key}]: { for_each: 7 }\n", "got an Integer", "2:34"),
        ("resources:\n  user[${each.key}]:\n    for_each:\n", "got an Undef value", "3:13"),
        ("resources:\n  user[${each.key}]: { for_each: vars.x }\n", "an expression needs braces: ${vars.x}", "2:34"),
        ("resources:\n  user[${each.key}]:\n    for_each: ${vars.x}\n", "there is no variable `x`", "3:17"),
        (
            "resources:\n  exec[e]: { command: x }\n  user[${each.key}]:\n    for_each: ${exec[e].stdout}\n",
            "`exec[e]` sends its outputs to attributes only",
            "4:17",
        ),
        (
            "resources:\n  user[${each.key}]: { for_each: { sensitive: [a] } }\n",
            "`sensitive` needs exactly one source",
            "2:47",
        ),
        ("resources:\n  user[${each.key}]: { for_each: { sensitive: a } }\n", "got a sensitive value", "2:34"),
        ("resources:\n  user[${each.value}]: { for_each: [a, [b]] }\n", "a list has no text", "2:10"),
        (
            "resources:\n  user[${each.value}]: { for_each: [a, { sensitive: b }] }\n",
            "a sensitive value has no place here",
            "2:3",
        ),
        ("resources:\n  user[${each.ky}]: { for_each: [a] }\n", "did you mean `each.key`?", "2:10"),
        ("resources:\n  user[${each.name}]: { for_each: [a] }\n", "each.value.name", "2:10"),
        ("resources:\n  user[a]: { uid: '${each.value}' }\n", "add `for_each` to the resource", "2:22"),
        ("resources:\n  user[${each.value}]: { for_each: [a, b, a] }\n", "`user[a]` is written twice", "2:43"),
        (
            "resources:\n  user[a]: { for_each: [a, b] }\n",
            "put `${each.key}` or `${each.value}` into the title",
            "2:28",
        ),
        ("resources:\n  user: { titles: [a, b, a] }\n", "`user[a]` is written twice", "2:26"),
        ("resources:\n  user: { titles: [a, b] }\n  user[b]: {}\n", "`user[b]` is written twice", "3:3"),
        ("resources:\n  user: { titles: [a, [b]] }\n", "`titles` expects a list of texts, got an Array in it", "2:23"),
        ("resources:\n  user: { titles: [a, ~] }\n", "got an Undef value in it", "2:23"),
        ("resources:\n  user: { titles: { a: 1 }, uid: 1 }\n", "`titles` expects a list of texts, got a Hash", "2:19"),
        ("resources:\n  user: { titles: [a], uid: x }\n", "expects an Integer value, got String", "2:29"),
        ("resources:\n  user: { titles: [a], for_each: [b] }\n", "`for_each` and `titles` exclude each other", "2:24"),
        ("vars: {}\nresources:\n  user: [{ name: a }]\n", "contains titles, or mappings with `titles`", "3:10"),
        ("resources:\n  usr: { titles: [a, b] }\n", "did you mean `user`?", "2:3"),
        ("resources:\n  file: { titles: [/a, b] }\n", "the title is the `path`", "2:24"),
        ("resources:\n  user[a]: { titles: [b] }\n", "`user` has no attribute `titles`", "2:14"),
    ] {
        let problem = told(text);
        let is_one = problem.lines().filter(|line| line.starts_with("error")).count() == 1;
        if !is_one || !problem.contains(message) || !problem.contains(&format!("site.yaml:{place}\n")) {
            wrong.push(format!("{text}expected `{message}` at {place}\n{problem}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn problem_of_one_element_names_the_element() {
    let problem = told(
        "resources:\n  user[${each.key}]:\n    for_each:\n      alice: 1\n      bob: many\n    uid: ${each.value}\n",
    );
    assert!(problem.contains("expects an Integer value, got String"), "{problem}");
    assert!(problem.contains("in the resource for `bob`") && !problem.contains("alice`"), "{problem}");
}

#[test]
fn broken_list_causes_no_other_problems() {
    let problem = told("resources:\n  user[${each.key}]: { for_each: 1 }\n  file[/a]: { require: \"user[alice]\" }\n");
    assert!(!problem.contains("there is no resource"), "{problem}");
}

#[test]
fn titles_of_a_single_resource_are_refused_with_the_form_of_a_list() {
    let problem = told("resources:\n  user[all]: { titles: [a, b] }\n");
    assert!(problem.contains("several resources stand below the type alone: user: { titles: … }"), "{problem}");
}

#[test]
fn attribute_of_a_listed_resource_has_its_place() {
    let mut sources = Sources::new();
    let text = "resources:\n  user: { titles: [a, b], uid: 5 }\n  file: [/x]\n";
    let id = sources.add(Source::new("site.yaml", text));
    let catalog = World::new().compile_all(&mut sources).expect("the manifest is valid").catalog;
    let mut places = AttributeSpans::new();
    let place = places.of(&sources, find(&catalog, "user[b]"), Some("uid"));
    assert_eq!((place.source, &text[place.start as usize..place.end as usize]), (id, "5"));
    let title = places.of(&sources, find(&catalog, "user[b]"), None);
    assert_eq!(&text[title.start as usize..title.end as usize], "b");
}

#[test]
fn included_file_uses_variables_of_its_includer() {
    let mut sources = Sources::new();
    sources.add(Source::new(
        "site.yaml",
        "include: common.yaml\nresources:\n  user[${each.value}-${vars.colour}]: { for_each: [a] }\n",
    ));
    let catalog = World::new().compile_all(&mut sources).expect("the manifest is valid").catalog;
    assert_eq!(references(&catalog), ["user[www]", "user[a-blue]"]);
}

#[test]
fn many_elements_with_a_large_body_compile() {
    let tags: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let text = format!(
        "resources:\n  file[/${{each.value}}]:\n    for_each: [{}]\n    tags: [{}]\n",
        (0..2000).map(|n| format!("f{n}")).collect::<Vec<_>>().join(", "),
        tags.join(", ")
    );
    assert_eq!(World::new().catalog(&text).resources.len(), 2000);
}

#[test]
fn time_of_a_long_list_is_linear() {
    // A quadratic search takes minutes.
    let list: Vec<String> = (0..20_000).map(|n| format!("a{n}")).collect();
    let text = format!("resources:\n  user: {{ titles: [{}], uid: 5 }}\n", list.join(", "));
    assert_eq!(World::new().catalog(&text).resources.len(), 20_000);
}
