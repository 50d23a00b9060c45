//! Tests of selections.

use super::*;
use crate::load::tests::load_text;
use kilter_model::Value;

const INVENTORY: &str = "
hosts:
  web[1:4]:
  db1: {vars: {slot: 1}}
  db2: {vars: {slot: 2}}
  lone:
groups:
  all: {vars: {site: fra}}
  web: {hosts: ['web[1:4]'], vars: {site: ams}}
  db: [db1, db2]
  prod: {hosts: [web1, web2, db1]}
  servers: {groups: [web, db]}
";

fn inventory() -> Inventory {
    load_text("hosts.yaml", INVENTORY).unwrap()
}

fn selected(text: &str) -> String {
    let inventory = inventory();
    match Selector::parse(text).and_then(|selector| selector.select(&inventory)) {
        Ok(targets) => targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(" "),
        Err(error) => format!("! {error} ({})", error.hint.as_deref().unwrap_or_default()),
    }
}

#[test]
fn patterns_select_as_in_ansible() {
    for (text, expected) in [
        ("all", "web1 web2 web3 web4 db1 db2 lone"),
        ("web", "web1 web2 web3 web4"),
        ("web:db", "web1 web2 web3 web4 db1 db2"),
        ("db,web1", "db1 db2 web1"),
        ("db, web1", "db1 db2 web1"),
        ("web:&prod", "web1 web2"),
        ("&prod:web", "web1 web2"),
        ("!prod", "web3 web4 db2 lone"),
        ("servers:&prod:!db", "web1 web2"),
        ("!web1:web", "web2 web3 web4"),
        ("web[0]", "web1"),
        ("web[-1]", "web4"),
        ("web[0:2]", "web1 web2 web3"),
        ("web[1:]", "web2 web3 web4"),
        ("web[1-2]", "web2 web3"),
        ("web?", "web1 web2 web3 web4"),
        ("*1", "web1 db1"),
        ("d*", "db1 db2"),
        ("~(web|db)[12]", "web1 web2 db1 db2"),
        ("~eb", "! no host and no group of the inventory matches `~eb` (`kilter inventory` lists them)"),
        ("ungrouped", "lone"),
        ("other.example.com", "other.example.com"),
        ("ops@other", "ops@other"),
        ("other:2222", "other:2222"),
        ("ssh://wbe", "wbe"),
        ("2001:db8::7", "2001:db8::7"),
        ("web:&lone", ""),
    ] {
        assert_eq!(selected(text), expected, "{text}");
    }
}

#[test]
fn unknown_names_are_errors_if_they_are_similar_to_known_ones() {
    for (text, expected) in [
        (
            "wbe",
            "! the inventory has no host and no group `wbe` (did you mean `web`? ssh://wbe is a host outside of the \
             inventory)",
        ),
        ("web:!prdo", "! the inventory has no host and no group `prdo` (did you mean `prod`?)"),
        ("web:&nothing", "! the inventory has no host and no group `nothing` (`kilter inventory` lists them)"),
        ("web[9]", "! `web` has 4 targets, and the index is outside of them (the first one has the index 0)"),
        ("x*", "! no host and no group of the inventory matches `x*` (`kilter inventory` lists them)"),
        (
            "-oProxyCommand=id",
            "! `-oProxyCommand=id` is not a host: programs would read it as an option (such as web1, ops@web1 or \
             ssh://ops@web1:2222)",
        ),
        ("", "! the selection is empty (name hosts or groups, such as web1,db; `all` is every host)"),
        ("web:!", "! `!` is not followed by a name (such as web:!web1)"),
        ("~(", "! "),
        (
            "web[99999999999999999999]",
            "! `[99999999999999999999]` is not an index (such as web[0], web[-1] or web[0:2])",
        ),
    ] {
        assert!(selected(text).starts_with(expected), "{text}: {}", selected(text));
    }
}

#[test]
fn name_without_an_inventory_is_a_destination() {
    let targets = Selector::parse("web1,ops@web2").unwrap().select(&Inventory::default()).unwrap();
    let hosts: Vec<_> = targets.iter().map(|target| (target.host().as_str(), target.user.as_deref())).collect();
    assert_eq!(hosts, [("web1", None), ("web2", Some("ops"))]);
    assert!(Selector::parse("all").unwrap().select(&Inventory::default()).is_err());
    assert!(Selector::parse("vars.a == 1").unwrap().select(&Inventory::default()).is_err());
}

#[test]
fn conditions_select_by_variables_and_groups() {
    for (text, expected) in [
        (r#"vars.site == "ams""#, "web1 web2 web3 web4"),
        (r#""db" in groups && vars.slot == 2"#, "db2"),
        (r#"name.startsWith("web") && !("prod" in groups)"#, "web3 web4"),
        (r#"has(vars.slot)"#, "db1 db2"),
        (
            r#"vars.siet == "ams""#,
            "! the condition `vars.siet == \"ams\"` for web1: there is no variable `siet` (did you mean `vars.site`?)",
        ),
        (
            r#"vars.site"#,
            "! the condition `vars.site` for web1: its value is not true or false (compare it: x == \"…\")",
        ),
        (r#""web" in gruops"#, "! the condition `\"web\" in gruops`: `gruops` names no variable, fact or output"),
        (
            r#"exec[a].stdout == "x""#,
            "! the condition `exec[a].stdout == \"x\"`: `exec[a]` is a resource, and targets have none",
        ),
    ] {
        assert!(selected(text).starts_with(expected) && (!expected.is_empty()), "{text}: {}", selected(text));
    }
    assert!(!Selector::parse("vars.site == \"ams\"").unwrap().needs_facts());
}

#[test]
fn facts_decide_in_a_second_step() {
    let inventory = inventory();
    let selector = Selector::parse(r#"facts.os.family == "debian" && "db" in groups"#).unwrap();
    assert!(selector.needs_facts());
    let candidates = selector.select(&inventory).unwrap();
    assert_eq!(candidates.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), ["db1", "db2"]);
    let family = |target: &Target| if target.name == "db1" { "debian" } else { "redhat" };
    let is_match = |target: &Target| {
        let os = Value::hash([("family", Value::from(family(target)))]);
        let fact = move |name: &str| if name == "os" { Lookup::Found(os.clone()) } else { Lookup::Missing };
        selector.matches(&inventory, target, &fact).unwrap()
    };
    assert_eq!(candidates.iter().map(|target| is_match(target)).collect::<Vec<_>>(), [true, false]);
    let error = selector.matches(&inventory, &candidates[0], &|_| Lookup::Missing).unwrap_err();
    assert!(error.to_string().contains("for db1: there is no fact `os`"), "{error}");
}

#[test]
fn targets_outside_of_the_inventory_are_selected_by_their_names_only() {
    let inventory = inventory().with_outside([Target::named("lone"), Target::named("web9"), Target::named("box1")]);
    let selected = |text: &str| {
        let targets = Selector::parse(text).unwrap().select(&inventory);
        targets.unwrap().iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(selected("web9,box1"), "web9 box1");
    assert_eq!((selected("web*").as_str(), selected("!servers").as_str()), ("web1 web2 web3 web4", "lone"));
    assert_eq!(selected("vars.site == \"fra\" && name != \"db1\""), "db2 lone");
}
