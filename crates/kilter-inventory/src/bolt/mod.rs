//! Bolt's `inventory.yaml`, version 2: groups with targets, `config`, `vars`, `facts` and `features`.
//!
//! Data of all groups of a target apply, wherever it is selected. The first group wins, in depth-first order; a group
//! inside wins over the one around it, and the target's own data over all groups.

mod collect;
mod config;
mod plugin;

use std::path::Path;

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, suggest};
use kilter_script::yaml::{Node, YamlKind};
use rustc_hash::FxHashMap;

use crate::inventory::Inventory;
use crate::load::LoadOptions;
use crate::problem::{ProblemPlace, Problems};
use plugin::Plugins;

/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 32;
/// Maximum number of targets.
const MAX_TARGETS: usize = 100_000;
/// Maximum number of groups.
const MAX_GROUPS: usize = 5_000;

/// Keys at the top, and of a group.
const GROUP: [&str; 8] = ["name", "groups", "targets", "config", "vars", "facts", "features", "version"];
const TARGET: [&str; 7] = ["name", "uri", "alias", "config", "vars", "facts", "features"];

/// Returns true if a document has the form of Bolt's format.
pub(crate) fn is_bolt(root: &Node) -> bool {
    let Some(entries) = root.entries() else { return false };
    let is_list = |key: &str| root.get(key).is_some_and(|node| matches!(node.kind, YamlKind::Sequence(_)));
    let is_plugin = |key: &str| root.get(key).is_some_and(|node| node.get(plugin::KEY).is_some());
    let is_marked = is_list("groups") || is_list("targets") || is_plugin("groups") || is_plugin("targets");
    let keys = || entries.iter().filter_map(|(key, _)| key.text());
    is_marked
        || (keys().any(|key| key == "config" || key == "version") && keys().all(|key| GROUP.contains(&key.as_str())))
}

/// Reads a document, and resolves all data of its targets.
pub(crate) fn read(
    root: &Node,
    path: &Path,
    file: &ProblemPlace,
    options: &LoadOptions<'_>,
    problems: &mut Problems,
) -> Option<Inventory> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut reader = BoltReader {
        plugins: Plugins { directory, options },
        problems,
        groups: Vec::new(),
        targets: Vec::new(),
        names: FxHashMap::default(),
        strings: Vec::new(),
    };
    reader.group(root, file, None, 0);
    reader.references();
    collect::resolve(reader.groups, reader.targets, reader.problems)
}

/// Data that groups and targets have.
#[derive(Clone, Debug, Default)]
struct Data {
    config: Hash,
    vars: Hash,
    facts: Hash,
    features: Vec<EcoString>,
}

#[derive(Debug)]
struct BoltGroup {
    name: EcoString,
    data: Data,
    /// Groups inside, by their index.
    groups: Vec<usize>,
    /// Targets directly inside, by their index.
    targets: Vec<usize>,
}

#[derive(Debug)]
struct BoltTarget {
    name: EcoString,
    uri: Option<EcoString>,
    aliases: Vec<EcoString>,
    data: Data,
    place: ProblemPlace,
}

/// Use of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedEntry {
    Group,
    Target(usize),
    Alias(usize),
}

struct BoltReader<'a> {
    plugins: Plugins<'a>,
    problems: &'a mut Problems,
    groups: Vec<BoltGroup>,
    targets: Vec<BoltTarget>,
    names: FxHashMap<EcoString, NamedEntry>,
    /// Targets that a group names by a text: the group, its place among the targets, the text and its place.
    strings: Vec<(usize, usize, EcoString, ProblemPlace)>,
}

impl BoltReader<'_> {
    /// Reads a group. Returns its index. The group at the top is `all`.
    fn group(&mut self, node: &Node, file: &ProblemPlace, name: Option<&Node>, depth: usize) -> Option<usize> {
        let place = file.at(node.at);
        if depth > MAX_DEPTH || self.groups.len() >= MAX_GROUPS {
            let message = eco_format!("an inventory has at most {MAX_GROUPS} groups, {MAX_DEPTH} levels deep");
            self.problems.error(&place, message, "divide it into several inventories");
            return None;
        }
        let name = match (depth, name) {
            (0, _) => EcoString::from("all"),
            (_, Some(name)) => name.text()?.clone(),
            (_, None) => {
                self.problems.error(&place, "the group has no name", "add `name:`");
                return None;
            }
        };
        self.claim(&name, NamedEntry::Group, &place);
        self.known_keys(node, file, &GROUP, if depth == 0 { "" } else { "version" });
        let index = self.groups.len();
        let data = self.data(node, file);
        self.groups.push(BoltGroup { name, data, groups: Vec::new(), targets: Vec::new() });
        for (node, file) in self.elements(node, "targets", file) {
            self.target(&node, &file, index);
        }
        for (node, file) in self.elements(node, "groups", file) {
            if node.entries().is_none() {
                let message = eco_format!("a group is a mapping with `name`, not {}", node.what());
                self.problems.error(&file.at(node.at), message, "");
            } else if let Some(inside) = self.group(&node, &file, node.get("name"), depth + 1) {
                self.groups[index].groups.push(inside);
            }
        }
        Some(index)
    }

    /// Returns the elements of a list, with those that plugins give.
    fn elements(&mut self, node: &Node, key: &str, file: &ProblemPlace) -> Vec<(Node, ProblemPlace)> {
        let Some(list) = node.get(key) else { return Vec::new() };
        let mut found = Vec::new();
        self.plugins.elements(list, file, self.problems, &mut found, 0);
        found
    }

    fn known_keys(&mut self, node: &Node, file: &ProblemPlace, known: &[&str], without: &str) {
        for (key, _) in node.entries().unwrap_or_default() {
            let name = key.text().map_or("", EcoString::as_str);
            if !known.contains(&name) || name == without {
                let hint = match suggest::nearest(name, known.iter().copied()) {
                    Some(near) => eco_format!("did you mean `{near}`?"),
                    None => eco_format!("known are {}", known.join(", ")),
                };
                self.problems.error(&file.at(key.at), eco_format!("there is no key `{name}`"), hint);
            }
        }
    }

    fn data(&mut self, node: &Node, file: &ProblemPlace) -> Data {
        if let Some(config) = node.get("config") {
            config::check(config, file, self.problems);
        }
        let mut hash = |key: &str| match node.get(key) {
            Some(entries) if entries.entries().is_some() => self.plugins.hash(entries, file, self.problems),
            Some(other) => {
                let message = eco_format!("`{key}` is a mapping, not {}", other.what());
                self.problems.error(&file.at(other.at), message, "");
                Hash::default()
            }
            None => Hash::default(),
        };
        let (config, vars, facts) = (hash("config"), hash("vars"), hash("facts"));
        let features = match node.get("features").map(|node| &node.kind) {
            Some(YamlKind::Sequence(nodes)) => nodes.iter().filter_map(Node::text).cloned().collect(),
            _ => Vec::new(),
        };
        Data { config, vars, facts, features }
    }

    fn target(&mut self, node: &Node, file: &ProblemPlace, group: usize) {
        let place = file.at(node.at);
        if self.targets.len() + self.strings.len() >= MAX_TARGETS {
            if self.targets.len() + self.strings.len() == MAX_TARGETS {
                self.strings.push((group, 0, EcoString::new(), place.clone()));
                let message = eco_format!("an inventory has at most {MAX_TARGETS} targets");
                self.problems.error(&place, message, "divide it into several inventories");
            }
            return;
        }
        if node.entries().is_none() {
            match node.text().filter(|_| !node.is_null()) {
                Some(text) => {
                    let at = self.groups[group].targets.len();
                    // The place is filled in after all names are known.
                    self.groups[group].targets.push(usize::MAX);
                    self.strings.push((group, at, text.clone(), place));
                }
                None => {
                    let message =
                        eco_format!("a target is a name, or a mapping with `uri` or `name`, not {}", node.what());
                    self.problems.error(&place, message, "");
                }
            }
            return;
        }
        self.known_keys(node, file, &TARGET, "");
        let uri = node.get("uri").and_then(Node::text).cloned();
        let Some(name) = node.get("name").and_then(Node::text).cloned().or_else(|| uri.clone()) else {
            return self.problems.error(&place, "the target has no name", "add `uri:`, or `name:`");
        };
        let aliases: Vec<EcoString> = match node.get("alias").map(|node| &node.kind) {
            Some(YamlKind::Sequence(nodes)) => nodes.iter().filter_map(Node::text).cloned().collect(),
            Some(YamlKind::Scalar { text, .. }) => vec![text.clone()],
            _ => Vec::new(),
        };
        let data = self.data(node, file);
        let index = match self.names.get(&name) {
            // The data of the first definition win.
            Some(NamedEntry::Target(index)) => {
                let index = *index;
                let first = &mut self.targets[index];
                first.uri = first.uri.take().or(uri);
                let before = std::mem::take(&mut first.data);
                first.data = collect::merged(data, before);
                index
            }
            _ => {
                self.claim(&name, NamedEntry::Target(self.targets.len()), &place);
                self.targets.push(BoltTarget { name, uri, aliases: Vec::new(), data, place: place.clone() });
                self.targets.len() - 1
            }
        };
        for alias in aliases {
            self.claim(&alias, NamedEntry::Alias(index), &place);
            self.targets[index].aliases.push(alias);
        }
        self.groups[group].targets.push(index);
    }

    /// Takes a name for one use. Names, aliases and groups share one space of names.
    fn claim(&mut self, name: &EcoString, named: NamedEntry, place: &ProblemPlace) {
        match self.names.get(name) {
            Some(known) if *known != named => {
                let word = |named: &NamedEntry| match named {
                    NamedEntry::Group => "group",
                    NamedEntry::Target(_) => "target",
                    NamedEntry::Alias(_) => "alias",
                };
                let message = eco_format!(
                    "`{name}` is the name of a {} already, and a {} cannot have it",
                    word(known),
                    word(&named)
                );
                self.problems.error(place, message, "rename one of them");
            }
            _ => {
                self.names.insert(name.clone(), named);
            }
        }
    }

    /// Fills in the targets that groups name by a text.
    fn references(&mut self) {
        for (group, at, text, place) in std::mem::take(&mut self.strings) {
            let index = match self.names.get(&text) {
                Some(NamedEntry::Target(index) | NamedEntry::Alias(index)) => *index,
                Some(NamedEntry::Group) => {
                    let message = eco_format!("`{text}` is the name of a group, and a target is expected");
                    self.problems.error(&place, message, "groups inside are below `groups`");
                    continue;
                }
                None => {
                    self.names.insert(text.clone(), NamedEntry::Target(self.targets.len()));
                    let target = BoltTarget {
                        name: text.clone(),
                        uri: Some(text),
                        aliases: Vec::new(),
                        data: Data::default(),
                        place,
                    };
                    self.targets.push(target);
                    self.targets.len() - 1
                }
            };
            if let Some(slot) = self.groups[group].targets.get_mut(at) {
                *slot = index;
            }
        }
        self.groups.iter_mut().for_each(|group| group.targets.retain(|index| *index != usize::MAX));
    }
}

#[cfg(test)]
mod tests;
