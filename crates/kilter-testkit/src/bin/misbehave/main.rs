//! A provider that misbehaves: `misbehave CONVENTION PHASE SCENARIO WORDS…`; `misbehave --list` prints the
//! scenarios.
//!
//! It answers reads with the resource `a` (or the requested resources), and updates with the minimal answer of its
//! convention. In the phase `read` or `update` it plays its scenario instead. It prints `last words of SCENARIO` on
//! standard error. In the phase `describe` it plays the scenarios of that phase.

mod answer;
mod describe;
mod flood;
mod processes;
mod scenario;
mod shapes;

use std::process::ExitCode;

use answer::{Action, Convention, ScriptRequest};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|word| word == "--list") {
        scenario::ALL.iter().for_each(|(name, what)| println!("{name}\t{what}"));
        return ExitCode::SUCCESS;
    }
    let Some(([convention, phase, scenario], words)) = args.split_first_chunk::<3>() else {
        eprintln!("usage: misbehave simple|json|mold read|update|describe SCENARIO WORDS…");
        return ExitCode::from(64);
    };
    if phase == "describe" {
        eprintln!("last words of {scenario}");
        return ExitCode::from(describe::play(scenario));
    }
    let reads = !matches!(scenario.as_str(), "ignores-stdin" | "closes-stdin");
    let Some(request) = Convention::of(convention).and_then(|convention| ScriptRequest::read(convention, reads, words))
    else {
        eprintln!("error: no action among {words:?}");
        return ExitCode::from(64);
    };
    let played = if phase == "read" { Action::Read } else { Action::Update };
    if request.action != played {
        answer::good(&request);
        return ExitCode::SUCCESS;
    }
    eprintln!("last words of {scenario}");
    match scenario::ALL.iter().find(|(name, _)| name == scenario) {
        Some(_) => ExitCode::from(scenario::play(scenario, &request)),
        None => {
            eprintln!("error: there is no scenario {scenario}");
            ExitCode::from(64)
        }
    }
}
