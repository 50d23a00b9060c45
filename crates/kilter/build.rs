//! Has the linker put what every run executes side by side.
//!
//! A run executes a fifth of the program, which without this is spread over all of it: most of the memory
//! of a small run would be code that lies between. `hot.ld` names those functions; `cargo xtask layout` writes it.
//! A linker that does not take it (tried here on an empty program) gets nothing, and a function that is
//! not there any more is not missed. `KILTER_LAYOUT=off` leaves it out: valgrind, for one, names no functions that lie
//! outside of `.text`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=hot.ld");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KILTER_LAYOUT");
    let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("hot.ld");
    let is_asked = variable("PROFILE") == "release" && variable("KILTER_LAYOUT") != "off";
    if is_asked && variable("CARGO_CFG_TARGET_OS") == "linux" && is_taken(&script) {
        println!("cargo::rustc-link-arg-bins={}", argument(&script));
    }
}

fn argument(script: &Path) -> String {
    format!("-Wl,-T,{}", script.display())
}

/// Whether a program can be linked with the script, and runs.
fn is_taken(script: &Path) -> bool {
    let out = PathBuf::from(variable("OUT_DIR"));
    let (source, program) = (out.join("empty.rs"), out.join("empty"));
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.arg(&source).arg("-o").arg(&program).args(["--target", &variable("TARGET")]);
    rustc.args(["--edition", "2024", "-C", &format!("link-arg={}", argument(script))]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    rustc.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    let is_linked = fs::write(&source, "fn main() {}").is_ok() && succeeds(&mut rustc);
    // What was built for another machine cannot be tried.
    is_linked && (variable("HOST") != variable("TARGET") || succeeds(&mut Command::new(&program)))
}

fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
