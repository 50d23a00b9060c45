//! What is wrong with a manifest.

use ecow::EcoString;
use kilter_model::Span;

/// A problem: what is wrong, where, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in one line. Never holds a secret.
    pub message: EcoString,
    /// Where; none when no text is to blame.
    pub span: Option<Span>,
    /// Other places that matter, and what each is.
    pub labels: Vec<(Span, EcoString)>,
    /// How to mend it.
    pub hints: Vec<EcoString>,
}

impl Diagnostic {
    /// A problem that is nowhere yet.
    pub fn new(message: impl Into<EcoString>) -> Diagnostic {
        Diagnostic { message: message.into(), span: None, labels: Vec::new(), hints: Vec::new() }
    }

    /// Says where it is.
    #[must_use]
    pub fn at(mut self, span: Span) -> Diagnostic {
        self.span = Some(span);
        self
    }

    /// Points to another place.
    #[must_use]
    pub fn also(mut self, span: Span, label: impl Into<EcoString>) -> Diagnostic {
        self.labels.push((span, label.into()));
        self
    }

    /// Says how to mend it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<EcoString>) -> Diagnostic {
        self.hints.push(hint.into());
        self
    }

    /// Says how to mend it, if that is known.
    #[must_use]
    pub fn hint_if(self, hint: Option<impl Into<EcoString>>) -> Diagnostic {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
}

/// Brings problems into the order of their places and drops what is said twice.
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

/// "did you mean" with the nearest of the known words, or else what there is to choose from.
pub(crate) fn choose(word: &str, known: &[&str], what: &str) -> EcoString {
    if let Some(near) = kilter_model::suggest::nearest(word, known.iter().copied()) {
        return ecow::eco_format!("did you mean `{near}`?");
    }
    list(known, what)
}

/// "known attributes: a, b, c", cut where nobody reads on.
pub(crate) fn list(known: &[&str], what: &str) -> EcoString {
    const SHOWN: usize = 40;
    let shown = known.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    let more = if known.len() > SHOWN { ", …" } else { "" };
    ecow::eco_format!("{what}: {shown}{more}")
}
