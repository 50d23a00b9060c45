//! What scripts write on standard error.

use kilter_process::Finished;
use kilter_provider::Level;

use super::ScriptProvider;
use crate::confined::{Confining, Lifted};
use crate::convention::Request;

impl ScriptProvider {
    /// Says what is to be said of how a call went, beside what the script itself said.
    pub(super) fn remark(&self, request: &Request<'_>, finished: &Finished, dropped: u64, log: &dyn Fn(Level, &str)) {
        if dropped > 0 {
            log(Level::Warning, &format!("the provider wrote {dropped} bytes more than are kept on standard error"));
        }
        if finished.leaked {
            let message = "the provider has ended and left a process behind that keeps its output open";
            log(Level::Warning, message);
        }
        let lifted = match request {
            Request::Describe | Request::Update(..) | Request::Refresh(_) => Lifted::Never,
            Request::List | Request::Find(_) | Request::FindAs(..) | Request::Watch => Lifted::ByMetadata,
        };
        let who = format!("the provider `{}`", self.name);
        let is_preview = matches!(request, Request::Update(..));
        let call = Confining { who: &who, action: self.action(request), is_preview, lifted };
        self.confined.notes(call, finished).for_each(|message| log(Level::Warning, &message));
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
