//! Which functions every run executes, for the linker to put side by side.
//!
//! Runs the command under valgrind, which counts every instruction, and writes the sections of all functions
//! that had any into `crates/kilter/hot.ld`. Where a function is, and in which section it came, the map of the
//! linker tells. Hashes in the names are left open: they change with every compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many resources the manifests of the runs have.
const RESOURCES: usize = 40;

/// The run, of [`runs`], that starts a script; those from it on read what scripts print.
const LISTING: usize = 5;

/// What goes on behind the descriptor of a process and in a child that is confined, neither of which valgrind has: by
/// their names in the sections.
const UNSEEN: [&str; 8] = [
    "8landlock",
    "11seccompiler",
    "14kilter_process7confine",
    "14kilter_process7running",
    "14kilter_process5pipes",
    "libc.a:sigprocmask.o",
    "libc.a:pthread_sigmask.o",
    "libc.a:setpgid.o",
];

/// Writes the script.
pub(crate) fn run(root: &Path) -> Result<String, Vec<String>> {
    write(root).map_err(|problem| vec![problem])
}

fn write(root: &Path) -> Result<String, String> {
    let target = root.join("target/layout");
    let map = target.join("map");
    let mut build = Command::new("cargo");
    build.args(["rustc", "--release", "--locked", "-p", "kilter", "--bin", "kilter", "--target-dir"]).arg(&target);
    build.arg("--").arg(format!("-Clink-arg=-Wl,-Map={}", map.display()));
    build.current_dir(root).env("CARGO_PROFILE_RELEASE_STRIP", "none");
    // Valgrind knows what is in `.text` only.
    build.env("KILTER_LAYOUT", "off");
    finish(&mut build, "cargo")?;
    let program = target.join("release/kilter");
    let text = fs::read_to_string(&map).map_err(|error| format!("{}: {error}", map.display()))?;
    let sections = Sections::of(&text);
    if sections.0.is_empty() {
        return Err(format!("{}: no section of code; the map that lld writes was expected", map.display()));
    }
    let mut executed: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let runs = runs(&target, &program)?;
    if !runs[LISTING].iter().any(|word| word == "listed") {
        return Err("the run that starts a script is another one than is written here".to_owned());
    }
    for (number, arguments) in runs.iter().enumerate() {
        let counts = target.join(format!("counts.{number}"));
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--dump-instr=yes"])
            .arg(format!("--callgrind-out-file={}", counts.display()));
        valgrind.arg(&program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        // A plan with changes ends with 2.
        valgrind.status().map_err(|error| format!("cannot start valgrind, which counts what is executed: {error}"))?;
        let text = fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
        for pattern in addresses(&text, &program).into_iter().filter_map(|at| sections.at(at)) {
            executed.entry(pattern.to_owned()).or_default().insert(number);
        }
    }
    for pattern in sections.unseen() {
        executed.entry(pattern.to_owned()).or_default().insert(LISTING);
    }
    let script = root.join("crates/kilter/hot.ld");
    fs::write(&script, rendered(&executed)).map_err(|error| format!("{}: {error}", script.display()))?;
    Ok(format!("{}: {} sections", script.display(), executed.len()))
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

/// How the sections of code in a program are named to the linker, by where they start.
struct Sections(BTreeMap<u64, Option<String>>);

impl Sections {
    /// What the map of a linker says ("LLD": `-Map`): address, address to load at, size, alignment, and under these
    /// `file:(section)`.
    fn of(map: &str) -> Sections {
        let section = |line: &str| {
            let mut words = line.split_whitespace();
            let (at, _, size, _) = (words.next()?, words.next()?, words.next()?, words.next()?);
            let at = u64::from_str_radix(at, 16).ok().filter(|_| size != "0")?;
            let (file, section) = words.next()?.strip_suffix(')')?.rsplit_once(":(")?;
            section.starts_with(".text").then(|| (at, pattern(file, section)))
        };
        Sections(map.lines().filter_map(section).collect())
    }

    /// Those that valgrind cannot see executed.
    fn unseen(&self) -> impl Iterator<Item = &str> {
        let all = self.0.values().filter_map(Option::as_deref);
        all.filter(|pattern| UNSEEN.iter().any(|name| pattern.contains(name)))
    }

    fn at(&self, address: u64) -> Option<&str> {
        self.0.range(..=address).next_back().and_then(|(_, pattern)| pattern.as_deref())
    }
}

/// How the linker is told which section it is, in whatever directory the file. What is compiled for this program has a
/// section for each function. A library in C has one for each of its files; of what it has for several processors all
/// is taken, since valgrind has one that is older than the machine's.
fn pattern(file: &str, section: &str) -> Option<String> {
    if let Some((kind, function)) = section.split_once("._") {
        let stem = stem(&format!("_{function}"));
        let name = stem.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix('.').unwrap_or(&stem);
        return Some(match name.ends_with('*') {
            true => format!("*({kind}.{name})"),
            // The compiler adds a number to what has a name that is taken.
            false => format!("*({kind}.{name} {kind}.{name}.*)"),
        });
    }
    if section == ".text.main" {
        return Some("*(.text.main)".to_owned());
    }
    let (archive, member) = Path::new(file).file_name()?.to_str()?.strip_suffix(')')?.split_once('(')?;
    let of_processors = ["avx", "evex", "sse", "erms"];
    let base = member.split_once('-').filter(|(_, more)| of_processors.iter().any(|word| more.contains(word)));
    let member = base.map_or(member.to_owned(), |(base, _)| format!("{base}-*.o"));
    archive.ends_with(".a").then(|| format!("*{archive}:{member}(.text .text.*)"))
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

/// First what is executed with scripts and without, then what is with scripts alone, then all else. Of each, what more
/// runs execute comes first, and what the same runs execute is together.
fn rendered(functions: &BTreeMap<String, BTreeSet<usize>>) -> String {
    let mut functions: Vec<_> = functions.iter().collect();
    let part = |runs: &BTreeSet<usize>| match (runs.iter().any(|run| *run < LISTING), runs.last() >= Some(&LISTING)) {
        (true, true) => 0,
        (false, _) => 1,
        (true, false) => 2,
    };
    functions.sort_by_key(|(name, runs)| (part(runs), std::cmp::Reverse(runs.len()), *runs, *name));
    let mut text = String::from(
        "/* What every run executes, side by side. Written by `cargo xtask layout`; see build.rs. */\nSECTIONS\n{\n  .text.hot :\n  {\n",
    );
    for (function, _) in functions {
        let _ = writeln!(text, "    {function}");
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
    fn a_section_is_named_by_its_function_or_by_its_file() {
        assert_eq!(pattern("/a/b.o", ".text._ZN1a1b17h0123456789abcdefE").unwrap(), "*(.text._ZN1a1b17h*)");
        let cold = pattern("/a/b.o", ".text.unlikely._RNvCs1_3a1b.685").unwrap();
        assert_eq!(cold, "*(.text.unlikely._RNvCs*_3a1b .text.unlikely._RNvCs*_3a1b.*)");
        assert_eq!(pattern("/l/libc.a(malloc.o)", ".text").unwrap(), "*libc.a:malloc.o(.text .text.*)");
        assert_eq!(
            pattern("/l/libc.a(memmove-avx-erms.o)", ".text.avx").unwrap(),
            "*libc.a:memmove-*.o(.text .text.*)"
        );
        assert_eq!(pattern("/l/libring-0.rlib(x.o)", ".text"), None);
        assert_eq!(pattern("/l/rcrt1.o", ".text"), None);
    }

    #[test]
    fn the_map_of_the_linker_says_which_section_an_address_is_in() {
        let map = "     VMA      LMA     Size Align Out     In      Symbol\n  1000     1000       40    16 .text\n  \
                   1000     1000       20    16         /a/b.o:(.text._RNvCs1_3a1b)\n  1000     1000        0     1  \
                   _RNvCs1_3a1b\n  1020     1020       20    16         /l/libc.a(malloc.o):(.text)\n  \
                   2000     2000       20    16         /a/b.o:(.data.x)\n";
        let sections = Sections::of(map);
        assert_eq!(sections.at(0x101f), Some("*(.text._RNvCs*_3a1b .text._RNvCs*_3a1b.*)"));
        assert_eq!(sections.at(0x1020), Some("*libc.a:malloc.o(.text .text.*)"));
        assert_eq!(sections.at(0xfff), None);
    }

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
