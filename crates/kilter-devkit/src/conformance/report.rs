//! Report of a suite, for people and programs.

use std::fmt;

use serde_json::{Value as Json, json};

/// Result of a law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The law holds, with an optional note.
    Held(Option<String>),
    /// The law is broken: the observation.
    Broken(String),
    /// The law does not apply to this provider: the reason.
    NotApplicable(String),
    /// The law could not be tried: the missing or failing requirement.
    Untried(String),
}

impl Verdict {
    /// Returns the keyword: `held`, `broken`, `not_applicable`, `not_tested`.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Held(_) => "held",
            Verdict::Broken(_) => "broken",
            Verdict::NotApplicable(_) => "not_applicable",
            Verdict::Untried(_) => "not_tested",
        }
    }

    /// Returns the note, the observation or the reason.
    pub fn why(&self) -> Option<&str> {
        match self {
            Verdict::Held(note) => note.as_deref(),
            Verdict::Broken(why) | Verdict::NotApplicable(why) | Verdict::Untried(why) => Some(why),
        }
    }
}

/// A law and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the law.
    pub law: &'static str,
    /// The requirement in one sentence.
    pub sentence: &'static str,
    /// Result.
    pub verdict: Verdict,
}

/// Number of laws per result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of laws that hold.
    pub held: usize,
    /// Number of broken laws.
    pub broken: usize,
    /// Number of laws that could not be tried.
    pub untried: usize,
    /// Number of laws that do not apply.
    pub not_applicable: usize,
}

/// Results of all laws: the scorecard of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Name of the type.
    pub type_name: String,
    /// Name of the provider.
    pub provider: String,
    /// Results, in the order of the laws.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns true if every applicable law was tried and holds.
    pub fn is_conforming(&self) -> bool {
        let Counts { broken, untried, .. } = self.counts();
        broken == 0 && untried == 0
    }

    /// Returns the number of laws per result.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for finding in &self.findings {
            *match finding.verdict {
                Verdict::Held(_) => &mut counts.held,
                Verdict::Broken(_) => &mut counts.broken,
                Verdict::Untried(_) => &mut counts.untried,
                Verdict::NotApplicable(_) => &mut counts.not_applicable,
            } += 1;
        }
        counts
    }

    /// Returns the names of the broken laws.
    pub fn broken(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::Broken(_)))
    }

    /// Returns the names of the laws that do not apply.
    pub fn not_applicable(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::NotApplicable(_)))
    }

    /// Returns the laws that do not apply, with the reasons. A test can list them, so that no law is skipped
    /// unnoticed.
    pub fn excused(&self) -> Vec<(&'static str, &str)> {
        let excuse = |law: &'static str| Some((law, self.why(law)?));
        self.not_applicable().into_iter().filter_map(excuse).collect()
    }

    /// Returns the names of the laws that could not be tried.
    pub fn untried(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::Untried(_)))
    }

    fn named(&self, is_meant: impl Fn(&Verdict) -> bool) -> Vec<&'static str> {
        self.findings.iter().filter(|finding| is_meant(&finding.verdict)).map(|finding| finding.law).collect()
    }

    /// Returns the note, the observation or the reason of a law.
    pub fn why(&self, law: &str) -> Option<&str> {
        self.findings.iter().find(|finding| finding.law == law)?.verdict.why()
    }

    /// Asserts that the provider conforms.
    ///
    /// # Panics
    /// With the whole report, if a law is broken or could not be tried.
    pub fn assert(&self) {
        assert!(self.is_conforming(), "{self}");
    }

    /// Returns the report in the JSON format of `docs/reference/conformance.md`.
    pub fn to_json(&self) -> Json {
        let Counts { held, broken, untried, not_applicable } = self.counts();
        let law = |finding: &Finding| {
            let mut law = json!({"law": finding.law, "sentence": finding.sentence, "verdict": finding.verdict.word()});
            if let Some(why) = finding.verdict.why() {
                law["why"] = why.into();
            }
            law
        };
        json!({
            "type": self.type_name,
            "provider": self.provider,
            "conforming": self.is_conforming(),
            "laws": self.findings.iter().map(law).collect::<Vec<_>>(),
            "counts": {
                "total": self.findings.len(),
                "held": held,
                "broken": broken,
                "not_tested": untried,
                "not_applicable": not_applicable,
            },
        })
    }
}

/// Writes one line per law, more for broken laws, and the counts at the end.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}, provider {}", self.type_name, self.provider)?;
        self.findings.iter().try_for_each(|finding| show(f, finding))?;
        let Counts { held, broken, untried, not_applicable } = self.counts();
        write!(f, "{held} held, {broken} broken, {untried} not tested, {not_applicable} not applicable")
    }
}

/// Indentation of continuation lines.
const INDENT: &str = "                  ";

fn show(f: &mut fmt::Formatter<'_>, Finding { law, sentence, verdict }: &Finding) -> fmt::Result {
    let lines = |why: &str| why.replace('\n', &format!("\n{INDENT}"));
    match verdict {
        Verdict::Held(None) => writeln!(f, "  held            {law}"),
        Verdict::Held(Some(note)) => writeln!(f, "  held            {law}: {}", lines(note)),
        Verdict::NotApplicable(why) => writeln!(f, "  not applicable  {law}: {}", lines(why)),
        Verdict::Untried(why) => writeln!(f, "  NOT TESTED      {law}: {}", lines(why)),
        Verdict::Broken(seen) => writeln!(f, "  BROKEN          {law}: {sentence}\n{INDENT}seen: {}", lines(seen)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let finding = |law, verdict| Finding { law, sentence: "What it says.", verdict };
        Report {
            type_name: "thing".into(),
            provider: "shelf".into(),
            findings: vec![
                finding("a", Verdict::Held(None)),
                finding("b", Verdict::Held(Some("3 taken".into()))),
                finding("c", Verdict::Broken("x fell\ndown".into())),
                finding("d", Verdict::NotApplicable("it has no refresh".into())),
                finding("e", Verdict::Untried("no specimen".into())),
            ],
        }
    }

    #[test]
    fn text_report_has_lines_and_counts() {
        let expected = "conformance of thing, provider shelf
  held            a
  held            b: 3 taken
  BROKEN          c: What it says.
                  seen: x fell
                  down
  not applicable  d: it has no refresh
  NOT TESTED      e: no specimen
2 held, 1 broken, 1 not tested, 1 not applicable";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn json_report_has_verdicts_and_counts() {
        let json = report().to_json();
        assert_eq!(json["type"], "thing");
        assert_eq!(json["provider"], "shelf");
        assert_eq!(json["conforming"], false);
        assert_eq!(json["laws"][0], json!({"law": "a", "sentence": "What it says.", "verdict": "held"}));
        let broken = json!({"law": "c", "sentence": "What it says.", "verdict": "broken", "why": "x fell\ndown"});
        assert_eq!(json["laws"][2], broken);
        let counts = json!({"total": 5, "held": 2, "broken": 1, "not_tested": 1, "not_applicable": 1});
        assert_eq!(json["counts"], counts);
    }

    #[test]
    fn untested_law_is_not_a_pass() {
        let mut report = report();
        report.findings.retain(|finding| finding.law != "c");
        assert!(!report.is_conforming());
        report.findings.retain(|finding| finding.law != "e");
        assert!(report.is_conforming());
        assert_eq!(report.why("b"), Some("3 taken"));
    }
}
