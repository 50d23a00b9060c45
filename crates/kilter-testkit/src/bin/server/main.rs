//! Applies `examples/server` to empty hosts that systemd has booted, in many orders.
//!
//! `cargo xtask server` builds the program and starts this one in a sandbox. It does this:
//!
//! - The same manifests in a random order of resources and files give the same graph, and the same plan of an empty
//!   host.
//! - One pass brings a host to the declared state, and a second pass changes nothing.
//! - Nothing else changes on that host, compared with a host on which apt-get installs the same packages.
//! - Each shuffle gives the same machine: files, packages, accounts, units, firewall, mounts, open ports.
//!
//! `--trial damages`, `--trial writers` and `--trial undo` try a host with the declared order instead. `--trial
//! fleet` tries eight hosts over ssh.
//!
//! `--shuffles N` and `--graphs N` are the numbers of shuffles, `--seed S` is the seed of the first one.

mod empty_host;
mod fleet;
mod others;
mod trials;
mod undo;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use empty_host::{EmptyHost, Inputs, State};
use kilter_testkit::declarations::Declarations;
use trials::ServerTrial;

/// Number of manifests of a shuffle.
const FILES: usize = 7;

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Command line.
struct Arguments {
    inputs: Inputs,
    shuffles: u64,
    graphs: u64,
    seed: u64,
    trial: Option<ServerTrial>,
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut program, mut repository, mut manifests) = (None, None, None);
    let (mut shuffles, mut graphs, mut seed, mut trial) = (3, 50, 1, None);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse().map_err(|_| format!("`{value}` is not a number for {word}"));
        match word.as_str() {
            "--program" => program = Some(PathBuf::from(value)),
            "--repository" => repository = Some(PathBuf::from(value)),
            "--manifests" => manifests = Some(PathBuf::from(value)),
            "--shuffles" => shuffles = number()?,
            "--graphs" => graphs = number()?,
            "--seed" => seed = number()?,
            "--trial" => trial = Some(ServerTrial::named(&value)?),
            _ => return Err(format!("unknown option {word}; there are --shuffles, --graphs, --seed and --trial")),
        }
    }
    let needed =
        |path: Option<PathBuf>, name: &str| path.ok_or_else(|| format!("{name} is missing: use `cargo xtask server`"));
    let inputs = Inputs::new(
        needed(program, "--program")?,
        needed(repository, "--repository")?,
        &needed(manifests, "--manifests")?,
    )?;
    Ok(Arguments { inputs, shuffles, graphs, seed, trial })
}

fn run(Arguments { inputs, shuffles, graphs, seed, trial }: &Arguments) -> Result<(), String> {
    if let Some(trial) = trial {
        return trials::run(inputs, *trial);
    }
    let declarations = Declarations::new(&inputs.texts);
    let seeds = |count: &u64| *seed..*seed + *count;
    let shuffled = |seed: u64| declarations.shuffled(FILES, &mut fastrand::Rng::with_seed(seed));
    println!("{} declarations in {} files", declarations.count(), inputs.texts.len());

    let host = EmptyHost::boot(inputs)?;
    let expected = host.graph_and_plan(&inputs.texts)?;
    for seed in seeds(graphs) {
        let found = host.graph_and_plan(&shuffled(seed))?;
        found.compared(&expected).map_err(|why| format!("graph or plan of shuffle {seed}: {why}"))?;
    }
    println!(
        "{graphs} shuffles: the same graph of {} edges, the same plan of {} steps",
        expected.edges(),
        expected.steps()
    );
    let control = host.apt_get(&declarations.packages())?;
    host.down();

    let host = EmptyHost::boot(inputs)?;
    let before = host.files()?;
    let declared = timed("declared order", || host.converge(&inputs.texts))?;
    let others = others::none(&before, &host.files()?, &control, &declarations.references());
    host.down();

    let mut problems: Vec<String> = others.err().into_iter().collect();
    for seed in seeds(shuffles) {
        let host = EmptyHost::boot(inputs)?;
        let found = timed(&format!("shuffle {seed}"), || host.converge(&shuffled(seed)));
        if let Err(why) = found.and_then(|state: State| state.compared(&declared)) {
            println!("shuffle {seed}: {why}");
            problems.push(format!("shuffle {seed}: another machine"));
        }
        host.down();
    }
    if problems.is_empty() {
        println!("{shuffles} shuffles: the same machine, {} facts", declared.0.len());
        return Ok(());
    }
    Err(problems.join("\n"))
}

/// Runs and prints the time.
fn timed<T>(name: &str, body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let start = Instant::now();
    let result = body()?;
    println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(result)
}

/// Reads the manifests of a directory in the order of their names.
fn manifests(directory: &Path) -> Result<Vec<String>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", directory.display());
    let entries = std::fs::read_dir(directory).map_err(wrong)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>, _>>().map_err(wrong)?;
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display())))
        .collect()
}
