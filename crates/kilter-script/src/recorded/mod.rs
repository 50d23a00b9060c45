//! Exchanges with scripts as data: kept, shown, without the secrets in them, and played again.

mod call;
mod json;
mod scan;
mod shell;
mod show;
mod veil;
mod words;

#[cfg(test)]
mod tests;

pub use call::{Overheard, RecordedExchange};
pub use shell::shell_quoted;
pub use veil::Veil;
