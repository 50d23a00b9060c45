//! The store: events, the chain, removal, damage.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kilter_history::{
    AttributeDigest, EventKind, FILE_NAME, History, HistoryError, HistoryEvent, NewEvent, Order, ResourceKey,
    Retention, RunId, Selection,
};
use serde_json::{Value as Json, json};

fn key(title: &str) -> ResourceKey<'_> {
    ResourceKey { type_name: "file", title, name: title }
}

/// Writes a run with an outcome for each title.
fn run(history: &mut History, at: i64, titles: &[&str]) -> RunId {
    let mut batch = history.batch().unwrap();
    let run = batch.begin_run(at, &json!({ "command": "apply" })).unwrap();
    batch.commit().unwrap();
    let mut batch = history.batch().unwrap();
    for title in titles {
        let body = json!({ "status": "changed", "of": title }).to_string();
        let event = NewEvent { at: at + 1, kind: EventKind::Outcome, resource: Some(key(title)), body: &body };
        batch.add(run, &event).unwrap();
    }
    batch.end_run(run, at + 2, &json!({ "changed": titles.len() })).unwrap();
    batch.commit().unwrap();
    run
}

fn all(history: &History) -> Vec<HistoryEvent> {
    let mut events = Vec::new();
    let selection = Selection { order: Order::Ascending, ..Selection::default() };
    let mut add = |event| {
        events.push(event);
        ControlFlow::Continue(())
    };
    history.events(&selection, &mut add).unwrap();
    events
}

fn timeline(history: &History, title: &str) -> Vec<Json> {
    let mut bodies = Vec::new();
    let mut add = |event: HistoryEvent| {
        bodies.push(event.body);
        ControlFlow::Continue(())
    };
    history.timeline("file", title, &Selection::default(), &mut add).unwrap();
    bodies
}

/// Changes the database as another program would.
fn tamper(directory: &Path, sql: &str) {
    let db = rusqlite(directory);
    let output = std::process::Command::new(db.0).arg(db.1).arg(sql).output();
    let output = output.expect("the Debian package sqlite3 is installed");
    assert!(output.status.success(), "{output:?}");
}

fn rusqlite(directory: &Path) -> (&'static str, std::path::PathBuf) {
    ("sqlite3", directory.join(FILE_NAME))
}

#[test]
fn events_are_read_back_in_both_orders_and_by_resource() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    let first = run(&mut history, 1000, &["/a", "/b"]);
    let second = run(&mut history, 2000, &["/a"]);
    let history = History::read(directory.path()).unwrap().unwrap();
    assert_eq!(all(&history).len(), 7);
    assert_eq!(timeline(&history, "/a").len(), 2);
    assert_eq!(timeline(&history, "/c").len(), 0);
    let mut runs = Vec::new();
    let mut add = |run: kilter_history::RunRecord| {
        runs.push((run.id, run.begin.at, run.end.map(|end| end.body)));
        ControlFlow::Continue(())
    };
    history.runs(&Selection::default(), &mut add).unwrap();
    assert_eq!(runs, [(second, 2000, Some(json!({"changed": 1}))), (first, 1000, Some(json!({"changed": 2})))]);
    let mut of_first = Vec::new();
    let mut add = |event: HistoryEvent| {
        of_first.push(event.kind);
        ControlFlow::Continue(())
    };
    history.events_of(first, &mut add).unwrap();
    assert_eq!(of_first, [EventKind::Run, EventKind::Outcome, EventKind::Outcome, EventKind::End]);
}

#[test]
fn transaction_without_commit_adds_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    run(&mut history, 1, &["/a"]);
    let mut batch = history.batch().unwrap();
    batch.begin_run(5, &json!({})).unwrap();
    drop(batch);
    assert_eq!(all(&history).len(), 3);
    assert!(history.verify(None).unwrap().problems.is_empty());
}

#[test]
fn resources_of_a_transaction_without_commit_are_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    let first = run(&mut history, 1, &["/a"]);
    let body = json!({}).to_string();
    let event = |title| NewEvent { at: 2, kind: EventKind::Outcome, resource: Some(key(title)), body: &body };
    let mut batch = history.batch().unwrap();
    batch.add(first, &event("/lost")).unwrap();
    drop(batch);
    let mut batch = history.batch().unwrap();
    batch.add(first, &event("/b")).unwrap();
    batch.add(first, &event("/lost")).unwrap();
    batch.commit().unwrap();
    assert_eq!((timeline(&history, "/lost").len(), timeline(&history, "/b").len()), (1, 1));
}

#[test]
fn files_are_private_and_a_link_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("history");
    let mut history = History::open(&place).unwrap();
    run(&mut history, 1, &["/a"]);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&place), 0o700);
    for entry in std::fs::read_dir(&place).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    let other = directory.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(place.join(FILE_NAME), other.join(FILE_NAME)).unwrap();
    assert!(matches!(History::open(&other), Err(HistoryError::ReadOnly { .. })), "{:?}", History::open(&other));
}

#[test]
fn chain_finds_changed_removed_added_and_replaced_events() {
    let changes = [
        ("UPDATE event SET body = '{}' WHERE id = 2", "events 2 to 4 were changed"),
        ("UPDATE event SET at = at + 1 WHERE id = 5", "event 5 was changed"),
        ("DELETE FROM event WHERE id = 3", "events 3 to 3 are missing"),
        (
            "INSERT INTO event SELECT 99, run, at, kind, resource, body FROM event WHERE id = 2",
            "1 events after event 8",
        ),
        ("UPDATE resource SET title = '/z' WHERE title = '/a'", "were changed"),
        ("UPDATE event SET resource = (SELECT id FROM resource WHERE title = '/b') WHERE id = 2", "were changed"),
        ("DELETE FROM link WHERE last = 4", "were changed"),
    ];
    for (sql, expected) in changes {
        let directory = tempfile::tempdir().unwrap();
        let mut history = History::open(directory.path()).unwrap();
        run(&mut history, 1000, &["/a", "/b"]);
        run(&mut history, 2000, &["/a", "/b"]);
        let whole = history.verify(None).unwrap();
        assert_eq!((whole.events, whole.links, whole.problems.len()), (8, 4, 0));
        drop(history);
        tamper(directory.path(), sql);
        let found = History::read(directory.path()).unwrap().unwrap().verify(None).unwrap();
        assert!(found.problems.iter().any(|problem| problem.contains(expected)), "{sql}: {:?}", found.problems);
    }
}

#[test]
fn earlier_head_is_part_of_the_chain_of_the_same_history_only() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    run(&mut history, 1000, &["/a"]);
    let noted = history.verify(None).unwrap().head;
    run(&mut history, 2000, &["/a"]);
    assert!(history.verify(Some(&noted)).unwrap().has_expected);
    assert!(history.verify(Some(&noted[..12])).unwrap().has_expected);
    let other = tempfile::tempdir().unwrap();
    let mut replaced = History::open(other.path()).unwrap();
    run(&mut replaced, 1001, &["/a"]);
    assert!(!replaced.verify(Some(&noted)).unwrap().has_expected);
}

#[test]
fn removal_keeps_the_begin_and_the_end_of_each_run_and_a_valid_chain() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    for at in 1..=10 {
        run(&mut history, at * 1000, &["/a", "/b"]);
    }
    let mut batch = history.batch().unwrap();
    batch.keep_state("old", 1000, b"x").unwrap();
    batch.keep_state("new", 10_000, b"y").unwrap();
    batch.commit().unwrap();
    let removed = history.prune(11_000, Retention { before: 6000, max_bytes: u64::MAX }).unwrap();
    assert_eq!((removed.events, removed.states), (10, 1));
    assert_eq!((history.state("old").unwrap(), history.state("new").unwrap()), (None, Some(b"y".to_vec())));
    let found = history.verify(None).unwrap();
    assert_eq!((found.problems.len(), found.pruned), (0, 10), "{:?}", found.problems);
    let events = all(&history);
    assert_eq!(events.iter().filter(|event| event.kind == EventKind::Run).count(), 10);
    assert_eq!(events.iter().filter(|event| event.kind == EventKind::Outcome).count(), 10);
    // The events that stay are covered, and a removal needs an event.
    for (sql, expected) in [
        ("UPDATE event SET at = 7 WHERE id = 1", "events up to 20 were changed"),
        ("UPDATE link SET pruned = 1 WHERE last <= 30; DELETE FROM event WHERE id = 22", "no removal is on record"),
    ] {
        let copy = tempfile::tempdir().unwrap();
        let to = copy.path().join(FILE_NAME);
        history.copy(&to).unwrap();
        tamper(copy.path(), sql);
        let found = History::read(copy.path()).unwrap().unwrap().verify(None).unwrap();
        assert!(found.problems.iter().any(|problem| problem.contains(expected)), "{sql}: {:?}", found.problems);
    }
    // A second removal with the same limits finds nothing.
    assert_eq!(history.prune(11_000, Retention { before: 6000, max_bytes: u64::MAX }).unwrap().events, 0);
    run(&mut history, 12_000, &["/a"]);
    assert!(history.verify(None).unwrap().problems.is_empty());
}

#[test]
fn events_after_missing_last_ones_keep_their_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let titles: Vec<String> = (0..100).map(|at| format!("/{at}")).collect();
    let add = |history: &mut History, at| {
        let mut batch = history.batch().unwrap();
        let run = batch.begin_run(at, &json!({})).unwrap();
        let event = |title| NewEvent { at, kind: EventKind::Outcome, resource: Some(key(title)), body: "{}" };
        let events: Vec<NewEvent<'_>> = titles.iter().map(|title| event(title)).collect();
        batch.add_all(run, &events).unwrap();
        batch.commit().unwrap();
        assert_eq!(timeline(history, "/99").len(), 1);
        run
    };
    let mut history = History::open(directory.path()).unwrap();
    // A run that was cut off.
    assert_eq!(add(&mut history, 1000), RunId(1));
    assert_eq!(history.prune(2000, Retention { before: 5000, max_bytes: u64::MAX }).unwrap().events, 100);
    assert_eq!(add(&mut history, 3000), RunId(103));
    assert!(history.verify(None).unwrap().problems.is_empty());
    drop(history);
    tamper(directory.path(), "DELETE FROM event WHERE id > 150");
    let mut history = History::open(directory.path()).unwrap();
    let mut batch = history.batch().unwrap();
    assert_eq!(batch.begin_run(4000, &json!({})).unwrap(), RunId(204));
    batch.commit().unwrap();
    assert!(!history.verify(None).unwrap().problems.is_empty());
}

#[test]
fn removal_before_a_later_time_removes_all_events() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    run(&mut history, 1000, &["/a", "/b"]);
    let removed = history.prune(2000, Retention { before: 5000, max_bytes: u64::MAX }).unwrap();
    assert_eq!(removed.events, 2);
    assert!(history.verify(None).unwrap().problems.is_empty());
}

#[test]
fn removal_by_size_brings_the_database_below_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    let titles: Vec<String> = (0..100).map(|at| format!("/srv/file-{at}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    for at in 1..=300 {
        run(&mut history, at * 1000, &titles);
    }
    history.prune(1, Retention { before: 0, max_bytes: u64::MAX }).unwrap();
    drop(history);
    let mut history = History::open(directory.path()).unwrap();
    let limit = history.size() / 2;
    assert!(limit > 100_000, "{limit}");
    let removed = history.prune(600_000, Retention { before: 0, max_bytes: limit }).unwrap();
    assert!(removed.events > 12000 && history.size() < limit, "{removed:?} {}", history.size());
    assert!(history.verify(None).unwrap().problems.is_empty());
}

#[test]
fn declarations_are_settled_except_failed_ones() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    let digests = [AttributeDigest { name: 1, value: 2 }, AttributeDigest { name: 3, value: u64::MAX }];
    let mut batch = history.batch().unwrap();
    let run = batch.begin_run(1, &json!({})).unwrap();
    batch.declare("site", run, &[(key("/a"), &digests), (key("/b"), &digests)]).unwrap();
    batch.set_catalog_digest("site", b"digest").unwrap();
    batch.settle("site", [key("/b")]).unwrap();
    batch.commit().unwrap();
    assert_eq!(history.catalog_digest("site").unwrap().as_deref(), Some(&b"digest"[..]));
    assert_eq!(history.catalog_digest("other").unwrap(), None);
    let found = history.declarations("site").unwrap();
    let of = |title: &str| &found[&("file".to_owned(), title.to_owned())];
    assert_eq!((of("/a").is_settled, of("/b").is_settled), (true, false));
    assert_eq!((of("/a").digests.as_slice(), of("/a").run), (&digests[..], run));
    assert!(history.has_unsettled("site").unwrap());
    // A failure of a settled resource does not unsettle it.
    let mut batch = history.batch().unwrap();
    batch.settle("site", [key("/a")]).unwrap();
    batch.release(key("/b")).unwrap();
    batch.commit().unwrap();
    assert!(!history.has_unsettled("site").unwrap());
    assert_eq!(history.declarations("site").unwrap().len(), 1);
}

/// Size of a page of the database.
const PAGE: usize = 16 << 10;

#[test]
fn every_garbled_page_gives_an_error_or_a_problem_and_no_panic() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = History::open(directory.path()).unwrap();
    let titles: Vec<String> = (0..40).map(|at| format!("/srv/file-{at}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    (1..=40).for_each(|at| _ = run(&mut history, at * 1000, &titles));
    // The last connection moves the write-ahead log into the database.
    drop(history);
    let path = directory.path().join(FILE_NAME);
    let whole = std::fs::read(&path).unwrap();
    let pages = whole.len() / PAGE;
    assert!(pages > 10, "{pages}");
    let mut random = fastrand::Rng::with_seed(7);
    for page in 0..pages {
        let mut garbled = whole.clone();
        garbled[page * PAGE..(page + 1) * PAGE].iter_mut().for_each(|byte| *byte = random.u8(..));
        std::fs::write(&path, &garbled).unwrap();
        let verified = match History::read(directory.path()) {
            Ok(Some(history)) => history.verify(None),
            Ok(None) => panic!("page {page}: a damaged history is no missing one"),
            Err(error) => Err(error),
        };
        match verified {
            Ok(found) => assert!(!found.problems.is_empty(), "page {page}"),
            Err(error) => assert!(error.to_string().contains("damaged"), "page {page}: {error}"),
        }
        // A writer may not notice it, and must not panic.
        if let Ok(mut history) = History::open(directory.path()) {
            let written = history.batch().and_then(|mut batch| {
                batch.begin_run(1, &json!({}))?;
                batch.commit()
            });
            drop(written);
        }
        for other in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(directory.path().join(format!("{FILE_NAME}{other}")));
        }
    }
}

#[test]
fn two_writers_add_to_one_chain() {
    let directory = tempfile::tempdir().unwrap();
    History::open(directory.path()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut history = History::open(directory.path()).unwrap();
                (1..=20).for_each(|at| _ = run(&mut history, at, &["/a", "/b"]));
            });
        }
    });
    let history = History::read(directory.path()).unwrap().unwrap();
    let found = history.verify(None).unwrap();
    assert_eq!((found.events, found.problems.len()), (4 * 20 * 4, 0), "{:?}", found.problems);
}

#[test]
fn newer_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(History::open(directory.path()).unwrap());
    tamper(directory.path(), "PRAGMA user_version = 2");
    for result in [History::open(directory.path()).map(drop), History::read(directory.path()).map(drop)] {
        assert!(matches!(result, Err(HistoryError::Newer { found: 2, known: 1, .. })), "{result:?}");
    }
}
