//! Changes of files that other programs may change meanwhile, and of several resources of a file together.

use std::hash::Hash;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Change, Outcome};
use kilter_provider::{Context, redacted_outcome};
use rustc_hash::FxHashMap;

use super::atomic_rewrite::{AtomicRewrite, AtomicRewriteError};

/// Maximum number of rewrites of a file that another program keeps changing.
const MAX_ATTEMPTS: usize = 10;

/// The reason why a file was not rewritten.
pub(crate) enum RewriteError {
    Whole(AtomicRewriteError),
    Text(EcoString),
}

impl From<AtomicRewriteError> for RewriteError {
    fn from(error: AtomicRewriteError) -> RewriteError {
        RewriteError::Whole(error)
    }
}

impl From<EcoString> for RewriteError {
    fn from(why: EcoString) -> RewriteError {
        RewriteError::Text(why)
    }
}

/// Opens a file whose directory is missing: creates the directory.
///
/// # Errors
/// If the system refuses.
pub(crate) fn open_in_new_directory(path: &str) -> Result<AtomicRewrite, RewriteError> {
    let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
    std::fs::create_dir_all(directory).map_err(|error| eco_format!("cannot create {directory}: {error}"))?;
    Ok(AtomicRewrite::open(path)?)
}

/// Repeats a rewrite as long as another program changes the file meanwhile, up to [`MAX_ATTEMPTS`].
pub(crate) fn rewritten<T>(mut attempt: impl FnMut() -> Result<T, RewriteError>) -> Result<T, EcoString> {
    let mut count = 1;
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(RewriteError::Whole(error)) if error.is_changed() && count < MAX_ATTEMPTS => count += 1,
            Err(RewriteError::Whole(error)) => return Err(eco_format!("{error}")),
            Err(RewriteError::Text(why)) => return Err(why),
        }
    }
}

/// Makes the changes of each file together. Returns an outcome without secrets for each change, in order.
pub(crate) fn change_files<'c>(
    cx: &Context<'_>,
    changes: &'c [Change<'_>],
    file: impl Fn(Option<&'c Attributes>) -> &'c str,
    change: impl Fn(&str, &[&'c Change<'_>]) -> Result<Vec<Outcome>, EcoString>,
) -> Vec<Outcome> {
    let files = changes.iter().map(|one| Ok(vec![file(one.should)])).collect();
    change_all(cx, changes, files, |file, changes| change(file, changes))
}

/// Makes the changes of each file together. If that fails, makes each one alone, so that an invalid change does not
/// make the others fail. A change can affect several files, or none if it has already failed. Returns an outcome
/// without secrets for each change, in order.
pub(crate) fn change_all<'c, F: Hash + Eq>(
    cx: &Context<'_>,
    changes: &'c [Change<'_>],
    files: Vec<Result<Vec<F>, EcoString>>,
    change: impl Fn(&F, &[&'c Change<'_>]) -> Result<Vec<Outcome>, EcoString>,
) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(changes.len());
    let mut by_file: FxHashMap<F, Vec<usize>> = FxHashMap::default();
    for (at, files) in files.into_iter().enumerate() {
        let (outcome, files) = match files {
            Ok(files) => (Outcome::done(), files),
            Err(why) => (Outcome::failed(why), Vec::new()),
        };
        outcomes.push(outcome);
        files.into_iter().for_each(|file| by_file.entry(file).or_default().push(at));
    }
    for (file, at) in by_file {
        let of_file: Vec<&Change<'_>> = at.iter().map(|&at| &changes[at]).collect();
        let made = match change(&file, &of_file) {
            Ok(made) => made,
            Err(why) if at.len() == 1 || cx.interrupt().is_raised() => vec![Outcome::failed(why); at.len()],
            Err(_) => {
                let alone = of_file.iter().map(|one| change(&file, &[*one]));
                alone.map(|made| made.map_or_else(Outcome::failed, |mut made| made.remove(0))).collect()
            }
        };
        for (at, outcome) in at.into_iter().zip(made) {
            let whole = &mut outcomes[at];
            whole.notes.extend(outcome.notes);
            whole.failure = whole.failure.take().or(outcome.failure);
        }
    }
    outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
}
