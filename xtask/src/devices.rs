//! `cargo xtask devices`: measures commands on 100 devices, and tries devices that fail.

use std::path::Path;
use std::process::Command;

use crate::dist;
use crate::step::{cargo, shown, succeeds};

/// Program that connects to a device.
const TRANSPORT: &str = "appliance_transport";

/// Builds the program, the transport and the trial, and runs the latter.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    tried(root).map_err(|why| vec![why])
}

fn tried(root: &Path) -> Result<String, String> {
    let program = dist::build(root)?;
    let build = ["--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bin"];
    succeeds(cargo(root).arg("build").args(build).arg("devices"))?;
    // 20 of them run at the same time. The pages of a shared C library would double their memory.
    let target = dist::host()?;
    let mut transport = cargo(root);
    transport.arg("rustc").args(build).args([TRANSPORT, "--target", &target]);
    succeeds(transport.args(["--", "-Ctarget-feature=+crt-static"]))?;
    let directory = dist::target_directory(root);
    let mut trial = Command::new(directory.join("release/devices"));
    trial.arg("--program").arg(program);
    trial.arg("--transport").arg(directory.join(&target).join("release").join(TRANSPORT));
    println!("+ {}", shown(&trial));
    succeeds(&mut trial)?;
    Ok("all devices behaved as expected".to_owned())
}
