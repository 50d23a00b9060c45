//! Finds the files of an inventory, runs programs, and detects the format of each text.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::Hash;
use kilter_process::trust::{Distrust, TrustPolicy};
use kilter_process::{Cancel, Capture, Environment, Invocation, Termination};
use kilter_script::yaml::{self, Node, TagRule, YamlLimits};

use crate::graph::InventoryGraph;
use crate::inventory::Inventory;
use crate::own_format;
use crate::problem::{Problem, ProblemPlace, Problems};
use crate::{ansible, bolt};

/// Maximum size of all texts of an inventory together, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of files and directories.
const MAX_FILES: usize = 10_000;
/// Maximum depth of directories.
const MAX_DEPTH: usize = 8;
/// Maximum size of the shown error output of a program, in bytes.
const MAX_COMPLAINT_BYTES: usize = 2048;
/// Maximum number of calls of a program for the variables of hosts.
const MAX_CALLS: usize = 1000;
/// Maximum duration of one call of a program.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);

/// Bounds of one YAML text.
pub(crate) const YAML: YamlLimits = YamlLimits { bytes: 16 << 20, nodes: 1_000_000, tags: TagRule::CoreOnly };

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
    /// Ends a running program if it is true.
    pub cancel: Option<&'a AtomicBool>,
}

pub(crate) fn load(path: &Path, options: &LoadOptions<'_>) -> Result<Inventory, Vec<Problem>> {
    let mut loader = Loader {
        options,
        graph: InventoryGraph::default(),
        problems: Problems::default(),
        ansible: Vec::new(),
        bolt: None,
        bytes: 0,
        files: 0,
        is_full: false,
    };
    loader.any(path, 0);
    loader.finish(path)
}

/// Returns the document of a YAML text; none if it is empty, or not valid.
pub(crate) fn yaml_root(text: &str, place: &ProblemPlace, problems: &mut Problems) -> Option<Node> {
    match yaml::parse_within(text, &YAML) {
        Ok(Some(root)) => Some(root),
        Ok(None) => None,
        Err(fault) => {
            let is_tag = fault.message.starts_with("the tag `!vault`");
            let hint =
                "kilter does not decrypt Ansible's vault: use { prompt: … }, or a program that prints the inventory";
            let fault = if is_tag { fault.hint(hint) } else { fault };
            problems.fault(place, fault);
            None
        }
    }
}

struct Loader<'a> {
    options: &'a LoadOptions<'a>,
    graph: InventoryGraph,
    problems: Problems,
    /// Files of Ansible's formats.
    ansible: Vec<PathBuf>,
    /// Inventory of Bolt's format.
    bolt: Option<Inventory>,
    /// Number of bytes read so far.
    bytes: usize,
    /// Number of files and directories read so far.
    files: usize,
    /// True if there are too many; reported.
    is_full: bool,
}

impl Loader<'_> {
    fn finish(mut self, path: &Path) -> Result<Inventory, Vec<Problem>> {
        let root = ProblemPlace::of(&Arc::from(path));
        if !self.ansible.is_empty() {
            self.vars_files(if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) });
        }
        let found = match (self.problems.errors.is_empty(), self.bolt) {
            (false, _) => None,
            (true, Some(inventory)) => Some(inventory),
            (true, None) if self.ansible.is_empty() => self.graph.resolve(&root, &mut self.problems, &|_, _, _| {}),
            (true, None) => self.graph.resolve(&root, &mut self.problems, &ansible::apply),
        };
        match found {
            Some(inventory) if self.problems.errors.is_empty() => Ok(inventory.with_warnings(self.problems.warnings)),
            _ => Err(self.problems.errors),
        }
    }

    /// Reads Ansible's files of variables beside the inventory.
    fn vars_files(&mut self, beside: &Path) {
        let directory = |name: &str| ansible::VarsDirectory::read(beside.join(name));
        let (of_groups, of_hosts) = (directory("group_vars"), directory("host_vars"));
        for found in [&of_groups, &of_hosts] {
            if !found.is_empty()
                && let Err(distrust) = self.options.trust.directory(found.path())
            {
                return self.distrusted(found.path(), &distrust);
            }
        }
        let root = ProblemPlace::of(&Arc::from(beside));
        for always in ["all", "ungrouped"] {
            self.graph.group(always, &root, &mut self.problems);
        }
        for at in 0..self.graph.groups.len() {
            let name = self.graph.groups.get_index(at).map(|(name, _)| name.clone()).unwrap_or_default();
            if let Some(path) = ansible::find_vars_file(&of_groups, &name) {
                let vars = self.vars_of(&path, 0);
                self.graph.groups[at].file_vars.extend(vars);
            }
        }
        if of_hosts.is_empty() {
            return;
        }
        for at in 0..self.graph.hosts.len() {
            let name = self.graph.hosts.get_index(at).map(|(name, _)| name.clone()).unwrap_or_default();
            if let Some(path) = ansible::find_vars_file(&of_hosts, &name) {
                let vars = self.vars_of(&path, 0);
                self.graph.hosts[at].vars.extend(vars);
            }
        }
    }

    /// Returns the variables of a file, or of all files in a directory.
    fn vars_of(&mut self, path: &Path, depth: usize) -> Hash {
        if path.is_dir() {
            let Some(names) = self.names_in(path) else { return Hash::default() };
            let mut vars = Hash::default();
            for name in names.iter().filter(|name| depth < MAX_DEPTH && !name.to_string_lossy().starts_with('.')) {
                let path = path.join(name);
                if path.is_dir() || ansible::has_vars(&name.to_string_lossy()) {
                    vars.extend(self.vars_of(&path, depth + 1));
                }
            }
            return vars;
        }
        let place = ProblemPlace::of(&Arc::from(path));
        let Some(text) = self.read(path) else { return Hash::default() };
        if text.starts_with("$ANSIBLE_VAULT") {
            let hint = "decrypt it, or let a program print the inventory";
            self.problems.error(&place, "the file is encrypted by Ansible's vault", hint);
            return Hash::default();
        }
        ansible::vars_of_text(&text, &place, &mut self.problems)
    }

    fn fail(&mut self, path: &Path, message: impl Into<EcoString>, hint: &str) {
        self.problems.error(&ProblemPlace::of(&Arc::from(path)), message, hint);
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
            if !std::mem::replace(&mut self.is_full, true) {
                let message = eco_format!("an inventory has at most {MAX_FILES} files, {MAX_DEPTH} directories deep");
                self.fail(path, message, "a link may lead back to a directory above");
            }
            return;
        }
        if self.is_full {
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
        if let Some(text) = self.read(path) {
            self.text(path, &text, depth);
        }
    }

    /// Reads a text, within the limits of the whole inventory.
    fn read(&mut self, path: &Path) -> Option<String> {
        let bytes = match self.options.trust.read(path, (MAX_BYTES - self.bytes) as u64) {
            Ok(bytes) => bytes,
            Err(distrust) => {
                self.distrusted(path, &distrust);
                return None;
            }
        };
        self.bytes += bytes.len();
        match String::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(_) => {
                self.fail(path, "it is not UTF-8", "");
                None
            }
        }
    }

    /// Reads the files of a directory in the order of their names.
    fn directory(&mut self, path: &Path, depth: usize) {
        let Some(names) = self.names_in(path) else { return };
        let names = names.into_iter().filter(|name| !is_ignored(&name.to_string_lossy()));
        let paths: Vec<PathBuf> = names.map(|name| path.join(name)).collect();
        if paths.is_empty() {
            self.fail(path, "the directory has no inventory in it", "files such as hosts.yaml are expected");
        }
        paths.iter().for_each(|path| self.any(path, depth + 1));
    }

    /// Returns the names in a directory, sorted.
    fn names_in(&mut self, path: &Path) -> Option<Vec<OsString>> {
        if let Err(distrust) = self.options.trust.directory(path) {
            self.distrusted(path, &distrust);
            return None;
        }
        let entries = std::fs::read_dir(path).and_then(|entries| {
            entries.take(MAX_FILES + 1).map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        match entries {
            Ok(mut names) => {
                names.sort_unstable();
                Some(names)
            }
            Err(error) => {
                self.fail(path, eco_format!("{error}"), "");
                None
            }
        }
    }

    /// Runs a program that prints an inventory as JSON.
    fn program(&mut self, path: &Path) {
        let hint = "a program prints JSON when it is called with --list";
        let json = match self.output(path, &["--list"]).and_then(|text| parsed(&text)) {
            Ok(json) => json,
            Err(why) => return self.fail(path, why, hint),
        };
        let place = ProblemPlace::of(&Arc::from(path));
        let root = own_format::node_of_json(&json);
        if own_format::is_own(&root) {
            return own_format::read(&root, &place, &mut self.graph, &mut self.problems);
        }
        self.ansible.push(path.to_owned());
        if ansible::read_json(&json, &place, &mut self.graph, &mut self.problems) == ansible::HostVars::Asked {
            self.host_vars(path, &place);
        }
    }

    /// Calls a program for the variables of each host.
    fn host_vars(&mut self, path: &Path, place: &ProblemPlace) {
        let names: Vec<EcoString> = self.graph.hosts.keys().cloned().collect();
        if names.len() > MAX_CALLS {
            let hint = "print the variables of all hosts below _meta.hostvars";
            return self.fail(path, eco_format!("it has {} hosts, and is called once for each", names.len()), hint);
        }
        for name in names {
            let text = self.output(path, &["--host", &name]);
            let json =
                text.and_then(|text| if text.trim().is_empty() { Ok(serde_json::json!({})) } else { parsed(&text) });
            match json {
                Ok(vars) => ansible::host_vars(&name, &vars, place, &mut self.graph, &mut self.problems),
                Err(why) => return self.fail(path, eco_format!("--host {name}: {why}"), ""),
            }
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
    fn text(&mut self, path: &Path, text: &str, depth: usize) {
        let place = ProblemPlace::of(&Arc::from(path));
        if !is_yaml(path, text) {
            self.ansible.push(path.to_owned());
            return ansible::read_ini(text, &place, &mut self.graph, &mut self.problems);
        }
        let before = self.problems.errors.len();
        let Some(root) = yaml_root(text, &place, &mut self.problems) else {
            if self.problems.errors.len() == before {
                self.problems.warning(&place, "there is nothing in it", "");
            }
            return;
        };
        if own_format::is_own(&root) {
            own_format::read(&root, &place, &mut self.graph, &mut self.problems);
        } else if bolt::is_bolt(&root) {
            if depth > 0 {
                return self.fail(path, "an inventory of Bolt is one file, not a part of a directory", "name the file");
            }
            self.bolt = bolt::read(&root, path, &place, self.options, &mut self.problems);
        } else if root.entries().is_some() {
            self.ansible.push(path.to_owned());
            ansible::read_yaml(&root, &place, &mut self.graph, &mut self.problems);
        } else {
            let hint = "begin with `hosts:` or `groups:`";
            self.problems.error(&place.at(root.at), eco_format!("groups are expected, not {}", root.what()), hint);
        }
    }
}

fn parsed(text: &str) -> Result<serde_json::Value, EcoString> {
    serde_json::from_str(text).map_err(|error| eco_format!("its output is not JSON: {error}"))
}

/// Returns true if a text is YAML, and not Ansible's INI format.
fn is_yaml(path: &Path, text: &str) -> bool {
    match path.extension().map(|end| end.to_string_lossy()).as_deref() {
        Some("yaml" | "yml" | "json") => return true,
        Some("ini") => return false,
        _ => {}
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    match lines.next() {
        Some(first) => {
            let code = first.split_once(" #").map_or(first, |(code, _)| code).trim_end();
            first.starts_with("---") || first.starts_with(['{', '%']) || code.ends_with(':') || code.contains(": ")
        }
        None => true,
    }
}

/// Returns true if a file of a directory is no inventory.
fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || RESERVED_DIRECTORIES.contains(&name) || IGNORED_ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
pub(crate) mod tests;
