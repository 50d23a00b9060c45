//! `cargo xtask rollout`: tries roll-outs to eight test hosts, with changes and hosts that fail.

use std::path::Path;
use std::process::Command;

use crate::dist;
use crate::step::{cargo, shown, succeeds};

/// Program that makes the sandbox of the hosts.
const SANDBOX: &str = "crates/kilter-testkit/hosts/sandbox";

/// Builds the program and the one that tries it, and runs the latter in a sandbox.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    tried(root).map_err(|why| vec![why])
}

fn tried(root: &Path) -> Result<String, String> {
    let program = dist::build(root)?;
    let build = ["build", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bin", "rollout"];
    succeeds(cargo(root).args(build))?;
    let mut sandbox = Command::new(root.join(SANDBOX));
    sandbox.arg(dist::target_directory(root).join("release/rollout")).arg("--program").arg(program);
    println!("+ {}", shown(&sandbox));
    succeeds(&mut sandbox)?;
    Ok("all roll-outs ended as expected".to_owned())
}
