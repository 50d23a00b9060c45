//! Finds the files of an inventory, runs programs, and detects the format of each text.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_process::{Cancel, Capture, Environment, Invocation, Termination};
use kilter_script::yaml::{self, Node, TagRule, YamlLimits};

use crate::graph::Graph;
use crate::inventory::Inventory;
use crate::own_format;
use crate::problem::{Place, Problem, Problems};

/// Maximum size of all texts of an inventory together, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of files and directories.
const MAX_FILES: usize = 10_000;
/// Maximum depth of directories.
const MAX_DEPTH: usize = 8;
/// Maximum size of the shown error output of a program, in bytes.
const MAX_COMPLAINT_BYTES: usize = 2048;
/// Maximum duration of one call of a program.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);

/// Bounds of one YAML text.
const YAML: YamlLimits = YamlLimits { bytes: 16 << 20, nodes: 1_000_000, tags: TagRule::CoreOnly };

/// Ends of names of files that are no inventories, as in Ansible.
const IGNORED_ENDS: [&str; 12] =
    ["~", ".pyc", ".pyo", ".swp", ".bak", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry"];

/// Directories of variables beside inventories, and of Ansible's plugins.
const RESERVED_DIRECTORIES: [&str; 3] = ["group_vars", "host_vars", "vars_plugins"];

/// Access of a load to the system of the caller.
#[derive(Clone)]
pub struct LoadOptions<'a> {
    /// Users whose files may decide which targets there are.
    pub trust: TrustPolicy,
    /// Environment of the command: `HOME` for programs, and variables that the inventory names.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Asks the user for a secret, with a message.
    pub prompt: &'a dyn Fn(&str) -> Result<String, String>,
    /// Ends a running program if it is true.
    pub cancel: Option<&'a AtomicBool>,
}

pub(crate) fn load(path: &Path, options: &LoadOptions<'_>) -> Result<Inventory, Vec<Problem>> {
    let mut loader = Loader { options, graph: Graph::default(), problems: Problems::default(), bytes: 0, files: 0 };
    loader.any(path, 0);
    loader.finish(path)
}

struct Loader<'a> {
    options: &'a LoadOptions<'a>,
    graph: Graph,
    problems: Problems,
    /// Number of bytes read so far.
    bytes: usize,
    /// Number of files and directories read so far.
    files: usize,
}

impl Loader<'_> {
    fn finish(mut self, path: &Path) -> Result<Inventory, Vec<Problem>> {
        let root = Place::of(&Arc::from(path));
        let found = match self.problems.errors.is_empty() {
            true => self.graph.resolve(&root, &mut self.problems, &|_, _, _| {}),
            false => None,
        };
        match found {
            Some(inventory) if self.problems.errors.is_empty() => Ok(inventory.with_warnings(self.problems.warnings)),
            _ => Err(self.problems.errors),
        }
    }

    fn fail(&mut self, path: &Path, message: impl Into<EcoString>, hint: &str) {
        self.problems.error(&Place::of(&Arc::from(path)), message, hint);
    }

    fn distrusted(&mut self, path: &Path, distrust: &Distrust) {
        let hint = match distrust.is_missing() {
            true => "an inventory is a file, a directory or a program",
            false => "",
        };
        self.fail(path, eco_format!("{distrust}"), hint);
    }

    /// Reads a file, a directory or a program.
    fn any(&mut self, path: &Path, depth: usize) {
        self.files += 1;
        if self.files > MAX_FILES || depth > MAX_DEPTH {
            if self.files <= MAX_FILES + 1 {
                let message = eco_format!("an inventory has at most {MAX_FILES} files, {MAX_DEPTH} directories deep");
                self.fail(path, message, "");
            }
            return;
        }
        let found = match self.options.trust.open(path) {
            Ok(found) => found,
            Err(distrust) => return self.distrusted(path, &distrust),
        };
        let metadata = found.metadata();
        if metadata.is_dir() {
            return self.directory(path, depth);
        }
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            return self.program(path);
        }
        let bytes = found.read((MAX_BYTES - self.bytes) as u64);
        match bytes.map(String::from_utf8) {
            Ok(Ok(text)) => {
                self.bytes += text.len();
                self.text(path, &text);
            }
            Ok(Err(_)) => self.fail(path, "it is not UTF-8", ""),
            Err(error) => self.fail(path, eco_format!("{error}"), ""),
        }
    }

    /// Reads the files of a directory in the order of their names.
    fn directory(&mut self, path: &Path, depth: usize) {
        if let Err(distrust) = self.options.trust.directory(path) {
            return self.distrusted(path, &distrust);
        }
        let entries = std::fs::read_dir(path).and_then(|entries| {
            entries.take(MAX_FILES + 1).map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        let mut names = match entries {
            Ok(names) => names,
            Err(error) => return self.fail(path, eco_format!("{error}"), ""),
        };
        names.sort_unstable();
        let names = names.into_iter().filter(|name| !is_ignored(&name.to_string_lossy()));
        let paths: Vec<PathBuf> = names.map(|name| path.join(name)).collect();
        if paths.is_empty() {
            self.fail(path, "the directory has no inventory in it", "files such as hosts.yaml are expected");
        }
        paths.iter().for_each(|path| self.any(path, depth + 1));
    }

    /// Runs a program that prints an inventory as JSON.
    fn program(&mut self, path: &Path) {
        let text = match self.output(path, &["--list"]) {
            Ok(text) => text,
            Err(why) => return self.fail(path, why, "a program prints JSON when it is called with --list"),
        };
        let json: serde_json::Value = match serde_json::from_str(&text) {
            Ok(json) => json,
            Err(error) => return self.fail(path, eco_format!("its output is not JSON: {error}"), ""),
        };
        let root = own_format::node_of_json(&json);
        let place = Place::of(&Arc::from(path));
        match own_format::is_own(&root) {
            true => own_format::read(&root, &place, &mut self.graph, &mut self.problems),
            false => self.unknown_form(path),
        }
    }

    fn output(&mut self, path: &Path, args: &[&str]) -> Result<String, EcoString> {
        let absolute = std::path::absolute(path).map_err(|error| eco_format!("{error}"))?;
        let mut environment = Environment::new();
        if let Some(home) = (self.options.variable)("HOME") {
            environment = environment.set("HOME", home);
        }
        let mut invocation = Invocation::new(absolute).args(args.iter().copied()).environment(&environment);
        invocation.stdout = Capture::AtMost(MAX_BYTES - self.bytes);
        invocation.stderr = Capture::Last(MAX_COMPLAINT_BYTES);
        invocation.deadline = Some(PROGRAM_TIMEOUT);
        let invocation = invocation.trusted(&self.options.trust);
        let finished = kilter_process::run(&invocation, self.options.cancel.map(Cancel::new))
            .map_err(|error| EcoString::from(error.with_sources()))?;
        let why = match finished.ending {
            Termination::Exited if finished.is_success() => {
                self.bytes += finished.stdout.bytes.len();
                return String::from_utf8(finished.stdout.bytes).map_err(|_| "its output is not UTF-8".into());
            }
            Termination::Exited => eco_format!("it ended with {}", finished.status),
            Termination::Deadline => eco_format!("it did not end within {} s", PROGRAM_TIMEOUT.as_secs()),
            Termination::OutputLimit => eco_format!("it printed more than {MAX_BYTES} bytes"),
            Termination::Cancelled => "it was interrupted".into(),
        };
        let last = finished.stderr.text();
        match last.lines().rfind(|line| !line.trim().is_empty()) {
            Some(line) => Err(eco_format!("{why}: {}", line.trim().escape_debug())),
            None => Err(why),
        }
    }

    /// Reads a text in the format that it has.
    fn text(&mut self, path: &Path, text: &str) {
        let place = Place::of(&Arc::from(path));
        let Some(root) = self.yaml(&place, text) else { return };
        match own_format::is_own(&root) {
            true => own_format::read(&root, &place, &mut self.graph, &mut self.problems),
            false => self.unknown_form(path),
        }
    }

    fn yaml(&mut self, place: &Place, text: &str) -> Option<Node> {
        match yaml::parse_within(text, &YAML) {
            Ok(Some(root)) => Some(root),
            Ok(None) => {
                self.problems.warning(place, "there is nothing in it", "");
                None
            }
            Err(fault) => {
                self.problems.fault(place, fault);
                None
            }
        }
    }

    fn unknown_form(&mut self, path: &Path) {
        self.fail(path, "it has the form of no inventory", "begin with `hosts:` or `groups:`");
    }
}

/// Returns true if a file of a directory is no inventory.
fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || RESERVED_DIRECTORIES.contains(&name) || IGNORED_ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
pub(crate) mod tests;
