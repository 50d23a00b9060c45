//! Scripts of the convention json.

use std::sync::Arc;

use kilter_model::{Change, Feature, Value};
use kilter_provider::{Context, Found, Mode, Wanted, check};
use kilter_script::Script;

use crate::harness::*;

const METADATA: &str = "provider:\n  type: tt\n  invoke: json\n  suitable: true\n  noop_safe: true\n  \
                        attributes:\n    name:\n    ensure: {type: \
                        \"enum[present, absent]\"}\n    n: {type: Integer}\n    tags: {type: \"array[string]\"}\n";

/// Keeps its resources in a file, and tells what it was given.
const KEEPER: &str = r#"#!/usr/bin/env python3
import json, os, socket, sys
os.chdir(os.path.dirname(os.path.abspath(sys.argv[0])))
action = sys.argv[1].split("=", 1)[1]
given = sys.stdin.read()
with open("port") as port, socket.create_connection(("127.0.0.1", int(port.read()))) as told:
    told.sendall((action + " " + given + "\n").encode())
given = json.loads(given)
kept = json.load(open("kept")) if os.path.exists("kept") else {}
if action == "get":
    found = [dict(kept[name], name=name) for name in (given["names"] or kept) if name in kept]
    found += [{"name": n, "error": {"message": "no " + n, "kind": "forbidden"}} for n in given["names"] if n.startswith("x")]
    print(json.dumps({"resources": found}))
else:
    changes = []
    for update in given["updates"]:
        name = update["name"]
        if name.startswith("no"):
            changes.append({"name": name, "error": {"message": "cannot be created", "kind": "unknown"}})
        elif update["should"].get("ensure") == "absent":
            kept.pop(name, None)
        else:
            kept.setdefault(name, {}).update(update["should"])
    if not given["ral"]["noop"]:
        json.dump(kept, open("kept", "w"))
    print(json.dumps({"changes": changes, "derive": True}))
"#;

fn keeper(place: &ScriptDir) -> Arc<dyn Script> {
    place.script("k", KEEPER);
    place.file("k.yaml", METADATA);
    place.only("k")
}

#[test]
fn resources_are_created_read_and_removed() {
    let place = ScriptDir::new();
    let provider = keeper(&place);
    let should =
        [("ensure", Value::from("present")), ("n", Value::Integer(5)), ("tags", Value::strings(["a,b", "é\n"]))];
    let (_, outcome) = apply(&*provider, "r", &should).unwrap();
    assert_eq!(told(&outcome.unwrap()), "ensure: absent -> present, n: undef -> 5, tags: undef -> [a,b, é\n]");
    assert_eq!(
        place.calls(),
        [
            r#"get {"names":["r"]}"#,
            r#"set {"ral":{"noop":false},"updates":[{"name":"r","is":{"ensure":"absent"},"should":{"ensure":"present","n":5,"tags":["a,b","é\n"]}}]}"#,
        ]
    );
    assert_eq!(apply(&*provider, "r", &should).unwrap().1, None);
    place.calls();
    let (_, outcome) = apply(&*provider, "r", &[("ensure", "present".into()), ("n", Value::Integer(6))]).unwrap();
    assert_eq!(told(&outcome.unwrap()), "n: 5 -> 6");
    assert!(place.calls()[1].contains(r#""should":{"n":6}"#));
    let (_, outcome) = apply(&*provider, "r", &[("ensure", "absent".into())]).unwrap();
    assert_eq!(told(&outcome.unwrap()), "ensure: present -> absent");
    assert_eq!(all(&*provider, &ScriptTestLog::default()), Ok(Vec::new()));
}

#[test]
fn many_resources_are_read_with_one_call_and_changed_with_one() {
    let place = ScriptDir::new();
    let provider = keeper(&place);
    let names: Vec<ecow::EcoString> = ["a", "b", "nosuch"].map(Into::into).into();
    let should = attributes(&[("ensure", "present".into())]);
    let cx = Context::empty();
    let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, Some(&should))).collect();
    let found: Vec<Found> = check(&*provider, &cx, &wanted).into_iter().map(Result::unwrap).collect();
    let changes: Vec<Change<'_>> = names
        .iter()
        .zip(&found)
        .map(|(name, found)| Change::new(name, &found.state, Some(&should), &found.differences))
        .collect();
    let outcomes = provider.set(&cx, &changes, Mode::Apply);
    assert_eq!(
        (told(&outcomes[0]), told(&outcomes[1])),
        ("ensure: absent -> present".into(), "ensure: absent -> present".into())
    );
    let why = place.plain(outcomes[2].failure.as_ref().unwrap());
    assert_eq!(why, "set of tt[nosuch] by the provider `k` (json, DIR/k.prov): cannot be created");
    assert_eq!(place.calls().len(), 2);
}

#[test]
fn error_affects_only_its_resource() {
    let place = ScriptDir::new();
    let provider = keeper(&place);
    let states = named(&*provider, &["a", "xx"]).unwrap();
    assert_eq!(states[0].unreadable, None);
    let why = place.plain(states[1].unreadable.as_ref().unwrap());
    assert_eq!(why, "get of tt[xx] by the provider `k` (json, DIR/k.prov): forbidden: no xx");
}

#[test]
fn a_provider_without_set_refuses_in_a_preview_too_and_is_not_run() {
    let place = ScriptDir::new();
    place.script("k", KEEPER);
    place.file("k.yaml", &METADATA.replace("noop_safe: true", "actions: [get]"));
    let provider = place.only("k");
    assert!(provider.schema().has(Feature::SupportsNoop), "or else nobody would ask");
    for mode in [Mode::Preview, Mode::Apply] {
        let (_, outcome) = apply_as(&*provider, "r", &[("ensure", "present".into())], mode).unwrap();
        let why = "the provider `k` of tt can only read: it has no action `set`";
        assert_eq!(outcome.unwrap().failure.as_deref(), Some(why));
    }
    assert!(place.calls().iter().all(|call| call.starts_with("get")));
}

#[test]
fn json_preview_passes_noop() {
    let place = ScriptDir::new();
    let provider = keeper(&place);
    let (_, outcome) = apply_as(&*provider, "r", &[("ensure", "present".into())], Mode::Preview).unwrap();
    assert_eq!(told(&outcome.unwrap()), "ensure: absent -> present");
    assert_eq!(short(&named(&*provider, &["r"]).unwrap()), "r-()");
}

#[test]
fn incomplete_preview_is_noted() {
    for (changes, note) in [
        ("", "reports that it would change nothing"),
        (r#"{"name": "r", "n": {"is": 5, "was": null}}"#, "does not report that it would change `ensure`"),
    ] {
        let place = ScriptDir::new();
        place.script(
            "k",
            &format!(
                "#!/bin/sh\ncase $1 in *get) echo '{{\"resources\": []}}';; *) echo '{{\"changes\": \
                      [{changes}]}}';; esac\n"
            ),
        );
        place.file("k.yaml", METADATA);
        let should = [("ensure", "present".into()), ("n", Value::Integer(5))];
        let (_, outcome) = apply_as(&*place.only("k"), "r", &should, Mode::Preview).unwrap();
        assert_eq!(outcome.unwrap().notes, [format!("the provider `k` {note}")]);
    }
}
