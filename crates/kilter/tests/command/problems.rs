//! All problems of a manifest are reported at once.

use crate::support::*;

/// Each line says in a comment which problems it has. Together they are of every kind that the stages of a compilation find:
/// includes, variables, facts, defaults, types, resources, attributes, relations, providers, names, cycles.
const MANIFEST: &str = r##"
vars:
  loop: ${vars.pool} #! the variable `loop` refers to itself: loop -> pool -> loop
  pool: ${vars.loop}
  facts: ${facts.one} and ${facts.two} #! there is no fact `one` #! there is no fact `two`
  sum: ${vars.three + vars.four} #! there is no variable `three` #! there is no variable `four`
  syntax: "${1 +} and ${vars.}" #! unexpected `}`, a value should come here #! `vars` is not followed by a name
defaults:
  fil: { meta: { retry: 3 } } #! unknown type `fil`
  file: { meta: { retri: 3 }, mode: "0644" } #! unknown metaparameter `retri` #! there are no defaults for `mode`
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
  exec[one]: { command: "a | b", require: "exec[two]" } #! exec[one]: command: `|` means something to a shell only
  exec[two]: { command: "true", require: "exec[one]" } #! resources wait for each other: exec[one] → exec[two] → exec[one]
  user[eve]: { uid: x, when: facts.nine == 3 } #! `uid` expects an Integer value, got String #! there is no fact `nine`
  site[a]: { prt: 3 } #! `site[a]` lacks the attribute `port` #! `site` has no attribute `prt`
  fiel[q]: {} #! unknown type `fiel`
  file[/b]: {} #! `file[/b]` is written twice
  file[/e]: { path: /e/ }
  file[g]: { path: /e, content: x, source: /f } #! file[g]: file[/e] manages the same `/e` #! file[g]: source: `content` and `source` exclude each other
  file[/h]: { content: x }
  file[/h/x]: { content: x } #! file[/h/x]: file[/h] above it is to be a file
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
fn problems_of_one_manifest_are_reported_beside_another_that_cannot_be_read() {
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
