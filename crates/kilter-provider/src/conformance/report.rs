//! What came of a suite.

use std::fmt;

/// What became of one law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is held; with what was counted on the way, if anything.
    Held(Option<String>),
    /// It is broken, with what was seen.
    Broken(String),
    /// It says nothing about this provider, and why.
    NotApplicable(String),
    /// It could not be tried, and why: something that it needs is missing or does not work.
    Untried(String),
}

/// A law and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The law's name.
    pub law: &'static str,
    /// What it says.
    pub sentence: &'static str,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of all laws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The type and the name of the provider.
    pub provider: String,
    /// One for each law, in their order.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether every law that applies was tried and is held.
    pub fn is_conforming(&self) -> bool {
        self.findings.iter().all(|finding| matches!(finding.verdict, Verdict::Held(_) | Verdict::NotApplicable(_)))
    }

    /// The names of the laws that are broken.
    pub fn broken(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::Broken(_)))
    }

    /// The names of the laws that do not apply.
    pub fn not_applicable(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::NotApplicable(_)))
    }

    /// The names of the laws that could not be tried.
    pub fn untried(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::Untried(_)))
    }

    fn named(&self, is_meant: impl Fn(&Verdict) -> bool) -> Vec<&'static str> {
        self.findings.iter().filter(|finding| is_meant(&finding.verdict)).map(|finding| finding.law).collect()
    }

    /// Passes a test.
    ///
    /// # Panics
    /// With the whole report, when a law is broken or could not be tried.
    pub fn assert(&self) {
        assert!(self.is_conforming(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [mut held, mut broken, mut not_applicable, mut untried] = [0; 4];
        writeln!(f, "conformance of {}", self.provider)?;
        for Finding { law, sentence, verdict } in &self.findings {
            match verdict {
                Verdict::Held(note) => {
                    held += 1;
                    write!(f, "  held            {law}")?;
                    note.iter().try_for_each(|note| write!(f, ": {note}"))?;
                    writeln!(f)?;
                }
                Verdict::NotApplicable(why) => {
                    not_applicable += 1;
                    writeln!(f, "  not applicable  {law}: {why}")?;
                }
                Verdict::Untried(why) => {
                    untried += 1;
                    writeln!(f, "  UNTRIED         {law}: {why}")?;
                }
                Verdict::Broken(seen) => {
                    broken += 1;
                    writeln!(f, "  BROKEN          {law}: {sentence}")?;
                    writeln!(f, "                  seen: {seen}")?;
                }
            }
        }
        write!(f, "{held} held, {broken} broken, {untried} untried, {not_applicable} not applicable")
    }
}
