//! Recorded script calls: serialisation, display, redaction and replay.

mod call;
mod json;
mod scan;
mod shell;
mod show;
mod veil;
mod words;

#[cfg(test)]
mod tests;

pub use call::{CallRecorder, RecordedExchange};
pub use shell::shell_quoted;
pub use veil::SecretMasker;
