//! Has the linker put what every run executes side by side, and make a program that needs nothing of the machine.
//!
//! *The layout.* A run executes a fifth of the program, which without this is spread over all of it: most of the
//! memory of a small run would be code that lies between. `hot.ld` names those functions; `cargo xtask layout` writes it.
//! A function that is not there any more is not missed. `KILTER_LAYOUT=off` leaves it out: valgrind, for one, names no
//! functions that lie outside of `.text`.
//!
//! *A static program.* To find and bind the C library takes a third of a short run, and a program for which that is not
//! done runs on any Linux of its architecture. Rust links it like that for `-C target-feature=+crt-static`, which nobody but
//! who calls cargo can say; so the same is said to the linker here. It stays position-independent. `KILTER_STATIC=off`
//! leaves it out: the C library of the machine is then used, and what its distribution mends in it.
//!
//! Each is tried on a small program first: a linker that does not take it, or a machine without the archives of
//! its C library, gets less.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// The libraries that Rust names on Linux, and of what each is made.
const LIBRARIES: [(&str, &str); 7] = [
    ("gcc_s", "-l:libgcc_eh.a -l:libgcc.a"),
    ("c", "-l:libc.a -l:libgcc_eh.a -l:libgcc.a"),
    ("m", "-l:libm.a"),
    ("rt", "-l:librt.a"),
    ("pthread", "-l:libpthread.a"),
    ("util", "-l:libutil.a"),
    ("dl", "-l:libdl.a"),
];

/// What the linker is told for a static program. Symbols that may be missing are not looked for at the start; those that
/// Rust uses where the library has them are taken out of the archive, which it would do without otherwise: without that
/// of `posix_spawn`, it copies itself (fork) to start others in a directory. What has to be added to addresses is packed.
const STATIC: [&str; 8] = [
    "-static-pie",
    "-Wl,-Bstatic",
    "-Wl,-z,nodynamic-undefined-weak",
    "-Wl,-z,pack-relative-relocs",
    "-Wl,-u,posix_spawn_file_actions_addchdir_np",
    "-Wl,-u,__cxa_thread_atexit_impl",
    "-Wl,-u,gettid",
    "-Wl,-u,statx",
];

/// Uses what breaks first: threads, the unwinder, processes, mathematics.
const PROGRAM: &str = r#"
fn main() {
    let thread = std::thread::spawn(|| std::env::args().count() as f64);
    assert!(thread.join().is_ok_and(|count| (0.8..0.9).contains(&count.powf(1.5).sin())));
    std::panic::set_hook(Box::new(|_| {}));
    assert!(std::panic::catch_unwind(|| Vec::<u8>::new()[std::env::args().count()]).is_err());
    let ended = std::process::Command::new("/bin/sh").args(["-c", "exit 3"]).status();
    assert!(ended.is_ok_and(|ended| ended.code() == Some(3)));
}
"#;

fn main() {
    println!("cargo::rerun-if-changed=hot.ld");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=KILTER_LAYOUT");
    println!("cargo::rerun-if-env-changed=KILTER_STATIC");
    if variable("PROFILE") != "release" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    let script = Path::new(&variable("CARGO_MANIFEST_DIR")).join("hot.ld");
    let layout = format!("-Wl,-T,{}", script.display());
    if variable("KILTER_LAYOUT") != "off" && is_taken(&[&layout]) {
        println!("cargo::rustc-link-arg-bins={layout}");
        if !variable("CARGO_ENCODED_RUSTFLAGS").contains("symbol-mangling-version=v0") {
            println!(
                "cargo::warning=functions lie where they come, which takes longer to start: the layout knows the names of \
                 `-Csymbol-mangling-version=v0`, and RUSTFLAGS goes before .cargo/config.toml"
            );
        }
    }
    let is_asked = variable("KILTER_STATIC") != "off" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    let Some(archives) = archives().filter(|_| is_asked) else { return };
    // As an argument, it is for the command alone, and not for the tests of this package.
    let search = format!("-L{}", archives.display());
    let arguments: Vec<&str> = STATIC.iter().copied().chain([search.as_str()]).collect();
    if is_taken(&arguments) {
        arguments.iter().for_each(|argument| println!("cargo::rustc-link-arg-bins={argument}"));
    }
}

/// A directory in which the linker finds archives in the place of shared libraries.
fn archives() -> Option<PathBuf> {
    let directory = PathBuf::from(variable("OUT_DIR")).join("archives");
    fs::create_dir_all(&directory).ok()?;
    for (name, archives) in LIBRARIES {
        fs::write(directory.join(format!("lib{name}.so")), format!("GROUP ( {archives} )\n")).ok()?;
    }
    Some(directory)
}

/// Whether a program can be linked with these arguments, and runs.
fn is_taken(arguments: &[&str]) -> bool {
    let out = PathBuf::from(variable("OUT_DIR"));
    let (source, program) = (out.join("tried.rs"), out.join("tried"));
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.arg(&source).arg("-o").arg(&program).args(["--target", &variable("TARGET"), "--edition", "2024"]);
    rustc.args(arguments.iter().flat_map(|argument| ["-C".to_owned(), format!("link-arg={argument}")]));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    rustc.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    let is_linked = fs::write(&source, PROGRAM).is_ok() && succeeds(&mut rustc);
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
