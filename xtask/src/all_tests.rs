//! `cargo xtask test`: all tests, from unit tests to a long run of the simulator.
//!
//! Many tests wait more than they compute. So the release builds, the simulator and the gates run in parallel with
//! them, most at a lower priority.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime};

use serde_json::Value;

use crate::step::{cargo, nice, output, shown};
use crate::{dist, hosts, measure, requirements};

/// Number of random graphs that the simulator runs in each of its two modes. `--graphs` asks for more.
pub(crate) const GRAPHS: u32 = 20_000;

/// Parameters of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Simulation {
    /// Number of random graphs in each of the two modes.
    pub(crate) graphs: u32,
    /// Base seed.
    pub(crate) seed: u64,
}

impl Simulation {
    /// Creates parameters with a seed that no earlier run has used.
    pub(crate) fn fresh(graphs: u32) -> Simulation {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Simulation { graphs, seed: now.as_secs() }
    }
}

/// Runs all tests, also after failures. Returns the worst exit code.
pub(crate) fn run(root: &Path, simulation: Simulation) -> ExitCode {
    let begun = Instant::now();
    if let Err(why) = requirements::provide() {
        eprintln!("error: {why}");
        return ExitCode::FAILURE;
    }
    let bases = hosts::begin(root);
    let output = TestOutput::default();
    let mut parts: Vec<(&str, u8)> = Vec::new();
    let args = ["test", "--workspace", "--locked", "--no-run"];
    parts.push(("build", plainly(cargo(root).args(args))));
    println!("the tests took {} s to build", begun.elapsed().as_secs());
    let beside = Beside::begin(root, simulation);
    let sequences = match sequences(root) {
        Ok(sequences) => sequences,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    parts.push(("tests", output.run_in_parallel(sequences)));
    println!("the tests have ended after {} s", begun.elapsed().as_secs());
    bases.end();
    parts.extend(beside.end());
    println!("{}", summary(&output.counts(), &parts, begun.elapsed().as_secs()));
    ExitCode::from(worst(&parts))
}

/// Returns all tests, in sequences of commands that run at the same time.
fn sequences(root: &Path) -> Result<Vec<Vec<Command>>, String> {
    let (mut command, mut libraries) = test_programs(root)?;
    let mut sequences = Vec::new();
    for group in LONG {
        let programs = group.iter().map(|name| match command.take(*name).or_else(|| libraries.take(*name)) {
            Some(program) => Ok(program),
            None => Err(format!("there is no test program `{name}`")),
        });
        sequences.push(vec![selected(root, &["--no-fail-fast"], &programs.collect::<Result<_, _>>()?)]);
    }
    sequences.push(vec![selected(root, &["--no-fail-fast"], &command)]);
    let libraries = selected(root, &["--no-fail-fast", "--lib", "--bins"], &libraries);
    sequences.push(vec![libraries, selected(root, &["--no-fail-fast", "--doc"], &BTreeSet::new())]);
    Ok(sequences)
}

/// Returns the command that runs these test programs and the targets in `args`.
///
/// It selects targets and not packages: cargo would compile the dependencies of single packages again, with other
/// features.
fn selected(root: &Path, args: &[&str], programs: &BTreeSet<String>) -> Command {
    let mut tests = cargo(root);
    tests.args(["test", "--workspace", "--locked"]).args(args);
    tests.args(programs.iter().flat_map(|name| ["--test", name]));
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        // Tests of a program wait for other processes and for test hosts more than they compute.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        tests.env("RUST_TEST_THREADS", (2 * cores).to_string());
    }
    tests
}

/// Test programs of libraries that take more than 20 seconds: laws, mutants and floods.
const SLOW: [&str; 5] = ["conformance", "held", "misbehaving", "scripts", "watching"];

/// Long test programs in groups. The groups run at the same time as each other and as the other programs, because their
/// tests wait more than they compute.
const LONG: [&[&str]; 3] = [&["command"], &["conformance", "watching"], &["misbehaving", "scripts", "held"]];

/// Runs the tests of all libraries, which start neither kilter nor a test host, except for the slow test programs. Run
/// them before each commit.
pub(crate) fn run_quick(root: &Path) -> ExitCode {
    let begun = Instant::now();
    let quick = test_programs(root).and_then(|(_, libraries)| without_slow(libraries));
    let quick = match quick {
        Ok(quick) => quick,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    let output = TestOutput::default();
    let tests = selected(root, &["--no-fail-fast", "--lib", "--bins"], &quick);
    let parts = [("tests", output.run_in_parallel(vec![vec![tests]]))];
    println!("{}", summary(&output.counts(), &parts, begun.elapsed().as_secs()));
    ExitCode::from(worst(&parts))
}

fn without_slow(mut programs: BTreeSet<String>) -> Result<BTreeSet<String>, String> {
    match SLOW.iter().find(|name| !programs.remove(**name)) {
        Some(name) => Err(format!("there is no slow test program `{name}`")),
        None => Ok(programs),
    }
}

/// Returns the names of the test programs of the command, and of all libraries.
fn test_programs(root: &Path) -> Result<(BTreeSet<String>, BTreeSet<String>), String> {
    let metadata = output(cargo(root).args(["metadata", "--format-version", "1", "--no-deps", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let of = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let (command, libraries): (Vec<Value>, Vec<Value>) =
        of(&metadata, "packages").into_iter().partition(|package| package["name"] == "kilter");
    let programs = |packages: &[Value]| -> BTreeSet<String> {
        let targets = packages.iter().flat_map(|package| of(package, "targets"));
        let tests = targets.filter(|target| of(target, "kind").iter().any(|kind| kind == "test"));
        tests.filter_map(|target| target["name"].as_str().map(str::to_owned)).collect()
    };
    let (command, libraries) = (programs(&command), programs(&libraries));
    match command.intersection(&libraries).next() {
        Some(name) => Err(format!("two packages have a test program `{name}`: rename the one of kilter")),
        None => Ok((command, libraries)),
    }
}

/// Commands that run in parallel with the tests.
struct Beside(JoinHandle<Vec<FinishedCommand>>);

/// A finished command with its output.
struct FinishedCommand {
    name: &'static str,
    code: u8,
    printed: String,
}

impl Beside {
    /// Starts the build for installation, the simulator, and the gates: the measurements without noise, which are
    /// system calls, processes, and bytes of memory per resource.
    ///
    /// The build goes first, with the priority of the tests: it uses one core for minutes, and the gates wait for it.
    fn begin(root: &Path, simulation: Simulation) -> Beside {
        let (seed, graphs) = (simulation.seed.to_string(), simulation.graphs.to_string());
        let program = ["run", "--release", "--locked", "--quiet", "-p", "kilter-testkit", "--bin", "simulate"];
        let mut commands = Vec::new();
        for (name, held) in [("simulator", None), ("simulator, holding", Some("--held"))] {
            let mut simulate = cargo(root);
            simulate.args(program).args(["--", "--graphs", &graphs, "--seed", &seed]).args(held);
            commands.push((name, nice(&simulate)));
        }
        let root = root.to_owned();
        Beside(std::thread::spawn(move || {
            let of = |name, command: Result<Command, String>| match command {
                Ok(command) => FinishedCommand::of(name, command),
                Err(why) => FinishedCommand { name, code: 1, printed: format!("error: {why}\n") },
            };
            let mut parts = vec![of("dist", dist::command(&root))];
            parts.extend(commands.into_iter().map(|(name, command)| FinishedCommand::of(name, command)));
            parts.push(of("measuring program", Ok(nice(&measure::programs(&root)))));
            let gates = measure::command(&root, &["--gates".to_owned()]);
            parts.push(of("gates", gates.map(|gates| nice(&gates))));
            parts
        }))
    }

    /// Waits for the end, prints the output, and returns names and exit codes.
    fn end(self) -> Vec<(&'static str, u8)> {
        let Ok(parts) = self.0.join() else { return vec![("simulator", 1)] };
        parts.iter().for_each(|part| print!("{}", part.printed));
        parts.iter().map(|part| (part.name, part.code)).collect()
    }
}

impl FinishedCommand {
    /// Runs a command to its end.
    fn of(name: &'static str, mut command: Command) -> FinishedCommand {
        let mut printed = format!("+ {}\n", shown(&command));
        let code = match command.stdin(Stdio::null()).output() {
            Ok(output) => {
                printed.extend([&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)));
                code(output.status)
            }
            Err(error) => not_started(&command, &error),
        };
        FinishedCommand { name, code, printed }
    }
}

/// Counters of the test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TestCounts {
    programs: u32,
    passed: u32,
    failed: u32,
    ignored: u32,
}

impl TestCounts {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn add(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        self.programs += 1;
        let words: Vec<&str> = counts.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u32>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

/// Counts the tests of several programs, and prints their lines.
#[derive(Default)]
struct TestOutput(Mutex<TestCounts>);

impl TestOutput {
    /// Runs sequences of commands at the same time, the commands of a sequence one after the other. Returns the worst
    /// exit code.
    fn run_in_parallel(&self, sequences: Vec<Vec<Command>>) -> u8 {
        std::thread::scope(|scope| {
            let run = |commands: Vec<Command>| commands.into_iter().map(|command| self.run(command)).max();
            let threads: Vec<_> =
                sequences.into_iter().map(|commands| scope.spawn(move || run(commands).unwrap_or(1))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or(1)).max().unwrap_or(1)
        })
    }

    /// Runs a program, forwards its output and counts its tests. Returns its exit code.
    ///
    /// The output of failed tests is printed in one piece.
    fn run(&self, mut command: Command) -> u8 {
        println!("+ {}", shown(&command));
        let (output, mut child) = match std::io::pipe().and_then(|(output, input)| {
            command.stdout(input.try_clone()?).stderr(input);
            Ok((output, command.spawn()?))
        }) {
            Ok(started) => started,
            Err(error) => return not_started(&command, &error),
        };
        // The pipe ends when its last writer closes it.
        drop(command);
        let mut block = Vec::new();
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            block.extend_from_slice(&line);
            block.push(b'\n');
            let is_result = line.starts_with(b"test result:");
            if is_result || !block.starts_with(b"failures:") {
                self.print(&mut block, is_result.then(|| String::from_utf8_lossy(&line)).as_deref());
            }
        }
        self.print(&mut block, None);
        child.wait().map_or(1, code)
    }

    /// Prints and removes a block, and counts the line with its result.
    fn print(&self, block: &mut Vec<u8>, result: Option<&str>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The reader may have closed the output. The tests are counted in any case.
        let _ = std::io::stdout().write_all(block);
        block.clear();
        if let Some(line) = result {
            counts.add(line);
        }
    }

    fn counts(&self) -> TestCounts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn plainly(command: &mut Command) -> u8 {
    println!("+ {}", shown(command));
    match command.status() {
        Ok(status) => code(status),
        Err(error) => not_started(command, &error),
    }
}

fn not_started(command: &Command, error: &std::io::Error) -> u8 {
    eprintln!("error: `{}` cannot be started: {error}", shown(command));
    1
}

/// Returns the exit code; 1 for a program ended by a signal.
fn code(status: std::process::ExitStatus) -> u8 {
    if status.success() {
        return 0;
    }
    status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(1)
}

fn worst(parts: &[(&str, u8)]) -> u8 {
    parts.iter().map(|(_, code)| *code).max().unwrap_or(1)
}

fn summary(output: &TestCounts, parts: &[(&str, u8)], seconds: u64) -> String {
    let TestCounts { programs, passed, failed, ignored } = output;
    let mut text =
        format!("xtask test: {passed} passed, {failed} failed, {ignored} ignored in {programs} test programs");
    for (name, code) in parts {
        let outcome = if *code == 0 { "ok".to_owned() } else { format!("FAILED ({code})") };
        text.push_str(&format!("; {name}: {outcome}"));
    }
    text.push_str(&format!("; {seconds} s"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_test_programs_are_counted() {
        let mut output = TestCounts::default();
        for line in [
            "running 4 tests",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            output.add(line);
        }
        assert_eq!(output, TestCounts { programs: 2, passed: 4, failed: 2, ignored: 1 });
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Each of two sequences waits for the other one.
    #[test]
    fn sequences_run_at_the_same_time_and_all_their_tests_count() {
        let directory = tempfile::tempdir().unwrap();
        let in_directory = |script: &str| {
            let mut command = shell(script);
            command.current_dir(&directory);
            command
        };
        let passed = |count: u32| format!("echo 'test result: ok. {count} passed; 0 failed; 0 ignored;'");
        let open = in_directory(&format!("mkfifo f g; echo > f; read x < g; {}", passed(1)));
        let wait = in_directory(&format!("until [ -p g ]; do :; done; read x < f; echo > g; {} >&2", passed(2)));
        let last = in_directory(&format!("{}; exit 4", passed(4)));
        let output = TestOutput::default();
        assert_eq!(output.run_in_parallel(vec![vec![open], vec![wait, last]]), 4);
        assert_eq!(output.counts(), TestCounts { programs: 3, passed: 7, failed: 0, ignored: 0 });
    }

    #[test]
    fn the_worst_exit_code_counts() {
        assert_eq!(worst(&[("a", 0), ("b", 101), ("c", 1)]), 101);
        assert_eq!(worst(&[("a", 0)]), 0);
        let line = summary(&TestCounts { programs: 1, passed: 2, failed: 1, ignored: 0 }, &[("a", 0), ("b", 101)], 7);
        assert_eq!(line, "xtask test: 2 passed, 1 failed, 0 ignored in 1 test programs; a: ok; b: FAILED (101); 7 s");
    }

    #[test]
    fn extra_step_keeps_arguments_output_and_exit_code() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $1 $MARK; pwd; echo oops >&2; exit 3", "sh", "x"]).env("MARK", "y").current_dir("/");
        let part = FinishedCommand::of("simulator", nice(&command));
        assert_eq!((part.name, part.code), ("simulator", 3));
        assert!(part.printed.ends_with("\nx y\n/\noops\n"), "{}", part.printed);
        assert_eq!(FinishedCommand::of("x", Command::new("/nonexistent/program")).code, 1);
    }

    #[test]
    fn failed_program_is_reported_with_exit_code() {
        assert_eq!(TestOutput::default().run(shell("exit 3")), 3);
        assert_eq!(plainly(Command::new("sh").args(["-c", "kill -9 $$"])), 1);
        assert_eq!(plainly(&mut Command::new("/nonexistent/program")), 1);
    }
}
