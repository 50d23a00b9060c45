//! Runs the simulator over many seeds and reports the first violation.

use std::panic::catch_unwind;
use std::process::ExitCode;

use kilter_testkit::{SimulationCounts, SimulationReport, Violation, simulate, simulate_held};

const USAGE: &str = "usage: simulate [--held] [--graphs N] [--seed S] [--first K]

Simulates N random graphs (1000 unless told) from base seed S (0 unless told), starting with the Kth. With --held the
machine holds their state, while watches, events and swaps come and go; otherwise it makes single passes.
Exits with 1 at the first property that does not hold, and prints how to see it again.";

/// Command line.
struct SimulateArgs {
    held: bool,
    graphs: u64,
    seed: u64,
    first: u64,
}

fn asked(mut arguments: impl Iterator<Item = String>) -> Result<SimulateArgs, String> {
    let mut asked = SimulateArgs { held: false, graphs: 1000, seed: 0, first: 0 };
    while let Some(option) = arguments.next() {
        let field = match option.as_str() {
            "--held" => {
                asked.held = true;
                continue;
            }
            "--graphs" => &mut asked.graphs,
            "--seed" => &mut asked.seed,
            "--first" => &mut asked.first,
            other => return Err(format!("{other}: no such option")),
        };
        let value = arguments.next().ok_or_else(|| format!("{option} needs a number"))?;
        *field = value.parse().map_err(|_| format!("{option} {value}: not a number"))?;
    }
    Ok(asked)
}

/// Returns the seed of the `k`th graph of a base seed. The bits are mixed, so that adjacent graphs are unrelated.
fn seed_of(base: u64, k: u64) -> u64 {
    let mut bits = base.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(k).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 31;
    bits.wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Simulates a seed. A panic of the machine is a violation, too.
fn examine(seed: u64, held: bool) -> Result<SimulationReport, String> {
    let told: Result<SimulationReport, Violation> =
        catch_unwind(|| if held { simulate_held(seed) } else { simulate(seed) })
            .map_err(|_| "the machine panicked".to_owned())?;
    told.map_err(|violation| violation.to_string())
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("simulate: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut counts = SimulationCounts::default();
    for k in asked.first..asked.first.saturating_add(asked.graphs) {
        let seed = seed_of(asked.seed, k);
        match examine(seed, asked.held) {
            Ok(report) => counts.add(report.counts),
            Err(violation) => {
                println!("violated by graph {k} of seed {} (its own seed is {seed:#x}): {violation}", asked.seed);
                println!(
                    "again with: cargo run --release -p kilter-testkit --bin simulate -- {}--seed {} --first {k} \
                     --graphs 1",
                    if asked.held { "--held " } else { "" },
                    asked.seed
                );
                return ExitCode::FAILURE;
            }
        }
        let done = k + 1 - asked.first;
        if done % 10_000 == 0 && done < asked.graphs {
            eprintln!("{done} of {} graphs", asked.graphs);
        }
    }
    println!(
        "simulated {} graphs of seed {} from number {}, {} commands, {} crashes, {} interrupts, {} failures: all \
         properties hold",
        asked.graphs, asked.seed, asked.first, counts.commands, counts.crashes, counts.interrupts, counts.failures
    );
    ExitCode::SUCCESS
}
