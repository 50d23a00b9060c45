//! `cargo xtask ci`: checks that every change must pass, the fastest first.
//!
//! The first run compiles cargo-deny for some minutes. It does so in parallel with the tests, which wait more than
//! they compute.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use crate::step::{cargo, installed, output, succeeds};
use crate::{all_tests, docs, layers, type_names};

/// Version of cargo-deny for `deny.toml`.
const CARGO_DENY: &str = "0.20.2";

type CiStep = (&'static str, fn(&Path) -> Result<(), String>);

const STEPS: [CiStep; 7] = [
    ("fmt", |root| succeeds(cargo(root).args(["fmt", "--all", "--", "--check"]))),
    ("layers", |root| report(layers::run(root))),
    ("type names", |root| report(type_names::run(root))),
    ("clippy", clippy),
    ("doc", rustdoc),
    ("docs", |root| report(docs::run(root, docs::Pages::Check))),
    ("test, deny", |root| {
        let of_deny = root.to_owned();
        let deny = std::thread::spawn(move || deny(&of_deny));
        let tests = all_tests::run(root, all_tests::Simulation::fresh(all_tests::GRAPHS));
        let deny = deny.join().unwrap_or_else(|_| Err("the thread of cargo-deny panicked".to_owned()));
        match (tests == ExitCode::SUCCESS, deny) {
            (true, deny) => deny,
            (false, Ok(())) => Err("tests fail".to_owned()),
            (false, Err(why)) => Err(format!("tests fail\nerror: {why}")),
        }
    }),
];

/// Runs the steps up to the first failure.
pub(crate) fn run(root: &Path) -> ExitCode {
    let begun = Instant::now();
    for (name, step) in STEPS {
        println!("==> {name}");
        let begun = Instant::now();
        let result = step(root);
        let seconds = begun.elapsed().as_secs_f32();
        match result {
            Ok(()) => println!("==> {name}: ok, {seconds:.1} s"),
            Err(why) => {
                eprintln!("error: {why}");
                eprintln!("==> {name}: failed, {seconds:.1} s");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("==> all {} steps: ok, {:.1} s", STEPS.len(), begun.elapsed().as_secs_f32());
    ExitCode::SUCCESS
}

fn report(result: Result<String, Vec<String>>) -> Result<(), String> {
    let summary = result.map_err(|problems| problems.join("\nerror: "))?;
    println!("{summary}");
    Ok(())
}

fn clippy(root: &Path) -> Result<(), String> {
    let args = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    succeeds(cargo(root).args(args))
}

fn rustdoc(root: &Path) -> Result<(), String> {
    let args = ["doc", "--workspace", "--no-deps", "--locked"];
    succeeds(cargo(root).args(args).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Advisories are not checked, because their database would have to be downloaded.
fn deny(root: &Path) -> Result<(), String> {
    installed(root, "cargo-deny", CARGO_DENY)?;
    output(cargo(root).args(["deny", "--workspace", "--locked", "check", "licenses", "bans", "sources"]))?;
    println!("deny: licenses, bans and sources: ok");
    Ok(())
}
