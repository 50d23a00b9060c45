use kilter_model::Value;
use serde_json::json;

use super::*;

fn attributes(entries: &[(&str, Value)]) -> Attributes {
    entries.iter().map(|(name, value)| (*name, value.clone())).collect()
}

#[test]
fn action_functions_give_the_final_status() {
    let body = |mut log: ChangeLog<'_>| {
        log.created("a", None);
        log.updated("b", "Brought up to date");
        log.deleted("c", None);
        log.unchanged("d", None);
        log.failed("e", "no such key");
        log.outcomes()
    };
    told_of(&["a", "b", "c", "d", "e"], Mode::Apply, body).expect(
        &[
            "notice: apt_key[a]: Created",
            "notice: apt_key[b]: Brought up to date",
            "notice: apt_key[c]: Deleted",
            "info: apt_key[d]: Unchanged",
            "err: apt_key[e]: no such key",
        ],
        &[None, None, None, None, Some("no such key")],
    );
}

#[test]
fn processed_reports_each_attribute_that_differs() {
    let is = attributes(&[("ensure", "present".into()), ("content", "old".into()), ("trust", Value::Integer(1))]);
    let should = attributes(&[
        ("ensure", "present".into()),
        ("id", "a".into()),
        ("content", "new".into()),
        ("trust", Value::Integer(5)),
        ("size", Value::Integer(9)),
        ("server", "keys.example.org".into()),
    ]);
    let body = |mut log: ChangeLog<'_>| {
        log.processed("a", Some(&is), Some(&should));
        log.processed("b", None, Some(&should));
        log.processed("c", Some(&is), None);
        log.processed("d", Some(&is), Some(&is));
        log.outcomes()
    };
    let told = told_of(&["a", "b", "c", "d"], Mode::Apply, body);
    told.expect(
        &[
            "notice: apt_key[a]: content: old → new",
            "notice: apt_key[a]: trust: 1 → 5",
            "notice: apt_key[a]: Updated",
            "notice: apt_key[b]: ensure: absent → present",
            "notice: apt_key[b]: content: undef → new",
            "notice: apt_key[b]: trust: undef → 5",
            "notice: apt_key[b]: Created",
            "notice: apt_key[c]: ensure: present → absent",
            "notice: apt_key[c]: Deleted",
            "info: apt_key[d]: Unchanged",
        ],
        &[None, None, None, None],
    );
    assert_eq!(told.outcomes.iter().map(|outcome| outcome.changed.len()).collect::<Vec<_>>(), [2, 3, 1, 0]);
    assert_eq!(told.outcomes[0].changed[1].should, Value::Integer(5));
}

#[test]
fn processing_reports_the_attributes_when_it_ends_well() {
    let (is, should) = (attributes(&[("trust", Value::Integer(1))]), attributes(&[("trust", Value::Integer(5))]));
    let body = |mut log: ChangeLog<'_>| {
        log.processing("a", Some(&is), Some(&should), None, |_| Ok(()));
        log.processing("b", Some(&is), Some(&should), "Working", |_| Err("no".into()));
        log.outcomes()
    };
    let told = told_of(&["a", "b"], Mode::Apply, body);
    told.expect(
        &[
            "debug: apt_key[a]: Processing: Start",
            "notice: apt_key[a]: Processing trust: 1 → 5",
            "notice: apt_key[a]: Processing: Finished in 0.000123 seconds",
            "debug: apt_key[b]: Working: Start",
            "err: apt_key[b]: Working: Failed after 0.000123 seconds: no",
        ],
        &[None, Some("no")],
    );
    assert_eq!(told.outcomes[0].changed.len(), 1);
    assert!(told.outcomes[1].changed.is_empty());
}

#[test]
fn attribute_change_is_logged_and_stored() {
    let body = |mut log: ChangeLog<'_>| {
        log.attribute_changed("a", "trust", Value::Undef, Value::Integer(5), None);
        log.attribute_changed("a", "content", "x".into(), Value::Undef, "emptied");
        log.updated("a", None);
        log.outcomes()
    };
    let told = told_of(&["a"], Mode::Apply, body);
    told.expect(
        &[
            "notice: apt_key[a]: trust: undef → 5",
            "notice: apt_key[a]: content: emptied",
            "notice: apt_key[a]: Updated",
        ],
        &[None],
    );
    let changed = &told.outcomes[0].changed;
    assert_eq!((changed[0].attribute.as_str(), &changed[0].should), ("trust", &Value::Integer(5)));
    assert_eq!(changed[1].message.as_deref(), Some("emptied"));
}

#[test]
fn a_long_value_is_shortened_in_the_text_and_whole_in_the_event() {
    let long = "ä".repeat(500);
    let body = |mut log: ChangeLog<'_>| {
        log.attribute_changed("a", "content", Value::Undef, long.as_str().into(), None);
        log.outcomes()
    };
    let told = told_of(&["a"], Mode::Apply, body);
    assert_eq!(told.lines, [format!("notice: apt_key[a]: content: undef → {}…", "ä".repeat(120))]);
    assert_eq!(told.events[0]["should"], long);
}

#[test]
fn secrets_are_redacted_in_log_and_events() {
    let sealed = Value::sensitive("hunter2".into());
    let (is, should) = (attributes(&[("password", "s3same".into())]), attributes(&[("password", "hunter2".into())]));
    let body = |mut log: ChangeLog<'_>| {
        // Secret by its type, by its value, and with a message that contains it.
        log.attribute_changed("a", "password", "s3same".into(), "hunter2".into(), None);
        log.attribute_changed("a", "content", Value::Undef, sealed.clone(), "Replaced");
        log.attribute_changed("a", "password", Value::Undef, "hunter2".into(), "Set to hunter2");
        log.processed("b", Some(&is), Some(&should));
        log.outcomes()
    };
    let told = told_of(&["a", "b"], Mode::Apply, body);
    told.expect(
        &[
            "notice: apt_key[a]: password: [redacted] → [redacted]",
            "notice: apt_key[a]: content: Replaced",
            "notice: apt_key[a]: password: undef → [redacted]",
            "notice: apt_key[b]: password: [redacted] → [redacted]",
            "notice: apt_key[b]: Updated",
        ],
        &[None, None],
    );
    let all = format!("{:?} {:?}", told.events, told.outcomes);
    assert!(!all.contains("hunter2") && !all.contains("s3same"), "{all}");
    assert_eq!((&told.events[1]["is"], &told.events[1]["should"]), (&json!(null), &json!("[redacted]")));
}

#[test]
fn events_are_json() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", "Renewing", |log| {
            log.attribute_changed(InScope, "trust", Value::Integer(1), Value::Integer(5), "more");
            Ok(())
        });
        log.updating("b", None, |_| Err(Failure::fatal("no power")));
        log.outcomes()
    };
    let told = told_of(&["a", "b"], Mode::Apply, body);
    assert_eq!(
        told.events[1],
        json!({
            "event": "attribute_changed", "level": "notice", "severity": 5, "type": "apt_key", "provider": "apt",
            "titles": ["a"], "noop": false, "action": "updating", "label": "Renewing",
            "attribute": "trust", "is": 1, "should": 5, "message": "more", "text": "Renewing trust: more",
        })
    );
    assert_eq!(
        told.events[2],
        json!({
            "event": "finished", "level": "notice", "severity": 5, "type": "apt_key", "provider": "apt",
            "titles": ["a"], "noop": false, "action": "updating", "label": "Renewing", "status": "updated",
            "duration_us": 123, "text": "Renewing: Finished in 0.000123 seconds",
        })
    );
    assert_eq!(
        told.events[4],
        json!({
            "event": "failed", "level": "err", "severity": 3, "type": "apt_key", "provider": "apt",
            "titles": ["b"], "noop": false, "action": "updating", "label": "Updating", "status": "failed",
            "duration_us": 123, "message": "no power", "fatal": true,
            "text": "Updating: Failed after 0.000123 seconds: no power",
        })
    );
}

#[test]
fn aborted_set_fails_resources_without_final_status() {
    let body = |log: ChangeLog<'_>| {
        log.run(|log| {
            log.updated("a", None);
            log.failed("b", "no such key");
            std::fs::read("/nowhere/at/all")?;
            log.updated("c", None);
            Ok(())
        })
    };
    told(body).expect(
        &[
            "notice: apt_key[a]: Updated",
            "err: apt_key[b]: no such key",
            "err: apt_key: Aborted: No such file or directory (os error 2)",
        ],
        &[None, Some("no such key"), Some("No such file or directory (os error 2)")],
    );
}

#[test]
fn abort_closes_open_blocks() {
    let body = |mut log: ChangeLog<'_>| {
        log.open(Action::Updating, "a", None);
        log.abort(Failure::fatal("no power"))
    };
    let told = told_of(&["a", "b"], Mode::Apply, body);
    told.expect(
        &[
            "debug: apt_key[a]: Updating: Start",
            "err: apt_key[a]: Updating: Failed after 0.000123 seconds: no power",
            "err: apt_key: Aborted: no power",
        ],
        &[Some("no power"), Some("no power")],
    );
    assert!(told.outcomes[0].fatal);
}

#[test]
fn a_fatal_failure_reaches_the_run_even_if_all_have_their_status() {
    let body = |mut log: ChangeLog<'_>| {
        log.updated(["a", "b"], None);
        log.abort(Failure::fatal("no power"))
    };
    let told = told_of(&["a", "b"], Mode::Apply, body);
    assert_eq!(told.failures(), [None, None]);
    assert_eq!(told.outcomes.iter().map(|outcome| outcome.fatal).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn outcome_contains_its_events() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", None, |log| {
            log.note(InScope, "took the second mirror");
            log.send(InScope, "fingerprint", "E242ED3B");
            log.refreshed(InScope);
            Ok(())
        });
        log.outcomes()
    };
    let told = told_of(&["a"], Mode::Apply, body);
    let outcome = &told.outcomes[0];
    assert_eq!(outcome.notes, ["took the second mirror"]);
    assert_eq!(outcome.outputs.text("fingerprint"), Some("E242ED3B"));
    assert!(outcome.refreshed && outcome.is_done());
}

#[test]
fn resource_without_messages_succeeds_with_set() {
    told(|log| log.outcomes()).expect(&[], &[None, None, None]);
}
