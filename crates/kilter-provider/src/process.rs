//! Processes that a call started, for the history.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{REDACTED, from_base64};
use serde_json::Value as Json;

use crate::redact::Redactor;

/// Maximum size of a recorded output in bytes. The end is kept, because the reason of a failure comes last.
const MAX_OUTPUT_BYTES: usize = 4 * 1024;

/// Maximum size of the recorded arguments in bytes.
const MAX_ARGUMENT_BYTES: usize = 4 * 1024;

/// Maximum size of the recorded messages of a process in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// Maximum number of recorded processes of a resource until it settles. The newest are kept.
const MAX_PROCESSES: usize = 64;

/// End of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It returned this exit code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It was not started.
    NotStarted(EcoString),
}

/// Process that a provider started. Its input and its environment are not part of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessRecord {
    /// Number in the run.
    pub number: u64,
    /// Name of the resource, if the call is about several and the process is about one of them.
    pub subject: Option<EcoString>,
    /// Program and arguments.
    pub argv: Vec<EcoString>,
    /// End of the process.
    pub end: ProcessEnd,
    /// Reason why kilter ended the process: `deadline`, `cancelled`, `output_limit`.
    pub cut_short: Option<&'static str>,
    /// Time from start to end.
    pub duration: Duration,
    /// End of standard output.
    pub stdout: EcoString,
    /// End of standard error.
    pub stderr: EcoString,
    /// Messages of the process on channel 3: `[name, key, data]`.
    pub messages: MessageList,
}

impl ProcessRecord {
    /// Creates the record of a process. Arguments beyond 4 KiB are replaced by `…`.
    pub fn new(argv: impl IntoIterator<Item = EcoString>, end: ProcessEnd) -> ProcessRecord {
        let mut room = MAX_ARGUMENT_BYTES;
        let mut kept = Vec::new();
        for arg in argv {
            let is_whole = arg.len() <= room;
            kept.push(if is_whole { arg.clone() } else { eco_format!("{}…", beginning(&arg, room)) });
            // An empty argument takes memory, too.
            room = room.saturating_sub(arg.len() + 1);
            if !is_whole {
                break;
            }
        }
        ProcessRecord {
            number: 0,
            subject: None,
            argv: kept,
            end,
            cut_short: None,
            duration: Duration::ZERO,
            stdout: EcoString::new(),
            stderr: EcoString::new(),
            messages: MessageList::default(),
        }
    }

    /// Keeps the end of each output, up to 4 KiB.
    #[must_use]
    pub fn with_outputs(self, stdout: &[u8], stderr: &[u8]) -> ProcessRecord {
        ProcessRecord { stdout: ending(stdout), stderr: ending(stderr), ..self }
    }

    /// Returns true if the process ended by itself with exit code 0.
    pub fn is_success(&self) -> bool {
        self.end == ProcessEnd::Code(0) && self.cut_short.is_none()
    }

    /// Returns the record without secrets.
    #[must_use]
    pub fn redacted(&self, seal: &Redactor) -> ProcessRecord {
        let mut record = self.redacted_by(&|text| seal.redact(text.clone()));
        record.messages.kept.iter_mut().for_each(|message| hide_below(seal, message));
        record
    }

    /// Returns the record with redacted arguments, outputs and errors.
    #[must_use]
    pub fn redacted_by(&self, hide: &dyn Fn(&EcoString) -> EcoString) -> ProcessRecord {
        let mut record = self.clone();
        record.argv = self.argv.iter().map(hide).collect();
        record.stdout = hide(&self.stdout);
        record.stderr = hide(&self.stderr);
        if let ProcessEnd::NotStarted(why) = &mut record.end {
            *why = hide(why);
        }
        record
    }
}

/// Messages of a process: the first 16 KiB.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageList {
    kept: Vec<Json>,
    bytes: usize,
    /// Number of later messages, which are not kept.
    pub dropped: u64,
}

impl MessageList {
    /// Adds a message.
    pub fn push(&mut self, message: Json) {
        let bytes = if self.dropped == 0 { self.bytes.saturating_add(message.to_string().len()) } else { usize::MAX };
        if bytes > MAX_MESSAGE_BYTES {
            self.dropped += 1;
            return;
        }
        self.bytes = bytes;
        self.kept.push(message);
    }

    /// Returns the messages.
    pub fn kept(&self) -> &[Json] {
        &self.kept
    }
}

/// Redacts the texts of a document, and those that it contains as base64.
fn hide_below(seal: &Redactor, json: &mut Json) {
    match json {
        Json::String(text) => *text = seal.redact(text.as_str().into()).into(),
        Json::Array(values) => values.iter_mut().for_each(|value| hide_below(seal, value)),
        Json::Object(entries) => {
            if entries.contains_key("encoding") {
                let decoded = entries.get("line").and_then(Json::as_str).and_then(from_base64).unwrap_or_default();
                let text = String::from_utf8_lossy(&decoded);
                if seal.texts().iter().any(|secret| text.contains(secret.as_str())) {
                    entries.insert("line".to_owned(), REDACTED.into());
                    entries.remove("encoding");
                }
            }
            let hide = |(key, mut value): (String, Json)| {
                hide_below(seal, &mut value);
                (seal.redact(key.into()).into(), value)
            };
            *entries = std::mem::take(entries).into_iter().map(hide).collect();
        }
        _ => {}
    }
}

/// Returns the end of an output. `…` marks a cut, so that [`Redactor`] finds the rest of a cut secret.
fn ending(bytes: &[u8]) -> EcoString {
    if bytes.len() <= MAX_OUTPUT_BYTES {
        return String::from_utf8_lossy(bytes).into();
    }
    let mut from = bytes.len() - MAX_OUTPUT_BYTES;
    // A character is not cut.
    while bytes.get(from).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
        from += 1;
    }
    eco_format!("…{}", String::from_utf8_lossy(&bytes[from..]))
}

fn beginning(text: &str, length: usize) -> &str {
    let end = (0..=length).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// Processes of a resource, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessList {
    records: VecDeque<Arc<ProcessRecord>>,
    /// Number of older processes that are not kept.
    pub dropped: u64,
}

impl ProcessList {
    /// Adds a process. A process over the limit replaces the oldest one.
    pub fn push(&mut self, record: Arc<ProcessRecord>) {
        if self.records.len() == MAX_PROCESSES {
            self.records.pop_front();
            self.dropped += 1;
        }
        self.records.push_back(record);
    }

    /// Adds later processes.
    pub fn extend(&mut self, later: ProcessList) {
        self.dropped += later.dropped;
        later.records.into_iter().for_each(|record| self.push(record));
    }

    /// Returns true if there are no processes.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the processes.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ProcessRecord>> {
        self.records.iter()
    }

    /// Returns the processes of a resource of a call. `is_other` returns true for the names of the other resources.
    #[must_use]
    pub fn about(&self, name: &str, is_other: impl Fn(&str) -> bool) -> ProcessList {
        let is_about = |record: &&Arc<ProcessRecord>| {
            record.subject.as_ref().is_none_or(|subject| subject == name || !is_other(subject))
        };
        ProcessList { records: self.records.iter().filter(is_about).cloned().collect(), dropped: self.dropped }
    }

    /// Returns the processes without secrets.
    #[must_use]
    pub fn redacted(self, seal: &Redactor) -> ProcessList {
        let records = self.records.into_iter().map(|record| Arc::new(record.redacted(seal))).collect();
        ProcessList { records, ..self }
    }
}

/// Collects the processes of a call.
#[derive(Debug)]
pub struct ProcessLog<'run> {
    list: Mutex<ProcessList>,
    /// Number of the last process of the run.
    last: &'run AtomicU64,
}

impl<'run> ProcessLog<'run> {
    /// Creates a log. All logs of a run count with `last`.
    pub fn new(last: &'run AtomicU64) -> ProcessLog<'run> {
        ProcessLog { list: Mutex::default(), last }
    }

    pub(crate) fn add(&self, record: ProcessRecord) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(ProcessRecord { number, ..record }));
    }

    pub(crate) fn take(&self) -> ProcessList {
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use kilter_model::{Value, base64};
    use serde_json::json;

    use super::*;

    fn record(argv: &[&str]) -> ProcessRecord {
        ProcessRecord::new(argv.iter().map(|&arg| arg.into()), ProcessEnd::Code(0))
    }

    #[test]
    fn long_arguments_outputs_and_messages_are_cut() {
        let long = "ü".repeat(MAX_ARGUMENT_BYTES);
        let cut = record(&["sh", &long, "never"]);
        assert_eq!((cut.argv.len(), cut.argv[1].ends_with("ü…")), (2, true));
        assert!(cut.argv[1].len() <= MAX_ARGUMENT_BYTES + 3);
        let output = format!("{long}end");
        let cut = record(&["sh"]).with_outputs(output.as_bytes(), b"\xffshort");
        assert!(cut.stdout.starts_with("…ü") && cut.stdout.ends_with("üend"), "{}", cut.stdout.len());
        assert_eq!(cut.stderr, "\u{fffd}short");
        let message = json!(["a", "stdout", { "line": "x".repeat(MAX_MESSAGE_BYTES / 2) }]);
        let mut messages = MessageList::default();
        [message.clone(), message, json!([null, "exitcode", 0])].into_iter().for_each(|one| messages.push(one));
        assert_eq!((messages.kept().len(), messages.dropped), (1, 2));
    }

    #[test]
    fn secrets_are_redacted_everywhere_also_where_an_output_is_cut() {
        let seal = Redactor::of_values(&[Value::sensitive("hunter2-long-secret".into())]);
        let output = format!("hunter2-long-secret{}", ".".repeat(MAX_OUTPUT_BYTES - 6));
        let mut messages = MessageList::default();
        messages.push(json!(["c", "hunter2-long-secret", { "hunter2-long-secret": ["hunter2-long-secret"] }]));
        messages.push(json!(["c", "stdout", { "line": base64(b"\xffhunter2-long-secret"), "encoding": "base64" }]));
        let argv = ["x".into(), "--password=hunter2-long-secret".into()];
        let told = ProcessRecord { messages, ..ProcessRecord::new(argv, ProcessEnd::Signal(9)) }
            .with_outputs(output.as_bytes(), b"no hunter2-long-secret")
            .redacted(&seal);
        let text = format!("{told:?}");
        for part in ["hunter2", "secret\"", "secret.", &base64(b"\xffhunter2-long-secret")] {
            assert!(!text.contains(part), "{part}: {text}");
        }
        assert_eq!(told.argv, ["x", "--password=[redacted]"]);
        let failed = ProcessRecord::new([], ProcessEnd::NotStarted("no hunter2-long-secret".into())).redacted(&seal);
        assert_eq!(failed.end, ProcessEnd::NotStarted("no [redacted]".into()));
    }

    #[test]
    fn list_keeps_the_newest_processes_with_the_numbers_of_the_run() {
        let last = AtomicU64::new(7);
        let log = ProcessLog::new(&last);
        (0..MAX_PROCESSES + 3).for_each(|_| log.add(record(&["true"])));
        let mut list = log.take();
        assert_eq!((list.dropped, list.iter().next().map(|one| one.number)), (3, Some(11)));
        assert!(log.take().is_empty());
        let other = ProcessLog::new(&last);
        other.add(ProcessRecord { subject: Some("a".into()), ..record(&["false"]) });
        list.extend(other.take());
        assert_eq!((list.dropped, list.iter().last().map(|one| one.number)), (4, Some(75)));
        let about = |name: &str, others: &[&str]| list.about(name, |other| others.contains(&other)).iter().count();
        assert_eq!((about("a", &["b"]), about("b", &["a"]), about("b", &[])), (64, 63, 64));
    }
}
