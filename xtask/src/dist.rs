//! Builds the program for installation: static, with link-time optimisation.
//!
//! `-C target-feature=+crt-static` links the C library into the program. Without an explicit target, the flag also
//! applies to build scripts and procedural macros, which cannot be static. So the target is named, and the program
//! lies below `target/TARGET/dist`.

mod order;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{cargo, output, succeeds};

/// Weak functions that the Rust standard library calls only if the C library provides them.
///
/// A linker includes a member of an archive only if it is referenced. Without these references, Rust would use
/// fallbacks. Without the first function it would start each child with a fork, which copies kilter's page tables.
const WEAK_FUNCTIONS: [&str; 4] =
    ["posix_spawn_file_actions_addchdir_np", "__cxa_thread_atexit_impl", "gettid", "statx"];

/// Target for which the toolchain uses LLD without further flags.
const LINKED_WITH_LLD: &str = "x86_64-unknown-linux-gnu";

/// Builds the program and prints its path and size.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    let program = build(root).map_err(|why| vec![why])?;
    let size = program.metadata().map_err(|error| vec![format!("{}: {error}", program.display())])?.len();
    Ok(format!("{}: {:.1} MB", program.display(), size as f64 / 1e6))
}

/// Builds the program with its symbols, and records the functions that a run executes.
pub(crate) fn record_order(root: &Path) -> Result<String, Vec<String>> {
    let record = || {
        let mut build = command(root)?;
        succeeds(build.arg("-Cstrip=none"))?;
        order::record(root, &program(root)?)
    };
    record().map_err(|why| vec![why])
}

/// Builds the program and returns its path.
pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    succeeds(&mut command(root)?)?;
    let program = program(root)?;
    // An empty environment has no search path of a dynamic linker.
    output(Command::new(&program).arg("--version").env_clear())?;
    Ok(program)
}

/// Returns the path of the program.
pub(crate) fn program(root: &Path) -> Result<PathBuf, String> {
    Ok(target_directory(root).join(host()?).join("dist/kilter"))
}

/// Returns the command that builds the program.
pub(crate) fn command(root: &Path) -> Result<Command, String> {
    let target = host()?;
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    // Compresses the relocations that a position-independent program processes at its start.
    flags.push("-Clink-arg=-Wl,-z,pack-relative-relocs".to_owned());
    // The Rust compiler links this target with LLD, which can keep one copy of equal functions. Nearly all pages of the
    // program become resident, so a smaller program needs less memory.
    if target == LINKED_WITH_LLD {
        flags.push("-Clink-arg=-Wl,--icf=all".to_owned());
        // Code that only runs while a panic unwinds lies between the other code, and the kernel maps pages around each
        // page that is used. In a section of its own it stays on the disk.
        flags.push("-Cllvm-args=-enable-split-machine-functions -mfs-split-ehcode".to_owned());
        flags.push("-Clink-arg=-Wl,-z,keep-text-section-prefix".to_owned());
    }
    flags.extend(remapped(root).into_iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())));
    flags.extend(WEAK_FUNCTIONS.iter().map(|function| format!("-Clink-arg=-Wl,-u,{function}")));
    let mut build = cargo(root);
    build.args(["rustc", "--locked", "--profile", "dist", "-p", "kilter", "--bin", "kilter", "--target", &target]);
    // The last arguments are only for the program itself: another order does not compile the libraries again.
    build.arg("--");
    if target == LINKED_WITH_LLD {
        let script = order::script(&target_directory(root))?;
        build.arg(format!("-Clink-arg=-Wl,-T,{}", script.display()));
    }
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    // An incremental build has other bytes than a fresh one.
    build.env("CARGO_INCREMENTAL", "0");
    Ok(build)
}

/// Returns the directories of this machine whose names the program must not contain, and their replacements.
///
/// Messages of panics contain the paths of source files. Without the replacements, the bytes of the program would
/// depend on the build directory. If several prefixes match, the compiler uses the last one.
pub(crate) fn remapped(root: &Path) -> Vec<(PathBuf, &'static str)> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cargo"))
    });
    let mut directories = vec![(root.to_owned(), "/kilter"), (target_directory(root), "/target")];
    directories.extend(cargo_home.map(|home| (home.join("registry/src"), "/cargo")));
    directories
}

/// Returns cargo's build directory.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns the target of this machine, such as `x86_64-unknown-linux-gnu`.
pub(crate) fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(rustc).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` names no host".to_owned())
}
