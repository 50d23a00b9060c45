//! Call of a script, with redacted secrets.

use std::ffi::OsStr;

use kilter_process::{Output, Termination};
use kilter_provider::Redactor;
use kilter_script::recorded::RecordedExchange;
use serde_json::{Value as Json, json};

use super::recorder::Trial;

/// Call with redacted secrets.
pub struct CallView {
    /// Command line for a shell.
    pub command: String,
    /// Standard input, if the call had one.
    pub stdin: Option<String>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Status of the process, or the reason why it was not started.
    pub end: String,
    /// Duration.
    pub milliseconds: u64,
}

/// Returns the calls that explain the end of a trial.
pub(super) fn of(trial: &Trial) -> Vec<CallView> {
    trial.telling().into_iter().map(|kept| CallView::of(kept, trial.seals())).collect()
}

impl CallView {
    fn of(kept: &RecordedExchange, seals: &[Redactor]) -> CallView {
        let program = quoted(&kept.path.to_string_lossy());
        let args = kept.argv.iter().skip(1).map(|arg| quoted(&word(arg, &kept.convention, seals)));
        let command: Vec<String> = std::iter::once(program).chain(args).collect();
        let hidden = |bytes: &[u8]| document(&String::from_utf8_lossy(bytes), seals);
        let (stdout, stderr, end) = match &kept.answer {
            Ok(finished) => (hidden(&finished.stdout.bytes), hidden(&finished.stderr.bytes), end(finished)),
            Err(why) => (String::new(), String::new(), format!("not started: {}", redact(why, seals))),
        };
        let stdin = kept.stdin.as_deref().map(hidden);
        let milliseconds = u64::try_from(kept.duration.as_millis()).unwrap_or(u64::MAX);
        CallView { command: command.join(" "), stdin, stdout, stderr, end, milliseconds }
    }

    /// Returns an object for programs.
    pub(super) fn json(&self) -> Json {
        json!({
            "command": self.command,
            "stdin": self.stdin,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "end": self.end,
            "milliseconds": self.milliseconds,
        })
    }
}

fn end(finished: &Output) -> String {
    let why = match finished.ending {
        Termination::Exited => "",
        Termination::Deadline => ", since its time was up",
        Termination::Cancelled => ", since it was interrupted",
        Termination::OutputLimit => ", because it exceeded the output limit",
    };
    format!("{}{why}", finished.status)
}

/// Redacts secrets in a text.
fn redact(text: &str, seals: &[Redactor]) -> String {
    seals.iter().fold(text.into(), |text, seal| seal.redact(text)).to_string()
}

/// Redacts secrets in a word of a command line. In `simple`, a value is quoted, and its quotes are escaped.
fn word(arg: &OsStr, convention: &str, seals: &[Redactor]) -> String {
    let text = arg.to_string_lossy();
    let quoted = text.split_once("='").and_then(|(key, rest)| Some((key, rest.strip_suffix('\'')?)));
    match quoted.filter(|_| convention == "simple") {
        Some((key, value)) => {
            let value = redact(&value.replace("'\\''", "'"), seals);
            format!("{key}='{}'", value.replace('\'', "'\\''"))
        }
        None => redact(&text, seals),
    }
}

/// Redacts secrets in a stream. In JSON it redacts each string separately, because escapes may hide a secret.
fn document(text: &str, seals: &[Redactor]) -> String {
    if seals.is_empty() {
        return text.to_owned();
    }
    match serde_json::from_str::<Json>(text) {
        Ok(mut json) if json.is_object() || json.is_array() => {
            hide_below(&mut json, seals);
            json.to_string()
        }
        _ => redact(text, seals),
    }
}

fn hide_below(json: &mut Json, seals: &[Redactor]) {
    match json {
        Json::String(text) => *text = redact(text, seals),
        Json::Array(values) => values.iter_mut().for_each(|value| hide_below(value, seals)),
        Json::Object(entries) => entries.values_mut().for_each(|value| hide_below(value, seals)),
        _ => {}
    }
}

/// Quotes a word for a shell, in double quotes if that is more readable.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    let is_harmless = |word: &str| !word.contains(['$', '`', '"', '\\', '!']);
    match word {
        word if !word.is_empty() && word.chars().all(is_plain) => word.to_owned(),
        word if word.contains('\'') && is_harmless(word) => format!("\"{word}\""),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilter_model::Value;

    #[test]
    fn shown_words_are_shell_quoted() {
        assert_eq!(quoted("ral_action=find"), "ral_action=find");
        assert_eq!(quoted("name='sky'"), "\"name='sky'\"");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn secrets_are_redacted_in_every_encoding() {
        let seals = [Redactor::of_values(&[Value::sensitive("it's \"so\"".into())])];
        let told = word(OsStr::new("value='it'\\''s \"so\"'"), "simple", &seals);
        assert!(!told.contains("so") && told.starts_with("value='"), "{told}");
        let told = document(r#"{"v":["it's \"so\""]}"#, &seals);
        assert!(!told.contains("so") && told.starts_with("{\"v\":["), "{told}");
    }
}
