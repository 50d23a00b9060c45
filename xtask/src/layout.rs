//! Which functions every run executes, for the linker to put side by side.
//!
//! Runs the command under valgrind, which counts every instruction, and writes the names of all functions
//! that had any into `crates/kilter/hot.ld`. Hashes in the names are left open: they change with every
//! compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many resources the manifests of the runs have.
const RESOURCES: usize = 40;

/// Writes the script.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    write(root).map_err(|problem| vec![problem])
}

fn write(root: &Path) -> Result<String, String> {
    let target = root.join("target/layout");
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "--locked", "-p", "kilter", "--bin", "kilter", "--target-dir"]).arg(&target);
    build.current_dir(root).env("CARGO_PROFILE_RELEASE_STRIP", "none");
    // Valgrind knows what is in `.text` only.
    build.env("KILTER_LAYOUT", "off");
    finish(&mut build, "cargo")?;
    let program = target.join("release/kilter");
    let functions = Functions::of(&program)?;
    let mut executed: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (number, arguments) in runs(&target, &program)?.iter().enumerate() {
        let counts = target.join(format!("counts.{number}"));
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--dump-instr=yes"])
            .arg(format!("--callgrind-out-file={}", counts.display()));
        valgrind.arg(&program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        // A plan with changes ends with 2.
        valgrind.status().map_err(|error| format!("cannot start valgrind, which counts what is executed: {error}"))?;
        let text = fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
        for function in addresses(&text, &program).into_iter().filter_map(|at| functions.at(at)) {
            executed.entry(stem(function)).or_default().insert(number);
        }
    }
    let script = root.join("crates/kilter/hot.ld");
    fs::write(&script, rendered(&executed)).map_err(|error| format!("{}: {error}", script.display()))?;
    Ok(format!("{}: {} functions", script.display(), executed.len()))
}

/// The arguments of each run: what a machine is asked to do day by day.
fn runs(target: &Path, program: &Path) -> Result<Vec<Vec<String>>, String> {
    let scratch = target.join("runs");
    let _ = fs::remove_dir_all(&scratch);
    let (tree, state) = (scratch.join("tree"), scratch.join("state"));
    fs::create_dir_all(&tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    let mut text = String::from("resources:\n");
    for number in 0..RESOURCES {
        let path = |number: usize| tree.join(format!("f{number:05}")).display().to_string();
        let _ = write!(
            text,
            "  file[{}]:\n    content: \"{number} {}\"\n    mode: \"0644\"\n",
            path(number),
            "x".repeat(190)
        );
        if number % 2 == 1 {
            let _ = writeln!(text, "    require: file[{}]", path(number - 1));
        }
    }
    let manifest = |name: &str, text: &str| {
        let path = scratch.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<PathBuf, String>(path)
    };
    let (empty, files) = (manifest("empty.yaml", "resources: {}\n")?, manifest("files.yaml", &text)?);
    let on = |command: &str, manifest: &Path| {
        let words = [command.as_ref(), "--state-dir".as_ref(), state.as_os_str(), manifest.as_os_str()];
        words.map(|word| word.to_string_lossy().into_owned()).to_vec()
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (include, recording) = (script(&scratch.join("scripts"))?, scratch.join("recording").display().to_string());
    let list = ["-I", &include, "get", "listed"];
    let mut record = Command::new(program);
    finish(record.args(["provider", "record", &recording]).args(list), "kilter provider record")?;
    Ok(vec![
        on("apply", &empty),
        on("apply", &files),
        on("apply", &files),
        on("plan", &files),
        words(&["get", "user", "root"]),
        // Valgrind knows no descriptors of processes: of this one, it sees how a script is found and started, ...
        words(&list),
        // ... and of this one, how its answer is read and shown.
        words(&["provider", "replay", &recording]),
    ])
}

/// A provider that is a script and lists resources, in a directory of its own.
fn script(place: &Path) -> Result<String, String> {
    let write = |name: &str, text: String, mode: u32| {
        let path = place.join(name);
        let written =
            fs::write(&path, text).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)));
        written.map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let each = format!("for number in {{1..{RESOURCES}}}; do printf 'name: n%s\\nensure: present\\n' $number; done");
    write("listed.prov", format!("#!/bin/bash\nprintf '# simple\\n'\n{each}\n"), 0o755)?;
    let metadata = "provider:\n  type: listed\n  invoke: simple\n  actions: [list]\n  suitable: true\n  attributes:\n    name:\n    \
                    ensure: {type: \"enum[present, absent]\"}\n";
    write("listed.yaml", metadata.to_owned(), 0o644)?;
    Ok(place.display().to_string())
}

/// The functions of a program by where they start.
struct Functions(BTreeMap<u64, String>);

impl Functions {
    fn of(program: &Path) -> Result<Functions, String> {
        let listed = finish(Command::new("nm").arg("--numeric-sort").arg(program), "nm")?;
        let function = |line: &str| {
            let mut words = line.split(' ');
            let (at, kind, name) = (words.next()?, words.next()?, words.next()?);
            matches!(kind, "t" | "T" | "w" | "W").then(|| Some((u64::from_str_radix(at, 16).ok()?, name.to_owned())))?
        };
        Ok(Functions(listed.lines().filter_map(function).collect()))
    }

    fn at(&self, address: u64) -> Option<&str> {
        self.0.range(..=address).next_back().map(|(_, name)| name.as_str())
    }
}

/// The addresses in `program` of all instructions that were executed ("Callgrind Format Specification").
fn addresses(counts: &str, program: &Path) -> BTreeSet<u64> {
    let mut objects: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut own, mut at, mut found) = (false, 0u64, BTreeSet::new());
    for line in counts.lines() {
        if let Some(object) = line.strip_prefix("ob=").or(line.strip_prefix("cob=")) {
            let (number, name) = object.split_once(' ').unwrap_or((object, ""));
            if !name.is_empty() {
                objects.insert(number, name);
            }
            if line.starts_with("ob=") {
                own = objects.get(number).is_some_and(|name| Path::new(name) == program);
            }
            continue;
        }
        let Some((place, _)) = line.split_once(' ') else { continue };
        at = match place.split_at_checked(1) {
            Some(("0", hex)) if hex.starts_with('x') => u64::from_str_radix(&hex[1..], 16).unwrap_or(at),
            Some(("+", more)) if !more.is_empty() => at.wrapping_add(more.parse().unwrap_or(0)),
            Some(("-", less)) if !less.is_empty() => at.wrapping_sub(less.parse().unwrap_or(0)),
            Some(("*", "")) => at,
            _ => continue,
        };
        if own {
            found.insert(at);
        }
    }
    found
}

/// The name of a function for any compiler: what is hashed is left open.
fn stem(name: &str) -> String {
    let name = name.split(".llvm.").next().unwrap_or(name);
    // The older mangling ends in a hash.
    if let Some(at) = name.rfind("17h").filter(|_| name.starts_with("_ZN")) {
        return format!("{}*", &name[..at + 3]);
    }
    // The newer one says of every crate which one of its name it is: `Cs…_`.
    let mut parts = name.split("Cs");
    let mut stem = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric()).filter(|end| part[*end..].starts_with('_'));
        stem.push_str("Cs");
        match end.filter(|end| *end > 0) {
            Some(end) => {
                stem.push('*');
                stem.push_str(&part[end..]);
            }
            None => stem.push_str(part),
        }
    }
    stem
}

/// What more runs execute comes first, and what the same runs execute is together.
fn rendered(functions: &BTreeMap<String, BTreeSet<usize>>) -> String {
    let mut functions: Vec<_> = functions.iter().collect();
    functions.sort_by_key(|(name, runs)| (std::cmp::Reverse(runs.len()), *runs, *name));
    let mut text = String::from(
        "/* What every run executes, side by side. Written by `cargo xtask layout`; see build.rs. */\nSECTIONS\n{\n  .text.hot :\n  {\n",
    );
    for (function, _) in functions {
        let _ = writeln!(text, "    *(.text.{function})");
    }
    text.push_str("  }\n}\nINSERT BEFORE .text;\n");
    text
}

/// What a program that has to succeed prints.
fn finish(command: &mut Command, name: &str) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot start {name}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name} ended with {}", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_whatever_compiler_made_them() {
        assert_eq!(stem("_ZN4core3fmt5write17h0123456789abcdefE"), "_ZN4core3fmt5write17h*");
        assert_eq!(stem("_ZN4core3fmt5write17h0123456789abcdefE.llvm.123"), "_ZN4core3fmt5write17h*");
        assert_eq!(stem("_RNvMNtCsgEmfK2I1SDS_4core3str4trim"), "_RNvMNtCs*_4core3str4trim");
        assert_eq!(stem("_RINvCs1_3aCs2b_3bE"), "_RINvCs*_3aCs*_3bE");
        assert_eq!(stem("main"), "main");
    }

    #[test]
    fn addresses_are_those_of_the_program_alone() {
        let counts = "positions: instr line\nob=(1) /lib/other\nfn=(1)\n0x10 3 1\nob=(2) /bin/own\nfn=(2)\n0x20 3 1\n+5 3 1\n\
                      cob=(1)\ncfn=(1)\ncalls=1 0x10 3\n* 3 9\n-3 4 1\nob=(1)\n+1 3 1\nob=(2)\n0x40 1 1\n";
        let found = addresses(counts, Path::new("/bin/own"));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [0x20, 0x22, 0x25, 0x40]);
    }
}
