//! Rendering of runs for people and programs.

pub(crate) mod diff;
mod escape;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod metrics;
pub(crate) mod otlp;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod status;
mod tally;
pub(crate) mod textfile;
