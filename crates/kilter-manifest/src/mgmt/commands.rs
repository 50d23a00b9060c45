//! The kind `exec`.

use ecow::eco_format;
use kilter_model::Span;

use super::Reader;
use super::emit::{Lowered, Piece};
use super::fields::Fields;
use crate::diagnostic::Diagnostic;

/// A command as a list of words: split at white space, quotes and all, or handed to a shell.
fn command(fields: &Fields, prefix: &str) -> Option<(Vec<Piece>, Span)> {
    let given = fields.text(&format!("{prefix}cmd"));
    // The name is the command unless that is given.
    let (text, at) = given.or(prefix.is_empty().then_some((&fields.title, fields.at)))?;
    let word = |word: &str| Piece::Text(word.into(), at);
    let words: Vec<Piece> = match fields.text(&format!("{prefix}shell")) {
        Some((shell, _)) => vec![word(shell), word("-c"), word(text)],
        None => text.split_whitespace().map(word).collect(),
    };
    (!words.is_empty()).then_some((words, at))
}

/// A command has the directory of the main one; a program that changed it would hide from a guard that it cannot be asked.
fn check_directories(reader: &mut Reader, fields: &Fields) {
    let own = fields.text("cwd").map(|(cwd, _)| cwd);
    for name in ["watchcwd", "ifcwd", "nifcwd", "donecwd"] {
        if let Some((cwd, at)) = fields.text(name).filter(|(cwd, _)| own != Some(*cwd)) {
            let problem =
                Diagnostic::new(eco_format!("kilter has one directory for all commands, and `{name}` is `{cwd}`"));
            reader.report(problem.at(at).hint("give the same as `cwd`, or begin with `cd` in a shell"));
        }
    }
}

pub(super) fn lower(reader: &mut Reader, fields: &Fields, lowered: &mut Lowered) {
    let args = fields.texts("args");
    match (args, command(fields, "")) {
        (Some((_, at)), _) if fields.text("shell").is_some() => {
            let problem = Diagnostic::new("`args` are not for a shell").at(at);
            reader.report(problem.hint("take `shell` out, or write them into `cmd`"));
        }
        (Some((args, at)), _) => {
            let (program, place) = fields.text("cmd").map_or((&fields.title, fields.at), |(cmd, at)| (cmd, at));
            let mut words = vec![Piece::Text(program.clone(), place)];
            words.extend(args.iter().cloned());
            lowered.push("command", at, Piece::List(words, at));
        }
        (None, Some((words, at))) => lowered.push("command", at, Piece::List(words, at)),
        (None, None) => reader.report(Diagnostic::new("there is no command").at(fields.at)),
    }
    check_directories(reader, fields);
    for (prefix, attribute, is_guard) in
        [("watch", "watch", false), ("done", "done", false), ("if", "onlyif", true), ("nif", "unless", true)]
    {
        let Some((words, at)) = command(fields, prefix) else { continue };
        let words = Piece::List(words, at);
        lowered.push(attribute, at, if is_guard { Piece::List(vec![words], at) } else { words });
    }
    for name in ["cwd", "creates"] {
        if let Some((path, at)) = fields.text(name) {
            lowered.push(name, at, Piece::Text(path.clone(), at));
        }
    }
    for name in ["user", "group"] {
        if let Some((account, at)) = fields.text(name) {
            lowered.push(name, at, Piece::account(account, at));
        }
    }
    for name in ["watchfiles", "mtimes"] {
        if let Some((texts, at)) = fields.texts(name) {
            lowered.push(name, at, Piece::List(texts.clone(), at));
        }
    }
    if let Some((Piece::Mapping(env, place), at)) = fields.get("env").filter(|(env, _)| !is_empty(env)) {
        lowered.push("environment", at, Piece::Mapping(env.clone(), *place));
    }
    // The metaparameter is the only limit that mgmt has, and its guards are asked before a command, not behind it.
    lowered.imply("timeout", "0");
    lowered.imply("logoutput", "true");
    lowered.imply("verify", "false");
}

fn is_empty(piece: &Piece) -> bool {
    matches!(piece, Piece::Mapping(entries, _) if entries.is_empty())
}
