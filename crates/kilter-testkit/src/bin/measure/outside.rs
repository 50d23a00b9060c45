//! Measures the effect of many events and many edits on a run that holds a state.

use kilter_testkit::edits::{Edits, Lasted, edits};
use kilter_testkit::stress_test::{StressTest, storm};

use super::run::MeasureSetup;
use super::table::CostTable;

/// Measures a million operations on files, in bursts.
pub(crate) fn million(bench: &MeasureSetup, table: &mut CostTable) {
    let of_it = StressTest { bursts: 16, operations: 62_500 };
    let directory = bench.directory("storm");
    let weathered = storm(of_it, |args| bench.kilter(args), &directory, &bench.state());
    eprintln!("{weathered:?}");
    let megabytes = |kilobytes: u64| kilobytes as f64 / 1024.0;
    // A run of this program with 1,000 files has 12 MB.
    table.limit("a million operations on watched files, maximum memory", megabytes(weathered.behind.peak), "MB", 24.0);
    let longest = weathered.longest.as_secs_f64();
    table.limit("a million operations, end of a burst to 860 changed files in sync", longest, "s", 5.0);
    let [changed, looked, allowed] = weathered.limited.map(|count| count as f64);
    table.limit(
        "a million operations, checks of a resource with `limit` and `burst`",
        changed.max(looked),
        "checks",
        allowed,
    );
}

/// Measures a thousand edits.
pub(crate) fn thousand(bench: &MeasureSetup, table: &mut CostTable) {
    let of_it = Edits { files: 1000, first: 50, further: 1000 };
    let directory = bench.directory("edits");
    let lasted = edits(of_it, |args| bench.kilter(args), &directory, &bench.state());
    eprintln!("{lasted:?}");
    let Lasted { before, behind, each, looks } = lasted;
    let more = |before: usize, behind: usize| behind as f64 - before as f64;
    // The page cache of the history grows to 2 MB.
    table.limit(
        "1,000 edits, additional memory since the 50th",
        (behind.memory as f64 - before.memory as f64) / 1024.0,
        "MB",
        2.0,
    );
    for (what, count) in [
        ("descriptors", more(before.descriptors, behind.descriptors)),
        ("threads", more(before.threads, behind.threads)),
        ("inotify watches", more(before.watches, behind.watches)),
        ("processes", more(before.children, behind.children)),
    ] {
        table.limit(&format!("1,000 edits, additional {what}"), count, what, 0.0);
    }
    // An edit changes eighteen resources, and twelve of them cause events. A change may cause two events.
    table.limit("1,000 edits, checks per edit", looks as f64, "checks", 32.0);
    table.limit("1,000 edits, write to in sync", each.as_secs_f64() * 1e3, "ms", 500.0);
}
