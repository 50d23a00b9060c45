//! Measures kilter against the floor of bare system calls and against a peer, in one run.
//!
//! `cargo run --release -p kilter-testkit --bin measure` prints a table in Markdown: what was
//! measured, the floor beside it, the ratio, the target, and whether it holds; it fails when a target
//! is missed. `--gates` measures only what no noisy machine can blur (system calls, processes, bytes of
//! memory a resource); it is part of the tests.

mod floods;
mod floor;
mod fresh;
mod held;
mod outside;
mod peer;
mod run;
mod scripts;
mod suite;
mod table;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use table::Table;

fn main() -> ExitCode {
    if floor::serve() {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let gates = arguments.iter().any(|argument| argument == "--gates");
    let only: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let kilter = match binary() {
        Ok(kilter) => kilter,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::FAILURE;
        }
    };
    let scratch = std::env::temp_dir().join(format!("kilter-measure-{}", std::process::id()));
    let bench = run::Bench::new(&kilter, scratch.clone());
    let mut table = Table::default();
    // A child counts the memory of who starts it as its own: what is measured of it comes before this has grown.
    let (of_gates, others): (Vec<_>, Vec<_>) = suite::ALL.iter().partition(|(_, is_gate, _)| *is_gate);
    for (name, is_gate, measure) in of_gates.into_iter().chain(others) {
        let wanted = only.is_empty() || only.iter().any(|only| name.contains(only.as_str()));
        if wanted && (is_gate || !gates) {
            eprintln!("measuring {name} …");
            measure(&bench, &mut table);
        }
    }
    print!("{table}");
    // What is left in the temporary directory does no harm.
    let _ = std::fs::remove_dir_all(scratch);
    if table.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The release build of the command, beside this program.
fn binary() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let kilter = own.with_file_name("kilter");
    match kilter.exists() {
        true => Ok(kilter),
        false => Err(format!("{} is missing: cargo build --release -p kilter", kilter.display())),
    }
}
