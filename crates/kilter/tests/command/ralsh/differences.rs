//! Defects of libral, and kilter's behaviour (docs/reference/ralsh.md).

use super::{KNOB, SETTING, calls, ralsh, script, settings};
use crate::support::Place;

#[test]
fn find_returns_listed_resources() {
    let place = settings();
    assert_eq!(ralsh(&place, &["-qI.", "setting", "a", "ensure=present"]).code, 0);
    assert_eq!(ralsh(&place, &["-I.", "setting", "a"]).stdout, ralsh(&place, &["-I.", "setting"]).stdout);
}

#[test]
fn names_and_values_are_never_run() {
    let place = settings();
    let bad = "x'; touch PWNED; echo '$(touch PWNED)`touch PWNED`";
    let ended = ralsh(
        &place,
        &["-I.", "setting", "n'ame", "ensure=present", &format!("value={bad}"), "tags=a b,$(touch PWNED)"],
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    let found = ralsh(&place, &["-jI.", "setting", "n'ame"]).stdout;
    let told: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&told["resource"]["value"], &told["resource"]["tags"][1]), (&bad.into(), &"$(touch PWNED)".into()));
    assert!(!place.path().join("PWNED").exists() && !place.path().join("providers/PWNED").exists());
}

#[test]
fn an_answer_out_of_order_is_an_error_and_no_crash() {
    let place = Place::new();
    script(&place, "setting.prov", &SETTING.replace("find)", "find) echo 'ensure: present'; exit;;\nnever)"));
    let ended = ralsh(&place, &["-I.", "setting", "a"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.starts_with("failed: find of setting[a]"), "{}", ended.stderr);
    script(&place, "setting.prov", &SETTING.replace("update)", "update) echo 'ral_was: 1'; exit;;\nnever)"));
    assert_eq!(ralsh(&place, &["-I.", "setting", "a", "ensure=present"]).code, 2);
}

#[test]
fn file_without_provider_is_reported_and_skipped() {
    let place = settings();
    std::fs::write(place.path().join("providers/plain.prov"), "#!/bin/sh\n").unwrap();
    script(&place, "wrong.prov", "#!/bin/sh\necho 'provider: {type: wrong}'\n");
    let ended = ralsh(&place, &["-I.", "setting", "a"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "setting::setting { 'a':\n  ensure => 'absent',\n}\n"));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(
        lines[0].starts_with("TIME WARN  kilter - DIR/providers/plain.prov: not used: it looks like a provider"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("TIME WARN  kilter - DIR/providers/wrong.prov: not used: its metadata is wrong"),
        "{lines:?}"
    );
}

#[test]
fn error_logged_in_a_description_does_not_fail_the_command() {
    let place = settings();
    let loud = SETTING
        .replace("describe ]; then", "describe ]; then echo 'error: oh' >&2;")
        .replace("type: setting", "type: loud");
    script(&place, "loud.prov", &loud);
    let ended = ralsh(&place, &["-I.", "setting", "a"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "setting::setting { 'a':\n  ensure => 'absent',\n}\n"));
    assert!(ended.stderr.lines().all(|line| line.starts_with("TIME WARN  kilter - ")), "{}", ended.stderr);
}

#[test]
fn missing_resource_is_not_found_in_any_form_of_its_name() {
    let place = Place::new();
    script(&place, "setting.prov", &SETTING.replace("echo '# simple'", "echo '# simple'; name=${name%.service}"));
    let ended = ralsh(&place, &["-I.", "setting", "nothing.service"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (1, "", ""));
    let ended = ralsh(&place, &["-I.", "setting", "a.service"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("it returned `a` for the request for `a.service`"), "{}", ended.stderr);
}

#[test]
fn a_script_that_reads_nothing_does_not_end_the_command() {
    let place = Place::new();
    script(
        &place,
        "knob.prov",
        &KNOB.replace("request = json.load(sys.stdin)", "print('{\"resources\": []}'); sys.exit()"),
    );
    let ended = ralsh(&place, &["-I.", "knob", "a"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (1, "", ""));
    let answer = "if action == 'set': print('{\"error\": {\"message\": \"not read\"}}'); sys.exit()\nrequest =";
    script(&place, "knob.prov", &KNOB.replace("request =", answer));
    let more_than_a_pipe_holds = format!("turn={}", "x".repeat(100_000));
    let ended = ralsh(&place, &["-I.", "knob", "a", &more_than_a_pipe_holds]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("not read"), "{}", ended.stderr);
}

#[test]
fn resource_that_cannot_be_created_is_not_found_and_not_updated() {
    let place = settings();
    let ended = ralsh(&place, &["-I.", "setting", "nothing", "ensure=present"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.contains("`nothing` does not exist and cannot be created"), "{}", ended.stderr);
    assert!(!calls(&place).iter().any(|call| call.contains("update")));
}

#[test]
fn update_that_reports_an_error_fails() {
    let place = Place::new();
    script(
        &place,
        "setting.prov",
        &SETTING.replace("update)", "update) echo \"name: $name\"; echo 'ral_unknown: true'; exit;;\nnever)"),
    );
    let ended = ralsh(&place, &["-I.", "setting", "a", "ensure=present"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
}

#[test]
fn multi_line_error_is_escaped_and_needs_no_end_marker() {
    let place = settings();
    let ended = ralsh(&place, &["-I.", "setting", "stuck", "ensure=present"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("it is stuck\\nfor ever"), "{}", ended.stderr);
    script(&place, "setting.prov", &SETTING.replace("; echo ral_eom", ""));
    assert_eq!(ralsh(&place, &["-I.", "setting", "stuck", "ensure=present"]).code, 2);
}

#[test]
fn json_script_with_failing_exit_code_fails() {
    let place = Place::new();
    script(
        &place,
        "knob.prov",
        &KNOB
            .replace("request =", "print('{\"resources\": []}'); print('no', file=sys.stderr); sys.exit(3)\nrequest ="),
    );
    let ended = ralsh(&place, &["-I.", "knob"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (2, ""));
    assert!(ended.stderr.contains("exit code 3"), "{}", ended.stderr);
}

#[test]
fn json_numbers_and_nulls_keep_their_types() {
    let place = Place::new();
    let knob = KNOB.replace(r#""turn": {"type": "string"}"#, r#""turn": {"type": "Integer"}"#);
    script(&place, "knob.prov", &knob);
    std::fs::write(
        place.path().join("providers/knobs"),
        r#"{"a": {"name": "a", "ensure": "present", "turn": 5, "on": null}}"#,
    )
    .unwrap();
    let ended = ralsh(&place, &["-jI.", "knob", "a"]);
    assert_eq!(
        ended.stdout,
        "{\"resource\":{\"name\":\"a\",\"ensure\":\"present\",\"turn\":5,\"ral\":{\"type\":\"knob\",\"provider\":\"knob::knob\"}}}\n"
    );
    let ended = ralsh(&place, &["-jI.", "knob", "a", "on=true"]);
    assert!(
        ended.stdout.ends_with("\"changes\":[{\"attr\":\"on\",\"is\":true,\"was\":null}]}]}\n"),
        "{}",
        ended.stdout
    );
}

#[test]
fn given_attributes_create_a_missing_resource() {
    let place = settings();
    let ended = ralsh(&place, &["-I.", "setting", "a", "value=1"]);
    assert!(ended.stdout.ends_with("}\nensure(absent->present)\nvalue((none)->1)\n\n"), "{}", ended.stdout);
    let ended = ralsh(&place, &["-I.", "setting", "a", "value=2"]);
    assert!(ended.stdout.ends_with("}\nvalue(1->2)\n\n"), "{}", ended.stdout);
}

#[test]
fn equal_value_of_any_type_is_not_changed() {
    let place = settings();
    let words = ["-I.", "setting", "a", "ensure=present", "loud=true", "tags=x,y"];
    assert_eq!(ralsh(&place, &words).code, 0);
    let before = calls(&place).len();
    let ended = ralsh(&place, &words);
    assert!(ended.stdout.ends_with("}\n\n"), "{}", ended.stdout);
    assert!(calls(&place)[before..].iter().all(|call| call.contains("ral_action=find")));
}

#[test]
fn a_resource_is_shown_as_it_is_after_the_change() {
    let place = Place::new();
    script(&place, "setting.prov", &SETTING.replace("size: 1", "size: 12"));
    let ended = ralsh(&place, &["-I.", "setting", "a", "ensure=present"]);
    assert!(ended.stdout.contains("  size   => '12',\n"), "{}", ended.stdout);
}

#[test]
fn attributes_of_removed_resource_are_not_derived() {
    let place = Place::new();
    let gone = "update) printf 'name: a\\nensure: absent\\nral_was: present\\nral_derive: true\\n'; exit;;\nnever)";
    script(&place, "setting.prov", &SETTING.replace("update)", gone));
    script(&place, "set-a", "name: a\nensure: present\nvalue: 1\nloud: false\n");
    let ended = ralsh(&place, &["-I.", "setting", "a", "value=2", "loud=true"]);
    let told = "setting::setting { 'a':\n  ensure => 'absent',\n}\nensure(present->absent)\n\n";
    assert_eq!((ended.code, ended.stdout.as_str()), (0, told));
}

#[test]
fn invisible_change_causes_a_warning() {
    let place = Place::new();
    script(&place, "setting.prov", &SETTING.replace("update)", "update) exit;;\nnever)"));
    let ended = ralsh(&place, &["-I.", "setting", "a", "ensure=present"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "setting::setting { 'a':\n  ensure => 'absent',\n}\n\n"));
    let warning = "TIME WARN  setting::setting - still not in its state after the change: ensure is absent, should be \
                   present \
                   (update by the provider `setting`, simple, DIR/providers/setting.prov)\n";
    assert_eq!(ended.stderr, warning);
    // What the provider tells is believed.
    script(&place, "setting.prov", &SETTING.replace("update)", "update) echo 'ral_derive: true'; exit;;\nnever)"));
    let ended = ralsh(&place, &["-I.", "setting", "a", "ensure=present"]);
    let told = "setting::setting { 'a':\n  ensure => 'present',\n}\nensure(absent->present)\n\n";
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, told, warning));
    assert_eq!(
        place.run(&["set", "-I.", "setting", "a", "ensure=present"]).code,
        4,
        "kilter's own command looks again"
    );
}

#[test]
fn values_cannot_forge_lines_of_the_output() {
    let place = Place::new();
    script(&place, "knob.prov", KNOB);
    std::fs::write(place.path().join("providers/knobs"), r#"{"a": {"name": "a", "turn": "1',\n}\n\u001b[2J"}}"#)
        .unwrap();
    let ended = ralsh(&place, &["-I.", "knob", "a"]);
    assert_eq!(ended.stdout, "knob::knob { 'a':\n  turn => \"1',\\n}\\n\\u{1b}[2J\",\n}\n");
}
