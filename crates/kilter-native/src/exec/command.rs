//! Translates declared commands to executable ones.

use ecow::EcoString;
use kilter_model::{Attributes, REDACTED, Value};
use kilter_provider::ValidationError;

use super::split::split;

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(super) struct CommandLine {
    pub(super) argv: Vec<String>,
    /// Working directory, if it differs from that of the resource.
    pub(super) cwd: Option<EcoString>,
    /// Text for people: a single line with secrets redacted.
    pub(super) shown: EcoString,
    /// True if the complete command is sensitive, so that its output is hidden too.
    pub(super) is_sealed: bool,
}

/// A declared command: a text, a list of words, or a mapping with further settings.
pub(super) struct DeclaredCommand<'a> {
    pub(super) attribute: &'a str,
    value: &'a Value,
    more: Option<&'a Value>,
    is_sealed: bool,
    should: &'a Attributes,
}

impl<'a> DeclaredCommand<'a> {
    pub(super) fn new(attribute: &'a str, declared: &'a Value, should: &'a Attributes) -> DeclaredCommand<'a> {
        let more = declared.as_hash().map(|_| declared);
        let value = more.and_then(|more| key(more, "command")).unwrap_or(declared);
        let is_sealed = [declared, value].iter().any(|value| matches!(value, Value::Sensitive(_)));
        DeclaredCommand { attribute, value, more, is_sealed, should }
    }

    /// Marks the command as sensitive if it is a part of a sensitive value.
    fn within(self, whole: &Value) -> DeclaredCommand<'a> {
        DeclaredCommand { is_sealed: self.is_sealed || matches!(whole, Value::Sensitive(_)), ..self }
    }

    /// Returns the value of a key in the mapping.
    pub(super) fn key(&self, name: &str) -> Option<&'a Value> {
        key(self.more?, name)
    }

    /// Returns the shell that runs a text; none if the text is split into words.
    pub(super) fn shell(&self) -> Option<&'a str> {
        self.key("shell").map_or_else(|| shell_of(self.should), shell)
    }

    /// Returns the command's own working directory.
    pub(super) fn cwd(&self) -> Option<&'a str> {
        self.key("cwd").and_then(Value::as_str)
    }

    /// Returns the command's own working directory, if it is not sensitive.
    pub(super) fn shown_cwd(&self) -> Option<&'a str> {
        let is_shown = !self.is_sealed && !self.key("cwd")?.holds_sensitive();
        self.cwd().filter(|_| is_shown)
    }

    /// Returns true if the output is hidden.
    pub(super) fn is_hidden(&self) -> bool {
        self.is_sealed || self.should.get_bool("logoutput") == Some(false)
    }

    pub(super) fn command(&self) -> Result<CommandLine, ValidationError> {
        let problem = |why: String| ValidationError::with(self.attribute, why);
        let argv = match (self.value.unwrap_sensitive(), self.shell()) {
            (Value::Array(words), _) => words.iter().map(word).collect(),
            (Value::String(text), Some(shell)) => vec![shell.to_owned(), "-c".to_owned(), text.to_string()],
            (Value::String(text), None) => {
                split(text).map_err(|error| problem(error.to_string()).hint(error.hint()))?
            }
            (other, _) => return Err(problem(format!("a command is a text or a list, not {}", other.kind()))),
        };
        match argv.iter().find(|word| word.contains('\0')) {
            Some(_) => Err(problem("a word of a command cannot hold a zero byte".to_owned())),
            None => Ok(CommandLine {
                argv,
                cwd: self.cwd().map(EcoString::from),
                shown: self.shown(),
                is_sealed: self.is_sealed,
            }),
        }
    }

    fn shown(&self) -> EcoString {
        if self.is_sealed { REDACTED.into() } else { shown(self.value) }
    }

    /// Returns the program as given, if it is not sensitive.
    pub(super) fn program(&self) -> Option<String> {
        if self.is_sealed || self.value.holds_sensitive() {
            return None;
        }
        let program = match (self.value, self.shell()) {
            (Value::Array(words), _) => word(words.first()?),
            (Value::String(text), Some(_)) => {
                // The first word of a script is a guess. A wrong guess matches no resource.
                text.trim_start().split(|c: char| c.is_whitespace() || "|&;<>()$`'\"".contains(c)).next()?.to_owned()
            }
            (Value::String(text), None) => split(text).ok()?.into_iter().next()?,
            _ => return None,
        };
        (!program.is_empty()).then_some(program)
    }
}

fn key<'a>(mapping: &'a Value, name: &str) -> Option<&'a Value> {
    mapping.as_hash()?.get(name).filter(|value| !value.is_undef())
}

fn shell(value: &Value) -> Option<&str> {
    if value.as_bool() == Some(true) { Some("/bin/sh") } else { value.as_str() }
}

/// Returns the shell of a resource, for texts without their own shell.
pub(super) fn shell_of(should: &Attributes) -> Option<&str> {
    should.get("shell").and_then(shell)
}

/// Returns the command of a resource. The title is the default.
pub(super) fn command_of(name: &str, should: &Attributes) -> Result<CommandLine, ValidationError> {
    let title = Value::from(name);
    DeclaredCommand::new("command", should.get("command").unwrap_or(&title), should).command()
}

/// Returns the command for a refresh.
pub(super) fn refresh_of(name: &str, should: &Attributes) -> Result<CommandLine, ValidationError> {
    match should.get("refresh") {
        Some(refresh) => DeclaredCommand::new("refresh", refresh, should).command(),
        None => command_of(name, should),
    }
}

/// Returns the command that follows a successful command, if there is one.
pub(super) fn done_of(should: &Attributes) -> Option<Result<CommandLine, ValidationError>> {
    Some(DeclaredCommand::new("done", should.get("done")?, should).command())
}

/// Returns the command that reports changes, one line each.
pub(super) fn watch_of(should: &Attributes) -> Result<CommandLine, ValidationError> {
    let watch = should.get("watch").ok_or_else(|| ValidationError::with("watch", "it has none"))?;
    DeclaredCommand::new("watch", watch, should).command()
}

/// Returns the guards in `unless` or `onlyif`: a single guard or a list.
pub(super) fn guards_of<'a>(attribute: &'a str, should: &'a Attributes) -> impl Iterator<Item = DeclaredCommand<'a>> {
    let declared = should.get(attribute).into_iter();
    declared.flat_map(move |whole| {
        whole.as_list().iter().map(move |guard| DeclaredCommand::new(attribute, guard, should).within(whole))
    })
}

/// Returns all declared commands except `command`.
pub(super) fn others_of(should: &Attributes) -> impl Iterator<Item = DeclaredCommand<'_>> {
    let single = ["refresh", "done", "watch"].into_iter();
    let single = single.filter_map(|attribute| Some(DeclaredCommand::new(attribute, should.get(attribute)?, should)));
    single.chain(["unless", "onlyif"].into_iter().flat_map(|attribute| guards_of(attribute, should)))
}

/// Returns the problem of a guard list that looks like the words of a single command.
pub(super) fn option_problem(attribute: &str, should: &Attributes) -> Option<ValidationError> {
    let declared = should.get(attribute)?.as_list();
    let option = declared.iter().skip(1).filter_map(Value::as_str).find(|text| text.starts_with('-'))?;
    let problem =
        ValidationError::with(attribute, format!("`{option}` is not a command: each text of the list is one command"));
    Some(problem.hint("for the words of one command write a list within the list: [[test, -e, /x]]"))
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
