//! Measures the program for installation.

use std::path::Path;
use std::process::Command;

use crate::dist;
use crate::step::{cargo, shown, succeeds};

/// Builds the program and the measuring program, and runs the latter with `args`. Returns its exit code.
pub(crate) fn run(root: &Path, args: &[String]) -> u8 {
    match measured(root, args) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("error: {why}");
            1
        }
    }
}

fn measured(root: &Path, args: &[String]) -> Result<u8, String> {
    succeeds(&mut dist::command(root)?)?;
    succeeds(&mut programs(root))?;
    let mut run = command(root, args)?;
    println!("+ {}", shown(&run));
    let status = run.status().map_err(|error| format!("`{}` cannot be started: {error}", shown(&run)))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Returns the command that builds the measuring program and the programs that it starts.
pub(crate) fn programs(root: &Path) -> Command {
    let mut build = cargo(root);
    build.args(["build", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bins"]);
    build
}

/// Returns the command that measures the program for installation.
pub(crate) fn command(root: &Path, args: &[String]) -> Result<Command, String> {
    let mut run = cargo(root);
    run.args(["run", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bin", "measure", "--"]);
    run.arg("--program").arg(dist::program(root)?).args(args);
    Ok(run)
}
