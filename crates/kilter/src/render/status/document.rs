//! Status of a run as JSON.

use std::io::{self, Write};
use std::time::SystemTime;

use kilter_model::{ReceivedValue, ResourceRef};
use kilter_runtime::{
    CompositeStatus, Contest, Counts, InFlightCall, Outdated, Paused, ResourceStatus, SourceVersion, Stale,
    StatusSnapshot, Watched,
};
use serde_json::{Map, Value as Json, json};

use super::corrections::Corrections;
use super::{ms, unix};
use crate::render::json;

/// Writes the status as one line of JSON, one resource after the other. A single document of 100,000 resources
/// would take 400 MB of memory.
pub(crate) fn write(
    standings: StatusSnapshot,
    pauses: Json,
    corrections: &Corrections,
    mut out: impl Write,
) -> io::Result<()> {
    let mut of_all = of_all(&standings);
    of_all["corrections"] = corrections.total().into();
    if of_all["paused"].is_object() {
        of_all["paused"]["pauses"] = pauses;
    }
    let head = plain(&of_all);
    write!(out, "{},\"resources\":[", head.strip_suffix('}').unwrap_or(&head))?;
    for (number, one) in standings.resources.into_iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(out, "{comma}{}", plain(&standing(&one, corrections)))?;
    }
    out.write_all(b"]}\n")?;
    out.flush()
}

/// Returns the status for metrics, with only the name and the state of each resource.
pub(crate) fn brief(standings: &StatusSnapshot) -> Json {
    let mut json = of_all(standings);
    let brief = |one: &ResourceStatus| json!({"resource": one.reference.to_string(), "state": one.word});
    json["resources"] = standings.resources.iter().map(brief).collect();
    json
}

/// Returns JSON that contains no control characters for a terminal.
pub(crate) fn plain(json: &Json) -> String {
    let mut plain = String::new();
    for c in json.to_string().chars() {
        match c {
            // They only occur in strings, where this escape is valid.
            '\u{7f}'..='\u{9f}' => plain += &format!("\\u{:04x}", u32::from(c)),
            c => plain.push(c),
        }
    }
    plain
}

/// Returns the general part of the status.
fn of_all(standings: &StatusSnapshot) -> Json {
    let mut of_all = json::counts(&standings.counts);
    of_all["under_way"] = standings.under_way.into();
    of_all["in_sync_now"] = standings.in_sync_now.into();
    of_all["contested"] = standings.conditions.contested.into();
    of_all["watched_only"] = standings.conditions.watched_only.into();
    of_all["unwatched"] = standings.conditions.unwatched.into();
    of_all["polled"] = standings.polled.into();
    json!({
        "process": std::process::id(),
        "held_for_ms": ms(standings.held_for),
        "noop": standings.noop,
        "quiet_for_ms": standings.quiet_for.map(ms),
        "paused": standings.paused.as_ref().map(paused),
        "outdated": standings.conditions.outdated.as_ref().map(outdated),
        "source": standings.source.as_ref().map(source),
        "collected": standings.conditions.collected.as_ref().map(collected),
        "journal": standings.conditions.journal.as_deref(),
        "declared_polled": standings.conditions.is_declared_polled,
        "oldest_check_ms": standings.oldest_check.map(ms),
        "in_flight": standings.in_flight,
        "counts": of_all,
        "settled": settled(&standings.settled),
        "watches": standings.watches,
        "overflows": standings.overflows,
        "superseded_calls": standings.superseded_calls.iter().map(in_flight).collect::<Vec<_>>(),
        "composites": standings.composites.iter().map(composite).collect::<Vec<_>>(),
        "unknown": standings.unknown.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Returns the errors of the manifest, and the age of the held state.
pub(super) fn outdated(outdated: &Outdated) -> Json {
    let messages: Vec<&str> = outdated.messages.iter().map(|line| line.as_str()).collect();
    json!({"held_unix_ms": unix(outdated.held), "errors": outdated.errors, "messages": messages})
}

/// Returns the version of the manifests, and why there is no newer one.
pub(super) fn source(source: &SourceVersion) -> Json {
    let age = SystemTime::now().duration_since(source.seen).unwrap_or_default();
    let failure = source.failure.as_ref();
    json!({
        "source": source.source.as_str(),
        "version": source.held.as_str(),
        "newest": source.newest.as_str(),
        "seen_unix_ms": unix(source.seen),
        "age_ms": ms(age),
        "failure": failure.map(|failure| json!({"why": failure.why.as_str(), "rejected": failure.is_rejected})),
    })
}

/// Returns the age of the collected resources, and the reason why there are no newer ones.
pub(super) fn collected(stale: &Stale) -> Json {
    let age = SystemTime::now().duration_since(stale.at).unwrap_or_default();
    json!({"read_unix_ms": unix(stale.at), "age_ms": ms(age), "why": stale.why.as_str()})
}

/// Returns a pause as JSON.
fn paused(paused: &Paused) -> Json {
    let mut json = json!({"for_ms": ms(paused.lasted)});
    if let Some(left) = paused.left {
        json["left_ms"] = ms(left);
    }
    if !paused.why.is_empty() {
        json["why"] = paused.why.as_str().into();
    }
    json
}

/// Returns the numbers of settlements by result, without the total, which means nothing here.
fn settled(counts: &Counts) -> Json {
    let mut json = json::counts(counts);
    if let Some(counts) = json.as_object_mut() {
        counts.retain(|key, _| !["total", "left_out"].contains(&key.as_str()));
    }
    json
}

/// Returns one composite resource.
fn composite(standing: &CompositeStatus) -> Json {
    let counts: Map<String, Json> =
        standing.counts.iter().map(|(word, count)| ((*word).into(), (*count).into())).collect();
    let mut json = json!({"resource": standing.reference.to_string()});
    if let Some(owner) = &standing.owner {
        json["owner"] = owner.to_string().into();
    }
    json["state"] = standing.word.into();
    json["counts"] = counts.into();
    json["parts"] = names(&standing.parts);
    if !standing.entries_in.is_empty() {
        json["entries_in"] = names(&standing.entries_in);
    }
    json
}

/// Returns one resource without empty keys.
fn standing(standing: &ResourceStatus, corrections: &Corrections) -> Json {
    let mut json = match standing.report.as_ref().map(json::resource) {
        Some(Json::Object(report)) => report,
        _ => Map::new(),
    };
    ["status", "type", "title", "duration_ms", "tries"].into_iter().for_each(|key| drop(json.remove(key)));
    let mut put = |key: &str, value: Json| drop(json.insert(key.into(), value));
    put("resource", standing.reference.to_string().into());
    if let Some(owner) = &standing.owner {
        put("owner", owner.to_string().into());
    }
    put("state", standing.word.into());
    if let Some(cause) = &standing.because_of {
        put("because_of", cause.to_string().into());
    }
    if let Some(semaphore) = &standing.semaphore {
        put("semaphore", semaphore.as_str().into());
    }
    if let Some(awaited) = &standing.awaits {
        put("awaits", in_flight(awaited));
    }
    if let Some(failure) = &standing.failure {
        put("failure", failure.as_str().into());
    }
    if !standing.owed_by.is_empty() {
        put("refresh_pending_from", names(&standing.owed_by));
    }
    if !standing.received.is_empty() {
        put("received", standing.received.iter().map(received).collect());
    }
    if standing.watched_only {
        put("watched_only", true.into());
    }
    if let Some(contest) = &standing.contest {
        put("contested", contested(contest));
    }
    put("watched", standing.watched.word().into());
    if let Watched::Polled(interval) = standing.watched {
        put("every_ms", ms(interval));
    }
    if let Some(why) = &standing.unwatched {
        put("unwatched", why.as_str().into());
    }
    if let Some(last) = standing.last_check {
        put("last_check_ms", ms(last));
    }
    if let Some(next) = standing.next_look {
        put("next_check_ms", ms(next));
    }
    let tally = &standing.tally;
    put("changes", tally.changes.into());
    put("refreshes", tally.refreshes.into());
    put("failures", tally.failures.into());
    if let Some((at, attributes)) = &tally.last_change {
        let attributes: Vec<&str> = attributes.iter().map(|name| name.as_str()).collect();
        put("last_change", json!({"unix_ms": unix(*at), "attributes": attributes}));
    }
    if let Some((at, by)) = &tally.last_refresh {
        put("last_refresh", json!({"unix_ms": unix(*at), "by": names(by)}));
    }
    corrections.put(&standing.reference, &mut json);
    Json::Object(json)
}

/// Returns a contest over a resource.
fn contested(contest: &Contest) -> Json {
    json!({
        "repairs": contest.repairs,
        "for_ms": ms(contest.since),
        "next_repair_ms": ms(contest.next_repair),
        "differences": contest.differences.iter().map(json::difference).collect::<Vec<_>>(),
        "opponent": contest.opponent.as_ref().map(json::process),
    })
}

fn names(resources: &[ResourceRef]) -> Json {
    resources.iter().map(ToString::to_string).collect()
}

/// Returns a running call of a changed or removed resource.
fn in_flight(call: &InFlightCall) -> Json {
    json!({"resource": call.reference.to_string(), "doing": call.doing, "for_ms": ms(call.since)})
}

fn received(receipt: &ReceivedValue) -> Json {
    json!({"attribute": receipt.attribute.as_str(), "from": receipt.sources(), "changed": receipt.changed})
}
