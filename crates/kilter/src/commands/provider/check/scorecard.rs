//! Results of the laws: for people during the trials, for programs at the end.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use kilter_devkit::conformance::{Finding as LawFinding, Report, Verdict};
use kilter_devkit::{CallView, Check, CheckReport, Finding, SpecimenOrigin, TestLocation, Weight};
use serde_json::{Value as Json, json};

use crate::cli::ReportFormat;
use crate::exit::Exit;
use crate::output;
use crate::style::{ADDED, CHANGED, FAILED, FAINT, NAME, styled};
use crate::visible::visible;

/// Maximum number of characters of an observation, for people.
const MAX_OBSERVATION_CHARS: usize = 1500;

/// Maximum number of lines of a stream, and of characters of a line.
const MAX_LINES: usize = 12;
const MAX_LINE_CHARS: usize = 300;

/// Output of a scorecard.
pub(super) struct Out {
    format: ReportFormat,
    shows_progress: bool,
    /// Result of the output so far.
    told: Exit,
}

impl Out {
    pub(super) fn new(format: ReportFormat, check: &Check) -> Out {
        let is_human = format == ReportFormat::Human;
        let shows_progress = is_human && std::io::stderr().is_terminal();
        let told = if is_human { output::data(&heading(check)) } else { Exit::Done };
        Out { format, shows_progress, told }
    }

    /// Shows the current law.
    pub(super) fn begun(&self, law: &str) {
        if self.shows_progress {
            let _ = write!(std::io::stderr(), "\r\x1b[K  {law} …");
        }
    }

    /// Shows the verdict of a law.
    pub(super) fn ended(&mut self, finding: &LawFinding, same: Option<&str>, calls: &[CallView]) {
        if self.shows_progress {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        if self.format == ReportFormat::Human && self.told == Exit::Done {
            self.told = output::data(&one(finding, same, calls));
        }
    }

    pub(super) fn end(&self, check: &Check, report: &CheckReport, took: Duration) -> Exit {
        match self.format {
            _ if self.told != Exit::Done => self.told,
            ReportFormat::Human => output::data(&counts(&report.laws, took)),
            ReportFormat::Json => output::data(&format!("{:#}\n", check.to_json(report, took))),
        }
    }
}

/// Reports a provider of which no law can be tried.
pub(super) fn unusable(format: ReportFormat, word: &str, findings: &[Finding]) -> Exit {
    let told = match format {
        ReportFormat::Human => {
            let lines: String = findings.iter().map(line).collect();
            output::data(&format!("{lines}{word} cannot be used: no law was tested\n"))
        }
        ReportFormat::Json => {
            let findings: Vec<Json> = findings.iter().map(Finding::json).collect();
            output::data(&format!("{:#}\n", json!({"conforming": false, "findings": findings, "laws": []})))
        }
    };
    if told == Exit::Done { Exit::Failed } else { told }
}

fn line(finding: &Finding) -> String {
    let word = match finding.weight {
        Weight::Fault => styled(FAILED, "fault:"),
        Weight::Warning => styled(CHANGED, "warning:"),
    };
    format!("{word} {}: {}\n", visible(&finding.file.display().to_string()), visible(&finding.message))
}

fn heading(check: &Check) -> String {
    let candidate = &check.candidate;
    let name = styled(NAME, format_args!("{}::{}", candidate.schema().name, candidate.provider().name()));
    let script = candidate.script().map(|path| format!(", {}", path.display())).unwrap_or_default();
    let specimens = match &check.specimens.origin {
        SpecimenOrigin::File(path) => format!("tested with {}", path.display()),
        SpecimenOrigin::Types => {
            let hint =
                "there is no check file, so laws that need one are not tested; --example prints a file to start from";
            format!("tested with resources generated from its types: {hint}")
        }
    };
    let place = match check.location {
        TestLocation::Here(_) => "on this machine itself",
        TestLocation::Sandboxes(_) => "each law in its own sandboxes",
    };
    let lines: String = check.findings.iter().map(line).collect();
    format!(
        "{name} ({}{script})\n{}\n{lines}\n",
        candidate.convention(),
        styled(FAINT, format_args!("{specimens}; {place}"))
    )
}

/// Returns the line of a law. If it is broken or cannot be tried, the observation and the calls before it follow.
fn one(finding: &LawFinding, same: Option<&str>, exchanges: &[CallView]) -> String {
    let (word, why) = (finding.verdict.word(), finding.verdict.why());
    let law = finding.law;
    match &finding.verdict {
        Verdict::Held(_) => {
            let note = why.map(|note| format!(": {}", visible(note))).unwrap_or_default();
            format!("  {}            {law}{}\n", styled(ADDED, word), styled(FAINT, note))
        }
        Verdict::NotApplicable(why) => format!(
            "  {}  {law}{}\n",
            styled(FAINT, "not applicable"),
            styled(FAINT, format_args!(": {}", visible(why)))
        ),
        Verdict::Untried(why) => {
            let why = same.map_or_else(|| visible(&cut(why)), |same| format!("as {same}"));
            format!("  {}      {law}: {why}\n{}", styled(CHANGED, "NOT TESTED"), calls(exchanges))
        }
        Verdict::Broken(seen) => {
            let head = format!("  {}          {law}: {}\n", styled(FAILED, "BROKEN"), finding.sentence);
            let seen = format!("    seen: {}\n", visible(&cut(seen)));
            head + &seen + &calls(exchanges)
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_OBSERVATION_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn calls(exchanges: &[CallView]) -> String {
    let what = match exchanges.len() {
        0 => return String::new(),
        1 => "the last call (< is its input, > its output, ! its standard error):",
        _ => "the last calls (< is the input, > the output, ! standard error):",
    };
    let each: String = exchanges.iter().map(|one| call(one, "      ")).collect();
    format!("    {}\n{each}", styled(FAINT, what))
}

/// Returns the lines of a call.
fn call(call: &CallView, indent: &str) -> String {
    let mut text = format!("{indent}$ {}\n", styled(NAME, visible(&shortened(&call.command))));
    let streams = [("<", call.stdin.as_deref().unwrap_or_default()), (">", &call.stdout), ("!", &call.stderr)];
    for (sign, stream) in streams {
        text += &lines(stream, &format!("{indent}  {sign} "));
    }
    text + &format!("{indent}  {}\n", styled(FAINT, format_args!("{}, {} ms", call.end, call.milliseconds)))
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}… ({} more characters)", &line[..end], line[end..].chars().count()),
        None => line.to_owned(),
    }
}

/// Returns the first and the last lines of a text.
fn lines(text: &str, indent: &str) -> String {
    let all: Vec<&str> = text.lines().collect();
    let one = |line: &&str| format!("{indent}{}\n", visible(&shortened(line)));
    if all.len() <= MAX_LINES {
        return all.iter().map(one).collect();
    }
    let half = MAX_LINES / 2;
    let left = format!("{indent}… ({} more lines)\n", all.len() - 2 * half);
    all[..half].iter().map(one).chain([left]).chain(all[all.len() - half..].iter().map(one)).collect()
}

fn counts(report: &Report, took: Duration) -> String {
    let counts = report.counts();
    let seconds = took.as_secs_f32();
    let end = match (report.is_conforming(), counts.broken) {
        (true, _) => "it conforms",
        (false, 0) => "nothing is broken, but not all was tested",
        (false, _) => "docs/reference/conformance.md describes the reason for each law and typical defects",
    };
    format!(
        "\n{} held, {} broken, {} not tested, {} not applicable ({seconds:.1} s): {end}\n",
        counts.held, counts.broken, counts.untried, counts.not_applicable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_cut_and_escaped() {
        let text: String = (0..30).map(|n| format!("line {n}\n")).collect();
        let told = lines(&text, "> ");
        assert!(told.lines().count() == MAX_LINES + 1 && told.contains("> … (18 more lines)\n"), "{told}");
        assert_eq!(lines("\u{1b}[2J", ""), "\\u{1b}[2J\n");
        assert!(shortened(&"x".repeat(400)).ends_with("… (100 more characters)"));
    }
}
