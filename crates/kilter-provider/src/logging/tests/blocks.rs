use super::*;

#[test]
fn specification_example_has_expected_log() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("F1D2D2F9", None, |log| {
            log.warning("Original key not found");
            log.attribute_changed(
                InScope,
                "content",
                kilter_model::Value::Undef,
                "E242ED3B".into(),
                "Replaced with content hash E242ED3B",
            );
            Ok(())
        });
        log.outcomes()
    };
    told_of(&["F1D2D2F9"], Mode::Apply, body).expect(
        &[
            "debug: apt_key[F1D2D2F9]: Updating: Start",
            "warning: apt_key[F1D2D2F9]: Updating: Original key not found",
            "notice: apt_key[F1D2D2F9]: Updating content: Replaced with content hash E242ED3B",
            "notice: apt_key[F1D2D2F9]: Updating: Finished in 0.000123 seconds",
        ],
        &[None],
    );
}

#[test]
fn a_failure_that_escapes_a_block_is_recorded_and_consumed() {
    let body = |mut log: ChangeLog<'_>| {
        let went_well = log.updating("F1D2D2F9", None, |log| {
            log.warning("Original key not found");
            Err("Something went wrong")?;
            log.notice("never said");
            Ok(())
        });
        assert!(!went_well);
        assert!(log.creating("0A1B2C3D", None, |_| Ok(())));
        log.outcomes()
    };
    told_of(&["F1D2D2F9", "0A1B2C3D"], Mode::Apply, body).expect(
        &[
            "debug: apt_key[F1D2D2F9]: Updating: Start",
            "warning: apt_key[F1D2D2F9]: Updating: Original key not found",
            "err: apt_key[F1D2D2F9]: Updating: Failed after 0.000123 seconds: Something went wrong",
            "debug: apt_key[0A1B2C3D]: Creating: Start",
            "notice: apt_key[0A1B2C3D]: Creating: Finished in 0.000123 seconds",
        ],
        &[Some("Something went wrong"), None],
    );
}

#[test]
fn block_functions_log_their_verbs() {
    let body = |mut log: ChangeLog<'_>| {
        assert!(log.creating("a", None, |_| Ok(())));
        assert!(log.deleting("b", "Taking it away", |_| Ok(())));
        assert!(!log.failing("c", None, |_| Ok(())));
        log.outcomes()
    };
    told(body).expect(
        &[
            "debug: apt_key[a]: Creating: Start",
            "notice: apt_key[a]: Creating: Finished in 0.000123 seconds",
            "debug: apt_key[b]: Taking it away: Start",
            "notice: apt_key[b]: Taking it away: Finished in 0.000123 seconds",
            "debug: apt_key[c]: Failing: Start",
            "err: apt_key[c]: Failing: Failed after 0.000123 seconds",
        ],
        &[None, None, Some("Failing")],
    );
}

#[test]
fn failing_always_records_a_failure() {
    let body = |mut log: ChangeLog<'_>| {
        log.failing("a", "No server knows it", |_| Ok(()));
        log.failing("b", None, |_| Err("gone".into()));
        log.outcomes()
    };
    let told = told_of(&["a", "b"], Mode::Apply, body);
    assert_eq!(told.failures(), [Some("No server knows it"), Some("gone")]);
    assert_eq!(told.lines[3], "err: apt_key[b]: Failing: Failed after 0.000123 seconds: gone");
}

#[test]
fn a_failing_batch_block_fails_all_of_its_titles() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating(["a", "c"], None, |_| Err("disk full".into()));
        log.updated("b", None);
        log.outcomes()
    };
    told(body).expect(
        &[
            "debug: apt_key[a]: Updating: Start",
            "debug: apt_key[c]: Updating: Start",
            "err: apt_key[a]: Updating: Failed after 0.000123 seconds: disk full",
            "err: apt_key[c]: Updating: Failed after 0.000123 seconds: disk full",
            "notice: apt_key[b]: Updated",
        ],
        &[Some("disk full"), None, Some("disk full")],
    );
}

#[test]
fn one_title_of_a_batch_block_can_fail_alone() {
    let body = |mut log: ChangeLog<'_>| {
        let went_well = log.updating(["a", "b"], None, |log| {
            log.failed("a", "no such key");
            log.info_for("b", "found it");
            Ok(())
        });
        assert!(went_well);
        log.outcomes()
    };
    told_of(&["a", "b"], Mode::Apply, body).expect(
        &[
            "debug: apt_key[a]: Updating: Start",
            "debug: apt_key[b]: Updating: Start",
            "err: apt_key[a]: no such key",
            "info: apt_key[b]: Updating: found it",
            "notice: apt_key[b]: Updating: Finished in 0.000123 seconds",
        ],
        &[Some("no such key"), None],
    );
}

#[test]
fn block_with_only_failed_titles_fails() {
    let body = |mut log: ChangeLog<'_>| {
        let went_well = log.updating("a", None, |log| {
            log.failed(InScope, "no such key");
            Ok(())
        });
        assert!(!went_well);
        log.outcomes()
    };
    told_of(&["a"], Mode::Apply, body)
        .expect(&["debug: apt_key[a]: Updating: Start", "err: apt_key[a]: no such key"], &[Some("no such key")]);
}

#[test]
fn fatal_failure_ends_run() {
    let body = |mut log: ChangeLog<'_>| {
        assert!(log.updating("a", None, |_| Ok(())));
        assert!(!log.updating("b", None, |_| Err(Failure::fatal("the licence has run out"))));
        assert!(log.is_stopping());
        assert!(!log.updating("c", None, |_| panic!("nothing further is begun")));
        log.outcomes()
    };
    let told = told(body);
    told.expect(
        &[
            "debug: apt_key[a]: Updating: Start",
            "notice: apt_key[a]: Updating: Finished in 0.000123 seconds",
            "debug: apt_key[b]: Updating: Start",
            "err: apt_key[b]: Updating: Failed after 0.000123 seconds: the licence has run out",
        ],
        &[None, Some("the licence has run out"), Some("not changed because of a fatal error: the licence has run out")],
    );
    assert_eq!(told.outcomes.iter().map(|outcome| outcome.fatal).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn fatal_failure_propagates_through_outer_blocks() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", None, |log| {
            assert!(!log.updating("b", None, |_| Err(Failure::fatal("no power"))));
            Ok(())
        });
        log.outcomes()
    };
    let told = told_of(&["a", "b"], Mode::Apply, body);
    assert_eq!(told.failures(), [Some("no power"), Some("no power")]);
    assert!(told.outcomes.iter().all(|outcome| outcome.fatal));
}

#[test]
fn innermost_nested_block_decides_status() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", None, |log| {
            log.creating("b", None, |log| {
                log.info("inner");
                log.info_for("a", "outer by its title");
                Ok(())
            });
            log.info("outer");
            log.info_for("c", "beside");
            Ok(())
        });
        log.outcomes()
    };
    told(body).expect(
        &[
            "debug: apt_key[a]: Updating: Start",
            "debug: apt_key[b]: Creating: Start",
            "info: apt_key[b]: Creating: inner",
            "info: apt_key[a]: Updating: outer by its title",
            "notice: apt_key[b]: Creating: Finished in 0.000123 seconds",
            "info: apt_key[a]: Updating: outer",
            "info: apt_key[c]: beside",
            "notice: apt_key[a]: Updating: Finished in 0.000369 seconds",
        ],
        &[None, None, None],
    );
}

#[test]
fn explicit_form_equals_block() {
    let body = |mut log: ChangeLog<'_>| {
        assert!(log.open(Action::Updating, "a", None));
        log.warning("Original key not found");
        assert!(log.close(Ok(())));
        assert!(log.open(Action::Deleting, "b", None));
        assert!(!log.close(Err("in use".into())));
        log.outcomes()
    };
    told_of(&["a", "b"], Mode::Apply, body).expect(
        &[
            "debug: apt_key[a]: Updating: Start",
            "warning: apt_key[a]: Updating: Original key not found",
            "notice: apt_key[a]: Updating: Finished in 0.000123 seconds",
            "debug: apt_key[b]: Deleting: Start",
            "err: apt_key[b]: Deleting: Failed after 0.000123 seconds: in use",
        ],
        &[None, Some("in use")],
    );
}

#[test]
fn failing_block_without_title_fails_open_resources() {
    let body = |mut log: ChangeLog<'_>| {
        log.updated("a", None);
        log.updating(Vec::<String>::new(), None, |_| Err("no index".into()));
        log.outcomes()
    };
    told_of(&["a", "b"], Mode::Apply, body).expect(
        &[
            "notice: apt_key[a]: Updated",
            "debug: apt_key: Updating: Start",
            "err: apt_key: Updating: Failed after 0.000123 seconds: no index",
        ],
        &[None, Some("no index")],
    );
}

#[test]
fn every_kind_of_error_can_escape_a_block() {
    let body = |mut log: ChangeLog<'_>| {
        log.updating("a", None, |_| Ok(std::fs::read("/nowhere/at/all").map(drop)?));
        log.updating("b", None, |_| Err(ProviderError::new("not readable"))?);
        log.updating("c", None, |_| Err(EcoString::from("said so"))?);
        log.outcomes()
    };
    let told = told(body);
    assert_eq!(
        told.failures(),
        [Some("No such file or directory (os error 2)"), Some("not readable"), Some("said so")]
    );
}
