//! The kind `exec`.

use kilter_model::Span;

use super::GraphReader;
use super::emit::{Lowered, Piece};
use super::fields::Fields;
use crate::diagnostic::Diagnostic;

/// Working directory of commands without one.
const ROOT: &str = "/";

/// Returns a command as a list of words: split at white space, or passed to a shell.
fn command(fields: &Fields, prefix: &str) -> Option<(Vec<Piece>, Span)> {
    let given = fields.text(&format!("{prefix}cmd"));
    // The name of the resource is the default command.
    let (text, at) = given.or(prefix.is_empty().then_some((&fields.title, fields.at)))?;
    let word = |word: &str| Piece::Text(word.into(), at);
    let words: Vec<Piece> = match fields.text(&format!("{prefix}shell")) {
        Some((shell, _)) => vec![word(shell), word("-c"), word(text)],
        None => text.split_whitespace().map(word).collect(),
    };
    (!words.is_empty()).then_some((words, at))
}

/// Returns a secondary command, with a mapping of its differences from the main command, if there are any.
fn other(fields: &Fields, prefix: &str, mut more: Vec<(&'static str, Piece)>) -> Option<(Piece, Span)> {
    let (words, at) = command(fields, prefix)?;
    let words = Piece::List(words, at);
    let own = fields.text("cwd").map(|(cwd, _)| cwd.as_str()).unwrap_or(ROOT);
    let (cwd, place) = fields.text(&format!("{prefix}cwd")).map_or((ROOT, at), |(cwd, place)| (cwd.as_str(), place));
    if cwd != own {
        more.push(("cwd", Piece::Text(cwd.into(), place)));
    }
    if more.is_empty() {
        return Some((words, at));
    }
    more.insert(0, ("command", words));
    Some((mapping(more, at), at))
}

fn mapping(entries: Vec<(&'static str, Piece)>, at: Span) -> Piece {
    let entries = entries.into_iter().map(|(key, value)| (Piece::Text(key.into(), at), value));
    Piece::Mapping(entries.collect(), at)
}

/// Returns the output that `ifcmd` must not print, compared exactly.
fn unequal(fields: &Fields) -> Vec<(&'static str, Piece)> {
    let fields = given(fields, [("ifequals", "not_output"), ("ifequals_stdout", "not_stdout")]);
    let exact = fields.first().map(|(_, text)| ("exact", Piece::Plain("true".into(), text.span())));
    fields.into_iter().chain(exact).collect()
}

/// Returns the given texts, including empty ones, by their attribute names in kilter.
fn given<const COUNT: usize>(fields: &Fields, names: [(&str, &'static str); COUNT]) -> Vec<(&'static str, Piece)> {
    let given = names.into_iter().filter_map(|(name, key)| Some((key, fields.get(name)?.0.clone())));
    given.collect()
}

pub(super) fn lower(reader: &mut GraphReader, fields: &Fields, lowered: &mut Lowered) {
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
    for (prefix, attribute) in [("watch", "watch"), ("done", "done")] {
        if let Some((command, at)) = other(fields, prefix, Vec::new()) {
            lowered.push(attribute, at, command);
        }
    }
    for (prefix, attribute, more) in [("if", "onlyif", unequal(fields)), ("nif", "unless", Vec::new())] {
        if let Some((guard, at)) = other(fields, prefix, more) {
            lowered.push(attribute, at, Piece::List(vec![guard], at));
        }
    }
    surroundings(fields, lowered);
    let sent = given(fields, [("send_output", "output"), ("send_stdout", "stdout"), ("send_stderr", "stderr")]);
    if let Some((_, first)) = sent.first() {
        let at = first.span();
        lowered.push("fallback", at, mapping(sent, at));
    }
    // The metaparameter is mgmt's only timeout, and mgmt runs its guards before a command only.
    lowered.imply("timeout", "0");
    lowered.imply("logoutput", "true");
    lowered.imply("verify", "false");
}

fn surroundings(fields: &Fields, lowered: &mut Lowered) {
    for (name, attribute) in [("cwd", "cwd"), ("creates", "creates"), ("sig", "stop_signal")] {
        if let Some((text, at)) = fields.text(name) {
            lowered.push(attribute, at, Piece::Text(text.clone(), at));
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
}

fn is_empty(piece: &Piece) -> bool {
    matches!(piece, Piece::Mapping(entries, _) if entries.is_empty())
}
