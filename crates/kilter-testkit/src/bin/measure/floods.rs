//! Measures the memory of the command while a script floods it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wait4::Wait4;

use super::run::MeasureSetup;
use super::table::CostTable;

/// Memory limit in megabytes. It holds for any behaviour of a script.
const ALLOWED: f64 = 64.0;

/// Scenarios, with the conventions that support them.
const FLOODS: [(&str, &[&str]); 9] = [
    ("flood", &["simple", "json", "mold"]),
    ("flood-of-blank-lines", &["simple", "json", "mold"]),
    ("flood-of-resources", &["simple", "json", "mold"]),
    ("dense", &["simple", "json", "mold"]),
    ("dense-list", &["simple", "json", "mold"]),
    ("long-value", &["simple", "json", "mold"]),
    ("gigabyte-on-stderr", &["simple", "json", "mold"]),
    // The other conventions have no descriptor 3.
    ("gigabyte-on-the-channel", &["mold"]),
    ("gigabyte-of-messages", &["mold"]),
];

/// Runs `kilter get tt a`, `kilter get tt` and `kilter set tt a v=2` against each flood.
pub(crate) fn floods(bench: &MeasureSetup, table: &mut CostTable) {
    for (scenario, conventions) in FLOODS {
        for convention in conventions {
            let peak = requests(convention)
                .iter()
                .map(|(phase, words)| peak(bench, &script(bench, convention, phase, scenario), convention, words))
                .fold(0.0, f64::max);
            table.limit(&format!("memory against {scenario}, {convention}"), peak, "MB", ALLOWED);
        }
    }
    for (convention, count) in [("simple", 100_000), ("json", 100_000)] {
        let directory = listing(bench, convention, count);
        for format in ["human", "json"] {
            let peak = peak(bench, &directory, convention, &["get", "tt", "--format", format]);
            table.limit(&format!("memory of a list of {count}, {convention}, as {format}"), peak, "MB", ALLOWED);
        }
    }
}

/// Returns the requests, with the phase in which the script plays its scenario. A mold script has no list.
fn requests(convention: &str) -> Vec<(&'static str, &'static [&'static str])> {
    let mut requests: Vec<(_, &'static [&'static str])> =
        vec![("read", &["get", "tt", "a"]), ("update", &["set", "tt", "a", "v=2"])];
    if convention != "mold" {
        requests.push(("read", &["get", "tt"]));
    }
    requests
}

/// Creates a directory with a script that misbehaves.
fn script(bench: &MeasureSetup, convention: &str, phase: &str, scenario: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a program knows where it is");
    let misbehave = own.with_file_name("misbehave");
    assert!(misbehave.is_file(), "{} is not built: `cargo build --release -p kilter-testkit`", misbehave.display());
    let directory = bench.directory("floods");
    let body = format!("exec '{}' {convention} {phase} {scenario} \"$@\"\n", misbehave.display());
    place(&directory, convention, &body);
    directory
}

/// Creates a directory with a script that lists `count` resources of three attributes.
fn listing(bench: &MeasureSetup, convention: &str, count: usize) -> PathBuf {
    let directory = bench.directory("listing");
    let answer = directory.join("answer");
    let entry = |number: usize| match convention {
        "simple" => {
            format!("name: package-number-{number}\nv: 1.2.{number}-1+deb12u1\nw: amd64\nb: true\n")
        }
        _ => {
            let comma = if number == 0 { "" } else { "," };
            format!(
                "{comma}{{\"name\":\"package-number-{number}\",\"v\":\"1.2.{number}-1+deb12u1\",\"w\":\"amd64\",\"b\":true}}"
            )
        }
    };
    let (before, behind) = if convention == "simple" { ("# simple\n", "") } else { ("{\"resources\":[", "]}") };
    let text = format!("{before}{}{behind}", (0..count).map(entry).collect::<String>());
    std::fs::write(&answer, text).expect("there is room");
    place(&directory, convention, &format!("exec cat '{}'\n", answer.display()));
    directory
}

fn place(directory: &Path, convention: &str, body: &str) {
    use std::os::unix::fs::PermissionsExt;
    let (script, metadata, text) = match convention {
        "mold" => (
            directory.join("resources/tt"),
            directory.join("resources/tt.yaml"),
            "attributes:\n  v: {type: String, desc: A text.}\n  list: {type: Any, desc: Anything.}\n".to_owned(),
        ),
        _ => (
            directory.join("tt.prov"),
            directory.join("tt.yaml"),
            format!(
                "provider:\n  type: tt\n  invoke: {convention}\n  suitable: true\n  attributes:\n    name:\n    \
                 v: {{type: string}}\n    w: {{type: string}}\n    b: {{type: boolean}}\n"
            ),
        ),
    };
    std::fs::create_dir_all(script.parent().expect("it is in a directory")).expect("there is room");
    std::fs::write(&script, format!("#!/bin/sh\n{body}")).expect("there is room");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it was made here");
    std::fs::write(metadata, text).expect("there is room");
}

/// Returns the peak memory of the command in megabytes. The system also counts the largest process that the command
/// has waited for. The result is slightly too high, because the scripts are small.
fn peak(bench: &MeasureSetup, directory: &Path, convention: &str, words: &[&str]) -> f64 {
    let mut command: Command = bench.kilter(&[if convention == "mold" { "--mold" } else { "-I" }]);
    command.arg(directory).args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let used = child.wait4().expect("the child was started here");
    // The command may fail or succeed, but a signal must not end it.
    assert!(matches!(used.status.code(), Some(0 | 4)), "{command:?}: {}", used.status);
    used.rusage.maxrss as f64 / 1024.0 / 1024.0
}
