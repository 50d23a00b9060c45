//! Writes a million events, and reads the changes of one resource: `cargo run --profile bench -p kilter-history
//! --example history_bench`. An argument sets another number of events.
//!
//! It prints the time of the writes, the size of the database, and the time of the read.

use std::ops::ControlFlow;
use std::time::Instant;

use kilter_history::{EventKind, History, NewEvent, ResourceKey, Selection};
use serde_json::json;

/// Number of events, unless an argument says otherwise.
const EVENTS: usize = 1_000_000;

/// Number of resources.
const RESOURCES: usize = 10_000;

/// Number of events in a transaction.
const TRANSACTION: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let events: usize = std::env::args().nth(1).map_or(Ok(EVENTS), |number| number.parse())?;
    let directory = tempfile::tempdir()?;
    let mut history = History::open(directory.path())?;
    let mut batch = history.batch()?;
    let run = batch.begin_run(0, &json!({ "command": "apply" }))?;
    batch.commit()?;
    let titles: Vec<String> = (0..RESOURCES).map(|at| format!("/srv/shop/file-{at}")).collect();
    let begun = Instant::now();
    for first in (0..events).step_by(TRANSACTION) {
        let body = json!({
            "status": "changed",
            "corrective": true,
            "changes": [{ "attribute": "mode", "old": "0666", "new": "0644", "corrective": true }],
            "place": "/etc/kilter/site.yaml:12",
            "duration_ms": 1,
        });
        let bodies: Vec<String> = (0..TRANSACTION).map(|_| body.to_string()).collect();
        let events = bodies.iter().zip(first..).map(|(body, at)| {
            let title = titles[at % RESOURCES].as_str();
            let resource = Some(ResourceKey { type_name: "file", title, name: title });
            NewEvent { at: at as i64, kind: EventKind::Outcome, resource, body }
        });
        let mut batch = history.batch()?;
        batch.add_all(run, &events.collect::<Vec<_>>())?;
        batch.commit()?;
    }
    println!("{events} events: {:.2} s, {} MB", begun.elapsed().as_secs_f64(), history.size() >> 20);
    drop(history);
    let begun = Instant::now();
    let history = History::read(directory.path())?.ok_or("the history is gone")?;
    let mut count = 0;
    let mut visit = |_| {
        count += 1;
        if count == 50 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    history.timeline("file", &titles[RESOURCES / 2], &Selection::default(), &mut visit)?;
    println!("last {count} events of a resource: {:.2} ms", begun.elapsed().as_secs_f64() * 1000.0);
    let begun = Instant::now();
    let found = history.verify(None)?;
    println!("verification of {} events: {:.2} s", found.events, begun.elapsed().as_secs_f64());
    Ok(())
}
