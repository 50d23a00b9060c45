//! The keys `suitable` and `default`.

use ecow::eco_format;

use super::read::MetadataReader;
use crate::condition::{Clause, Condition};
use crate::yaml::{Node, YamlKind};

/// Combination of the clauses in a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// All clauses must hold: `suitable`.
    And,
    /// At least one clause must hold: `default`.
    Or,
}

/// Reads a condition: a boolean, a clause, a list of clauses, or `{commands: [NAME, not OTHER]}`.
pub(super) fn read(key: &str, node: &Node, joined: Joined, reader: &mut MetadataReader) -> Condition {
    if let Some(truth) = node.as_bool() {
        return Condition::Constant(truth);
    }
    let clauses = match &node.kind {
        YamlKind::Scalar { text, .. } if matches!(text.as_str(), "true" | "false") => {
            return Condition::Constant(text == "true");
        }
        YamlKind::Scalar { .. } => clause(key, node, reader).into_iter().collect(),
        YamlKind::Sequence(nodes) => nodes.iter().filter_map(|one| clause(key, one, reader)).collect(),
        YamlKind::Mapping(entries) => {
            for (unknown, _) in entries.iter().filter(|(name, _)| name.text().is_none_or(|name| name != "commands")) {
                reader.fault_with(
                    unknown,
                    eco_format!("`{key}` takes the key `commands`, or a list of clauses"),
                    EXAMPLE,
                );
            }
            return Condition::Every(commands(key, node, reader));
        }
    };
    match joined {
        Joined::And => Condition::Every(clauses),
        Joined::Or => Condition::Any(clauses),
    }
}

const EXAMPLE: &str = "such as commands: [apt-get, not dnf]";

fn clause(key: &str, node: &Node, reader: &mut MetadataReader) -> Option<Clause> {
    if let (Some(truth), YamlKind::Scalar { .. }) = (node.as_bool(), &node.kind) {
        return Clause::parse(if truth { "true" } else { "false" }).ok();
    }
    let Some(text) = node.text().filter(|_| !node.is_null()) else {
        reader.fault(node, eco_format!("a clause of `{key}` is a text, not {}", node.what()));
        return None;
    };
    match Clause::parse(text) {
        Ok(clause) => Some(clause),
        Err((message, hint)) => {
            reader.fault_hint(node, eco_format!("`{text}` is not a clause of `{key}`: {message}"), hint);
            None
        }
    }
}

fn commands(key: &str, node: &Node, reader: &mut MetadataReader) -> Vec<Clause> {
    let Some(list) = node.get("commands") else { return Vec::new() };
    let YamlKind::Sequence(names) = &list.kind else {
        reader.fault_with(list, eco_format!("`{key}.commands` is a list of names, not {}", list.what()), EXAMPLE);
        return Vec::new();
    };
    let mut clauses = Vec::new();
    for name in names {
        match name.text().map(|text| text.trim()) {
            Some(text) if !name.is_null() && !text.is_empty() && text != "not" => clauses.push(Clause::command(text)),
            _ => reader
                .fault(name, eco_format!("an entry of `{key}.commands` is the name of a command, not {}", name.what())),
        }
    }
    clauses
}
