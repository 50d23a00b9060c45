//! Processes of a run: each is recorded once, after the result of its first resource.

use kilter_history::EventKind;
use kilter_provider::{ProcessEnd, ProcessRecord};
use kilter_runtime::{ResourceReport, Status};
use rustc_hash::FxHashSet;
use serde_json::{Map, Value as Json};

use super::Recorder;

/// Maximum number of recorded processes of a run; of `kilter run`, in an hour.
const MAX_PROCESSES: usize = 10_000;

/// Numbers of the recorded processes of a run.
#[derive(Default)]
pub(super) struct RecordedProcesses(FxHashSet<u64>);

impl RecordedProcesses {
    /// Begins to count again.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// Returns true if the process is to be recorded now.
    fn is_new(&mut self, number: u64) -> bool {
        self.0.len() < MAX_PROCESSES && self.0.insert(number)
    }
}

/// Returns true if the processes of a resource with this result are recorded.
pub(super) fn is_recorded(status: Status) -> bool {
    matches!(status, Status::Changed | Status::Refreshed | Status::Failed)
}

impl Recorder {
    /// Records the processes before the first resource, once a resource has changed or failed.
    pub(super) fn queue_early_processes(&mut self, status: Status) {
        if !is_recorded(status) {
            return;
        }
        for record in self.early_processes.take().iter() {
            self.queue(EventKind::Process, None, &body(record));
        }
    }

    /// Records the processes of a resource that was changed or refreshed, or has failed.
    pub(super) fn queue_processes(&mut self, report: &ResourceReport) {
        if !is_recorded(report.status) {
            return;
        }
        for record in report.processes.iter() {
            if self.processes.is_new(record.number) {
                self.queue(EventKind::Process, Some(&report.reference), &body(record));
            }
        }
    }
}

fn body(record: &ProcessRecord) -> Json {
    let mut body = Map::new();
    match &record.subject {
        Some(purpose) if record.number == 0 => body.insert("for".into(), purpose.as_str().into()),
        _ => body.insert("number".into(), record.number.into()),
    };
    body.insert("argv".into(), record.argv.iter().map(|word| word.as_str()).collect());
    match &record.end {
        ProcessEnd::Code(code) => body.insert("exit".into(), (*code).into()),
        ProcessEnd::Signal(signal) => body.insert("signal".into(), (*signal).into()),
        ProcessEnd::NotStarted(why) => body.insert("error".into(), why.as_str().into()),
    };
    if let Some(why) = record.cut_short {
        body.insert("cut_short".into(), why.into());
    }
    body.insert("duration_ms".into(), (record.duration.as_millis() as u64).into());
    for (name, output) in [("stdout", &record.stdout), ("stderr", &record.stderr)] {
        if !output.is_empty() {
            body.insert(name.into(), output.as_str().into());
        }
    }
    if !record.messages.kept().is_empty() {
        body.insert("messages".into(), record.messages.kept().into());
    }
    if record.messages.dropped > 0 {
        body.insert("messages_dropped".into(), record.messages.dropped.into());
    }
    Json::Object(body)
}
