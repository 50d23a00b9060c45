//! The conformance suite itself: a provider that keeps every law, and defects that break one each.

mod defect;
mod page;
mod shelf;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use defect::Defect;
use kilter_devkit::conformance::{LAWS, Progress, Report, Sample, Subject, Suite, Unsupported, Verdict, give_up};
use kilter_model::Value;
use shelf::{Shelf, Store};

fn subject(defect: Option<Defect>) -> Subject {
    let store = Store::default();
    let (made, seen, waiting) = (store.clone(), store.clone(), store.clone());
    let keyed = defect.is_some_and(Defect::needs_several_namevars);
    let specimen = |name: &str| match keyed {
        true => Sample::keyed([("name", name), ("room", "attic")]),
        false => Sample::new(name),
    };
    let paint = [("label", "Red paint".into()), ("note", "Fragile".into()), ("tags", Value::strings(["wall"]))];
    let a = specimen("a").present(paint).changed([("label", "Blue")]);
    let b = specimen("b").present([("label", "green")]).changed([("label", "grey")]);
    let subject = Subject::new(move || Shelf::new(made.clone(), defect, keyed), move || seen.fingerprint())
        .specimen(a)
        .specimen(b)
        .failing(specimen("f").present([("label", "refuse")]))
        .slow(specimen("s").present([("note", "wait")]), move || waiting.is_waiting());
    match keyed {
        true => subject.unknown([r#"{"name":"nothing","room":"attic"}"#]),
        false => subject.unknown(["nothing"]),
    }
}

fn report(defect: Option<Defect>) -> Report {
    // Only one defect keeps a call from ending, and nothing else may wait for so long.
    let soon = if defect == Some(Defect::IgnoresInterrupt) { 1 } else { 60 };
    Suite::new(move || subject(defect)).soon(Duration::from_secs(soon)).run()
}

#[test]
fn correct_provider_keeps_all_laws() {
    let report = report(None);
    report.assert();
    assert_eq!(report.not_applicable(), ["titles-fit-namevars"], "{report}");
}

#[test]
fn defect_breaks_exactly_its_law() {
    let found: Vec<String> = std::thread::scope(|scope| {
        let attempt = |&(defect, law): &(Defect, &'static str)| {
            scope.spawn(move || {
                let report = report(Some(defect));
                (report.broken() != [law]).then(|| format!("{defect:?} was to break {law}:\n{report}"))
            })
        };
        let all: Vec<_> = Defect::ALL.iter().map(attempt).collect();
        all.into_iter().filter_map(|one| one.join().expect("a suite does not panic")).collect()
    });
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

#[test]
fn each_law_has_a_defect() {
    let unbroken: Vec<&str> =
        LAWS.iter().map(|law| law.name).filter(|law| Defect::ALL.iter().all(|(_, broken)| broken != law)).collect();
    assert_eq!(unbroken, [""; 0]);
}

#[test]
fn missing_subject_part_is_not_tested() {
    let bare = || {
        let store = Store::default();
        let (made, seen) = (store.clone(), store);
        Subject::new(move || Shelf::new(made.clone(), None, false), move || seen.fingerprint())
            .specimen(Sample::new("a").present([("label", "Red")]))
    };
    let report = Suite::new(bare).run();
    assert_eq!(report.broken(), [""; 0], "{report}");
    assert_eq!(
        report.untried(),
        [
            "unknown-is-absent",
            "set-makes-what-was-asked",
            "others-are-left-alone",
            "other-attributes-stay",
            "a-batch-is-one-by-one",
            "one-failure-is-alone",
            "an-interrupt-ends-a-call",
        ],
        "{report}"
    );
    assert!(!report.is_conforming());
    let excused = move || {
        let two = [("label", Value::from("green")), ("size", Value::Integer(3))];
        let bare = bare().specimen(Sample::new("b").present(two).changed([("label", "grey")]));
        [Unsupported::Unknown, Unsupported::Failing, Unsupported::Slow]
            .into_iter()
            .fold(bare, |bare, lack| bare.without(lack, "said so"))
    };
    let report = Suite::new(excused).run();
    report.assert();
    let why = report.findings.iter().find(|finding| finding.law == "unknown-is-absent").map(|f| f.verdict.clone());
    assert_eq!(why, Some(Verdict::NotApplicable("said so".into())));
}

#[test]
fn attribute_of_which_no_value_can_be_set_is_not_tested() {
    let report = report(Some(Defect::CannotSetMark));
    assert_eq!((report.broken(), report.untried()), (vec![], vec!["edge-values-survive"]), "{report}");
    assert!(report.why("edge-values-survive").is_some_and(|why| why.contains("`mark` (")), "{report}");
    assert_eq!(report.to_json()["counts"]["not_tested"], 1);
}

#[test]
fn constant_fingerprint_is_detected() {
    let made = Suite::new(|| {
        let store = Store::default();
        Subject::new(move || Shelf::new(store.clone(), None, false), String::new)
            .specimen(Sample::new("a").present([("label", "Red")]))
    });
    let report = made.run();
    assert!(report.not_applicable().contains(&"get-changes-nothing"), "{report}");
    assert!(report.not_applicable().contains(&"preview-changes-nothing"), "{report}");
}

#[test]
fn unsuitable_provider_is_not_tested() {
    let report = report(Some(Defect::CannotWork));
    assert_eq!(report.untried().len(), LAWS.len(), "{report}");
    assert!(report.to_string().contains("there is no shelf"), "{report}");
}

#[test]
fn selected_laws_report_start_and_end() {
    let suite = Suite::new(|| subject(None)).only(["none-is-no-error", "get-is-steady"]);
    let mut told = Vec::new();
    let report = suite.run_observed(&mut |progress| {
        told.push(match progress {
            Progress::Begun(law) => format!("begun {}", law.name),
            Progress::Ended(finding) => format!("{} {}", finding.verdict.word(), finding.law),
        });
    });
    report.assert();
    assert_eq!(told, ["begun get-is-steady", "held get-is-steady", "begun none-is-no-error", "held none-is-no-error"]);
}

#[test]
fn a_world_is_entered_before_its_provider_is_used() {
    let entered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&entered);
    let make = move || {
        let count = Arc::clone(&count);
        subject(None).entering(move || {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    };
    Suite::new(make).only(["an-interrupt-ends-a-call", "state-is-on-the-system"]).run().assert();
    assert!(entered.load(Ordering::SeqCst) > 4, "every use of a provider, and of another one, enters");
}

#[test]
fn missing_world_leaves_laws_not_tested() {
    let lost = || {
        let is_first = AtomicBool::new(true);
        // The suite asks the provider who it is before any law is tried.
        subject(None)
            .entering(move || if is_first.swap(false, Ordering::SeqCst) { Ok(()) } else { Err("it is gone".into()) })
    };
    for suite in [Suite::new(lost), Suite::new(|| give_up("there is no world"))] {
        let report = suite.run();
        let unsound: Vec<_> =
            report.findings.iter().filter(|one| !matches!(one.verdict, Verdict::Untried(_))).collect();
        // What needs the provider once only may have been tried.
        assert!(unsound.is_empty() && !report.is_conforming(), "{unsound:?}");
    }
    let report = Suite::new(|| give_up("there is no world")).only(["get-is-steady"]).run();
    assert_eq!(report.why("get-is-steady"), Some("there is no world"));
}

/// Returns the number of sandboxes that a law needs for a provider without a defect.
fn worlds_of(law: &'static str, change: fn(Subject) -> Subject) -> usize {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let make = move || {
        count.fetch_add(1, Ordering::SeqCst);
        change(subject(None))
    };
    Suite::new(make).only([law]).run().assert();
    made.load(Ordering::SeqCst)
}

#[test]
fn values_without_a_trace_share_a_world() {
    for law in ["edge-names-survive", "edge-values-survive"] {
        // The introduction of the provider, a sandbox for its schema, and one for all values.
        assert_eq!(worlds_of(law, |subject| subject), 3, "{law}");
        // Without other specimens, fingerprints may be constant.
        let alone = worlds_of(law, |_| {
            let (store, seen) = (Store::default(), Store::default());
            Subject::new(move || Shelf::new(store.clone(), None, false), move || seen.fingerprint())
                .specimen(Sample::new("a").present([("label", "Red")]))
        });
        assert!(alone > 20, "{law}: {alone}");
    }
}

/// Subjects on one shelf, the set of whose specimen waits for an interrupt; how many of them there are.
fn waiting() -> (impl Fn() -> Subject + Send + Sync + 'static, Store, Arc<()>) {
    let (store, alive) = (Store::default(), Arc::new(()));
    let (all, count) = (store.clone(), Arc::clone(&alive));
    let make = move || {
        let (made, seen) = (all.clone(), all.clone());
        Subject::new(move || Shelf::new(made.clone(), None, false), move || seen.fingerprint())
            .specimen(Sample::new("a").present([("note", "wait")]))
            .keeping(Arc::clone(&count))
    };
    (make, store, alive)
}

#[test]
fn world_that_fails_after_the_timeout_is_still_the_reason() {
    let suite = Suite::new(|| give_up("there is no world")).limit(Duration::ZERO).soon(Duration::from_secs(60));
    let report = suite.only(["get-is-steady"]).run();
    assert_eq!(report.why("get-is-steady"), Some("there is no world"));
}

#[test]
fn slow_trial_is_interrupted_and_cleaned_up() {
    let (make, store, alive) = waiting();
    let suite = Suite::new(make).limit(Duration::from_secs(2)).soon(Duration::from_secs(60));
    let suite = suite.only(["set-makes-what-was-asked"]);
    let report = suite.run();
    assert_eq!(report.why("set-makes-what-was-asked"), Some("it did not end within 2 s"));
    assert!(store.is_waiting(), "it was under way");
    drop(suite);
    assert_eq!(Arc::strong_count(&alive), 1, "the trial has ended, and its sandbox is gone");
}

#[test]
fn stop_flag_interrupts_suite() {
    static OVER: AtomicBool = AtomicBool::new(false);
    let (make, store, alive) = waiting();
    let raised = std::thread::spawn(move || {
        store.until_waiting();
        OVER.store(true, Ordering::Release);
    });
    let suite = Suite::new(make).soon(Duration::from_secs(60)).until(&OVER);
    let suite = suite.only(["set-makes-what-was-asked", "set-again-changes-nothing"]);
    let report = suite.run();
    raised.join().unwrap();
    assert_eq!(report.untried(), ["set-makes-what-was-asked", "set-again-changes-nothing"], "{report}");
    assert_eq!(report.why("set-again-changes-nothing"), Some("it was interrupted"));
    drop(suite);
    assert_eq!(Arc::strong_count(&alive), 1, "the trial has ended, and its sandbox is gone");
}
