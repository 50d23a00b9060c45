//! Measures the program for installation.

use std::path::Path;

use crate::dist;
use crate::step::{cargo, shown};

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
    let program = dist::build(root)?;
    // The measurements start other programs of the package.
    let build = ["build", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bins"];
    crate::step::succeeds(cargo(root).args(build))?;
    let mut run = cargo(root);
    run.args(["run", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bin", "measure", "--"]);
    run.arg("--program").arg(&program).args(args);
    println!("+ {}", shown(&run));
    let status = run.status().map_err(|error| format!("`{}` cannot be started: {error}", shown(&run)))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
