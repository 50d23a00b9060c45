//! Check of a provider: static findings, then the laws of the conformance suite, each in its own sandboxes.
//!
//! The recorder stores every call of a script, so that the report of a broken law includes the last calls.

mod call_view;
mod candidate;
mod findings;
mod glob;
mod location;
mod recorder;
mod specimens;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::conformance::{Finding as LawFinding, Progress, Report, Suite, Verdict};
use recorder::Trials;

pub use call_view::CallView;
pub use candidate::{Candidate, Inspection};
pub use findings::{Finding, Weight};
pub use location::{SETUP_HERE, TestLocation};
pub use specimens::{SpecimenOrigin, Specimens};

/// A provider, and all settings of its check.
pub struct Check {
    /// The provider.
    pub candidate: Arc<Candidate>,
    /// The resources that the check creates.
    pub specimens: Arc<Specimens>,
    /// Place in which laws are tried.
    pub location: TestLocation,
    /// Findings of the inspection.
    pub findings: Vec<Finding>,
    /// Timeout of a law.
    pub limit: Duration,
    /// Names of the laws to try. Empty means all.
    pub laws: Vec<&'static str>,
}

/// Progress of a check.
pub enum CheckProgress<'a> {
    /// A law is about to be tried.
    Begun(&'static str),
    /// A law has been tried.
    Ended {
        /// The verdict.
        finding: &'a LawFinding,
        /// Law that could not be tried for the same reason, if any.
        same: Option<&'static str>,
        /// The calls before the end, if the law is broken or could not be tried.
        calls: &'a [CallView],
    },
}

/// Result of a check.
pub struct CheckReport {
    /// Verdicts of the laws.
    pub laws: Report,
    /// Calls of each law that is broken or could not be tried.
    calls: Vec<(&'static str, Vec<CallView>)>,
}

impl Check {
    /// Tries the laws and reports the progress to `observer`. After a cancellation, `observer` gets no more progress.
    pub fn run(&self, observer: &mut dyn FnMut(CheckProgress<'_>)) -> CheckReport {
        let cancelled = self.candidate.environment().cancelled;
        let trials = Arc::new(Trials::new(self.limit, cancelled));
        let make = {
            let (candidate, specimens) = (Arc::clone(&self.candidate), Arc::clone(&self.specimens));
            let (location, trials) = (self.location.clone(), Arc::clone(&trials));
            move || location::subject(&candidate, &specimens, &location, &trials)
        };
        let suite = Suite::new(make).limit(self.limit).only(self.laws.iter().copied());
        let suite = cancelled.into_iter().fold(suite, Suite::until);
        let (mut calls, mut reasons) = (Vec::new(), Vec::new());
        let laws = suite.run_observed(&mut |progress| {
            if cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Acquire)) {
                return;
            }
            match progress {
                Progress::Begun(law) => {
                    trials.begin();
                    observer(CheckProgress::Begun(law.name));
                }
                Progress::Ended(finding) => {
                    let same = same_reason(&mut reasons, finding);
                    let is_shown =
                        matches!(finding.verdict, Verdict::Broken(_) | Verdict::Untried(_)) && same.is_none();
                    let trial = trials.current();
                    let shown = match is_shown {
                        true => call_view::of(&trial.lock().unwrap_or_else(PoisonError::into_inner)),
                        false => Vec::new(),
                    };
                    observer(CheckProgress::Ended { finding, same, calls: &shown });
                    if is_shown {
                        calls.push((finding.law, shown));
                    }
                }
            }
        });
        CheckReport { laws, calls }
    }

    /// Returns true if the provider can be used and no law is broken or not tried.
    pub fn is_conforming(&self, report: &CheckReport) -> bool {
        report.laws.is_conforming() && !self.findings.iter().any(Finding::is_fatal)
    }

    /// Returns the report of the suite with the additional keys of a check.
    pub fn to_json(&self, report: &CheckReport, took: Duration) -> Json {
        let mut document = report.laws.to_json();
        for law in document["laws"].as_array_mut().into_iter().flatten() {
            let name = law["law"].as_str().unwrap_or_default().to_owned();
            if matches!(law["verdict"].as_str(), Some("broken" | "not_tested")) {
                law["exchanges"] = report.calls(&name).iter().map(CallView::json).collect();
            }
        }
        document["conforming"] = self.is_conforming(report).into();
        document["convention"] = self.candidate.convention().into();
        document["script"] = self.candidate.script().map(|path| path.display().to_string()).into();
        document["specimens"] = match &self.specimens.origin {
            SpecimenOrigin::File(path) => path.display().to_string().into(),
            SpecimenOrigin::Types => Json::Null,
        };
        document["place"] = if matches!(self.location, TestLocation::Here(_)) { "machine" } else { "sandboxes" }.into();
        document["findings"] = self.findings.iter().map(Finding::json).collect();
        document["seconds"] = json!((took.as_secs_f64() * 1000.0).round() / 1000.0);
        document
    }
}

impl CheckReport {
    fn calls(&self, law: &str) -> &[CallView] {
        self.calls.iter().find(|(known, _)| *known == law).map_or(&[], |(_, calls)| calls)
    }
}

/// Returns the earlier law that could not be tried for the same reason, if any.
fn same_reason(reasons: &mut Vec<(String, &'static str)>, finding: &LawFinding) -> Option<&'static str> {
    let Verdict::Untried(why) = &finding.verdict else { return None };
    let same = reasons.iter().find(|(known, _)| known == why).map(|(_, law)| *law);
    if same.is_none() {
        reasons.push((why.clone(), finding.law));
    }
    same
}
