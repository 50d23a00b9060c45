//! Ansible's inventories: INI, YAML, the JSON of programs, and files of variables beside them.
//!
//! Jinja in values and Ansible's vault are problems, because kilter evaluates neither.

mod connection;
mod ini;
mod json;
pub(crate) mod literal;
mod vars_files;
mod words;
mod yaml;

use ecow::{EcoString, eco_format};
use kilter_model::{Hash, Value};

use crate::destination::{host_and_port, word};
use crate::graph::{HostEntry, InventoryGraph};
use crate::host_range;
use crate::load;
use crate::problem::{ProblemPlace, Problems};
use crate::secrets;

pub(crate) use connection::apply;
pub(crate) use ini::read as read_ini;
pub(crate) use json::{HostVars, host_vars, read as read_json};
pub(crate) use vars_files::{VarsDirectory, find as find_vars_file, has_vars};
pub(crate) use yaml::read as read_yaml;

/// Variable with the priority of a group among those of its level.
const PRIORITY: &str = "ansible_group_priority";

/// Returns the hosts of a pattern in an inventory, and the port.
///
/// # Errors
/// The fault of a range, or of a name.
fn hosts(pattern: &str) -> Result<(Vec<EcoString>, Option<u16>), EcoString> {
    if pattern.ends_with(':') {
        return Err(eco_format!("`{pattern}` ends with `:`, which a port follows"));
    }
    let (name, port) = divided(pattern)?;
    let names = host_range::expand(name)?;
    names.iter().try_for_each(|name| word("name of a host", name).map(|_| ()))?;
    Ok((names, port))
}

/// Divides a port from a name, which may have ranges.
fn divided(pattern: &str) -> Result<(&str, Option<u16>), EcoString> {
    if !host_range::has_range(pattern) {
        return host_and_port(pattern);
    }
    match pattern.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && !port.is_empty() => {
            let port = port.parse().map_err(|_| eco_format!("`{port}` is not a port: 1 to 65535 is expected"))?;
            Ok((name, Some(port)))
        }
        _ => Ok((pattern, None)),
    }
}

/// Adds hosts to a group, with their port and variables.
fn add_hosts(
    graph: &mut InventoryGraph,
    group: &str,
    found: (Vec<EcoString>, Option<u16>),
    vars: &Hash,
    place: &ProblemPlace,
    problems: &mut Problems,
) {
    let (names, port) = found;
    for name in names {
        let is_new = !graph.hosts.contains_key(&name);
        graph.add_member(group, &name, place, problems);
        let Some(host) = graph.host(&name, place, problems) else { return };
        if let Some(port) = port.filter(|_| is_new) {
            host.vars.insert("ansible_port".into(), Value::Integer(port.into()));
        }
        set_vars(host, vars);
    }
}

fn set_vars(host: &mut HostEntry, vars: &Hash) {
    host.vars.extend(vars.iter().map(|(key, value)| (key.clone(), value.clone())));
}

/// Sets variables of a group.
fn set_group_vars(
    graph: &mut InventoryGraph,
    group: &str,
    mut vars: Hash,
    place: &ProblemPlace,
    problems: &mut Problems,
) {
    let priority = vars.shift_remove(PRIORITY);
    let Some(group) = graph.group(group, place, problems) else { return };
    match priority.as_ref().map(|value| value.as_integer().or_else(|| value.as_str()?.trim().parse().ok())) {
        Some(Some(priority)) => group.priority = priority,
        Some(None) => problems.error(place, eco_format!("`{PRIORITY}` is not a whole number"), "such as 10"),
        None => {}
    }
    group.vars.extend(vars);
}

/// Returns a variable with its passwords sealed. Reports a value that Ansible would evaluate.
fn checked(key: &str, value: Value, place: &ProblemPlace, problems: &mut Problems) -> Value {
    if holds_template(&value) {
        let hint = "kilter evaluates no templates: write the value, or let a program print the inventory";
        problems.error(place, eco_format!("the variable `{key}` has a template of Jinja"), hint);
    }
    secrets::sealed(key, value)
}

fn holds_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{") || text.contains("{%"),
        Value::Array(values) => values.iter().any(holds_template),
        Value::Hash(entries) => entries.values().any(holds_template),
        _ => false,
    }
}

/// Returns variables with their passwords sealed, with the place of each.
fn checked_all(entries: impl IntoIterator<Item = (EcoString, Value, ProblemPlace)>, problems: &mut Problems) -> Hash {
    let one = |(key, value, place): (EcoString, Value, ProblemPlace)| {
        let value = checked(&key, value, &place, problems);
        (key, value)
    };
    entries.into_iter().map(one).collect()
}

/// Returns the variables of a file.
pub(crate) fn vars_of_text(text: &str, file: &ProblemPlace, problems: &mut Problems) -> Hash {
    let Some(root) = load::yaml_root(text, file, problems) else { return Hash::default() };
    match root.entries() {
        Some(_) => yaml::vars(&root, file, problems),
        None => {
            if !root.is_null() {
                let message = eco_format!("a mapping of variables is expected, not {}", root.what());
                problems.error(&file.at(root.at), message, "");
            }
            Hash::default()
        }
    }
}

#[cfg(test)]
mod tests;
