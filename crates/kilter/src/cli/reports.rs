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
    /// Send traces and metrics of the run to this collector of OpenTelemetry at the end, as OTLP in JSON, such as
    /// http://localhost:4318. OTEL_EXPORTER_OTLP_HEADERS sets headers
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true,
          value_hint = clap::ValueHint::Url, help_heading = REPORTS)]
    pub(crate) otlp: Option<String>,
}

impl ReportArgs {
    /// Returns true if a report is written to a file.
    pub(crate) fn writes_files(&self) -> bool {
        !self.report.is_empty() || self.textfile.is_some()
    }
}
