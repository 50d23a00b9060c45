//! A run that holds a state, in a storm of file events, and through many edits.
//!
//! Much more of both is measured: `docs/performance.md`.

use kilter_testkit::edits::{Edits, edits};
use kilter_testkit::kilter_process::Held;
use kilter_testkit::stress_test::{StressTest, storm};

use crate::support::*;

#[test]
fn event_storm_loses_nothing_in_bounded_memory() {
    let place = Place::new();
    let directory = place.path().join("d");
    std::fs::create_dir(&directory).unwrap();
    let of_it = StressTest { bursts: 3, operations: 20_000 };
    let weathered = storm(of_it, |args| place.command(args), &directory, &place.path().join("state"));
    eprintln!("{weathered:?}");
    let grown = weathered.behind.peak - weathered.before.memory;
    assert!(grown < 8 * 1024, "{weathered:?}");
}

#[test]
fn many_edits_leak_nothing() {
    let place = Place::new();
    let directory = place.path().join("d");
    std::fs::create_dir(&directory).unwrap();
    let of_it = Edits { files: 200, first: 20, further: 40 };
    let lasted = edits(of_it, |args| place.command(args), &directory, &place.path().join("state"));
    eprintln!("{lasted:?}");
    let (before, behind) = (lasted.before, lasted.behind);
    let counts = |held: Held| [held.descriptors, held.threads, held.watches, held.children];
    assert_eq!(counts(before), counts(behind), "descriptors, threads, watches, children: {lasted:?}");
    assert!(behind.memory < before.memory + 2048, "two megabytes are no noise: {lasted:?}");
    // Eighteen resources are declared in another way by each, and the twelve files among them are looked at again
    // since their own changes are seen. A change that is seen in two parts is another look; one at all 200 that are
    // kept would be five for each edit.
    assert!((18..=32).contains(&lasted.looks), "what is kept is not looked at: {lasted:?}");
}
