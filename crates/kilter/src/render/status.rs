//! Output of `kilter status`: the JSON of a run (docs/reference/status.md), and the text for people that is made
//! from it.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kilter_model::{ReceivedValue, ResourceRef};
use kilter_runtime::{
    CompositeStanding, Conditions, Contest, Counts, Event, InFlightCall, Outdated, Paused, ResourceStatus, Stale,
    StatusSnapshot, Watched,
};
use serde_json::{Map, Value as Json, json};

use super::diff::visible;
use super::report::counted;
use super::{CHANGED, FAILED, FAINT, NAME, json, styled};
use crate::pauses;

/// Writes the status as one line of JSON, one resource after the other. A single document of 100,000 resources
/// would take 400 MB of memory.
pub(crate) fn write(standings: StatusSnapshot, pauses: Json, mut out: impl Write) -> io::Result<()> {
    let mut of_all = of_all(&standings);
    if of_all["paused"].is_object() {
        of_all["paused"]["pauses"] = pauses;
    }
    let head = plain(&of_all);
    write!(out, "{},\"resources\":[", head.strip_suffix('}').unwrap_or(&head))?;
    for (number, one) in standings.resources.into_iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(out, "{comma}{}", plain(&standing(&one)))?;
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
        "collected": standings.conditions.collected.as_ref().map(collected),
        "journal": standings.conditions.journal.as_deref(),
        "declared_polled": standings.conditions.is_declared_polled,
        "oldest_check_ms": standings.oldest_check.map(ms),
        "in_flight": standings.in_flight,
        "counts": of_all,
        "settled": settled(&standings.settled),
        "watches": standings.watches,
        "overflows": standings.overflows,
        "begun_before": standings.begun_before.iter().map(begun).collect::<Vec<_>>(),
        "composites": standings.composites.iter().map(composite).collect::<Vec<_>>(),
        "unknown": standings.unknown.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Returns the errors of the manifest, and the age of the held state.
fn outdated(outdated: &Outdated) -> Json {
    json!({"held_unix_ms": unix(outdated.held), "errors": outdated.errors, "messages": outdated.messages.iter().map(|line| line.as_str()).collect::<Vec<_>>()})
}

/// Returns the age of the collected resources, and the reason why there are no newer ones.
fn collected(stale: &Stale) -> Json {
    let age = SystemTime::now().duration_since(stale.at).unwrap_or_default();
    json!({"read_unix_ms": unix(stale.at), "age_ms": ms(age), "why": stale.why.as_str()})
}

/// Returns the message that collected resources may be older than the exported ones.
pub(crate) fn holding_collected(stale: &Stale) -> String {
    let age = SystemTime::now().duration_since(stale.at).unwrap_or_default();
    format!("holding the resources collected at {}, {} ago: {}", utc(stale.at), long(&ms(age)), visible(&stale.why))
}

/// Returns conditions that keep a run from holding the declared state as usual, one line for each.
pub(crate) fn conditions(conditions: &Conditions) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(Outdated { held, errors, .. }) = &conditions.outdated {
        lines.push(holding(*held, *errors));
    }
    lines.extend(conditions.collected.as_ref().map(holding_collected));
    if let Some(why) = &conditions.journal {
        lines.push(format!("changes that owe a refresh wait: {}", visible(why)));
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
fn holding(held: SystemTime, errors: usize) -> String {
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
fn composite(standing: &CompositeStanding) -> Json {
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
fn standing(standing: &ResourceStatus) -> Json {
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
        put("awaits", begun(awaited));
    }
    if let Some(failure) = &standing.failure {
        put("failure", failure.as_str().into());
    }
    if !standing.owed_by.is_empty() {
        put("owed_by", names(&standing.owed_by));
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
        put("next_look_ms", ms(next));
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
    Json::Object(json)
}

/// Returns a contest over a resource.
fn contested(contest: &Contest) -> Json {
    json!({
        "repairs": contest.repairs,
        "for_ms": ms(contest.since),
        "next_repair_ms": ms(contest.next_repair),
        "differences": contest.differences.iter().map(json::difference).collect::<Vec<_>>(),
    })
}

fn names(resources: &[ResourceRef]) -> Json {
    resources.iter().map(ToString::to_string).collect()
}

/// Returns a running call of a former graph.
fn begun(begun: &InFlightCall) -> Json {
    json!({"resource": begun.reference.to_string(), "doing": begun.doing, "for_ms": ms(begun.since)})
}

fn received(receipt: &ReceivedValue) -> Json {
    json!({"attribute": receipt.attribute.as_str(), "from": receipt.sources(), "changed": receipt.changed})
}

/// Returns an event for followers; none for events that only concern displays.
pub(crate) fn event(event: &Event<'_>) -> Option<Json> {
    let mut json = match event {
        Event::Begun { reference, doing } => {
            json!({"event": "begun", "resource": reference.to_string(), "doing": doing})
        }
        Event::Settled(report) => {
            let mut json = json::resource(report);
            json["event"] = "settled".into();
            json
        }
        Event::Retrying { reference, failure, delay } => {
            json!({"event": "retrying", "resource": reference.to_string(), "failure": failure, "delay_ms": delay})
        }
        Event::Log { level, type_name, name, message } => {
            json!({"event": "log", "level": level.word(), "type": type_name, "name": name, "message": message})
        }
        Event::Converged(converged) => json!({"event": "converged", "converged": converged}),
        Event::Contested { reference, repairs, next, differences } => {
            let differences: Vec<Json> = differences.iter().map(json::difference).collect();
            json!({"event": "contested", "resource": reference.to_string(), "repairs": repairs, "next_repair_ms": ms(*next), "differences": differences})
        }
        Event::Uncontested { reference } => json!({"event": "uncontested", "resource": reference.to_string()}),
        Event::Demoted { reference, repairs, within, differences } => {
            let differences: Vec<Json> = differences.iter().map(json::difference).collect();
            json!({"event": "demoted", "resource": reference.to_string(), "repairs": repairs, "within_ms": within, "differences": differences})
        }
        Event::Unwatched { count, why, every } => {
            json!({"event": "unwatched", "resources": count, "why": why, "every_ms": every.map(ms)})
        }
        Event::DeclaredUnwatched { why, every } => {
            json!({"event": "declared_unwatched", "why": why, "every_ms": ms(*every)})
        }
        Event::Rewatched { count } => json!({"event": "rewatched", "resources": count}),
        Event::Paused { why, longest } => json!({"event": "paused", "why": why, "longest_ms": longest.map(ms)}),
        Event::Resumed => json!({"event": "resumed"}),
        Event::Reloading => json!({"event": "reloading"}),
        Event::Interrupted { in_flight, .. } => json!({"event": "interrupted", "in_flight": in_flight}),
        Event::Conditions(conditions) => json!({
            "event": "conditions",
            "outdated": conditions.outdated.as_ref().map(outdated),
            "collected": conditions.collected.as_ref().map(collected),
            "journal": conditions.journal.as_deref(),
            "declared_polled": conditions.is_declared_polled,
            "unwatched": conditions.unwatched,
            "contested": conditions.contested,
            "watched_only": conditions.watched_only,
        }),
        Event::Quiet(of) => json!({"event": "quiet", "counts": json::counts(of)}),
        Event::Flushed
        | Event::Watchdog
        | Event::StatusSocketChanged
        | Event::Waiting { .. }
        | Event::Idle
        | Event::Progress { .. } => {
            return None;
        }
    };
    json["unix_ms"] = unix(SystemTime::now());
    Some(json)
}

fn ms(duration: Duration) -> Json {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into()
}

fn unix(at: SystemTime) -> Json {
    ms(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Returns the status for people.
pub(crate) fn text(json: &Json) -> String {
    let counts = &json["counts"];
    let count = |key: &str| counts[key].as_u64().unwrap_or(0);
    let mut parts = vec![format!("{} in their state", count("in_sync_now"))];
    let words = [
        ("under_way", "under way"),
        ("would_change", "would be changed"),
        ("would_refresh", "would be refreshed"),
        ("unknown", "not known"),
        ("failed", "failed"),
        ("skipped", "skipped"),
        ("interrupted", "interrupted"),
        ("contested", "contested"),
        ("watched_only", "no longer repaired"),
        ("left_out", "left out by `when`"),
    ];
    parts.extend(
        words.into_iter().filter(|(key, _)| count(key) > 0).map(|(key, word)| format!("{} {word}", count(key))),
    );
    let verb = if json["noop"] == true { "only watches" } else { "holds" };
    let mut text = format!(
        "process {} {verb} {}, for {}: {}",
        json["process"],
        counted(count("total")),
        long(&json["held_for_ms"]),
        parts.join(", ")
    );
    if !json["quiet_for_ms"].is_null() {
        text += &format!("; quiet for {}", long(&json["quiet_for_ms"]));
    }
    text.push('\n');
    text += &held_otherwise(json);
    if json["paused"].is_object() {
        text += &format!("{}\n", styled(CHANGED, pause(json)));
        for one in json["paused"]["pauses"].as_array().into_iter().flatten() {
            text += &format!("    {}\n", pauses::line(one));
        }
    }
    for begun in json["begun_before"].as_array().into_iter().flatten() {
        text += &format!("begun before an edit, and not ended: {}\n", former(begun));
    }
    for composite in json["composites"].as_array().into_iter().flatten() {
        text += &whole(composite);
    }
    for resource in json["resources"].as_array().into_iter().flatten() {
        text += &one(resource);
    }
    text
}

/// Returns the conditions that keep the run from holding the declared state as usual, and the age of the oldest
/// check.
fn held_otherwise(json: &Json) -> String {
    /// Maximum number of lines about the errors of the manifest.
    const SHOWN_LINES: usize = 20;
    let mut text = String::new();
    let outdated = &json["outdated"];
    if outdated.is_object() {
        let held = UNIX_EPOCH + Duration::from_millis(outdated["held_unix_ms"].as_u64().unwrap_or(0));
        let errors = usize::try_from(outdated["errors"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
        text += &format!("{}\n", styled(FAILED, holding(held, errors)));
        let messages = texts_unescaped(&outdated["messages"]);
        let lines: Vec<&str> = messages.iter().flat_map(|message| message.lines()).collect();
        lines.iter().take(SHOWN_LINES).for_each(|line| text += &format!("    {}\n", visible(line)));
        if lines.len() > SHOWN_LINES {
            text += &format!("    … {} lines more: --format json has all\n", lines.len() - SHOWN_LINES);
        }
    }
    let count = |key: &str| usize::try_from(json["counts"][key].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let at = json["collected"]["read_unix_ms"].as_u64().map(|at| UNIX_EPOCH + Duration::from_millis(at));
    let why = json["collected"]["why"].as_str().unwrap_or_default();
    let rest = Conditions {
        collected: at.map(|at| Stale { at, why: why.into() }),
        journal: json["journal"].as_str().map(Into::into),
        is_declared_polled: json["declared_polled"] == true,
        unwatched: count("unwatched"),
        ..Conditions::default()
    };
    for line in conditions(&rest) {
        text += &format!("{}\n", styled(CHANGED, line));
    }
    if count("polled") > 0 {
        let of = match count("polled") {
            1 => "1 resource is".to_owned(),
            many => format!("{many} resources are"),
        };
        let age = match json["oldest_check_ms"].as_u64() {
            Some(_) => format!("the oldest check is {} old", long(&json["oldest_check_ms"])),
            None => "none has been checked yet".to_owned(),
        };
        text += &format!("{}\n", styled(FAINT, format!("{of} polled, not watched: {age}")));
    }
    text
}

/// Returns the texts of a list, unescaped.
fn texts_unescaped(json: &Json) -> Vec<&str> {
    json.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

/// Returns the message about a pause, with its reason.
fn pause(json: &Json) -> String {
    let paused = &json["paused"];
    let mut text = format!("paused for {}", long(&paused["for_ms"]));
    if let Some(why) = paused["why"].as_str() {
        text += &format!(" ({})", visible(why));
    }
    text += ": nothing is begun ";
    text += &match paused["left_ms"].is_null() {
        true => "until `kilter resume`".to_owned(),
        false => format!("for {} more", long(&paused["left_ms"])),
    };
    match json["in_flight"].as_u64() {
        Some(0) | None => text,
        Some(_) => text + "; what is under way goes on",
    }
}

/// Returns a composite resource.
fn whole(json: &Json) -> String {
    let counts = json["counts"].as_object().into_iter().flatten();
    let counts: Vec<String> = counts.map(|(word, count)| format!("{count} {}", word.replace('_', " "))).collect();
    let counts = if counts.is_empty() { "no parts".to_owned() } else { counts.join(", ") };
    let mut text = format!("{}: {counts}\n", headline(json));
    let mut ties: Vec<String> = part_of(json).into_iter().collect();
    let entries_in = texts(&json["entries_in"]);
    if !entries_in.is_empty() {
        ties.push(format!("entries in {}", entries_in.join(", ")));
    }
    if !ties.is_empty() {
        text += &format!("    {}\n", styled(FAINT, ties.join("; ")));
    }
    text
}

/// Returns the name and the state of a resource.
fn headline(json: &Json) -> String {
    let state = json["state"].as_str().unwrap_or_default();
    let style = match state {
        "failed" => FAILED,
        "in_sync" | "skipped" => FAINT,
        _ => CHANGED,
    };
    let name = visible(json["resource"].as_str().unwrap_or_default());
    format!("{} {}", styled(NAME, name), styled(style, state.replace('_', " ")))
}

/// Returns the composite resource that contains it.
fn part_of(json: &Json) -> Option<String> {
    Some(format!("part of {}", visible(json["owner"].as_str()?)))
}

fn one(json: &Json) -> String {
    let shown = |key: &str| visible(json[key].as_str().unwrap_or_default());
    let state = json["state"].as_str().unwrap_or_default();
    let mut text = headline(json);
    match state {
        "waiting" if json["awaits"].is_object() => {
            let semaphore =
                json["semaphore"].is_string().then(|| format!("the semaphore {}, and ", shown("semaphore")));
            let awaited = former(&json["awaits"]);
            text += &format!(" for {}what was begun before an edit: {awaited}", semaphore.unwrap_or_default());
        }
        "waiting" if json["semaphore"].is_string() => {
            text += &format!(" for the semaphore {}, which {} has", shown("semaphore"), shown("because_of"));
        }
        "queued" => text += " for a worker",
        "waiting" => text += &format!(" for {}", shown("because_of")),
        _ if json["because_of"].is_string() => text += &format!(" because of {}", shown("because_of")),
        _ => {}
    }
    text.push('\n');
    for line in json["failure"].as_str().into_iter().flat_map(str::lines) {
        text += &format!("    {}\n", styled(FAILED, visible(line)));
    }
    if json["contested"].is_object() {
        text += &contest(&json["contested"]);
    } else {
        for difference in json["differences"].as_array().into_iter().flatten() {
            let attribute = visible(difference["attribute"].as_str().unwrap_or_default());
            text += &format!("    {attribute} is not as it should be\n");
        }
    }
    for unknown in json["unknown"].as_array().into_iter().flatten() {
        let part = |key: &str| visible(unknown[key].as_str().unwrap_or_default());
        text += &format!("    {} is known {}\n", part("attribute"), part("reason"));
    }
    for received in json["received"].as_array().into_iter().flatten() {
        let from = texts(&received["from"]);
        let to_come = if received["changed"] == true { ", which it has yet to become" } else { "" };
        let attribute = visible(received["attribute"].as_str().unwrap_or_default());
        text += &format!("    {attribute} is from {}{to_come}\n", from.join(", "));
    }
    for cause in json["refreshed_by"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        text += &format!("    refreshed by {}\n", visible(cause));
    }
    for line in json["unwatched"].as_str().into_iter().flat_map(str::lines) {
        text += &format!("    not watched: {}\n", visible(line));
    }
    let owed_by = texts(&json["owed_by"]);
    if !owed_by.is_empty() {
        text += &format!("    a refresh is owed to it by {}\n", owed_by.join(", "));
    }
    for line in json["notes"].as_array().into_iter().flatten().filter_map(Json::as_str).flat_map(str::lines) {
        text += &format!("    | {}\n", visible(line));
    }
    text + &format!("    {}\n", styled(FAINT, circumstances(json).join("; ")))
}

/// Returns a contest over a resource, with the values of both sides.
fn contest(json: &Json) -> String {
    let next = match json["next_repair_ms"].as_u64() {
        Some(0) | None => "immediately after the next change".to_owned(),
        Some(_) => format!("in {} at the earliest", long(&json["next_repair_ms"])),
    };
    let what = format!(
        "contested for {}: another program undoes its repairs ({} so far). Next repair: {next}",
        long(&json["for_ms"]),
        json["repairs"],
    );
    let mut text = format!("    {}\n", styled(FAILED, what));
    for difference in json["differences"].as_array().into_iter().flatten() {
        let shown = |key: &str| match &difference[key] {
            Json::String(text) => text.clone(),
            Json::Null => "(none)".to_owned(),
            value => value.to_string(),
        };
        let change = match difference["message"].as_str() {
            Some(message) => message.to_owned(),
            None => format!("{} → {}", shown("is"), shown("should")),
        };
        let line: String = format!("{}: {change}", shown("attribute")).chars().take(200).collect();
        text += &format!("    {}\n", visible(&line));
    }
    text
}

/// Returns a running call of a former graph, with its duration.
fn former(json: &Json) -> String {
    let shown = |key: &str| visible(json[key].as_str().unwrap_or_default());
    format!("{} {}, for {}", shown("doing"), shown("resource"), long(&json["for_ms"]))
}

/// Returns the event sources of a resource, and its changes.
fn circumstances(json: &Json) -> Vec<String> {
    let mut parts: Vec<String> = part_of(json).into_iter().collect();
    parts.push(match json["watched"].as_str() {
        Some("poll") => format!("looked at every {}", long(&json["every_ms"])),
        Some("once") => "nothing tells of it".to_owned(),
        _ => "watched".to_owned(),
    });
    if json["watched_only"] == true {
        parts.push("contested, and no longer repaired (`contested: observe`)".to_owned());
    }
    if !json["next_look_ms"].is_null() {
        parts.push(format!("next look in {}", long(&json["next_look_ms"])));
    }
    if json["watched"] == "poll" && !json["last_check_ms"].is_null() {
        parts.push(format!("last check {} ago", long(&json["last_check_ms"])));
    }
    for (key, word) in [("changes", "changed"), ("refreshes", "refreshed"), ("failures", "failed")] {
        match json[key].as_u64().unwrap_or(0) {
            0 => {}
            1 => parts.push(format!("{word} once")),
            many => parts.push(format!("{word} {many} times")),
        }
    }
    let now = unix(SystemTime::now()).as_u64().unwrap_or(0);
    let ago = |key: &str| Some(long(&now.saturating_sub(json[key]["unix_ms"].as_u64()?).into()));
    if let Some(ago) = ago("last_change") {
        parts.push(format!("last change {ago} ago: {}", texts(&json["last_change"]["attributes"]).join(", ")));
    }
    if let Some(ago) = ago("last_refresh") {
        let by = texts(&json["last_refresh"]["by"]);
        parts.push(format!("last refresh {ago} ago: by {}", by.join(", ")));
    }
    parts
}

/// Returns the texts of a list, escaped.
fn texts(json: &Json) -> Vec<String> {
    json.as_array().into_iter().flatten().filter_map(Json::as_str).map(visible).collect()
}

/// Returns a time in milliseconds in its two largest units.
fn long(ms: &Json) -> String {
    let ms = ms.as_u64().unwrap_or(0);
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_two_units() {
        let said = [0, 999, 59_999, 60_000, 3_600_000, 90_000_000].map(|ms| long(&json!(ms)));
        assert_eq!(said, ["0 ms", "999 ms", "59 s", "1 min 0 s", "1 h 0 min", "1 d 1 h"]);
    }

    #[test]
    fn people_are_told_what_something_waits_for_and_because_of_what_it_is_refreshed() {
        let text = one(&json!({
            "resource": "exec[r]", "state": "refreshing", "owed_by": ["exec[w]"],
            "last_refresh": {"unix_ms": unix(SystemTime::now()), "by": ["file[/a]", "exec[w]"]},
        }));
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.contains("    a refresh is owed to it by exec[w]\n"), "{text}");
        let waiting = one(&json!({"resource": "a[b]", "state": "waiting", "because_of": "a[c]", "semaphore": "x"}));
        let waiting = anstream::adapter::strip_str(&waiting).to_string();
        assert!(waiting.starts_with("a[b] waiting for the semaphore x, which a[c] has\n"), "{waiting}");
        assert!(text.contains("last refresh ") && text.contains(" ago: by file[/a], exec[w]\n"), "{text}");
    }
}
