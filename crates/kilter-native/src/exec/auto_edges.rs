//! Automatic dependencies of commands.

use kilter_model::{Attributes, Value};
use kilter_provider::{AutoEdge, Direction, Match};
use rustc_hash::FxHashSet;

use super::command::{DeclaredCommand, others_of, shell_of};
use super::command_runner::search_path;
use crate::value_text::word;

/// Requests edges to the directories, accounts and programs that the commands of a resource need.
pub(super) fn auto_edges(name: &str, should: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
    let title = Value::from(name);
    let command = DeclaredCommand::new("command", should.get("command").unwrap_or(&title), should);
    let others: Vec<DeclaredCommand<'_>> = others_of(should).collect();
    let mut seen = FxHashSet::default();
    let own = others.iter().filter_map(DeclaredCommand::shown_cwd);
    for cwd in should.text("cwd").into_iter().chain(own) {
        if cwd != "/" && seen.insert(cwd.to_owned()) {
            add(AutoEdge { type_name: "file", name: cwd, by: Match::PathOrAncestor, direction: Direction::Before });
        }
    }
    for (attribute, type_name) in [("user", "user"), ("group", "group")] {
        if let Some(account) = should.get(attribute) {
            add(AutoEdge::require(type_name, &word(account)));
        }
    }
    seen.clear();
    let programs = std::iter::once(&command).chain(&others).filter_map(DeclaredCommand::program);
    let shells = others.iter().filter_map(DeclaredCommand::shell).chain(shell_of(should));
    let search_path = search_path(should);
    for program in programs.chain(shells.map(str::to_owned)) {
        if !seen.contains(&program) {
            add_program(&program, &search_path, add);
            seen.insert(program);
        }
    }
}

/// Requests an edge to a program: to its file, or to the package that contains it in the search path.
fn add_program(program: &str, search_path: &str, add: &mut dyn FnMut(AutoEdge<'_>)) {
    if program.starts_with('/') {
        add(AutoEdge::require("file", program));
    } else if !program.contains('/') {
        let mut path = String::new();
        for directory in search_path.split(':').filter(|directory| directory.starts_with('/')) {
            path.clear();
            path.extend([directory.trim_end_matches('/'), "/", program]);
            add(AutoEdge { by: Match::Owner, ..AutoEdge::require("file", &path) });
        }
    }
}
