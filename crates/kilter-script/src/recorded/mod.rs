//! Recorded script calls: serialisation, display, redaction and replay.

mod call;
mod json;
mod masker;
mod scan;
mod shell;
mod show;
mod words;

#[cfg(test)]
mod tests;

pub use call::{CallRecorder, RecordedExchange};
pub use masker::SecretMasker;
pub use shell::shell_quoted;
