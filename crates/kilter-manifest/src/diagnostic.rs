//! Problems in a manifest.

use ecow::{EcoString, eco_format};
use kilter_model::Span;

/// Hint for values that must be known before the run.
pub(crate) const KNOWN_BEFORE: &str = "give it without outputs of other resources: by a variable or a fact";

/// A problem with its position and hints for its repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The problem in one line. Never contains a secret.
    pub message: EcoString,
    /// Position in a source; none if the problem belongs to no text.
    pub span: Option<Span>,
    /// Other relevant positions, each with a label.
    pub labels: Vec<(Span, EcoString)>,
    /// Hints for the repair.
    pub hints: Vec<EcoString>,
}

impl Diagnostic {
    /// Creates a problem without a position.
    pub fn new(message: impl Into<EcoString>) -> Diagnostic {
        Diagnostic { message: message.into(), span: None, labels: Vec::new(), hints: Vec::new() }
    }

    /// Sets the position.
    #[must_use]
    pub fn at(mut self, span: Span) -> Diagnostic {
        self.span = Some(span);
        self
    }

    /// Adds another position with its label.
    #[must_use]
    pub fn also(mut self, span: Span, label: impl Into<EcoString>) -> Diagnostic {
        self.labels.push((span, label.into()));
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<EcoString>) -> Diagnostic {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub fn hint_if(self, hint: Option<impl Into<EcoString>>) -> Diagnostic {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
}

/// Creates the problem of a duplicate key.
pub(crate) fn twice(key: &str, at: Span, first: Span) -> Diagnostic {
    Diagnostic::new(eco_format!("`{key}` is written twice")).at(at).also(first, "first written here")
}

/// Sorts problems by position and removes duplicates.
pub(crate) fn sorted(mut problems: Vec<Diagnostic>) -> Vec<Diagnostic> {
    problems.sort_by_key(|problem| problem.span.map_or((0, 0, 0), |span| (1, span.source.0, span.start)));
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(problems.len());
    for problem in problems {
        let same_place =
            kept.iter().rev().take_while(|other| other.span.map(|s| s.start) == problem.span.map(|s| s.start));
        let said = same_place.into_iter().any(|other| other.message == problem.message && other.span == problem.span);
        if !said {
            kept.push(problem);
        }
    }
    kept
}

/// Returns the number of further places of a message, of `count` places in total.
pub(crate) fn here_and_more(count: u32) -> EcoString {
    let more = count.saturating_sub(1);
    eco_format!("here and {more} more time{}", if more == 1 { "" } else { "s" })
}

/// Returns "did you mean" with the nearest known word, or a list of the known words.
pub(crate) fn choose(word: &str, known: &[&str], what: &str) -> EcoString {
    if let Some(near) = kilter_model::suggest::nearest(word, known.iter().copied()) {
        return eco_format!("did you mean `{near}`?");
    }
    list(known, what)
}

/// Returns "known attributes: a, b, c", limited to a readable length.
pub(crate) fn list(known: &[&str], what: &str) -> EcoString {
    const MAX_LISTED: usize = 40;
    let shown = known.iter().take(MAX_LISTED).copied().collect::<Vec<_>>().join(", ");
    let more = if known.len() > MAX_LISTED { ", …" } else { "" };
    eco_format!("{what}: {shown}{more}")
}
