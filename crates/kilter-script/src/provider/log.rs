//! What scripts write on standard error.

use kilter_process::Finished;
use kilter_provider::{Context, Level};

use crate::convention::beginning;

/// How many characters of a line are taken.
const LONGEST: usize = 2000;

/// Passes on what a process wrote on standard error, each line by its level.
pub(super) fn pass_on(cx: &Context<'_>, type_name: &str, name: &str, finished: &Finished) {
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
    if !finished.confined.is_as_asked() {
        cx.log(Level::Debug, type_name, name, &finished.confined.to_string());
    }
    if finished.leaked {
        let message = "the provider has ended and left a process behind that keeps its output open";
        cx.log(Level::Warning, type_name, name, message);
    }
}

/// The level of a line, and what it says: `LEVEL:` before it, in capitals or not; without one it is a
/// warning.
pub(crate) fn level(line: &str) -> (Level, &str) {
    let warning = (Level::Warning, line);
    let Some((word, message)) = line.split_once(':') else { return warning };
    let level = match word.trim_end().to_ascii_lowercase().as_str() {
        "debug" => Level::Debug,
        "info" => Level::Info,
        "warn" | "warning" => Level::Warning,
        "error" => Level::Err,
        _ => return warning,
    };
    (level, message.trim_start())
}
