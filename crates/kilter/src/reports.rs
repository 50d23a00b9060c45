//! Reports of a run in files, in addition to its output (docs/reference/reports.md).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kilter_runtime::{Mode, Observer, Report};
use serde_json::json;

use crate::cli::ReportArgs;
use crate::exit::Exit;
use crate::output_file::{self, FileMode};
use crate::render::{html, json, junit, status, textfile};
use crate::reported_run::ReportedRun;
use crate::session::Session;
use crate::trace::{Trace, Traced};
use crate::{otlp_export, output, visible};

/// Requested reports of a run.
pub(crate) struct Reports {
    command: &'static str,
    files: Vec<(PathBuf, FileFormat)>,
    /// Address of a collector of OpenTelemetry, which may contain a secret.
    collector: Option<String>,
    trace: Mutex<Trace>,
}

/// Format of a report in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileFormat {
    Json,
    Junit,
    Html,
    Textfile,
}

impl FileFormat {
    fn of(path: &Path) -> Option<FileFormat> {
        match path.extension()?.to_str()? {
            "json" => Some(FileFormat::Json),
            "xml" => Some(FileFormat::Junit),
            "html" => Some(FileFormat::Html),
            _ => None,
        }
    }
}

impl Reports {
    /// Opens the requested reports, before the run makes changes, and sets them in the session. `inputs` are other
    /// files of the command, which a report must not overwrite.
    ///
    /// # Errors
    /// If a report cannot be written; reported.
    pub(crate) fn open(
        args: &ReportArgs,
        command: &'static str,
        inputs: &[PathBuf],
        session: &Session,
    ) -> Result<(), Exit> {
        // A replay leaves no files behind.
        if session.record.is_replay() {
            return Ok(());
        }
        let mut files = Vec::new();
        for path in &args.report {
            let Some(format) = FileFormat::of(path) else {
                let hint = "the end of the name selects the format: `.json`, `.xml` for JUnit, or `.html`";
                return Err(output::fail_with(format_args!("no report has the format of {}", path.display()), [hint]));
            };
            files.push((path.clone(), format));
        }
        if let Some(path) = &args.textfile {
            if path.extension().is_none_or(|end| end != "prom") {
                let hint = "the collector reads files with the end `.prom` only";
                return Err(output::fail_with(format_args!("{} is no name for metrics", path.display()), [hint]));
            }
            files.push((path.clone(), FileFormat::Textfile));
        }
        let collector = args.otlp.clone().filter(|url| !url.is_empty());
        if files.is_empty() && collector.is_none() {
            return Ok(());
        }
        for (path, _) in &files {
            if let Some(input) = inputs.iter().find(|input| *input == path || output_file::is_same(input, path)) {
                let what = format_args!("the report would overwrite {}, another file of the command", input.display());
                return Err(output::fail_with(what, ["give another name to --report"]));
            }
            output_file::check(path).map_err(|why| unwritable(path, &why))?;
        }
        session.set_reports(Reports { command, files, collector, trace: Mutex::new(Trace::new(false)) });
        Ok(())
    }

    /// Refuses files with the report of a choreography, which is no run of the engine.
    ///
    /// # Errors
    /// If there are any; reported.
    pub(crate) fn refuse_choreography(session: &Session) -> Result<(), Exit> {
        match session.reports() {
            Some(reports) if !reports.files.is_empty() => {
                Err(output::fail_with("a choreography of mold has no report", ["leave out --report and --textfile"]))
            }
            _ => Ok(()),
        }
    }

    /// Executes a run that records a trace for the reports.
    pub(crate) fn traced<T>(&self, observer: &mut dyn Observer, run: impl FnOnce(&mut dyn Observer) -> T) -> T {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        *trace = Trace::new(self.command == "run");
        run(&mut Traced { trace: &mut trace, observer })
    }

    /// Writes the reports.
    ///
    /// # Errors
    /// If one cannot be written; reported.
    pub(crate) fn write(&self, report: &Report, mode: Mode, session: &Session) -> Result<(), Exit> {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        let noop = mode == Mode::Noop;
        let run = ReportedRun { command: self.command, noop, host: session.host(), report, trace: &trace };
        let mut result = Ok(());
        for (path, format) in &self.files {
            let text = match format {
                FileFormat::Json => document(&run),
                FileFormat::Junit => junit::text(&run),
                FileFormat::Html => html::page(&run),
                FileFormat::Textfile => textfile::text(&run),
            };
            // The collector runs as another user. Metrics contain no names of resources.
            let mode = if *format == FileFormat::Textfile { FileMode::KeptOrPublic } else { FileMode::KeptOrPrivate };
            if let Err(why) = output_file::write(path, &text, mode) {
                result = Err(unwritable(path, &why));
            }
        }
        if let Some(collector) = &self.collector {
            otlp_export::send(collector, &run);
        }
        result
    }
}

fn unwritable(path: &Path, why: &str) -> Exit {
    output::fail(format_args!("cannot write the report {}: {why}", path.display()))
}

/// Returns the document of `--format json` with the circumstances of the run.
fn document(run: &ReportedRun<'_>) -> String {
    let mut document = json::report(run.report, run.noop);
    document["run"] = json!({
        "command": run.command,
        "host": run.host,
        "version": env!("CARGO_PKG_VERSION"),
        "started_unix_ms": status::unix(run.trace.started),
    });
    visible::escaped(&format!("{document:#}\n")).into_owned()
}
