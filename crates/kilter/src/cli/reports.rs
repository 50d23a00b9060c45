//! Options for reports of a run.

use std::path::PathBuf;

use clap::Args;

const REPORTS: &str = "Reports";

/// Files with the report of a run, in addition to its output.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReportArgs {
    /// Write a report at the end: `.json`, `.xml` (JUnit) or `.html` (one page that needs no network); repeatable
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = REPORTS)]
    pub(crate) report: Vec<PathBuf>,
    /// Write metrics of the run at the end, for the textfile collector of Prometheus' node exporter: a file `.prom`
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = REPORTS)]
    pub(crate) textfile: Option<PathBuf>,
}
