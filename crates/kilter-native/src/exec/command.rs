//! Commands as they are declared, made into what can be started.

use ecow::EcoString;
use kilter_model::{Attributes, Value};
use kilter_provider::Problem;

use super::split::split;

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    /// What people are shown of it: secrets redacted, one line.
    pub(super) shown: EcoString,
    /// Whether it is sensitive as a whole, so that nothing it says may be shown either.
    pub(super) is_sealed: bool,
}

/// The shell that texts are handed to; none if they are split into words.
pub(super) fn shell_of(should: &Attributes) -> Option<&str> {
    let shell = should.get("shell")?;
    if shell.as_bool() == Some(true) { Some("/bin/sh") } else { shell.as_str() }
}

/// The command of a resource: its title unless another is given.
pub(super) fn command_of(name: &str, should: &Attributes) -> Result<Command, Problem> {
    let title = Value::from(name);
    one("command", should.get("command").unwrap_or(&title), shell_of(should))
}

/// What runs when the resource is refreshed.
pub(super) fn refresh_of(name: &str, should: &Attributes) -> Result<Command, Problem> {
    match should.get("refresh") {
        Some(refresh) => one("refresh", refresh, shell_of(should)),
        None => command_of(name, should),
    }
}

/// What runs when the command has succeeded, if anything does.
pub(super) fn done_of(should: &Attributes) -> Option<Result<Command, Problem>> {
    Some(one("done", should.get("done")?, shell_of(should)))
}

/// What tells, a line at a time, that something has changed.
pub(super) fn watch_of(should: &Attributes) -> Result<Command, Problem> {
    let watch = should.get("watch").ok_or_else(|| Problem::with("watch", "it has none"))?;
    one("watch", watch, shell_of(should))
}

/// The commands of `unless` or `onlyif`: one text, or a list of texts and lists of words.
pub(super) fn guards_of(attribute: &str, should: &Attributes) -> Result<Vec<Command>, Problem> {
    let Some(declared) = should.get(attribute) else { return Ok(Vec::new()) };
    let guards = declared.as_list();
    if let Some(option) = guards.iter().skip(1).filter_map(Value::as_str).find(|text| text.starts_with('-')) {
        let problem = Problem::with(attribute, format!("`{option}` is no command: each text of the list is one"));
        return Err(problem.hint("for the words of one command write a list within the list: [[test, -e, /x]]"));
    }
    guards.iter().map(|guard| one(attribute, guard, shell_of(should))).collect()
}

fn one(attribute: &str, value: &Value, shell: Option<&str>) -> Result<Command, Problem> {
    let argv = match (value.unwrap_sensitive(), shell) {
        (Value::Array(words), _) => words.iter().map(word).collect(),
        (Value::String(text), Some(shell)) => vec![shell.to_owned(), "-c".to_owned(), text.to_string()],
        (Value::String(text), None) => {
            split(text).map_err(|error| Problem::with(attribute, error.to_string()).hint(error.hint()))?
        }
        (other, _) => {
            return Err(Problem::with(attribute, format!("a command is a text or a list, not {}", other.kind())));
        }
    };
    match argv.iter().find(|word| word.contains('\0')) {
        Some(_) => Err(Problem::with(attribute, "a word of a command cannot hold a zero byte")),
        None => Ok(Command { argv, shown: shown(value), is_sealed: matches!(value, Value::Sensitive(_)) }),
    }
}

fn word(value: &Value) -> String {
    match value.unwrap_sensitive() {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

fn shown(value: &Value) -> EcoString {
    let text = match value {
        Value::Array(words) => words.iter().map(quoted).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    };
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    if lines.next().is_some() { format!("{first} …").into() } else { first.into() }
}

fn quoted(word: &Value) -> String {
    let text = word.to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,@%+[]".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The program of a command as it is given, when people may see it.
pub(super) fn program(value: &Value, shell: Option<&str>) -> Option<String> {
    if value.holds_sensitive() {
        return None;
    }
    let program = match (value, shell) {
        (Value::Array(words), _) => word(words.first()?),
        (Value::String(text), Some(_)) => {
            // Words of a script are guessed: a wrong guess names no resource.
            text.trim_start().split(|c: char| c.is_whitespace() || "|&;<>()$`'\"".contains(c)).next()?.to_owned()
        }
        (Value::String(text), None) => split(text).ok()?.into_iter().next()?,
        _ => return None,
    };
    (!program.is_empty()).then_some(program)
}
