//! The JSON that a program prints for `--list`.

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, Value, from_json};
use serde_json::Value as Json;

use super::{checked, set_group_vars, set_vars};
use crate::destination::word;
use crate::graph::InventoryGraph;
use crate::problem::{ProblemPlace, Problems};

/// Key of the variables of all hosts.
const META: &str = "_meta";

/// Source of the variables of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostVars {
    /// The document has them.
    Given,
    /// The program prints them, host by host.
    Asked,
}

/// Reads a document into the graph.
pub(crate) fn read(root: &Json, file: &ProblemPlace, graph: &mut InventoryGraph, problems: &mut Problems) -> HostVars {
    let Json::Object(groups) = root else {
        problems.error(file, "its output is a JSON object of groups", "");
        return HostVars::Given;
    };
    for (name, data) in groups.iter().filter(|(name, _)| *name != META) {
        group(name, data, file, graph, problems);
    }
    let Some(meta) = groups.get(META) else { return HostVars::Asked };
    for (host, vars) in meta.get("hostvars").and_then(Json::as_object).into_iter().flatten() {
        host_vars(host, vars, file, graph, problems);
    }
    HostVars::Given
}

/// Sets the variables of a host. A host that is in no group does not exist.
pub(crate) fn host_vars(
    host: &str,
    vars: &Json,
    file: &ProblemPlace,
    graph: &mut InventoryGraph,
    problems: &mut Problems,
) {
    let Some(vars) = vars.as_object() else {
        return problems.error(file, eco_format!("the variables of `{host}` are no JSON object"), "");
    };
    let vars = hash(vars, file, problems);
    if let Some(host) = graph.hosts.get_mut(host) {
        set_vars(host, &vars);
    }
}

fn hash(vars: &serde_json::Map<String, Json>, file: &ProblemPlace, problems: &mut Problems) -> Hash {
    let one = |(key, value): (&String, &Json)| {
        let value = checked(key, from_json(value), file, problems);
        (EcoString::from(key), value)
    };
    vars.iter().map(one).collect()
}

fn group(name: &str, data: &Json, file: &ProblemPlace, graph: &mut InventoryGraph, problems: &mut Problems) {
    match graph.group(name, file, problems) {
        Some(group) => group.is_declared = true,
        None => return,
    }
    let fields = match data {
        Json::Array(hosts) => return members(name, hosts, file, graph, problems),
        Json::Object(fields) => fields,
        _ => return problems.error(file, eco_format!("the group `{name}` is a list or an object"), ""),
    };
    if !["hosts", "vars", "children"].iter().any(|key| fields.contains_key(*key)) {
        // A host with its variables, in the place of a group.
        members(name, &[Json::from(name)], file, graph, problems);
        let vars = hash(fields, file, problems);
        return set_group_vars(graph, name, vars, file, problems);
    }
    match fields.get("hosts") {
        Some(Json::Array(hosts)) => members(name, hosts, file, graph, problems),
        Some(Json::Null) | None => {}
        Some(_) => problems.error(file, eco_format!("`hosts` of the group `{name}` is a list"), ""),
    }
    match fields.get("vars") {
        Some(Json::Object(vars)) => {
            let vars = hash(vars, file, problems);
            set_group_vars(graph, name, vars, file, problems);
        }
        Some(Json::Null) | None => {}
        Some(_) => problems.error(file, eco_format!("`vars` of the group `{name}` is an object"), ""),
    }
    match fields.get("children") {
        Some(Json::Array(children)) => {
            for child in children.iter().filter_map(Json::as_str) {
                graph.add_child(name, child, file, problems);
                if let Some(group) = graph.group(child, file, problems) {
                    group.is_declared = true;
                }
            }
        }
        Some(Json::Null) | None => {}
        Some(_) => problems.error(file, eco_format!("`children` of the group `{name}` is a list"), ""),
    }
}

fn members(group: &str, hosts: &[Json], file: &ProblemPlace, graph: &mut InventoryGraph, problems: &mut Problems) {
    for host in hosts {
        match host.as_str().map(|host| word("name of a host", host)) {
            Some(Ok(host)) => graph.add_member(group, &host, file, problems),
            Some(Err(fault)) => problems.error(file, eco_format!("in the group `{group}`: {fault}"), ""),
            None => problems.error(
                file,
                eco_format!("`{}` in the group `{group}` is no name of a host", Value::from(host.to_string())),
                "",
            ),
        }
    }
}
