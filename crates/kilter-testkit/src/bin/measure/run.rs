//! Runs commands and measures their cost.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use wait4::Wait4;

/// Cost of a run of a command, including its children.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Processor time in milliseconds.
    pub(crate) cpu: f64,
    /// Elapsed time in milliseconds.
    pub(crate) wall: f64,
    /// Peak memory in kilobytes.
    pub(crate) memory: f64,
}

/// The command to measure, and a working directory.
pub(crate) struct MeasureSetup {
    kilter: PathBuf,
    scratch: PathBuf,
}

impl MeasureSetup {
    /// Measures a copy of the program that the kernel reads from the disk, as after an installation and a boot. The
    /// page cache has a program from the linker in small pieces, and a fresh copy in large pieces. The kernel maps each
    /// piece at once, so that a short run takes a tenth longer with small ones, and more memory with large ones.
    pub(crate) fn new(kilter: &Path, scratch: PathBuf) -> MeasureSetup {
        std::fs::create_dir_all(&scratch).expect("the temporary directory can be written to");
        let installed = scratch.join("kilter");
        std::fs::copy(kilter, &installed).expect("there is room for the program");
        let file = std::fs::File::open(&installed).expect("the copy exists");
        // The kernel drops only pages that were written to the disk.
        file.sync_all().expect("the copy can be flushed");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("the file system has a page cache");
        MeasureSetup { kilter: installed, scratch }
    }

    /// Creates a new directory for a workload. Old directories are kept, because ext4 creates files much more slowly
    /// after many removals.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        MeasureSetup::directory_in(&self.scratch, name)
    }

    /// Returns the state directory of the command.
    pub(crate) fn state(&self) -> PathBuf {
        self.scratch.join("state")
    }

    /// Returns the working directory.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Creates a new directory for a workload at another location.
    pub(crate) fn directory_in(place: &Path, name: &str) -> PathBuf {
        let taken = std::fs::read_dir(place).map_or(0, Iterator::count);
        let directory = place.join(format!("{name}-{taken}"));
        std::fs::create_dir_all(&directory).expect("the temporary directory can be written to");
        directory
    }

    /// Returns the command with a separate state directory.
    pub(crate) fn kilter(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kilter);
        command.args(arguments).env("KILTER_STATE_DIR", self.state());
        command
    }

    /// Returns `kilter apply` without output.
    pub(crate) fn apply(&self, manifest: &Path, more: &[&str]) -> Command {
        let mut command = self.kilter(&["apply", "--quiet"]);
        command.arg(manifest).args(more);
        command
    }
}

/// Runs a command once.
///
/// # Panics
/// If it fails, because a failure must not be measured.
pub(crate) fn once(command: Command) -> Cost {
    cost_of(command, Stdio::null())
}

/// Runs a command once and reads its output, which includes the cost for a reader.
///
/// # Panics
/// If it fails.
pub(crate) fn once_read(command: Command) -> Cost {
    cost_of(command, Stdio::piped())
}

fn cost_of(mut command: Command, stdout: Stdio) -> Cost {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdout)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    if let Some(mut output) = child.stdout.take() {
        std::io::copy(&mut output, &mut std::io::sink()).expect("a pipe can be read");
    }
    let used = child.wait4().expect("the child was started here");
    let wall = start.elapsed().as_secs_f64() * 1e3;
    assert!(used.status.success(), "{command:?} failed: {}", used.status);
    let cpu = (used.rusage.utime + used.rusage.stime).as_secs_f64() * 1e3;
    Cost { cpu, wall, memory: used.rusage.maxrss as f64 / 1024.0 }
}

/// Returns the minimum of several runs: the cost without interference.
pub(crate) fn best(times: usize, mut make: impl FnMut() -> Command) -> Cost {
    least((0..times).map(|_| once(make())))
}

/// Returns the minimum for each of two commands that run alternately. The speed of a machine varies by a tenth
/// within seconds, and both commands must see the same conditions.
pub(crate) fn best_of_both(times: usize, mut runs: [&mut dyn FnMut() -> Cost; 2]) -> [Cost; 2] {
    let none = Cost { cpu: f64::MAX, wall: f64::MAX, memory: f64::MAX };
    let mut best = [none; 2];
    for _ in 0..times {
        for (best, run) in best.iter_mut().zip(&mut runs) {
            *best = least([*best, run()].into_iter());
        }
    }
    best
}

/// Returns the minimum of each figure.
pub(crate) fn least(costs: impl Iterator<Item = Cost>) -> Cost {
    let none = Cost { cpu: f64::MAX, wall: f64::MAX, memory: f64::MAX };
    costs.fold(none, |a, b| Cost { cpu: a.cpu.min(b.cpu), wall: a.wall.min(b.wall), memory: a.memory.min(b.memory) })
}

/// Returns the number of system calls and of processes of a command, measured with strace.
///
/// # Panics
/// If strace is not installed. `cargo xtask test` checks that.
pub(crate) fn calls(bench: &MeasureSetup, command: &Command) -> (f64, f64) {
    let log = bench.directory("strace").join("log");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&log).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        strace.env(name, value.unwrap_or_default());
    }
    once(strace);
    let text = std::fs::read_to_string(&log).expect("strace wrote its log");
    let calls = text.lines().filter(|line| line.contains('(') && !line.contains(" resumed>")).count();
    let started = text.lines().filter(|line| line.contains("execve(") && line.contains("= 0")).count();
    (calls as f64, started as f64 - 1.0)
}
