//! Builds the program that is installed: static, optimised as a whole.
//!
//! `-C target-feature=+crt-static` links the C library into the program. It counts for build scripts and procedural macros
//! too, which cannot be static, unless the target is named: so the target is named, and the program lies below
//! `target/TARGET/dist`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{cargo, output, succeeds};

/// Functions that the Rust standard library calls only if the C library has them. A linker takes a member of an archive
/// only if it is named, so without this Rust would do without them: without the first it starts each child by a fork,
/// which copies the page tables of kilter.
const WEAK_FUNCTIONS: [&str; 4] =
    ["posix_spawn_file_actions_addchdir_np", "__cxa_thread_atexit_impl", "gettid", "statx"];

/// Builds the program and returns where it is.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    let program = build(root).map_err(|why| vec![why])?;
    let size = program.metadata().map_err(|error| vec![format!("{}: {error}", program.display())])?.len();
    Ok(format!("{}: {:.1} MB", program.display(), size as f64 / 1e6))
}

/// Builds the program; returns its path.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let target = host()?;
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    // Packs the relocations, which the start of a position-independent program reads.
    flags.push("-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned());
    flags.extend(WEAK_FUNCTIONS.iter().map(|function| format!("-Clink-arg=-Wl,-u,{function}")));
    let mut build = cargo(root);
    build.args(["build", "--locked", "--profile", "dist", "-p", "kilter", "--target", &target]);
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    succeeds(&mut build)?;
    let directory = root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let program = directory.join(target).join("dist/kilter");
    // An empty environment has no search path of a dynamic linker.
    output(Command::new(&program).arg("--version").env_clear())?;
    Ok(program)
}

/// The target that this machine builds for: `x86_64-unknown-linux-gnu`.
fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(rustc).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` names no host".to_owned())
}
