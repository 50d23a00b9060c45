//! Maps with `_plugin`: `yaml`, `env_var` and `prompt`.

use std::path::Path;
use std::sync::Arc;

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, Value};
use kilter_script::yaml::{Node, YamlKind};

use crate::load::{self, LoadOptions};
use crate::problem::{ProblemPlace, Problems};
use crate::prompts;
use crate::secrets;
use crate::yaml_1_1;

/// Key that names a plugin.
pub(super) const KEY: &str = "_plugin";

/// Maximum number of files inside of files.
const MAX_DEPTH: usize = 8;

/// Plugins, with their access to the system of the caller.
pub(super) struct Plugins<'a> {
    /// Directory of the inventory.
    pub(super) directory: &'a Path,
    pub(super) options: &'a LoadOptions<'a>,
}

impl Plugins<'_> {
    /// Returns the elements of a list, with those of files that it names.
    pub(super) fn elements(
        &self,
        node: &Node,
        file: &ProblemPlace,
        problems: &mut Problems,
        found: &mut Vec<(Node, ProblemPlace)>,
        depth: usize,
    ) {
        match &node.kind {
            YamlKind::Sequence(nodes) => {
                for node in nodes {
                    match node.get(KEY) {
                        Some(_) => self.elements(node, file, problems, found, depth),
                        None => found.push((node.clone(), file.clone())),
                    }
                }
            }
            YamlKind::Mapping(_) if node.get(KEY).is_some() => {
                if let Some((root, place)) = self.file(node, file, problems, depth) {
                    self.elements(&root, &place, problems, found, depth + 1);
                }
            }
            _ => problems.error(&file.at(node.at), eco_format!("a list is expected, not {}", node.what()), ""),
        }
    }

    /// Reads the file of the plugin `yaml`. Reports another plugin.
    fn file(
        &self,
        node: &Node,
        file: &ProblemPlace,
        problems: &mut Problems,
        depth: usize,
    ) -> Option<(Node, ProblemPlace)> {
        let place = file.at(node.at);
        let name = node.get(KEY).and_then(Node::text)?;
        if name != "yaml" {
            unknown(name, &place, problems, "a list has the plugin yaml only");
            return None;
        }
        let Some(path) = node.get("filepath").and_then(Node::text) else {
            problems.error(&place, "the plugin yaml has no file", "add `filepath:`");
            return None;
        };
        if depth >= MAX_DEPTH {
            problems.error(&place, eco_format!("files name each other more than {MAX_DEPTH} levels deep"), "");
            return None;
        }
        let path = self.directory.join(path.as_str());
        let inside = ProblemPlace::of(&Arc::from(path.as_path()));
        match self.options.trust.read(&path, load::YAML.bytes as u64) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => load::yaml_root(&text, &inside, problems).map(|root| (root, inside)),
                Err(_) => {
                    problems.error(&inside, "it is not UTF-8", "");
                    None
                }
            },
            Err(distrust) => {
                problems.error(&place, eco_format!("{}: {distrust}", path.display()), "");
                None
            }
        }
    }

    /// Returns the entries of a mapping, with the values of plugins and with passwords sealed.
    pub(super) fn hash(&self, node: &Node, file: &ProblemPlace, problems: &mut Problems) -> Hash {
        let entries = yaml_1_1::entries(node);
        let one = |(key, node): (EcoString, &Node)| {
            let value = self.value(node, file, problems, 0);
            let value = secrets::sealed(&key, value);
            (key, value)
        };
        entries.into_iter().map(one).collect()
    }

    fn value(&self, node: &Node, file: &ProblemPlace, problems: &mut Problems, depth: usize) -> Value {
        match &node.kind {
            YamlKind::Mapping(_) => match node.get(KEY).and_then(Node::text) {
                Some(name) => self.plugged(name, node, file, problems, depth),
                None => Value::Hash(Arc::new(self.hash(node, file, problems))),
            },
            YamlKind::Sequence(nodes) => Value::array(nodes.iter().map(|node| self.value(node, file, problems, depth))),
            YamlKind::Scalar { .. } => yaml_1_1::value(node),
        }
    }

    fn plugged(&self, name: &str, node: &Node, file: &ProblemPlace, problems: &mut Problems, depth: usize) -> Value {
        let place = file.at(node.at);
        let text = |key: &str| node.get(key).and_then(Node::text).cloned();
        match name {
            "yaml" => match self.file(node, file, problems, depth) {
                Some((root, place)) => self.value(&root, &place, problems, depth + 1),
                None => Value::Undef,
            },
            "env_var" => {
                let Some(variable) = text("var") else {
                    problems.error(&place, "the plugin env_var has no variable", "add `var:`");
                    return Value::Undef;
                };
                match (self.options.variable)(&variable).map(|value| value.into_string()) {
                    Some(Ok(value)) => Value::from(value),
                    Some(Err(_)) => {
                        problems.error(&place, eco_format!("the variable {variable} is not UTF-8"), "");
                        Value::Undef
                    }
                    None => match node.get("default") {
                        Some(default) => yaml_1_1::value(default),
                        None if node.get("optional").and_then(Node::as_bool) == Some(true) => Value::Undef,
                        None => {
                            let hint = "set it, or add `default:` or `optional: true`";
                            problems.error(&place, eco_format!("the environment has no variable {variable}"), hint);
                            Value::Undef
                        }
                    },
                }
            }
            "prompt" => match text("message") {
                Some(message) => prompts::question(&message),
                None => {
                    problems.error(&place, "the plugin prompt has no message", "add `message:`");
                    Value::Undef
                }
            },
            name => {
                unknown(name, &place, problems, "yaml, env_var and prompt are known");
                Value::Undef
            }
        }
    }
}

fn unknown(name: &str, place: &ProblemPlace, problems: &mut Problems, hint: &str) {
    problems.error(place, eco_format!("kilter has no plugin `{name}` of Bolt"), hint);
}
