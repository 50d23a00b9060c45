//! What scripts write on standard error.

use kilter_process::Finished;
use kilter_provider::{Context, Level};

use super::ScriptProvider;
use crate::convention::beginning;

/// How many characters of a line are taken.
const LONGEST: usize = 2000;

impl ScriptProvider {
    /// Passes on what a call wrote on standard error, and what is to be said of how it went.
    pub(super) fn pass_on(&self, cx: &Context<'_>, name: &str, finished: &Finished) {
        let type_name = self.metadata.schema.name.as_str();
        pass_on(cx, type_name, name, finished);
        if let Some((level, message)) = self.watch.note(&format!("the provider `{}`", self.name), finished) {
            cx.log(level, type_name, name, &message);
        }
    }
}

/// Each line by its level.
fn pass_on(cx: &Context<'_>, type_name: &str, name: &str, finished: &Finished) {
    if finished.stderr.is_truncated() {
        let message =
            format!("the provider wrote {} bytes more than are kept on standard error", finished.stderr.dropped);
        cx.log(Level::Warning, type_name, name, &message);
    }
    for line in finished.stderr.text().lines() {
        let (level, message) = level(line.trim());
        if !message.is_empty() {
            cx.log(level, type_name, name, &beginning(message, LONGEST));
        }
    }
    if finished.leaked {
        let message = "the provider has ended and left a process behind that keeps its output open";
        cx.log(Level::Warning, type_name, name, message);
    }
}

/// The level of a line, and what it says: `LEVEL:` before it, in capitals or not; without one it is a
/// warning.
pub(crate) fn level(line: &str) -> (Level, &str) {
    known_level(line).unwrap_or((Level::Warning, line))
}

/// The level that stands before a line, and what it says; none where there is none.
pub(crate) fn known_level(line: &str) -> Option<(Level, &str)> {
    let (word, message) = line.split_once(':')?;
    let level = match word.trim_end().to_ascii_lowercase().as_str() {
        "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" | "warning" => Level::Warning,
        "error" => Level::Err,
        _ => return None,
    };
    Some((level, message.trim_start()))
}
