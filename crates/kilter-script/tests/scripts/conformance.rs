//! Scripts of both conventions, put through the conformance suite.

use std::path::Path;
use std::sync::Arc;

use kilter_devkit::conformance::{Report, Sample, Subject, Suite};
use kilter_model::Value;
use kilter_script::{Convention, ConventionName, Json, Metadata, ScriptEnvironment, ScriptProvider, Simple};

use crate::harness::ScriptDir;

/// Both scripts keep resources below the directory `kept`, fail where they are to fail and are slow where they
/// are to be slow.
const SIMPLE: &str = r##"#!/bin/bash
cd "$(dirname "$0")" || exit 9
eval "$@"
file=kept/$name
# Some names are too long for a file.
[ ${#name} -gt 200 ] && file=kept/$(cksum <<<"$name" | tr ' ' -)
update() {
    [ "$mood" = bad ] && { printf 'ral_error: in a bad mood\nral_eom\n'; return; }
    echo 'ral_derive: true'
    [ -n "$ral_noop" ] && return
    [ "$mood" = slow ] && { touch begun; sleep 60; }
    [ "$ensure" = absent ] && { rm -f "$file"; return; }
    local key line
    declare -A state=()
    [ -e "$file" ] && while IFS= read -r line; do state[${line%%: *}]=${line#*: }; done <"$file"
    for key in ensure mood flag tags count shape text; do [ -n "${!key+x}" ] && state[$key]=${!key}; done
    mkdir -p kept
    echo "name: $name" >new
    for key in ensure mood flag tags count shape text; do [ -n "${state[$key]+x}" ] && echo "$key: ${state[$key]}"; done >>new
    mv new "$file"
}
echo '# simple'
case "$ral_action" in
list) for file in kept/*; do [ -e "$file" ] && cat "$file"; done;;
find) if [ -e "$file" ]; then cat "$file"; else printf 'name: %s\nensure: absent\n' "$name"; fi;;
update) update;;
esac
exit 0
"##;

const JSON: &str = r#"#!/usr/bin/python3 -IS
import json, os, sys, time
os.chdir(os.path.dirname(os.path.abspath(sys.argv[0])))
kept = json.load(open("kept/all")) if os.path.exists("kept/all") else {}
def change(name, should, noop):
    if should.get("mood") == "bad":
        return "in a bad mood"
    if noop:
        return None
    if should.get("mood") == "slow":
        open("begun", "w").close()
        time.sleep(60)
    if should.get("ensure") == "absent":
        kept.pop(name, None)
    else:
        kept.setdefault(name, {}).update(should)
    os.makedirs("kept", exist_ok=True)
    json.dump(kept, open("new", "w"), sort_keys=True)
    os.rename("new", "kept/all")
given = json.load(sys.stdin)
if sys.argv[1] == "ral_action=get":
    names = given["names"] or list(kept)
    print(json.dumps({"resources": [dict(kept[n], name=n) for n in names if n in kept]}))
else:
    changes = []
    for update in given["updates"]:
        why = change(update["name"], update["should"], given["ral"]["noop"])
        if why: changes.append({"name": update["name"], "error": {"message": why, "kind": "failed"}})
    print(json.dumps({"changes": changes, "derive": True}))
"#;

fn metadata(convention: &str) -> String {
    format!(
        "provider:\n  type: keepsake\n  desc: Things that are kept.\n  invoke: {convention}\n  suitable: true\n  \
         noop_safe: true\n  \
         attributes:\n    name: {{type: \"String[1]\", desc: Its name.}}\n    ensure: {{type: \"enum[present, \
         absent]\", desc: Whether it \
         is there.}}\n    mood: {{type: \"enum[good, bad, slow]\", desc: How it is kept.}}\n    flag: {{type: \
         boolean, desc: A \
         truth.}}\n    tags: {{type: \"array[string]\", desc: Words.}}\n    count: {{type: \"Integer\", desc: A \
         number.}}\n    shape: \
         {{type: \"Hash[String, Data]\", desc: Anything.}}\n    text: {{type: string, desc: A text.}}\n"
    )
}

/// All that is kept, in order.
fn fingerprint(directory: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(directory.join("kept")) else { return String::new() };
    let mut files: Vec<String> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| format!("{}\n{}", path.display(), std::fs::read_to_string(&path).unwrap_or_default()))
        .map(|text| text.replace(&directory.display().to_string(), ""))
        .collect();
    files.sort();
    files.concat()
}

fn subject(convention: &'static str) -> Subject {
    let place = ScriptDir::new();
    let body = if convention == "simple" { SIMPLE } else { JSON };
    let script = place.script("keeper", body);
    let (world, begun) = (place.path().to_owned(), place.path().join("begun"));
    let provider = move || {
        let metadata = Metadata::parse(&metadata(convention), "keeper").unwrap();
        let surroundings = Arc::new(ScriptEnvironment::new());
        let base = surroundings.invocation(&script);
        let convention: Box<dyn Convention> = match metadata.convention {
            ConventionName::Simple => Box::new(Simple::new(base)),
            _ => Box::new(Json::new(base)),
        };
        ScriptProvider::new(&script, metadata, convention, surroundings)
    };
    let one = Sample::new("it's one")
        .present([
            ("flag", Value::Boolean(true)),
            ("tags", Value::strings(["a", "b c"])),
            ("text", "x=$(id) 'y'".into()),
        ])
        .changed([("flag", Value::Boolean(false)), ("tags", Value::array([])), ("text", "".into())]);
    let two = Sample::new("two").present([("mood", "good"), ("text", "z")]).changed([("text", "zz")]);
    let subject = Subject::new(provider, move || fingerprint(&world))
        .specimen(one)
        .specimen(two)
        .unknown(["nothing", "nothing \"else\""])
        .failing(Sample::new("bad").present([("mood", "bad")]))
        .slow(Sample::new("slow").present([("mood", "slow")]), move || begun.exists())
        .sparing("mood", "it makes changes fail and last")
        .keeping(place);
    match convention {
        // A name is a line of what is printed.
        "simple" => subject
            .sparing("text", "a line of output carries no line break, and no space at its ends")
            .names_like(|text| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>() + "n"),
        // Starting Python takes its time.
        _ => ["tags", "count"].into_iter().fold(subject, |subject, attribute| {
            subject.sparing(attribute, "its values are tried with the convention simple")
        }),
    }
}

fn assert_conforms(report: &Report, batch: &[(&str, &str)]) {
    report.assert();
    let every = [
        ("titles-fit-namevars", "the type has one namevar"),
        ("a-refresh-is-served", "the provider does not have the feature `refresh`"),
    ];
    assert_eq!(report.excused(), [&every[..], batch].concat(), "{report}");
}

#[test]
fn simple_script_conforms() {
    let one_by_one = [("a-batch-is-one-by-one", "the provider accepts one change at a time")];
    assert_conforms(&Suite::new(|| subject("simple")).run(), &one_by_one);
}

#[test]
fn json_script_conforms() {
    assert_conforms(&Suite::new(|| subject("json")).run(), &[]);
}
