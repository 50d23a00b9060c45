use super::*;

#[test]
fn a_message_without_a_title_is_about_the_provider() {
    let body = |mut log: ChangeLog<'_>| {
        log.debug("looking");
        log.info("reading keys");
        log.notice("three keys");
        log.warning("Unexpected state detected, continuing in degraded mode.");
        log.err("the index is broken");
        log.outcomes()
    };
    told(body).expect(
        &[
            "debug: apt_key: looking",
            "info: apt_key: reading keys",
            "notice: apt_key: three keys",
            "warning: apt_key: Unexpected state detected, continuing in degraded mode.",
            "err: apt_key: the index is broken",
        ],
        &[None, None, None],
    );
}

#[test]
fn a_message_has_one_title_or_a_list_of_them() {
    let body = |mut log: ChangeLog<'_>| {
        log.debug_for("a", "1");
        log.info_for(EcoString::from("a"), "2");
        log.notice_for(["a", "b"], "3");
        log.warning_for(vec![String::from("b")], "4");
        log.err_for(&["a", "c"][..], "5");
        log.outcomes()
    };
    told(body).expect(
        &[
            "debug: apt_key[a]: 1",
            "info: apt_key[a]: 2",
            "notice: apt_key[a]: 3",
            "notice: apt_key[b]: 3",
            "warning: apt_key[b]: 4",
            "err: apt_key[a]: 5",
            "err: apt_key[c]: 5",
        ],
        &[None, None, None],
    );
}

#[test]
fn changes_are_titles() {
    let (name, state) = (EcoString::from("a"), State::default());
    let change = Change::new(&name, &state, None, &[]);
    let body = |mut log: ChangeLog<'_>| {
        log.deleted([change], None);
        log.outcomes()
    };
    told_of(&["a"], Mode::Apply, body).expect(&["notice: apt_key[a]: Deleted"], &[None]);
}

#[test]
fn levels_have_the_numbers_of_rfc_5424() {
    let levels = [
        (Level::Emerg, 0, "emerg"),
        (Level::Alert, 1, "alert"),
        (Level::Critical, 2, "critical"),
        (Level::Err, 3, "err"),
        (Level::Warning, 4, "warning"),
        (Level::Notice, 5, "notice"),
        (Level::Info, 6, "info"),
        (Level::Debug, 7, "debug"),
    ];
    for (level, severity, word) in levels {
        assert_eq!((level.severity(), level.word()), (severity, word));
    }
    assert!(levels.is_sorted_by(|(one, ..), (other, ..)| one > other));
}

#[test]
fn provider_messages_are_at_most_err() {
    let body = |mut log: ChangeLog<'_>| {
        log.say(Level::Emerg, "the world ends");
        log.say_for(Level::Alert, "a", "so does a");
        log.unmanaged("x", Level::Critical, "and x");
        log.outcomes()
    };
    told(body).expect(
        &["err: apt_key: the world ends", "err: apt_key[a]: so does a", "err: apt_key[x]: not managed: and x"],
        &[None, None, None],
    );
}

#[test]
fn unmanaged_instance_may_be_logged() {
    let body = |mut log: ChangeLog<'_>| {
        log.unmanaged("DEADBEEF", Level::Notice, "found an expired key");
        log.updating("a", None, |log| {
            log.unmanaged("DEADBEEF", Level::Info, "it stays");
            Ok(())
        });
        log.outcomes()
    };
    let told = told_of(&["a"], Mode::Apply, body);
    told.expect(
        &[
            "notice: apt_key[DEADBEEF]: not managed: found an expired key",
            "debug: apt_key[a]: Updating: Start",
            "info: apt_key[DEADBEEF]: not managed: it stays",
            "notice: apt_key[a]: Updating: Finished in 0.000123 seconds",
        ],
        &[None],
    );
    assert_eq!(
        told.events[0],
        serde_json::json!({
            "event": "unmanaged", "level": "notice", "severity": 5, "type": "apt_key", "provider": "apt",
            "titles": ["DEADBEEF"], "noop": false, "message": "found an expired key",
            "text": "not managed: found an expired key",
        })
    );
}

#[test]
fn preview_messages_are_marked() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", None, |_| Ok(()));
        log.created("b", None);
        log.outcomes()
    };
    let told = told_of(&["a", "b"], Mode::Preview, body);
    told.expect(
        &[
            "debug: apt_key[a]: noop: Updating: Start",
            "notice: apt_key[a]: noop: Updating: Finished in 0.000123 seconds",
            "notice: apt_key[b]: noop: Created",
        ],
        &[None, None],
    );
    assert!(told.events.iter().all(|event| event["noop"] == true));
}
