use super::status::Phase;
use super::*;

/// Returns a provider error as shown.
fn error(rest: &str) -> String {
    format!("error of the provider `apt`: {rest}")
}

#[test]
fn final_status_is_not_overwritten() {
    let of = Phase::Final(FinalStatus::Updated);
    let ended = Err(Rule::Final(FinalStatus::Updated));
    let table = [
        (Phase::Untouched, Ok(Phase::Logged), Ok(Phase::Open), Ok(of), Ok(Phase::Final(FinalStatus::Failed))),
        (Phase::Logged, Ok(Phase::Logged), Err(Rule::Late), Ok(of), Ok(Phase::Final(FinalStatus::Failed))),
        (Phase::Open, Ok(Phase::Open), Err(Rule::Nested), Err(Rule::InBlock), Ok(Phase::Final(FinalStatus::Failed))),
        (of, ended, ended, ended, ended),
    ];
    for (phase, logged, opened, updated, failed) in table {
        assert_eq!(phase.logged(), logged, "{phase:?}");
        assert_eq!(phase.opened(), opened, "{phase:?}");
        assert_eq!(phase.ended(FinalStatus::Updated), updated, "{phase:?}");
        assert_eq!(phase.ended(FinalStatus::Failed), failed, "{phase:?}");
    }
}

#[test]
fn message_about_unchanged_resource_is_provider_error() {
    type LogCall = fn(&mut ChangeLog<'_>);
    let calls: [(&str, LogCall); 22] = [
        ("debug", |log| log.debug_for("x", "…")),
        ("info", |log| log.info_for("x", "…")),
        ("notice", |log| log.notice_for("x", "…")),
        ("warning", |log| log.warning_for("x", "…")),
        ("err", |log| log.err_for("x", "…")),
        ("alert", |log| log.say_for(Level::Alert, "x", "…")),
        ("creating", |log| assert!(!log.creating("x", None, |_| panic!("not begun")))),
        ("updating", |log| assert!(!log.updating("x", None, |_| panic!("not begun")))),
        ("deleting", |log| assert!(!log.deleting("x", None, |_| panic!("not begun")))),
        ("processing", |log| assert!(!log.processing("x", None, None, None, |_| panic!("not begun")))),
        ("failing", |log| assert!(!log.failing("x", None, |_| panic!("not begun")))),
        ("deleting", |log| assert!(!log.open(Action::Deleting, "x", None))),
        ("created", |log| log.created("x", None)),
        ("updated", |log| log.updated("x", None)),
        ("deleted", |log| log.deleted("x", None)),
        ("unchanged", |log| log.unchanged("x", None)),
        ("processed", |log| log.processed("x", None, None)),
        ("failed", |log| log.failed("x", "…")),
        ("attribute_changed", |log| log.attribute_changed("x", "trust", 1.into(), 2.into(), None)),
        ("note", |log| log.note("x", "…")),
        ("send", |log| log.send("x", "output", true)),
        ("refreshed", |log| log.refreshed("x")),
    ];
    for (method, call) in calls {
        let body = |mut log: ChangeLog<'_>| {
            log.updated("a", None);
            call(&mut log);
            assert_eq!(log.misuses().len(), 1);
            log.outcomes()
        };
        let text = error(&format!("`{method}` for apt_key[x], which is not among the changes of this call"));
        told(body).expect(
            &["notice: apt_key[a]: Updated", &format!("err: apt_key: {text}")],
            &[None, Some(&text), Some(&text)],
        );
    }
}

#[test]
fn message_after_final_status_is_provider_error() {
    type LogCall = fn(&mut ChangeLog<'_>);
    let calls: [(&str, LogCall); 6] = [
        ("warning", |log| log.warning_for("a", "…")),
        ("updated", |log| log.updated("a", None)),
        ("failed", |log| log.failed("a", "…")),
        ("processed", |log| log.processed("a", None, None)),
        ("attribute_changed", |log| log.attribute_changed("a", "trust", 1.into(), 2.into(), None)),
        ("updating", |log| assert!(!log.updating("a", None, |_| panic!("not begun")))),
    ];
    for (method, call) in calls {
        for in_block in [false, true] {
            let body = |mut log: ChangeLog<'_>| {
                match in_block {
                    true => assert!(log.creating("a", None, |_| Ok(()))),
                    false => log.created("a", None),
                }
                call(&mut log);
                log.updated("b", None);
                log.outcomes()
            };
            let text = error(&format!("`{method}` for apt_key[a], which has its final status already (created)"));
            let told = told(body);
            assert!(told.lines.contains(&format!("err: apt_key[a]: {text}")), "{:?}", told.lines);
            assert_eq!(told.failures(), [None, None, Some(text.as_str())], "a definite status stays");
            assert_eq!(told.outcomes[0].notes, [text], "but is told to be in doubt");
        }
    }
}

#[test]
fn block_must_be_first_for_its_resources() {
    let body = |mut log: ChangeLog<'_>| {
        log.info_for("b", "looking");
        assert!(!log.updating(["a", "b"], None, |_| panic!("not begun")));
        assert!(log.updating("a", None, |_| Ok(())), "it was not opened before");
        log.outcomes()
    };
    let text = error("`updating` for apt_key[b], about which messages were logged before: its block must come first");
    told_of(&["a", "b"], Mode::Apply, body).expect(
        &[
            "info: apt_key[b]: looking",
            &format!("err: apt_key[b]: {text}"),
            "debug: apt_key[a]: Updating: Start",
            "notice: apt_key[a]: Updating: Finished in 0.000123 seconds",
        ],
        &[None, Some(&text)],
    );
}

#[test]
fn provider_error_fails_its_block() {
    let body = |mut log: ChangeLog<'_>| {
        assert!(!log.updating("a", None, |log| {
            log.warning_for("x", "out of bounds");
            Ok(())
        }));
        log.updated("b", None);
        log.outcomes()
    };
    let text = error("`warning` for apt_key[x], which is not among the changes of this call");
    told_of(&["a", "b"], Mode::Apply, body).expect(
        &[
            "debug: apt_key[a]: Updating: Start",
            &format!("err: apt_key: {text}"),
            &format!("err: apt_key[a]: Updating: Failed after 0.000123 seconds: {text}"),
            "notice: apt_key[b]: Updated",
        ],
        &[Some(&text), None],
    );
}

#[test]
fn outer_block_continues_after_provider_error() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", None, |log| {
            assert!(!log.updating("b", None, |log| {
                log.note("x", "out of bounds");
                Ok(())
            }));
            Ok(())
        });
        log.outcomes()
    };
    let text = error("`note` for apt_key[x], which is not among the changes of this call");
    assert_eq!(told_of(&["a", "b"], Mode::Apply, body).failures(), [None, Some(text.as_str())]);
}

#[test]
fn blocks_of_one_resource_do_not_nest() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", None, |log| {
            log.updating("a", None, |_| panic!("not begun"));
            Ok(())
        });
        log.outcomes()
    };
    let text = error("`updating` for apt_key[a], which is inside of another block");
    assert_eq!(told_of(&["a"], Mode::Apply, body).failures(), [Some(text.as_str())]);
}

#[test]
fn inside_its_block_a_resource_gets_no_other_status_than_failed() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", None, |log| {
            log.updated("a", None);
            Ok(())
        });
        log.outcomes()
    };
    let text = error("`updated` for apt_key[a], which is inside of a block: it gets its status when the block ends");
    assert_eq!(told_of(&["a"], Mode::Apply, body).failures(), [Some(text.as_str())]);
}

#[test]
fn message_without_title_needs_block() {
    let body = |mut log: ChangeLog<'_>| {
        log.attribute_changed(InScope, "trust", 1.into(), 2.into(), None);
        log.outcomes()
    };
    let text = error("`attribute_changed` of apt_key without a title outside of a block");
    told_of(&["a"], Mode::Apply, body).expect(&[&format!("err: apt_key: {text}")], &[Some(&text)]);
}

#[test]
fn a_block_is_closed_once() {
    let body = |mut log: ChangeLog<'_>| {
        log.open(Action::Updating, "a", None);
        assert!(log.close(Ok(())));
        assert!(!log.close(Ok(())));
        log.outcomes()
    };
    let text = error("`close` of apt_key without a title outside of a block");
    assert_eq!(told_of(&["a", "b"], Mode::Apply, body).failures(), [None, Some(text.as_str())]);
}

#[test]
fn unfinished_block_fails() {
    let body = |mut log: ChangeLog<'_>| {
        log.open(Action::Updating, "a", None);
        log.outcomes()
    };
    let text = error("`updating` for apt_key[a], whose block was never closed");
    told_of(&["a"], Mode::Apply, body)
        .expect(&["debug: apt_key[a]: Updating: Start", &format!("err: apt_key[a]: {text}")], &[Some(&text)]);
}

#[test]
fn a_resource_among_the_changes_is_not_an_unmanaged_one() {
    let body = |mut log: ChangeLog<'_>| {
        log.unmanaged("a", Level::Info, "found it");
        log.outcomes()
    };
    let text = error("`unmanaged` for apt_key[a], which is among the changes of this call: it is managed");
    told_of(&["a"], Mode::Apply, body).expect(&[&format!("err: apt_key[a]: {text}")], &[Some(&text)]);
}

#[test]
fn an_error_of_the_provider_is_an_event() {
    let body = |mut log: ChangeLog<'_>| {
        log.updated("x", None);
        log.outcomes()
    };
    let told = told(body);
    let text = error("`updated` for apt_key[x], which is not among the changes of this call");
    let event = serde_json::json!({
        "event": "misuse", "level": "err", "severity": 3, "type": "apt_key", "provider": "apt", "titles": [],
        "noop": false, "method": "updated", "title": "x", "text": text,
    });
    assert_eq!(told.events, [event]);
}
