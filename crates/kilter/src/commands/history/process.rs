//! Processes of a resource, for people and as messages of channel 3.

use kilter_history::HistoryEvent;
use kilter_script::mold::Message;
use serde_json::{Value as Json, json};

use super::mold_log;
use crate::cli::ReportFormat;
use crate::style::{FAILED, FAINT, styled};
use crate::visible::visible;

/// Returns true if the event is a process that kilter started, and not a message of an imported log.
pub(super) fn is_own(event: &HistoryEvent) -> bool {
    event.body["argv"].is_array()
}

/// Returns the number of a process in its run.
pub(super) fn number(event: &HistoryEvent) -> Option<u64> {
    event.body["number"].as_u64()
}

/// Returns a process with its outputs and messages.
pub(super) fn shown(event: &HistoryEvent) -> String {
    let body = &event.body;
    let end = end(body);
    let end = if body["exit"] == 0 && body["cut_short"].is_null() { end } else { styled(FAILED, end) };
    let duration = styled(FAINT, format!("({} ms)", body["duration_ms"].as_u64().unwrap_or_default()));
    let purpose = body["for"].as_str().map(|purpose| format!(" for a {}", visible(purpose))).unwrap_or_default();
    let mut text = format!("    ran {}{purpose}: {end} {duration}\n", visible(&command(body)));
    for stream in ["stdout", "stderr"] {
        for line in body[stream].as_str().unwrap_or_default().lines() {
            text += &format!("      {}\n", styled(FAINT, format!("{stream} | {}", visible(line))));
        }
    }
    for message in messages(body) {
        text += &format!("      {}", mold_log::line(&message, ReportFormat::Human));
    }
    if let Some(dropped) = body["messages_dropped"].as_u64() {
        text += &format!("      {}\n", styled(FAINT, format!("{dropped} more messages are not on record")));
    }
    text
}

/// Returns a process and its outputs as lines without styles.
pub(super) fn lines(event: &HistoryEvent) -> Vec<String> {
    let body = &event.body;
    let output = |stream: &'static str| {
        let lines = body[stream].as_str().unwrap_or_default().lines();
        lines.map(move |line| format!("  {stream} | {line}"))
    };
    let head = format!("ran {}: {}", command(body), end(body));
    std::iter::once(head).chain(output("stdout")).chain(output("stderr")).collect()
}

/// Returns the program and its arguments on one line.
fn command(body: &Json) -> String {
    let words = body["argv"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let word = |word: &str| match word.is_empty() || word.contains(|c: char| c.is_whitespace() || c == '\'') {
        true => format!("{word:?}"),
        false => word.to_owned(),
    };
    words.map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the end of a process in words.
fn end(body: &Json) -> String {
    let end = match (&body["exit"], &body["signal"], body["error"].as_str()) {
        (Json::Number(code), ..) => format!("exit code {code}"),
        (_, Json::Number(signal), _) => format!("signal {signal}"),
        (.., Some(why)) => visible(why),
        _ => "?".to_owned(),
    };
    match body["cut_short"].as_str() {
        Some("deadline") => format!("{end}, ended at its timeout"),
        Some("output_limit") => format!("{end}, ended because it wrote too much"),
        Some(_) => format!("{end}, ended because the run was interrupted"),
        None => end,
    }
}

/// Returns the messages of the process on channel 3.
fn messages(body: &Json) -> impl Iterator<Item = Message> {
    body["messages"].as_array().into_iter().flatten().map(|message| Message {
        name: message[0].as_str().map(Into::into),
        key: message[1].clone(),
        data: message[2].clone(),
    })
}

/// Returns a process as messages, as a parent that runs it reports them: its start, its outputs, its own messages and
/// its end. The name consists of the resource and the number of the process.
pub(super) fn as_messages(event: &HistoryEvent) -> Vec<Message> {
    let body = &event.body;
    let resource = event.resource.as_ref().map(|(type_name, title)| format!("{type_name}[{title}]"));
    // A process before the first resource has a purpose in place of a resource and a number.
    let name = match (resource, number(event)) {
        (Some(resource), Some(number)) => format!("{resource}#{number}"),
        _ => body["for"].as_str().unwrap_or_default().to_owned(),
    };
    let mut all = vec![Message::new("spawn", json!({ "path": body["argv"][0], "args": body["argv"] }))];
    for stream in ["stdout", "stderr"] {
        let lines = body[stream].as_str().unwrap_or_default().split_inclusive('\n');
        all.extend(lines.map(|line| Message::part(stream, line.as_bytes())));
    }
    all.extend(messages(body));
    all.push(match (&body["exit"], &body["signal"]) {
        (Json::Null, Json::Null) => Message::new("error", body["error"].clone()),
        (Json::Null, signal) => Message::new("exit", json!({ "code": null, "signal": signal })),
        (code, _) => Message::new("exitcode", code.clone()),
    });
    all.into_iter().map(|message| message.of_child(&name)).collect()
}
