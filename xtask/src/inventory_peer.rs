//! `cargo xtask inventory-peer`: compares kilter's reading of Ansible's inventories with `ansible-inventory --list`.
//!
//! It needs ansible-core (`pip install ansible-core`), so that no other task runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Inventories of the repository.
const EXAMPLES: &str = "crates/kilter-inventory/tests/ansible";
/// Number of random inventories, unless the command line gives another one.
const RANDOM: u64 = 20;

/// Group memberships and variables, by name.
type PeerFacts = (BTreeMap<String, BTreeSet<String>>, BTreeMap<String, Value>);

/// Compares all examples, and random inventories.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<String, Vec<String>> {
    let random = match options {
        [] => RANDOM,
        ["--random", number] => number.parse().map_err(|_| vec![format!("`{number}` is not a number")])?,
        _ => return Err(vec!["usage: cargo xtask inventory-peer [--random N]".into()]),
    };
    let built = Command::new(env!("CARGO")).args(["build", "-q", "-p", "kilter"]).current_dir(root).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err(vec!["kilter does not build".into()]);
    }
    let kilter = root.join("target/debug/kilter");
    let ansible = std::env::var_os("ANSIBLE_INVENTORY_PROGRAM").map_or("ansible-inventory".into(), PathBuf::from);
    let names = ["basic.ini", "priority.ini", "groups.yml", "program.sh", "asked.sh", "directory/inventory"];
    let mut paths: Vec<PathBuf> = names.map(|name| root.join(EXAMPLES).join(name)).into();
    let scratch = root.join("target/inventory-peer");
    std::fs::create_dir_all(&scratch).map_err(|error| vec![error.to_string()])?;
    for seed in 0..random {
        let path = scratch.join(format!("random-{seed}.ini"));
        std::fs::write(&path, PeerRandom(seed + 1).inventory()).map_err(|error| vec![error.to_string()])?;
        paths.push(path);
    }
    let mut problems = Vec::new();
    let (mut hosts, mut vars) = (0, 0);
    for path in &paths {
        match compare(path, &kilter, &ansible) {
            Ok((more_hosts, more_vars)) => (hosts, vars) = (hosts + more_hosts, vars + more_vars),
            Err(found) => problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", path.display()))),
        }
    }
    match problems.is_empty() {
        true => Ok(format!("{} inventories, {hosts} hosts, {vars} variables: all as in Ansible", paths.len())),
        false => Err(problems),
    }
}

/// Returns the numbers of hosts and variables.
fn compare(path: &Path, kilter: &Path, ansible: &Path) -> Result<(usize, usize), Vec<String>> {
    let one = |problem: String| vec![problem];
    let own =
        Command::new(kilter).args(["inventory", "--format", "json", "--trust"]).arg(path).arg("-i").arg(path).output();
    let own = of_kilter(&parsed(own, "kilter").map_err(one)?);
    let peer = Command::new(ansible).args(["--list", "-i"]).arg(path).env("LC_ALL", "C.UTF-8").output();
    let peer = of_ansible(&parsed(peer, "ansible-inventory").map_err(one)?);
    let mut problems = Vec::new();
    for name in own.0.keys().chain(peer.0.keys()).collect::<BTreeSet<_>>() {
        let (one, other) = (own.0.get(name), peer.0.get(name));
        let is_empty = |members: Option<&BTreeSet<String>>| members.is_none_or(BTreeSet::is_empty);
        if one != other && !(is_empty(one) && is_empty(other)) {
            problems.push(format!("the group {name}: kilter {one:?}, Ansible {other:?}"));
        }
    }
    for name in own.1.keys().chain(peer.1.keys()).collect::<BTreeSet<_>>() {
        let (one, other) = (own.1.get(name), peer.1.get(name));
        if one != other {
            problems.push(format!("the host {name}: kilter {one:?}, Ansible {other:?}"));
        }
    }
    let vars = own.1.values().filter_map(Value::as_object).map(serde_json::Map::len).sum();
    if problems.is_empty() { Ok((own.1.len(), vars)) } else { Err(problems) }
}

fn parsed(output: std::io::Result<std::process::Output>, program: &str) -> Result<Value, String> {
    let output = output.map_err(|error| {
        format!("cannot run {program}: {error}; pip install ansible-core, and name it with ANSIBLE_INVENTORY_PROGRAM")
    })?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{program}: {error}"))
}

fn texts(list: Option<&Value>) -> BTreeSet<String> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn of_kilter(document: &Value) -> PeerFacts {
    let groups = document["groups"].as_object().into_iter().flatten();
    let members = groups.map(|(name, group)| (name.clone(), texts(group.get("targets")))).collect();
    let targets = document["targets"].as_array().into_iter().flatten();
    let vars = targets.map(|target| (target["name"].as_str().unwrap_or_default().to_owned(), target["vars"].clone()));
    (members, vars.collect())
}

fn of_ansible(document: &Value) -> PeerFacts {
    let groups: BTreeMap<&String, &Value> =
        document.as_object().into_iter().flatten().filter(|(name, _)| *name != "_meta").collect();
    let mut members = BTreeMap::new();
    for name in groups.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![(*name).clone()]);
        let mut hosts = BTreeSet::new();
        while let Some(name) = open.pop() {
            if let Some(group) = groups.get(&name).filter(|_| seen.insert(name.clone())) {
                hosts.extend(texts(group.get("hosts")));
                open.extend(texts(group.get("children")));
            }
        }
        members.insert((*name).clone(), hosts);
    }
    // Hosts without variables have no entry.
    let all: BTreeSet<String> = members.values().flatten().cloned().collect();
    let hostvars = &document["_meta"]["hostvars"];
    let vars = |name: &String| hostvars.get(name).cloned().unwrap_or_else(|| serde_json::json!({}));
    let vars = all.iter().map(|name| (name.clone(), vars(name))).collect();
    (members, vars)
}

/// Generator of random inventories.
struct PeerRandom(u64);

impl PeerRandom {
    fn below(&mut self, limit: u64) -> u64 {
        // The constants are those of Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Returns groups that contain hosts and groups after them, with variables at all levels.
    fn inventory(&mut self) -> String {
        let mut text = String::new();
        let groups = 3 + self.below(8);
        for group in 0..groups {
            let _ = writeln!(text, "[g{group}]");
            for _ in 0..self.below(4) {
                let (host, name, value) = (self.below(10), self.below(6), self.value());
                let _ = writeln!(text, "h{host} v{name}={value}");
            }
            let _ = writeln!(text, "[g{group}:children]");
            for child in group + 1..groups {
                if self.below(4) == 0 {
                    let _ = writeln!(text, "g{child}");
                }
            }
            let _ = writeln!(text, "[g{group}:vars]");
            for _ in 0..self.below(5) {
                let (name, value) = (self.below(6), self.value());
                let _ = writeln!(text, "v{name}={value}");
            }
            if self.below(4) == 0 {
                let _ = writeln!(text, "ansible_group_priority={}", self.below(4));
            }
        }
        text
    }

    fn value(&mut self) -> String {
        let number = self.below(1000);
        match self.below(7) {
            0 => format!("{number}"),
            1 => format!("text{number}"),
            2 => format!("\"[{number},'a']\""),
            3 => "True".into(),
            4 => format!("{number}.{number}"),
            5 => format!("0{number}"),
            _ => format!("'{number}'"),
        }
    }
}
