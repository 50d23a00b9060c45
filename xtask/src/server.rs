//! `cargo xtask server`: applies `examples/server` to test hosts, in many orders.

use std::path::Path;
use std::process::Command;

use crate::dist;
use crate::step::{cargo, output, shown, succeeds};

/// Directory of the programs for hosts.
const PROGRAMS: &str = "crates/kilter-testkit/hosts";

/// Packages of the example.
const PACKAGES: &str = "examples/server/packages.yaml";

/// Builds the program and the one that tries it, and runs the latter in a sandbox with `args`.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<String, Vec<String>> {
    tried(root, args).map_err(|why| vec![why])
}

fn tried(root: &Path, args: &[&str]) -> Result<String, String> {
    let program = dist::build(root)?;
    let build = ["build", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bin", "server"];
    succeeds(cargo(root).args(build))?;
    let built = dist::target_directory(root).join("release/server");
    let programs = root.join(PROGRAMS);
    let packages = std::fs::read_to_string(root.join(PACKAGES)).map_err(|error| format!("{PACKAGES}: {error}"))?;
    let repository = output(Command::new(programs.join("repository")).args(names(&packages)))?;
    let mut sandbox = Command::new(programs.join("sandbox"));
    sandbox.arg(built).arg("--program").arg(program).arg("--repository").arg(repository.trim_end());
    sandbox.arg("--manifests").arg(root.join("examples/server")).args(args);
    println!("+ {}", shown(&sandbox));
    succeeds(&mut sandbox)?;
    Ok("the server is the same in each order".to_owned())
}

/// Returns the elements of the block list of installed packages.
fn names(manifest: &str) -> Vec<&str> {
    manifest.lines().filter_map(|line| line.trim().strip_prefix("- ")).filter(|name| !name.contains(':')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_are_the_elements_of_the_block_list() {
        let manifest = "resources:\n  package:\n    - titles:\n        - nginx\n        - git\n    - titles: \
                        [telnet]\n      ensure: absent\n";
        assert_eq!(names(manifest), ["nginx", "git"]);
    }
}
