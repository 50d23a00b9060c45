//! Results of the laws: for people during the trials, for programs at the end.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kilter_devkit::conformance::{Finding as LawFinding, Report, Verdict};
use serde_json::{Value as Json, json};

use super::candidate::Candidate;
use super::findings::{Finding, Weight};
use super::recorder::Trials;
use super::shown::{self, CallView};
use super::specimens::{Origin, Specimens};
use super::worlds::TestLocation;
use crate::cli::ReportFormat;
use crate::exit::Exit;
use crate::output;
use crate::render::diff::visible;
use crate::render::{ADDED, CHANGED, FAILED, FAINT, NAME, styled};

/// Maximum number of characters of an observation, for people.
const LONGEST: usize = 1500;

/// Content of a scorecard.
pub(super) struct Scorecard<'a> {
    pub(super) candidate: &'a Arc<Candidate>,
    pub(super) specimens: &'a Arc<Specimens>,
    pub(super) findings: &'a [Finding],
    pub(super) place: &'a TestLocation,
}

/// Output of a scorecard, with the calls of broken laws.
pub(super) struct Out {
    format: ReportFormat,
    exchanges: Vec<(&'static str, Vec<CallView>)>,
    /// Reasons why laws could not be tried. A repeated reason refers to the first law.
    reasons: Vec<(String, &'static str)>,
    shows_progress: bool,
    /// Result of the output so far.
    told: Exit,
}

impl Out {
    pub(super) fn new(format: ReportFormat, card: &Scorecard<'_>) -> Out {
        let is_human = format == ReportFormat::Human;
        let shows_progress = is_human && std::io::stderr().is_terminal();
        let told = if is_human { output::data(&heading(card)) } else { Exit::Done };
        Out { format, exchanges: Vec::new(), reasons: Vec::new(), shows_progress, told }
    }

    /// Shows the current law.
    pub(super) fn begun(&self, law: &str) {
        if self.shows_progress {
            let _ = write!(std::io::stderr(), "\r\x1b[K  {law} …");
        }
    }

    pub(super) fn ended(&mut self, finding: &LawFinding, trials: &Trials) {
        if self.shows_progress {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        let same = self.same_reason(finding);
        if matches!(finding.verdict, Verdict::Broken(_) | Verdict::Untried(_)) && same.is_none() {
            let trial = trials.current();
            let shown = shown::of(&trial.lock().unwrap_or_else(PoisonError::into_inner));
            self.exchanges.push((finding.law, shown));
        }
        if self.format == ReportFormat::Human && self.told == Exit::Done {
            self.told = output::data(&one(finding, same, self.of(finding.law)));
        }
    }

    /// Returns the law that could not be tried for the same reason, if any.
    fn same_reason(&mut self, finding: &LawFinding) -> Option<&'static str> {
        let Verdict::Untried(why) = &finding.verdict else { return None };
        let same = self.reasons.iter().find(|(known, _)| known == why).map(|(_, law)| *law);
        if same.is_none() {
            self.reasons.push((why.clone(), finding.law));
        }
        same
    }

    fn of(&self, law: &str) -> &[CallView] {
        self.exchanges.iter().find(|(known, _)| *known == law).map_or(&[], |(_, shown)| shown)
    }

    pub(super) fn end(&self, card: &Scorecard<'_>, report: &Report, _: &Trials, took: Duration) -> Exit {
        match self.format {
            _ if self.told != Exit::Done => self.told,
            ReportFormat::Human => output::data(&counts(report, took)),
            ReportFormat::Json => output::data(&format!("{:#}\n", self.document(card, report, took))),
        }
    }

    fn document(&self, card: &Scorecard<'_>, report: &Report, took: Duration) -> Json {
        let mut document = report.to_json();
        for law in document["laws"].as_array_mut().into_iter().flatten() {
            let name = law["law"].as_str().unwrap_or_default().to_owned();
            if matches!(law["verdict"].as_str(), Some("broken" | "not_tested")) {
                law["exchanges"] = self.of(&name).iter().map(CallView::json).collect();
            }
        }
        let is_conforming = report.is_conforming() && !card.findings.iter().any(Finding::is_fatal);
        document["conforming"] = is_conforming.into();
        document["convention"] = card.candidate.convention().into();
        document["script"] = card.candidate.script().map(|path| path.display().to_string()).into();
        document["specimens"] = match &card.specimens.origin {
            Origin::File(path) => path.display().to_string().into(),
            Origin::Types => Json::Null,
        };
        document["place"] = if matches!(card.place, TestLocation::Here(_)) { "machine" } else { "worlds" }.into();
        document["findings"] = card.findings.iter().map(found).collect();
        document["seconds"] = json!((took.as_secs_f64() * 1000.0).round() / 1000.0);
        document
    }
}

fn found(finding: &Finding) -> Json {
    let weight = if finding.is_fatal() { "fault" } else { "warning" };
    json!({"file": finding.file.display().to_string(), "weight": weight, "message": finding.message})
}

/// Reports a provider of which no law can be tried.
pub(super) fn unusable(format: ReportFormat, word: &str, findings: &[Finding]) -> Exit {
    match format {
        ReportFormat::Human => {
            let lines: String = findings.iter().map(line).collect();
            output::data(&format!("{lines}{word} cannot be used: no law was tried\n"))
        }
        ReportFormat::Json => {
            let findings: Vec<Json> = findings.iter().map(found).collect();
            output::data(&format!("{:#}\n", json!({"conforming": false, "findings": findings, "laws": []})))
        }
    }
}

fn line(finding: &Finding) -> String {
    let word = match finding.weight {
        Weight::Fault => styled(FAILED, "fault:"),
        Weight::Warning => styled(CHANGED, "warning:"),
    };
    format!("{word} {}: {}\n", visible(&finding.file.display().to_string()), visible(&finding.message))
}

fn heading(card: &Scorecard<'_>) -> String {
    let candidate = card.candidate;
    let name = styled(NAME, format_args!("{}::{}", candidate.schema().name, candidate.provider().name()));
    let script = candidate.script().map(|path| format!(", {}", path.display())).unwrap_or_default();
    let specimens = match &card.specimens.origin {
        Origin::File(path) => format!("tried with {}", path.display()),
        Origin::Types => {
            let hint = "there is no check file, so laws that need more than that are not tested; --example prints one to start from";
            format!("tried with resources made up from its types: {hint}")
        }
    };
    let place = match card.place {
        TestLocation::Here(_) => "on this machine itself",
        TestLocation::Worlds(_) => "each law in worlds of its own",
    };
    let lines: String = card.findings.iter().map(line).collect();
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
    match text.char_indices().nth(LONGEST) {
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
    let each: String = exchanges.iter().map(|shown| shown.human("      ")).collect();
    format!("    {}\n{each}", styled(FAINT, what))
}

fn counts(report: &Report, took: Duration) -> String {
    let counts = report.counts();
    let seconds = took.as_secs_f32();
    let end = match (report.is_conforming(), counts.broken) {
        (true, _) => "it conforms",
        (false, 0) => "nothing is broken, but not all was tested",
        (false, _) => "docs/reference/conformance.md says of each law why it is there and what breaks it",
    };
    format!(
        "\n{} held, {} broken, {} not tested, {} not applicable ({seconds:.1} s): {end}\n",
        counts.held, counts.broken, counts.untried, counts.not_applicable
    )
}
