//! Writes the history of a year: `cargo run --profile bench -p kilter-history --example history_year`.
//!
//! The machine is checked every 30 minutes and drifts ten times a day. The events have the sizes and the transactions
//! of `kilter apply` with a manifest in a git repository and facts of the operating system: a check without a change
//! is on record once in an hour. The program prints the size of the database and the share of each kind of event.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use kilter_history::{EventKind, History, HistoryError, NewEvent, ResourceKey, Retention, RunId, Selection, sha256};
use serde_json::{Value as Json, json};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
const CHECK_INTERVAL: i64 = 30 * MINUTE;
const RECORD_INTERVAL: i64 = 60 * MINUTE;

/// Checks of a day that find a drift: ten of 48.
const DRIFTS: [i64; 10] = [3, 8, 13, 18, 22, 27, 32, 37, 41, 46];

/// Number of resources that drift in turn.
const RESOURCES: i64 = 25;

/// Size of a saved state in bytes, compressed and encrypted.
const STATE_BYTES: usize = 180;

/// Age at which events are removed, and maximum size of the database, as in `kilter`.
const MAX_AGE: i64 = 400 * DAY;
const MAX_BYTES: u64 = 512 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let days: i64 = std::env::args().nth(1).map_or(Ok(365), |number| number.parse())?;
    let directory = tempfile::tempdir()?;
    let mut history = History::open(directory.path())?;
    let (mut checks, mut drifts, mut recorded) = (0u64, 0i64, -RECORD_INTERVAL);
    let mut now = 0;
    while now < days * DAY {
        checks += 1;
        if DRIFTS.contains(&(now % DAY / CHECK_INTERVAL)) {
            repair(&mut history, now, drifts)?;
            (drifts, recorded) = (drifts + 1, now);
        } else if now - recorded >= RECORD_INTERVAL {
            let run = begin(&mut history, now)?;
            end(&mut history, run, now, 0)?;
            recorded = now;
        }
        now += CHECK_INTERVAL;
    }
    let bytes = std::fs::metadata(directory.path().join(kilter_history::FILE_NAME))?.len();
    println!("{days} days, {checks} checks, {drifts} repairs: {:.1} MB", bytes as f64 / 1e6);
    let mut kinds: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    history.events(&Selection::default(), &mut |event| {
        let (count, bytes) = kinds.entry(event.kind.word()).or_default();
        (*count, *bytes) = (*count + 1, *bytes + event.body.to_string().len());
        ControlFlow::Continue(())
    })?;
    for (kind, (count, bytes)) in kinds {
        println!("{kind:>8}: {count} events, {:.1} MB", bytes as f64 / 1e6);
    }
    let found = history.verify(None)?;
    println!("verified: {} events, {} problems", found.events, found.problems.len());
    Ok(())
}

/// Records a run that repairs the content of a file.
fn repair(history: &mut History, now: i64, number: i64) -> Result<(), HistoryError> {
    let run = begin(history, now)?;
    let title = format!("/etc/shop/conf.d/{:02}-service.conf", number % RESOURCES);
    let resource = Some(ResourceKey { type_name: "file", title: &title, name: &title });
    let digest = sha256(number.to_string().as_bytes());
    let body = json!({ "state": digest, "bytes": STATE_BYTES });
    let mut batch = history.batch()?;
    // Encrypted bytes of different states have nothing in common.
    let bytes: Vec<u8> = (0..STATE_BYTES as i64).map(|at| (number.wrapping_mul(31) + at * 7) as u8).collect();
    batch.keep_state(&digest, now, &bytes)?;
    batch.add(run, &NewEvent { at: now, kind: EventKind::Before, resource, body: &body.to_string() })?;
    batch.commit()?;
    let mut batch = history.batch()?;
    let body = outcome(&title, number);
    batch.add(run, &NewEvent { at: now, kind: EventKind::Outcome, resource, body: &body.to_string() })?;
    batch.end_run(run, now, &end_body(1))?;
    batch.commit()?;
    prune(history, now)
}

fn begin(history: &mut History, now: i64) -> Result<RunId, HistoryError> {
    let header = json!({
        "command": "apply", "uid": 0, "host": "web1.example.com", "pid": 29168, "version": "0.1.0",
        "started": 1_795_741_525_858_i64 + now, "user": "root",
        "manifests": [{
            "path": "/etc/kilter/site.yaml",
            "sha256": sha256(b"site.yaml"),
            "commit": "77db963ec369c4a4fbbef3e56126a5ac66aedfc6",
        }],
        "unchanged_before": { "run": 213, "count": 1, "last": 1_795_741_525_650_i64 + now },
        "facts": { "os": {
            "architecture": "amd64",
            "distro": {
                "codename": "bookworm", "description": "Debian GNU/Linux 12 (bookworm)", "id": "debian",
                "release": { "full": "12.11", "major": "12", "minor": "11" },
            },
            "family": "debian", "hardware": "x86_64", "name": "debian",
            "release": { "full": "12.11", "major": "12", "minor": "11" }, "selinux": { "enabled": false },
        }},
    });
    let mut batch = history.batch()?;
    let run = batch.begin_run(now, &header)?;
    batch.commit()?;
    Ok(run)
}

fn end(history: &mut History, run: RunId, now: i64, changed: u64) -> Result<(), HistoryError> {
    let mut batch = history.batch()?;
    batch.end_run(run, now, &end_body(changed))?;
    batch.commit()?;
    prune(history, now)
}

fn prune(history: &mut History, now: i64) -> Result<(), HistoryError> {
    history.prune(now, Retention { before: now - MAX_AGE, max_bytes: MAX_BYTES }).map(drop)
}

fn outcome(title: &str, number: i64) -> Json {
    let line = format!("workers = {}\n", number % 97);
    let (old, new) = (
        format!("# managed\nlisten = 0.0.0.0:8080\n{line}log = /var/log/shop.log\nuser = shop\n"),
        "# managed\nlisten = 0.0.0.0:8080\nworkers = 4\nlog = /var/log/shop.log\nuser = shop\n",
    );
    let diff = format!(
        "--- {title} (is)\n+++ {title} (should)\n@@ -1,5 +1,5 @@\n # managed\n listen = 0.0.0.0:8080\n-{line}\
         +workers = 4\n log = /var/log/shop.log\n user = shop\n"
    );
    json!({
        "status": "changed", "corrective": true, "place": "/etc/kilter/site.yaml:12", "duration_ms": 3,
        "changes": [{ "attribute": "content", "old": old, "new": new, "corrective": true, "diff": diff }],
    })
}

fn end_body(changed: u64) -> Json {
    json!({
        "counts": {
            "total": 202, "in_sync": 202 - changed, "changed": changed, "refreshed": 0, "would_change": 0,
            "would_refresh": 0, "unknown": 0, "failed": 0, "skipped": 0, "interrupted": 0, "hidden": 0, "left_out": 0,
            "corrected": changed,
        },
        "failed": false, "interrupted": false, "duration_ms": 318,
    })
}
