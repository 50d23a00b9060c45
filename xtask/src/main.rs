//! The repository's chores: `cargo xtask TASK`.
//!
//! | task | does |
//! |---|---|
//! | `ci` | runs all checks that a change must pass |
//! | `test` | installs the programs for the tests, and runs all tests; `--quick` runs the quick ones of libraries |
//! | `host` | boots a test host with kilter, and runs a shell or a command there |
//! | `layers` | checks the dependencies of the crates against `layers.toml` |
//! | `dist` | builds the static program for installation; `--order` records the order of its functions with valgrind |
//! | `package` | builds that program and packages of it; `--try` installs them on a test host |
//! | `measure` | builds that program and measures it; `--gates` selects the measurements without noise |
//! | `server` | builds that program and applies `examples/server` with it to test hosts, in many orders |
//! | `rollout` | builds that program and tries roll-outs to eight test hosts |
//! | `devices` | builds that program, measures it with 100 devices, and tries devices that fail |
//! | `selinux` | checks the type `selboolean` in a virtual machine that enforces SELinux |
//! | `inventory-peer` | compares kilter's reading of Ansible's inventories with `ansible-inventory`, which it needs |
//! | `docs` | writes the generated pages, checks links, examples and named tests; `--check` writes no files |
//!
//! It knows no details of kilter. It only starts programs and reads files.

mod all_tests;
mod ci;
mod devices;
mod dist;
mod docs;
mod hosts;
mod inventory_peer;
mod layers;
mod measure;
mod package;
mod requirements;
mod rollout;
mod selinux;
mod server;
mod step;
mod type_names;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use all_tests::Simulation;

const USAGE: &str = "usage: cargo xtask ci | test [--quick | --graphs N --seed S] | host [COMMAND...] | \
                     dist [--order] | package [--try] | measure [--gates] [NAME...] | \
                     server [--shuffles N] [--graphs N] [--seed S] [--trial NAME] | \
                     rollout | devices | selinux | inventory-peer [--random N] | layers | type-names | docs [--check]";

fn main() -> ExitCode {
    let owned: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = owned.iter().map(String::as_str).collect();
    let root = root();
    match args.as_slice() {
        ["ci"] => ci::run(&root),
        ["test", "--quick"] => all_tests::run_quick(&root),
        ["test", options @ ..] => match simulation(options) {
            Ok(simulation) => all_tests::run(&root, simulation),
            Err(problem) => usage(&problem),
        },
        ["host", command @ ..] => hosts::run(&root, command),
        ["measure", ..] => ExitCode::from(measure::run(&root, &owned[1..])),
        ["server", options @ ..] => report(server::run(&root, options)),
        ["rollout"] => report(rollout::run(&root)),
        ["selinux"] => report(selinux::run(&root)),
        ["devices"] => report(devices::run(&root)),
        ["dist"] => report(dist::run(&root)),
        ["dist", "--order"] => report(dist::record_order(&root)),
        ["package"] => report(package::run(&root)),
        ["package", "--try"] => report(package::try_packages(&root)),
        ["inventory-peer", options @ ..] => report(inventory_peer::run(&root, options)),
        ["layers"] => report(layers::run(&root)),
        ["type-names"] => report(type_names::run(&root)),
        ["docs"] => report(docs::run(&root, docs::Pages::Write)),
        ["docs", "--check"] => report(docs::run(&root, docs::Pages::Check)),
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => usage("no such task"),
    }
}

/// Reads the options of `test`.
fn simulation(mut options: &[&str]) -> Result<Simulation, String> {
    let mut simulation = Simulation::fresh(all_tests::GRAPHS);
    while let [option, rest @ ..] = options {
        let [value, rest @ ..] = rest else { return Err(format!("`{option}` needs a number")) };
        let wrong = |_| format!("`{value}` is not a number for `{option}`");
        match *option {
            "--graphs" => simulation.graphs = value.parse().map_err(wrong)?,
            "--seed" => simulation.seed = value.parse().map_err(wrong)?,
            other => return Err(format!("`test` has no option `{other}`")),
        }
        options = rest;
    }
    Ok(simulation)
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("{problem}\n{USAGE}");
    ExitCode::from(2)
}

/// Prints the summary or the problems.
fn report(result: Result<String, Vec<String>>) -> ExitCode {
    match result {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(problems) => {
            for problem in &problems {
                eprintln!("error: {problem}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the repository, the parent of this crate's directory.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the crate lies in the repository").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_test_are_read_in_any_order() {
        let asked = simulation(&["--seed", "7", "--graphs", "9"]);
        assert_eq!(asked, Ok(Simulation { graphs: 9, seed: 7 }));
        assert_eq!(simulation(&[]).unwrap().graphs, all_tests::GRAPHS);
        for (options, problem) in [
            (&["--graphs"][..], "`--graphs` needs a number"),
            (&["--graphs", "x"], "`x` is not a number for `--graphs`"),
            (&["--fast", "1"], "`test` has no option `--fast`"),
        ] {
            assert_eq!(simulation(options), Err(problem.to_owned()));
        }
    }
}
