//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the cargo that started this program, or the one in `PATH`, with the working directory `root`.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs a program and fails unless it succeeds.
pub(crate) fn succeeds(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` failed: {status}", shown(command))),
        Err(error) => Err(format!("`{}` cannot be started: {error}", shown(command))),
    }
}

/// Returns the standard output of a program.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("`{}` cannot be started: {error}", shown(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}` failed: {}\n{stderr}", shown(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{}` prints what is not UTF-8", shown(command)))
}

/// Installs a subcommand of cargo in this version, if it is not there. Most need some minutes.
///
/// It builds without optimisation, because the compiler would work longer than the subcommand.
pub(crate) fn installed(root: &Path, name: &str, version: &str) -> Result<(), String> {
    let subcommand = name.trim_start_matches("cargo-");
    let found = output(cargo(root).args([subcommand, "--version"])).unwrap_or_default();
    if found.split_whitespace().any(|word| word == version) {
        return Ok(());
    }
    println!("installing {name} {version}: some minutes, once");
    let mut install = cargo(root);
    install.args(["install", name, "--locked", "--quiet", "--debug", "--version", version]);
    // A separate build directory, so that the build does not depend on the workspace's settings.
    succeeds(nice(&install).env_remove("CARGO_TARGET_DIR"))
}

/// Builds the workspace with its tests, and returns the path of the command.
///
/// `cargo build -p kilter` would build most crates a second time: without the tests, their dependencies have other
/// features.
pub(crate) fn built_kilter(root: &Path) -> Result<PathBuf, String> {
    let args =
        ["test", "--no-run", "--workspace", "--quiet", "--locked", "--message-format", "json-render-diagnostics"];
    let messages = output(cargo(root).args(args))?;
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let program = message["target"]["name"] == "kilter" && message["profile"]["test"] == false;
        message["executable"].as_str().filter(|_| program).map(PathBuf::from)
    });
    executables.next_back().ok_or_else(|| "cargo built no executable of kilter".to_owned())
}

/// Returns the command line as typed in a shell.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Returns the same command with a lower priority than the tests.
pub(crate) fn nice(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    nice.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    nice
}
