//! Report of a run in the format of JUnit, for CI systems.

use std::fmt::Write;
use std::time::Duration;

use kilter_model::ResourceRef;
use kilter_runtime::{ResourceReport, Status};
use rustc_hash::FxHashMap;

pub(crate) use super::escape::markup;
use super::report;
use crate::reported_run::ReportedRun;

/// Returns the document: one test case for each resource.
pub(crate) fn text(run: &ReportedRun<'_>) -> String {
    let cases = cases(run);
    let count = |result: &str| cases.iter().filter(|case| case.result == result).count();
    let (failures, skipped) = (count("failure"), count("skipped"));
    let (tests, time) = (cases.len(), seconds(run.report.duration));
    let name = format!("kilter {}", run.command);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" time=\"{time}\">\n  \
         <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" \
         time=\"{time}\" timestamp=\"{}\" hostname=\"{}\">\n    <properties>\n",
        run.started("%Y-%m-%dT%H:%M:%S"),
        markup(run.host),
    );
    let properties = [("kilter.version", env!("CARGO_PKG_VERSION").to_owned()), ("kilter.noop", run.noop.to_string())];
    let left_out = [("kilter.left_out", run.report.counts.left_out.to_string())];
    let corrected = run.report.corrected.as_ref().map(|corrected| ("kilter.corrected", corrected.len().to_string()));
    for (name, value) in properties.into_iter().chain(left_out).chain(corrected) {
        let _ = writeln!(text, "      <property name=\"{name}\" value=\"{value}\"/>");
    }
    text += "    </properties>\n";
    cases.iter().for_each(|case| case.write(&mut text));
    text += "  </testsuite>\n</testsuites>\n";
    text
}

/// Test case of a resource.
pub(crate) struct TestCase<'a> {
    pub(crate) type_name: &'a str,
    pub(crate) title: &'a str,
    pub(crate) duration: Duration,
    /// Element with the result: `failure`, `skipped`, or empty for success.
    pub(crate) result: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    /// Lines for people.
    pub(crate) output: String,
}

impl TestCase<'_> {
    /// Writes the element.
    pub(crate) fn write(&self, text: &mut String) {
        let _ = write!(
            text,
            "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\"",
            markup(self.type_name),
            markup(self.title),
            seconds(self.duration)
        );
        if self.result.is_empty() && self.output.is_empty() {
            *text += "/>\n";
            return;
        }
        *text += ">\n";
        let message = markup(&self.message);
        match self.result {
            "failure" => {
                let (kind, output) = (self.kind, markup(&self.output));
                let _ = writeln!(text, "      <failure message=\"{message}\" type=\"{kind}\">{output}</failure>");
            }
            "skipped" => {
                let _ = writeln!(text, "      <skipped message=\"{message}\"/>");
            }
            _ => {}
        }
        if self.result != "failure" && !self.output.is_empty() {
            let _ = writeln!(text, "      <system-out>{}</system-out>", markup(&self.output));
        }
        *text += "    </testcase>\n";
    }
}

/// Returns the test cases in manifest order.
fn cases<'a>(run: &ReportedRun<'a>) -> Vec<TestCase<'a>> {
    let mut reports: FxHashMap<&ResourceRef, &ResourceReport> =
        run.report.resources.iter().map(|one| (&one.reference, one)).collect();
    let mut cases = Vec::new();
    for resource in run.resources() {
        cases.push(match reports.remove(&resource.reference) {
            Some(report) => case(report, run.noop),
            None => {
                let (result, message) =
                    if resource.is_hidden() { ("skipped", "not checked: hidden") } else { ("", "") };
                TestCase {
                    type_name: resource.reference.type_name.as_str(),
                    title: resource.reference.title.as_str(),
                    duration: Duration::ZERO,
                    result,
                    kind: "",
                    message: message.to_owned(),
                    output: String::new(),
                }
            }
        });
    }
    // An edit may have removed the resource whose failure ended the run.
    let rest = run.report.resources.iter().filter(|one| reports.contains_key(&one.reference));
    cases.extend(rest.map(|report| case(report, run.noop)));
    cases
}

fn case(report: &ResourceReport, noop: bool) -> TestCase<'_> {
    let because = |text: &str| match &report.because_of {
        Some(cause) => format!("{text} because of {cause}"),
        None => text.to_owned(),
    };
    let (result, message) = match report.status {
        Status::Failed => {
            let first = report.failure.as_deref().and_then(|failure| failure.lines().next());
            ("failure", first.unwrap_or("failed").to_owned())
        }
        Status::Skipped => ("skipped", because("skipped")),
        Status::Interrupted if report.is_unreached() => ("skipped", "not checked: the run ended before".to_owned()),
        Status::Interrupted => ("skipped", "not done: the run ended before".to_owned()),
        Status::Unknown => ("skipped", because("not known yet")),
        Status::WouldChange => ("skipped", "it would be changed, and is only checked".to_owned()),
        Status::WouldRefresh => ("skipped", "it would be refreshed, and is only checked".to_owned()),
        Status::InSync | Status::Changed | Status::Refreshed => ("", String::new()),
    };
    let output = anstream::adapter::strip_str(&report::resource(report, noop)).to_string();
    TestCase {
        type_name: report.reference.type_name.as_str(),
        title: report.reference.title.as_str(),
        duration: report.duration,
        result,
        kind: report.status.word(),
        message,
        output,
    }
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}
