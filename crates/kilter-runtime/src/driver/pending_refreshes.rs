//! Pending refreshes: journal entries and tokens of the machine.

use ecow::{EcoString, eco_format};
use kilter_engine::{Graph, RefreshToken, ResourceId, Timestamp};
use kilter_model::ResourceRef;

use crate::journal::{Journal, OwedRefresh};
use crate::lookup::Lookup;
use crate::options::{Mode, Options};

/// Interval between attempts to write a journal after a failure, in milliseconds.
pub(super) const JOURNAL_RETRY: u64 = 5_000;

/// State of a journal that cannot be written while a state is held.
#[derive(Clone, Debug)]
pub(super) struct JournalFailure {
    pub(super) why: EcoString,
    pub(super) next_try: Timestamp,
}

/// Verifies that the state directory at its path belongs to this run, and recreates it if it was removed. The journal
/// must not replace the journal of another run.
pub(super) fn hold_state_dir(options: &Options) -> Result<(), EcoString> {
    let state_dir = options.state_dir.as_ref().filter(|_| options.mode == Mode::Apply);
    // The run holds the same lock until it ends.
    state_dir.map_or(Ok(()), |state_dir| state_dir.hold().map(drop)).map_err(|error| described(&error))
}

/// Formats an error with its cause.
pub(super) fn described(error: &dyn std::error::Error) -> EcoString {
    let cause = error.source().map(|cause| format!(": {cause}"));
    eco_format!("{error}{}", cause.unwrap_or_default())
}

/// Returns the refreshes that earlier runs left pending for resources of this one.
pub(super) fn owed(lookup: &Lookup<'_>, journal: Option<&Journal>, graph: &Graph) -> Vec<RefreshToken> {
    journal
        .into_iter()
        .flat_map(Journal::owed)
        .filter_map(|owed_refresh| token_of(lookup, owed_refresh, graph))
        .collect()
}

/// Returns the declared resources for which a refresh from `first` is pending.
pub(super) fn owed_for(lookup: &Lookup<'_>, journal: Option<&Journal>, first: &ResourceRef) -> Vec<ResourceId> {
    let owed_refreshes = journal.into_iter().flat_map(Journal::owed).filter(|owed_refresh| owed_refresh.0 == *first);
    owed_refreshes.filter_map(|(_, second)| lookup.referred(second)).collect()
}

/// Converts a journal entry to a token; none if the graph does not contain the resource to refresh.
pub(super) fn token_of(lookup: &Lookup<'_>, (first, second): &OwedRefresh, graph: &Graph) -> Option<RefreshToken> {
    let second = lookup.referred(second)?;
    let first = lookup.referred(first).filter(|first| graph.find(*first, second).is_some());
    Some(first.map_or(RefreshToken::orphaned(second), |first| RefreshToken { first, second }))
}
