//! The order of the functions in the program for installation.
//!
//! The kernel maps 64 KiB around each page of code that runs. In the order of the compiler, the functions of a run are
//! spread over the whole program, so that nearly all of it becomes resident. `order.txt` names the functions that a run
//! executes, and the linker places them side by side.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{output, succeeds};

/// Rust functions that a run executes, one symbol per line, without the hashes that differ between builds.
const EXECUTED: &str = include_str!("order.txt");

/// Writes the linker script to cargo's build directory and returns its path. The name contains a digest, so that cargo
/// links the program again after a change of the order.
pub(super) fn script(target_directory: &Path) -> Result<PathBuf, String> {
    let script = linker_script(EXECUTED.lines());
    let mut digest = DefaultHasher::new();
    script.hash(&mut digest);
    let path = target_directory.join(format!("order-{:016x}.ld", digest.finish()));
    let written = std::fs::create_dir_all(target_directory).and_then(|()| std::fs::write(&path, script));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Returns a linker script that places the sections of `functions` before all other code.
fn linker_script<'a>(functions: impl Iterator<Item = &'a str>) -> String {
    let mut script = String::from("SECTIONS {\n  .text.run : {\n");
    for function in functions {
        writeln!(script, "    *(.text.{})", pattern(function)).expect("a string can be written to");
    }
    script.push_str("  }\n}\nINSERT BEFORE .text;\n");
    script
}

/// Returns the pattern for the names of a function in all builds.
fn pattern(function: &str) -> String {
    if function.starts_with("_ZN") { format!("{function}17h????????????????E*") } else { format!("{function}*") }
}

/// Runs `program`, which has its symbols, with valgrind, and writes the functions that it executes to `order.txt`.
pub(super) fn record(root: &Path, program: &Path) -> Result<String, String> {
    let directory = super::target_directory(root).join("order");
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    if directory.exists() {
        std::fs::remove_dir_all(&directory).map_err(failed)?;
    }
    std::fs::create_dir_all(directory.join("files")).map_err(failed)?;
    let symbols = output(Command::new("nm").arg(program))?;
    let same_code = aliases(&symbols);
    let (none, files) = (directory.join("none.yaml"), directory.join("files.yaml"));
    std::fs::write(&none, "resources: {}\n").map_err(failed)?;
    std::fs::write(&files, manifest(&directory.join("files"))).map_err(failed)?;

    let mut order = Vec::new();
    let mut known = HashSet::new();
    for manifest in [&none, &files] {
        let apply = |command: &mut Command| {
            let state = directory.join("state");
            succeeds(command.args(["apply", "--quiet"]).arg(manifest).env("KILTER_STATE_DIR", state))
        };
        // The second run finds nothing to change.
        apply(&mut Command::new(program))?;
        let calls = directory.join("calls");
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--tool=callgrind", "--demangle=no"]);
        valgrind.arg(format!("--callgrind-out-file={}", calls.display())).arg(program);
        apply(&mut valgrind)?;
        let calls = std::fs::read_to_string(&calls).map_err(failed)?;
        for function in executed(&calls) {
            // The linker keeps one copy of equal functions. It can keep any of their names.
            let names = same_code.get(function).map_or_else(|| vec![function], Clone::clone);
            order.extend(names.into_iter().filter_map(without_hash).filter(|name| known.insert(name.clone())));
        }
    }
    let list = root.join("xtask/src/dist/order.txt");
    std::fs::write(&list, order.join("\n") + "\n").map_err(|error| format!("{}: {error}", list.display()))?;
    Ok(format!("{}: {} functions", list.display(), order.len()))
}

/// Returns a manifest with files in `directory`.
fn manifest(directory: &Path) -> String {
    let file = |n: usize| {
        format!("  file[{}/{n}]:\n    content: \"number {n}\\n\"\n    mode: \"0644\"\n", directory.display())
    };
    let files: String = (0..100).map(file).collect();
    format!("resources:\n{files}")
}

/// Returns the functions of a profile of callgrind. It writes `fn=(ID) NAME` at the first mention of a function, and
/// `cfn=` for one that is called.
fn executed(profile: &str) -> impl Iterator<Item = &str> {
    profile.lines().filter_map(|line| {
        let function = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn="))?;
        let (_, name) = function.split_once(") ")?;
        // callgrind marks the depth of a recursion.
        Some(name.split('\'').next().unwrap_or(name))
    })
}

/// Returns for each function in the output of `nm` all names of the same address.
fn aliases(symbols: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut by_address: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in symbols.lines() {
        if let [address, "t" | "T" | "w" | "W", name] = line.split(' ').collect::<Vec<_>>()[..] {
            by_address.entry(address).or_default().insert(name);
        }
    }
    let all = by_address.values();
    all.flat_map(|names| names.iter().map(|name| (*name, names.iter().copied().collect()))).collect()
}

/// Returns the symbol of a Rust function without the hashes that the compiler adds; none for a function in another
/// language. The names of the standard library are in the newer form, with a hash for each crate.
fn without_hash(symbol: &str) -> Option<String> {
    if symbol.starts_with("_ZN") {
        return symbol.rfind("17h").map(|at| symbol[..at].to_owned());
    }
    let mut parts = symbol.strip_prefix("_R")?.split("Cs");
    let mut name = format!("_R{}", parts.next()?);
    for part in parts {
        name.push_str("Cs");
        // A hash in base 62, which `_` ends before the length of the crate's name.
        match part.split_once('_') {
            Some((hash, rest)) if hash.len() > 8 && hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                name.extend(["*_", rest]);
            }
            _ => name.push_str(part),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_profile_are_read_in_the_order_of_their_first_mention() {
        let profile = "fl=(1) ???\nfn=(1) _ZN4main17h0123456789abcdefE\n10 5\ncfn=(2) memcpy\ncalls=1 0\n10 3\n\
                       fn=(2)\n10 3\nfn=(3) _ZN4deep17h0123456789abcdefE'2\n10 1\n";
        let names: Vec<String> = executed(profile).filter_map(without_hash).collect();
        assert_eq!(names, ["_ZN4main", "_ZN4deep"]);
    }

    #[test]
    fn hashes_of_crates_are_left_out() {
        let symbol = "_RNvMNtNtCsfHYHznzP9qH_3std2fs4fileNtB2_4File4open";
        assert_eq!(without_hash(symbol).as_deref(), Some("_RNvMNtNtCs*_3std2fs4fileNtB2_4File4open"));
    }

    #[test]
    fn names_of_one_address_belong_together() {
        let symbols = "0000000000001000 t one\n0000000000001000 T two\n0000000000002000 t three\n\
                       0000000000001000 r data\n                 U undefined\n";
        let found = aliases(symbols);
        assert_eq!(found["one"], ["one", "two"]);
        assert_eq!(found["three"], ["three"]);
        assert!(!found.contains_key("data"));
    }

    #[test]
    fn script_names_each_function_with_any_hash() {
        let script = linker_script(["_ZN4core3fmt5write", "_RNvCs*_3std4exit"].into_iter());
        let expected = "SECTIONS {\n  .text.run : {\n    *(.text._ZN4core3fmt5write17h????????????????E*)\n    \
                        *(.text._RNvCs*_3std4exit*)\n  }\n}\nINSERT BEFORE .text;\n";
        assert_eq!(script, expected);
    }

    #[test]
    fn order_names_functions_of_each_part_of_a_run() {
        for part in ["kilter_manifest", "kilter_runtime", "kilter_engine", "kilter_native", "kilter_provider"] {
            assert!(EXECUTED.lines().any(|function| function.contains(part)), "{part}");
        }
    }
}
