//! Ansible's INI format: `[group]`, `[group:children]`, `[group:vars]`.

use ecow::{EcoString, eco_format};
use kilter_model::Hash;

use super::{add_hosts, checked, hosts, literal, set_group_vars, words};
use crate::graph::InventoryGraph;
use crate::problem::{ProblemPlace, Problems};

/// Kind of the lines of a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Hosts,
    Children,
    Vars,
}

/// Reads a text into the graph.
pub(crate) fn read(text: &str, file: &ProblemPlace, graph: &mut InventoryGraph, problems: &mut Problems) {
    let mut group = EcoString::from("ungrouped");
    let mut section = Section::Hosts;
    declare(graph, "ungrouped", file, problems);
    declare(graph, "all", file, problems);
    for (at, line) in text.lines().enumerate() {
        let place = file.line(at + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = header(line) {
            match header {
                Ok((name, kind)) => {
                    (group, section) = (name.into(), kind);
                    match kind {
                        // A section of variables does not declare its group.
                        Section::Vars => {
                            graph.group(name, &place, problems);
                        }
                        Section::Hosts | Section::Children => declare(graph, name, &place, problems),
                    }
                }
                Err(message) => {
                    problems.error(&place, message, "[GROUP], [GROUP:children] and [GROUP:vars] are sections")
                }
            }
            continue;
        }
        match section {
            Section::Hosts => match host(line, &place, problems) {
                Ok((found, vars)) => add_hosts(graph, &group, found, &vars, &place, problems),
                Err((message, hint)) => problems.error(&place, message, hint),
            },
            Section::Children => {
                let name = line.split_once('#').map_or(line, |(name, _)| name).trim();
                match is_group(name) {
                    true => graph.add_child(&group, name, &place, problems),
                    false => {
                        problems.error(&place, eco_format!("`{}` is not a name of a group", name.escape_debug()), "")
                    }
                }
            }
            Section::Vars => match line.split_once('=') {
                Some((key, value)) => {
                    let key = key.trim();
                    let value = checked(key, literal::value(value.trim()), &place, problems);
                    set_group_vars(graph, &group, Hash::from_iter([(key.into(), value)]), &place, problems);
                }
                None => problems.error(&place, "a line of variables has no `=`", "write NAME=VALUE"),
            },
        }
    }
}

fn declare(graph: &mut InventoryGraph, name: &str, place: &ProblemPlace, problems: &mut Problems) {
    if let Some(group) = graph.group(name, place, problems) {
        group.is_declared = true;
    }
}

fn is_group(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':' || c == ']')
}

/// Reads the line of a section. None if it is another line.
fn header(line: &str) -> Option<Result<(&str, Section), EcoString>> {
    let inside = line.strip_prefix('[')?;
    let (inside, after) = inside.split_once(']')?;
    let after = after.trim_start();
    if !after.is_empty() && !after.starts_with('#') {
        return None;
    }
    let (name, kind) = match inside.split_once(':') {
        Some((name, kind)) => (name, kind),
        None => (inside, "hosts"),
    };
    let section = match kind {
        "hosts" => Section::Hosts,
        "children" => Section::Children,
        "vars" => Section::Vars,
        other => return Some(Err(eco_format!("there is no kind of section `{other}`"))),
    };
    match is_group(name) {
        true => Some(Ok((name, section))),
        false => Some(Err(eco_format!("`{}` is not a name of a group", name.escape_debug()))),
    }
}

type Host = ((Vec<EcoString>, Option<u16>), Hash);

/// Reads the line of a host: its name, and variables.
fn host(line: &str, place: &ProblemPlace, problems: &mut Problems) -> Result<Host, (EcoString, &'static str)> {
    let words = words::split(line).map_err(|fault| (fault, "a value with spaces needs quotes around it"))?;
    let Some((name, rest)) = words.split_first() else { return Err(("the line has no host".into(), "")) };
    if name == "---" || (rest.is_empty() && name.ends_with(':')) {
        return Err((eco_format!("`{name}` begins YAML, and this is an INI file"), "rename the file to *.yaml"));
    }
    let found = hosts(name).map_err(|fault| (fault, "such as web1, web1:2222 or web[01:20]"))?;
    let mut vars = Hash::default();
    for word in rest {
        let Some((key, value)) = word.split_once('=') else {
            // The word may be a part of a password.
            return Err((
                "a word after the host has no `=`".into(),
                "write NAME=VALUE; a value with spaces needs quotes",
            ));
        };
        vars.insert(key.into(), checked(key, literal::value(value), place, problems));
    }
    Ok((found, vars))
}
