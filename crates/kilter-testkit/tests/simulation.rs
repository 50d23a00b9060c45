//! The machine keeps every property; a machine with a bug does not.

use std::collections::BTreeMap;

use kilter_testkit::{Mutant, Property, SimulationCounts, simulate, simulate_with};

#[test]
fn random_graphs_keep_all_properties() {
    let mut counts = SimulationCounts::default();
    for seed in 0..2000 {
        match simulate(seed) {
            Ok(report) => counts.add(report.counts),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    assert!(counts.crashes > 100 && counts.interrupts > 100 && counts.failures > 1000, "too quiet: {counts:?}");
}

/// Properties that detect each mutant, and the number of seeds in which they do.
fn noticed(mutant: Mutant) -> BTreeMap<Property, u32> {
    let mut noticed = BTreeMap::new();
    for seed in 0..600 {
        if let Err(violation) = simulate_with(seed, Some(mutant)) {
            *noticed.entry(violation.property).or_default() += 1;
        }
    }
    noticed
}

#[test]
fn mutants_are_caught() {
    for (mutant, property) in Mutant::ALL {
        let noticed = noticed(mutant);
        println!("{mutant:?}: {noticed:?}");
        assert!(noticed.contains_key(&property), "{mutant:?} was noticed by {noticed:?}, not by {property:?}");
        let most = noticed.iter().max_by_key(|(_, times)| **times).map(|(property, _)| *property);
        assert_eq!(most, Some(property), "{mutant:?} was noticed by {noticed:?}");
    }
}

#[test]
fn a_seed_gives_the_same_commands_each_time() {
    assert_eq!(simulate(42), simulate(42));
    assert_ne!(simulate(42).unwrap().stream, simulate(43).unwrap().stream);
}
