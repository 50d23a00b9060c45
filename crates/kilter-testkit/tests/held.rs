//! A machine that holds a state keeps every property; one around which there is a bug does not.

use std::collections::BTreeMap;

use kilter_testkit::{SeededBug, SimulationCounts, simulate_held, simulate_held_with};

#[test]
fn continuous_runs_keep_all_properties() {
    let mut counts = SimulationCounts::default();
    for seed in 0..2000 {
        match simulate_held(seed) {
            Ok(report) => counts.add(report.counts),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    println!("{counts:?}");
    assert!(counts.commands > 50_000 && counts.crashes > 100 && counts.interrupts > 100, "too quiet: {counts:?}");
}

#[test]
fn mutants_of_continuous_runs_are_caught() {
    for (fault, property) in SeededBug::ALL {
        let mut noticed: BTreeMap<_, u32> = BTreeMap::new();
        // Some are rare, and found sooner or later.
        for seed in 0..6000 {
            if seed >= 300 && noticed.contains_key(&property) {
                break;
            }
            if let Err(violation) = simulate_held_with(seed, Some(fault)) {
                *noticed.entry(violation.property).or_default() += 1;
            }
        }
        println!("{fault:?}: {noticed:?}");
        assert!(noticed.contains_key(&property), "{fault:?} was noticed by {noticed:?}, not by {property:?}");
    }
}
