//! Ansible's YAML format: groups with `hosts`, `vars` and `children`.

use ecow::{EcoString, eco_format};
use kilter_model::Hash;
use kilter_script::yaml::{Node, YamlKind};

use super::{add_hosts, checked_all, hosts, set_group_vars};
use crate::graph::InventoryGraph;
use crate::problem::{ProblemPlace, Problems};
use crate::yaml_1_1;

/// Reads a document into the graph.
pub(crate) fn read(root: &Node, file: &ProblemPlace, graph: &mut InventoryGraph, problems: &mut Problems) {
    if root.get("plugin").is_some() {
        let hint = "let a program print the inventory: #!/bin/sh and exec ansible-inventory -i FILE --list";
        return problems.error(&file.at(root.at), "plugins of Ansible make this inventory, and kilter runs none", hint);
    }
    for (name, node) in yaml_1_1::entries(root) {
        group(&name, node, file, graph, problems);
    }
}

fn group(name: &EcoString, node: &Node, file: &ProblemPlace, graph: &mut InventoryGraph, problems: &mut Problems) {
    let place = file.at(node.at);
    match graph.group(name, &place, problems) {
        Some(group) => group.is_declared = true,
        None => return,
    }
    if node.is_null() {
        return;
    }
    if node.entries().is_none() {
        let message = eco_format!("the group `{name}` is a mapping, not {}", node.what());
        return problems.error(&place, message, "hosts, vars and children are its keys");
    }
    for (key, value) in yaml_1_1::entries(node) {
        let place = file.at(value.at);
        if value.is_null() {
            continue;
        }
        let entries = match &value.kind {
            YamlKind::Mapping(_) => yaml_1_1::entries(value),
            // One name stands for a mapping with this key.
            YamlKind::Scalar { text, .. } if key != "vars" => [(text.clone(), &NULL)].into_iter().collect(),
            _ => {
                let message = eco_format!("`{key}` of the group `{name}` is a mapping, not {}", value.what());
                let hint = "write each name as a key: `web1:`";
                problems.error(&place, message, hint);
                continue;
            }
        };
        match key.as_str() {
            "hosts" => entries.into_iter().for_each(|(pattern, node)| {
                let place = file.at(if node.at.line > 0 { node.at } else { value.at });
                if !node.is_null() && node.entries().is_none() {
                    let message = eco_format!("the variables of `{pattern}` are a mapping, not {}", node.what());
                    return problems.error(&place, message, "");
                }
                let vars = vars(node, file, problems);
                match hosts(&pattern) {
                    Ok(found) => add_hosts(graph, name, found, &vars, &place, problems),
                    Err(fault) => problems.error(&place, fault, "such as web1, web1:2222 or web[01:20]"),
                }
            }),
            "vars" => {
                let vars = vars(value, file, problems);
                set_group_vars(graph, name, vars, &place, problems);
            }
            "children" => entries.into_iter().for_each(|(child, node)| {
                group(&child, node, file, graph, problems);
                graph.add_child(name, &child, &file.at(node.at), problems);
            }),
            other => {
                let message = eco_format!("`{other}` of the group `{name}` has no effect");
                problems.warning(&place, message, "hosts, vars and children are the keys of a group");
            }
        }
    }
}

/// A null without a position.
static NULL: Node = Node {
    kind: YamlKind::Scalar { text: EcoString::new(), plain: true },
    at: kilter_script::TextPosition { line: 0, column: 0 },
};

/// Returns the variables of a mapping.
pub(super) fn vars(node: &Node, file: &ProblemPlace, problems: &mut Problems) -> Hash {
    let entries = yaml_1_1::entries(node).into_iter();
    checked_all(entries.map(|(key, node)| (key, yaml_1_1::value(node), file.at(node.at))), problems)
}
