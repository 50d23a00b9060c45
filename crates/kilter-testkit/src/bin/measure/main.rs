//! Measures kilter against a floor of bare system calls and against a peer, in one run.
//!
//! `cargo xtask measure` builds the program and this one, and prints a Markdown table: the measurement, the floor,
//! the ratio, the target and the result. It fails if a target is missed. `--gates` selects the measurements without
//! noise (system calls, processes, bytes of memory per resource), which the tests run. `--program PATH` names the
//! program to measure.

mod baseline;
mod floods;
mod held;
mod loopback_fs;
mod outside;
mod peer;
mod run;
mod scripts;
mod suite;
mod table;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use table::CostTable;

fn main() -> ExitCode {
    if baseline::serve() {
        return ExitCode::SUCCESS;
    }
    let Arguments { program: kilter, gates, only } = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::FAILURE;
        }
    };
    let scratch = std::env::temp_dir().join(format!("kilter-measure-{}", std::process::id()));
    let bench = run::MeasureSetup::new(&kilter, scratch.clone());
    let mut table = CostTable::default();
    // The kernel counts the memory of the parent at the fork for the child. So memory is measured first, before this
    // process has grown.
    let (of_gates, others): (Vec<_>, Vec<_>) = suite::ALL.iter().partition(|(_, is_gate, _)| *is_gate);
    for (name, is_gate, measure) in of_gates.into_iter().chain(others) {
        let wanted = only.is_empty() || only.iter().any(|only| name.contains(only.as_str()));
        if wanted && (is_gate || !gates) {
            eprintln!("measuring {name} …");
            measure(&bench, &mut table);
        }
    }
    print!("{table}");
    // Remains in the temporary directory do no harm.
    let _ = std::fs::remove_dir_all(scratch);
    if table.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Command line.
struct Arguments {
    program: PathBuf,
    /// True for measurements without noise only.
    gates: bool,
    /// Substrings of the names of the selected measurements; empty for all.
    only: Vec<String>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut program, mut gates, mut only) = (None, false, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--gates" => gates = true,
            "--program" => program = words.next().map(PathBuf::from),
            _ if word.starts_with("--") => {
                return Err(format!("unknown option {word}; there are --gates and --program PATH"));
            }
            _ => only.push(word),
        }
    }
    match program {
        Some(program) if program.is_file() => Ok(Arguments { program, gates, only }),
        Some(program) => Err(format!("{} is missing: `cargo xtask dist` builds it", program.display())),
        None => Err("no program to measure: give --program PATH, or use `cargo xtask measure`".to_owned()),
    }
}
