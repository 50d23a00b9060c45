//! Status of a run for people, from its JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kilter_runtime::{Conditions, SourceFailure, SourceVersion, Stale};
use serde_json::Value as Json;

use super::conditions::{conditions, first_digits, holding, utc};
use super::{long, unix};
use crate::render::report::{counted, process};
use crate::style::{CHANGED, FAILED, FAINT, NAME, styled};
use crate::visible::visible;

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
        ("hidden", "not checked"),
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
            text += &format!("    {}\n", pause_line(one));
        }
    }
    for begun in json["superseded_calls"].as_array().into_iter().flatten() {
        text += &format!("started before an edit and still running: {}\n", former(begun));
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
    let source = source(&json["source"]);
    if let Some(source) = source.as_ref().filter(|source| source.failure.is_none()) {
        text += &format!("{}\n", styled(FAINT, version(source, &long(&json["source"]["age_ms"]))));
    }
    let rest = Conditions {
        source: source.filter(|source| source.failure.is_some()),
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

/// Returns the message about the held version of the manifests.
fn version(source: &SourceVersion, age: &str) -> String {
    let (held, name) = (first_digits(&source.held), visible(&source.source));
    match source.held == source.newest {
        true => format!("from {held} of {name}, last seen there {age} ago"),
        false => format!("from {held} of {name}; the newest one there is {}", first_digits(&source.newest)),
    }
}

/// Returns the version of the manifests in a status.
fn source(json: &Json) -> Option<SourceVersion> {
    let text = |key: &str| json[key].as_str().unwrap_or_default().into();
    let seen = UNIX_EPOCH + Duration::from_millis(json["seen_unix_ms"].as_u64()?);
    let failure = json["failure"]["why"].as_str();
    let is_rejected = json["failure"]["rejected"] == true;
    let failure = failure.map(|why| SourceFailure { why: why.into(), is_rejected });
    Some(SourceVersion { source: text("source"), held: text("version"), newest: text("newest"), seen, failure })
}

/// Returns the texts of a list, unescaped.
fn texts_unescaped(json: &Json) -> Vec<&str> {
    json.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

/// Returns the message about a pause, with its reason.
fn pause(json: &Json) -> String {
    let paused = &json["paused"];
    if let Some(command) = paused["why"].as_str().filter(|_| paused["pauses"].as_array().is_some_and(Vec::is_empty)) {
        let time = long(&paused["for_ms"]);
        return format!("lent to {} for {time}: nothing new starts until it ends", visible(command));
    }
    let mut text = format!("paused for {}", long(&paused["for_ms"]));
    if let Some(why) = paused["why"].as_str() {
        text += &format!(" ({})", visible(why));
    }
    text += ": nothing new starts ";
    text += &match paused["left_ms"].is_null() {
        true => "until `kilter resume`".to_owned(),
        false => format!("for {} more", long(&paused["left_ms"])),
    };
    match json["in_flight"].as_u64() {
        Some(0) | None => text,
        Some(_) => text + "; running calls continue",
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
            text += &format!(" for {}calls that started before an edit: {awaited}", semaphore.unwrap_or_default());
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
    let pending_from = texts(&json["refresh_pending_from"]);
    if !pending_from.is_empty() {
        text += &format!("    it has a pending refresh from {}\n", pending_from.join(", "));
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
    if json["opponent"].is_object() {
        text += &format!("    changed by {}\n", process(&json["opponent"]));
    }
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

/// Returns a running call of a changed or removed resource, with its duration.
fn former(json: &Json) -> String {
    let shown = |key: &str| visible(json[key].as_str().unwrap_or_default());
    format!("{} {}, for {}", shown("doing"), shown("resource"), long(&json["for_ms"]))
}

/// Returns the event sources of a resource, and its changes.
fn circumstances(json: &Json) -> Vec<String> {
    let mut parts: Vec<String> = part_of(json).into_iter().collect();
    parts.push(match json["watched"].as_str() {
        Some("poll") => format!("polled every {}", long(&json["every_ms"])),
        Some("once") => "no watch".to_owned(),
        _ => "watched".to_owned(),
    });
    if json["watched_only"] == true {
        parts.push("contested, and no longer repaired (`contested: observe`)".to_owned());
    }
    if !json["next_check_ms"].is_null() {
        parts.push(format!("next check in {}", long(&json["next_check_ms"])));
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
        if let (&"changes", Some(count @ 1..)) = (&key, json["corrections"].as_u64()) {
            parts.push(format!("{count} of them after a drift"));
        }
    }
    let now = unix(SystemTime::now()).as_u64().unwrap_or(0);
    let ago = |key: &str| Some(long(&now.saturating_sub(json[key]["unix_ms"].as_u64()?).into()));
    if let Some(ago) = ago("last_change") {
        let word = if json["last_change"]["corrected"] == true { "correction" } else { "change" };
        parts.push(format!("last {word} {ago} ago: {}", texts(&json["last_change"]["attributes"]).join(", ")));
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

/// Returns one pause for people.
pub(crate) fn pause_line(json: &Json) -> String {
    let at = |key: &str| utc(UNIX_EPOCH + Duration::from_millis(json[key].as_u64().unwrap_or(0)));
    let why = json["why"].as_str().filter(|why| !why.is_empty()).map(|why| format!(": {}", visible(why)));
    let until = json["until_unix_ms"].as_u64().map(|_| format!(" until {}", at("until_unix_ms")));
    format!(
        "pause {} by {} since {}{}{}",
        json["id"],
        visible(json["by"].as_str().unwrap_or_default()),
        at("unix_ms"),
        until.unwrap_or_default(),
        why.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_shows_waiting_reason_and_refresh_cause() {
        let text = one(&json!({
            "resource": "exec[r]", "state": "refreshing", "refresh_pending_from": ["exec[w]"],
            "last_refresh": {"unix_ms": unix(SystemTime::now()), "by": ["file[/a]", "exec[w]"]},
        }));
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.contains("    it has a pending refresh from exec[w]\n"), "{text}");
        let waiting = one(&json!({"resource": "a[b]", "state": "waiting", "because_of": "a[c]", "semaphore": "x"}));
        let waiting = anstream::adapter::strip_str(&waiting).to_string();
        assert!(waiting.starts_with("a[b] waiting for the semaphore x, which a[c] has\n"), "{waiting}");
        assert!(text.contains("last refresh ") && text.contains(" ago: by file[/a], exec[w]\n"), "{text}");
    }
}
