//! Conditions that keep a run from holding the declared state as usual.

use std::time::{SystemTime, UNIX_EPOCH};

use kilter_runtime::{Conditions, Outdated, SourceVersion, Stale};

use super::{long, ms};
use crate::visible::visible;

/// Returns the message that collected resources may be older than the exported ones.
pub(crate) fn holding_collected(stale: &Stale) -> String {
    let age = SystemTime::now().duration_since(stale.at).unwrap_or_default();
    format!("holding the resources collected at {}, {} ago: {}", utc(stale.at), long(&ms(age)), visible(&stale.why))
}

/// Returns the message that the held version may be older than the one in the source.
pub(crate) fn holding_source(source: &SourceVersion) -> String {
    let age = SystemTime::now().duration_since(source.seen).unwrap_or_default();
    let why = source.failure.as_ref().map(|failure| failure.why.as_str()).unwrap_or_default();
    let (held, name) = (first_digits(&source.held), visible(&source.source));
    format!(
        "holding {held} of {name}, last seen there at {}, {} ago: {}",
        utc(source.seen),
        long(&ms(age)),
        visible(why)
    )
}

/// Returns the first digits of a version.
pub(super) fn first_digits(version: &str) -> &str {
    version.get(..12).unwrap_or(version)
}

/// Returns conditions that keep a run from holding the declared state as usual, one line for each.
pub(crate) fn conditions(conditions: &Conditions) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(Outdated { held, errors, .. }) = &conditions.outdated {
        lines.push(holding(*held, *errors));
    }
    lines.extend(conditions.source.as_ref().map(holding_source));
    lines.extend(conditions.collected.as_ref().map(holding_collected));
    if let Some(why) = &conditions.journal {
        lines.push(format!("changes that notify other resources wait: {}", visible(why)));
    }
    let resources = |count: usize| if count == 1 { "1 resource".to_owned() } else { format!("{count} resources") };
    let (contested, unwatched) = (conditions.contested, conditions.unwatched);
    if contested > 0 {
        let are = if contested == 1 { "is" } else { "are" };
        lines.push(format!("{} {are} contested", resources(contested)));
    }
    let watched_only = conditions.watched_only;
    if watched_only > 0 {
        let are = if watched_only == 1 { "is" } else { "are" };
        lines.push(format!("{} {are} no longer repaired (`contested: observe`)", resources(watched_only)));
    }
    if unwatched > 0 {
        let are = if unwatched == 1 { "is" } else { "are" };
        lines.push(format!("{} cannot be watched and {are} polled", resources(unwatched)));
    }
    if conditions.is_declared_polled {
        lines.push("the manifest cannot be watched and is polled".to_owned());
    }
    lines
}

/// Returns the message that the held state is older than the manifest.
pub(super) fn holding(held: SystemTime, errors: usize) -> String {
    let at = utc(held);
    let s = if errors == 1 { "" } else { "s" };
    format!("holding the state of {at}; the manifest has {errors} error{s}")
}

/// Returns a time in UTC, to the second.
pub(crate) fn utc(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let at = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    at.map_or_else(|| "an unknown time".to_owned(), |at| at.to_string())
}
