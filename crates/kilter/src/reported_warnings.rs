//! Warnings of the last read of the manifests, so that a repeated read does not report them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use kilter_manifest::{Diagnostic, Source, Sources};

/// Warnings of the last read. A number distinguishes equal warnings.
#[derive(Default)]
pub(crate) struct ReportedWarnings(Mutex<BTreeSet<(String, usize)>>);

impl ReportedWarnings {
    /// Returns the warnings that were not reported at the last read, and records all of them. A repeated read reports
    /// each once, even if its line has moved.
    pub(crate) fn unreported(&self, mut warnings: Vec<Diagnostic>, sources: &Sources) -> Vec<Diagnostic> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *said);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        warnings.retain(|warning| {
            let about = warning.span.map_or(("", ""), |span| {
                let Source { name, text, .. } = sources.get(span.source);
                let (before, after) = text.split_at_checked(span.start as usize).unwrap_or((text, ""));
                let start = before.rfind('\n').map_or(0, |end| end + 1);
                let end = after.find('\n').map_or(text.len(), |end| before.len() + end);
                (name.as_str(), text[start..end].trim())
            });
            let key = format!("{}\n{}\n{}", warning.message, about.0, about.1);
            let count = counts.entry(key.clone()).or_default();
            *count += 1;
            let is_known = before.contains(&(key.clone(), *count));
            said.insert((key, *count));
            !is_known
        });
        warnings
    }
}
