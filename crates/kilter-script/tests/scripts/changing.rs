//! Changes that scripts make.

use kilter_model::{Change, Feature, State, Value};
use kilter_process::{Confined, Confinement, can_confine};
use kilter_provider::{Context, Mode, Wanted};

use crate::harness::*;

const TYPED: &str = "type: tt\ninvoke: simple\nsuitable: true\nattributes:\n  name:\n  ensure: {type: \"enum[present, \
                     absent]\"}\n  v: \
                     {type: string}\n  flag: {type: boolean}\n  arr: {type: \"array[string]\"}\n  how: {kind: w}\n  \
                     seen: {kind: r}";

/// Keeps the values of one resource in the file `state`.
const KEEPER: &str = r##"
echo '# simple'
case "$ral_action" in
find|list)
  if [ -e state ]; then cat state; else echo "name: a"; echo "ensure: absent"; fi;;
update)
  [ -n "$ral_noop" ] && { echo "ral_derive: true"; echo "seen: $*"; exit; }
  if [ "$ensure" = absent ]; then rm -f state; else
    touch state
    for key in ensure v flag arr; do
      [ -n "${!key+x}" ] && { grep -v "^$key:" state >new; echo "$key: ${!key}" >>new; mv new state; }
    done
    grep -q ^name: state || { { echo "name: $name"; cat state; } >new; mv new state; }
  fi
  echo "ral_derive: true";;
esac
"##;

#[test]
fn resource_is_created_changed_and_removed_with_reports() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, KEEPER);
    let should = [
        ("ensure", Value::from("present")),
        ("v", "it's $(id)".into()),
        ("flag", true.into()),
        ("arr", Value::strings(["x", "y z"])),
    ];
    let (found, outcome) = apply(&*provider, "a", &should).unwrap();
    assert!(!found.state.exists);
    assert_eq!(
        told(&outcome.unwrap()),
        "ensure: absent -> present, v: undef -> it's $(id), flag: undef -> true, arr: undef -> [x, y z]"
    );
    assert_eq!(
        place.calls(),
        [
            "name='a' ral_action=find",
            r"name='a' arr='[x, y z]' ensure='present' flag='true' v='it'\''s $(id)' ral_action=update"
        ]
    );
    let (found, outcome) = apply(&*provider, "a", &should).unwrap();
    assert_eq!((found.state.exists, outcome), (true, None), "booleans and lists are as they should be the second time");
    place.calls();
    let (_, outcome) =
        apply(&*provider, "a", &[("ensure", "present".into()), ("v", "it's $(id)".into()), ("flag", false.into())])
            .unwrap();
    assert_eq!(told(&outcome.unwrap()), "flag: true -> false");
    assert_eq!(place.calls()[1], "name='a' flag='false' ral_action=update", "only what differs is passed");
    let (_, outcome) = apply(&*provider, "a", &[("ensure", "absent".into()), ("v", "other".into())]).unwrap();
    assert_eq!(told(&outcome.unwrap()), "ensure: present -> absent");
    assert_eq!(place.calls()[1], "name='a' ensure='absent' ral_action=update", "nothing else is passed of what goes");
}

#[test]
fn parameters_are_passed_and_cause_no_change() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, KEEPER);
    apply(&*provider, "a", &[("ensure", "present".into()), ("how", "slowly".into())]).unwrap();
    assert_eq!(place.calls()[1], "name='a' ensure='present' how='slowly' ral_action=update");
    assert_eq!(apply(&*provider, "a", &[("ensure", "present".into()), ("how", "fast".into())]).unwrap().1, None);
}

#[test]
fn preview_without_noop_support_makes_no_call() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, KEEPER);
    let (_, outcome) = apply_as(&*provider, "a", &[("ensure", "present".into())], Mode::Preview).unwrap();
    assert_eq!(outcome.unwrap().failure, None);
    assert_eq!(place.calls(), ["name='a' ral_action=find"]);
}

#[test]
fn preview_with_noop_support_passes_ral_noop() {
    let place = ScriptDir::new();
    let provider = place.bash("t", &format!("{TYPED}\nnoop_safe: true"), KEEPER);
    let (_, outcome) = apply_as(&*provider, "a", &[("ensure", "present".into())], Mode::Preview).unwrap();
    let words = "name='a' ensure='present' ral_noop='true' ral_action=update";
    assert_eq!(told(&outcome.unwrap()), format!("seen: undef -> {words}, ensure: absent -> present"));
}

/// Returns the changes and notes of a script for a preview of `v: 2` and `flag: true`.
fn foretold(answer: &str) -> (String, Vec<String>) {
    let place = ScriptDir::new();
    let body = format!(
        "echo '# simple'; case $ral_action in find) printf 'name: a\\nensure: present\\nv: 1\\nflag: false\\nseen: \
         x\\n';; update) \
         printf 'name: a\\n{answer}';; esac"
    );
    let provider = place.bash("t", &format!("{TYPED}\nnoop_safe: true"), &body);
    let should = [("v", "2".into()), ("flag", true.into()), ("how", "slowly".into())];
    let (_, outcome) = apply_as(&*provider, "a", &should, Mode::Preview).unwrap();
    let outcome = outcome.unwrap();
    (told(&outcome), outcome.notes.iter().map(ToString::to_string).collect())
}

#[test]
fn preview_reports_changes_and_notes_missing_ones() {
    let none = Vec::<String>::new();
    let as_asked = "v: 1 -> 2, flag: false -> true".to_owned();
    assert_eq!(foretold("ral_derive: true\\n"), (as_asked, none.clone()));
    let other = "v: 1 -> 3, seen: x -> y, flag: false -> true".to_owned();
    assert_eq!(foretold("v: 3\\nral_was: 1\\nseen: y\\nral_derive: true\\n"), (other, none.clone()));
    let note = |text: &str| vec![format!("the provider `t` {text}")];
    assert_eq!(foretold(""), (String::new(), note("reports that it would change nothing")));
    let seen = "seen: x -> y".to_owned();
    assert_eq!(foretold("seen: y\\n"), (seen, note("does not report that it would change `v`, `flag`")));
    assert_eq!(foretold("ensure: absent\\nral_derive: true\\n"), ("ensure: present -> absent".to_owned(), none));
}

#[test]
fn preview_is_confined() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; case $ral_action in find) printf 'name: a\\nv: 1\\n';; update) touch changed; echo \
                'ral_derive: true';; esac";
    let provider = place.bash("t", &format!("{TYPED}\nnoop_safe: true"), body);
    apply_as(&*provider, "a", &[("v", "2".into())], Mode::Preview).unwrap();
    let is_confined = !matches!(can_confine(Confinement::ReadOnly), Confined::No { .. });
    assert_eq!(place.path().join("changed").exists(), !is_confined);
    apply(&*provider, "a", &[("v", "2".into())]).unwrap();
    assert!(place.path().join("changed").exists());
}

#[test]
fn write_attempt_in_preview_has_no_metadata_hint() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; echo >changed; echo 'ral_derive: true'";
    let provider = place.bash("t", &format!("{TYPED}\nnoop_safe: true"), body);
    let (log, name, should) = (ScriptTestLog::default(), "a".into(), attributes(&[("v", "2".into())]));
    let is = State::present("a", attributes(&[("v", "1".into())]));
    let change = Change::new(&name, &is, Some(&should), &[]);
    provider.set(&Context::empty().with_log(&log), &[change], Mode::Preview);
    let lines = log.all().join(" ");
    assert!(
        lines.contains("/changed in a preview (update), and was refused") && !lines.contains("confine: false"),
        "{lines}"
    );
}

#[test]
fn reading_script_is_confined_and_attempts_are_named() {
    let place = ScriptDir::new();
    place.script(
        "t",
        "#!/bin/bash\necho >changed\necho '# simple'\n[ -n \"$TMPDIR\" ] && printf 'name: a\\nv: confined\\n'\n",
    );
    let lines: String = TYPED.lines().map(|line| format!("  {line}\n")).collect();
    place.file("t.yaml", &format!("provider:\n{lines}"));
    let (provider, log) = (place.only("t"), ScriptTestLog::default());
    let states = all(&*provider, &log).unwrap();
    let is_confined = !matches!(can_confine(Confinement::ReadOnly), Confined::No { .. });
    assert_eq!(place.path().join("changed").exists(), !is_confined);
    assert_eq!(states.len(), usize::from(is_confined));
    let told = if is_confined { "`t` tried to write " } else { "`t` could change the machine" };
    let lines = log.all();
    assert!(lines.iter().any(|line| line.starts_with("warning") && line.contains(told)), "{lines:?}");
}

#[test]
fn metadata_may_permit_writes_while_reading() {
    let place = ScriptDir::new();
    let provider = place.bash("t", &format!("{TYPED}\nconfine: false"), "touch cached; echo '# simple'");
    assert_eq!(all(&*provider, &ScriptTestLog::default()).unwrap().len(), 0);
    assert!(place.path().join("cached").exists());
}

#[test]
fn a_provider_without_update_refuses_and_is_not_run() {
    let place = ScriptDir::new();
    let provider = place.bash("t", &format!("{TYPED}\nactions: [list, find]"), KEEPER);
    let (_, outcome) = apply(&*provider, "a", &[("ensure", "present".into())]).unwrap();
    assert_eq!(outcome.unwrap().failure.unwrap(), "the provider `t` of tt can only read: it has no action `update`");
    assert_eq!(place.calls(), ["name='a' ral_action=find"]);
}

#[test]
fn preview_fails_for_provider_without_update() {
    for promise in ["", "\nnoop_safe: true"] {
        let place = ScriptDir::new();
        let provider = place.bash("t", &format!("{TYPED}\nactions: [list, find]{promise}"), KEEPER);
        assert!(provider.schema().has(Feature::SupportsNoop), "or else nobody would ask");
        let (_, outcome) = apply_as(&*provider, "a", &[("ensure", "present".into())], Mode::Preview).unwrap();
        assert_eq!(
            outcome.unwrap().failure.unwrap(),
            "the provider `t` of tt can only read: it has no action `update`"
        );
        assert_eq!(place.calls(), ["name='a' ral_action=find"]);
    }
}

#[test]
fn reported_and_derived_changes_are_combined() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; case $ral_action in find) printf 'name: a\\nv: 1\\nflag: false\\n';; update) printf \
                'name: a\\nv: \
                3\\nral_was: 1\\nral_derive: true\\n';; esac";
    let provider = place.bash("t", TYPED, body);
    let (_, outcome) = apply(&*provider, "a", &[("v", "2".into()), ("flag", true.into())]).unwrap();
    assert_eq!(told(&outcome.unwrap()), "v: 1 -> 3, flag: false -> true");
}

#[test]
fn removed_resource_has_no_derived_changes() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; case $ral_action in find) printf 'name: a\\nensure: present\\nv: 1\\nflag: \
                false\\n';; update) printf \
                'name: a\\nensure: absent\\nral_was: present\\nseen: x\\nral_derive: true\\n';; esac";
    let provider = place.bash("t", TYPED, body);
    let (_, outcome) = apply(&*provider, "a", &[("v", "2".into()), ("flag", true.into())]).unwrap();
    assert_eq!(told(&outcome.unwrap()), "ensure: present -> absent, seen: undef -> x");
}

#[test]
fn failed_update_has_full_error() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; case $ral_action in find) printf 'name: a\\nv: 1\\n';; update) echo progress >&2; \
                echo 'disk full' >&2; exit 4;; \
                esac";
    let provider = place.bash("t", TYPED, body);
    let (_, outcome) = apply(&*provider, "a", &[("v", "2".into())]).unwrap();
    let why = place.plain(outcome.unwrap().failure.unwrap());
    assert_eq!(
        why,
        "update of tt[a] by the provider `t` (simple, DIR/t.prov): it failed with exit code 4 (last on its standard \
         error: progress / disk full)"
    );
}

#[test]
fn update_answered_as_unknown_fails() {
    let place = ScriptDir::new();
    let body =
        "echo '# simple'; case $ral_action in find) ;; update) printf 'ral_derive: true\\nral_unknown: true\\n';; esac";
    let provider = place.bash("t", TYPED, body);
    let (_, outcome) = apply(&*provider, "a", &[("ensure", "present".into())]).unwrap();
    let why = place.plain(outcome.unwrap().failure.unwrap());
    assert_eq!(
        why,
        "update of tt[a] by the provider `t` (simple, DIR/t.prov): `a` does not exist and cannot be created"
    );
}

#[test]
fn a_service_is_brought_to_two_states_at_once() {
    let place = ScriptDir::new();
    let metadata = "type: service\ninvoke: simple\nsuitable: true\nattributes:\n  name:\n  ensure: {type: \
                    \"enum[running, \
                    stopped]\"}\n  enable: {type: \"enum[true, false, mask]\"}";
    let body = "echo '# simple'; case $ral_action in find) printf 'name: %s\\nensure: stopped\\nenable: false\\n' \
                $name;; update) echo \
                'ral_derive: true';; esac";
    let provider = place.bash("s", metadata, body);
    let (found, outcome) = apply(&*provider, "a", &[("ensure", "running".into()), ("enable", "true".into())]).unwrap();
    assert!(found.state.exists);
    assert_eq!(found.differences.len(), 2, "where `ensure` cannot be absent it is a property like others");
    assert_eq!(told(&outcome.unwrap()), "ensure: stopped -> running, enable: false -> true");
    assert_eq!(place.calls()[1], "name='a' enable='true' ensure='running' ral_action=update");
}

#[test]
fn unrepresentable_values_are_refused_before_call() {
    let place = ScriptDir::new();
    let provider = place.bash("t", TYPED, KEEPER);
    let problems = |pairs: &[(&str, Value)]| -> Vec<String> {
        provider.validate("a", &attributes(pairs), &[]).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        problems(&[("v", "x\0".into())]),
        ["the value of `v` holds a NUL byte, which the convention simple cannot carry"]
    );
    assert_eq!(problems(&[("nosuch", "x".into())]), ["nosuch: the provider `t` of tt has no such attribute"]);
    assert_eq!(problems(&[("flag", "x".into())]), ["flag: expects a Boolean value, got String"]);
    assert_eq!(problems(&[("v", "x".into())]), [""; 0]);
    assert_eq!(provider.validate("a", &attributes(&[]), &["nosuch"]).len(), 1);
    assert_eq!(place.calls(), [""; 0]);
}

/// Reads a file, thinks, and writes it again with a line more.
const COUNTING: &str = r#"
echo '# simple'
case "$ral_action" in
find) grep -qx "$name" db && { echo "name: $name"; echo "ensure: present"; } || { echo "name: $name"; echo "ensure: absent"; };;
update) old=$(cat db 2>/dev/null); sleep 0.1; { [ -z "$old" ] || echo "$old"; echo "$name"; } >db; echo "ral_derive: true";;
esac
"#;

/// Returns the number of existing resources after four concurrent changes.
fn changed_at_once(more: &str) -> usize {
    let place = ScriptDir::new();
    let provider = place.bash("t", &format!("{TYPED}\n{more}"), COUNTING);
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let provider = &provider;
            scope.spawn(move || apply(&**provider, name, &[("ensure", "present".into())]));
        }
    });
    std::fs::read_to_string(place.path().join("db")).unwrap_or_default().lines().count()
}

#[test]
fn changes_of_one_provider_are_sequential() {
    assert_eq!(changed_at_once(""), 4);
    // Whoever allows it has them side by side: then some are lost, by this one.
    assert!(changed_at_once("parallel: true") < 4);
}

#[test]
fn change_report_has_command_and_exit_status() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; case $ral_action in find) printf 'name: a\\nv: 1\\n';; update) echo no >&2; echo \
                'ral_derive: true';; esac";
    let provider = place.bash("t", TYPED, body);
    let (_, outcome) = apply(&*provider, "a", &[("v", "2".into())]).unwrap();
    let expected = "update by the provider `t`, simple, DIR/t.prov; last on its standard error: no";
    assert_eq!(place.plain(outcome.unwrap().by), expected);
}

#[test]
fn found_resource_without_ensure_is_present() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; case $ral_action in list|find) echo 'name: a'; echo 'v: 1';; esac";
    let provider = place.bash("t", TYPED, body);
    let (found, outcome) = apply(&*provider, "a", &[("ensure", "present".into()), ("v", "1".into())]).unwrap();
    assert_eq!((found.state.attributes.text("ensure"), outcome), (Some("present"), None));
}

#[test]
fn listed_resource_without_ensure_is_present() {
    let place = ScriptDir::new();
    let body = "echo '# simple'; case $ral_action in list) echo 'name: a'; echo 'v: 1';; esac";
    let provider = place.bash("t", &format!("{TYPED}\nactions: [list, update]"), body);
    let should = attributes(&[("ensure", "present".into()), ("v", "1".into())]);
    let names = ["a".into(), "b".into()];
    let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, Some(&should))).collect();
    let found = kilter_provider::check(&*provider, &Context::empty(), &wanted);
    let differing = found.iter().map(|found| found.as_ref().unwrap().differences.len());
    assert_eq!(differing.collect::<Vec<_>>(), [0, 2]);
}
