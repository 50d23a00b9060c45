//! `kilter history --channel3 FILE`: the actions of mold's scripts in a raw log of channel 3.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::ops::ControlFlow;
use std::path::Path;

use kilter_history::HistoryEvent;
use kilter_script::mold::{ChannelEvent, Frame, Message, Spawn, read_log};
use serde_json::json;

use crate::cli::{Global, HistoryArgs, ReportFormat};
use crate::exit::Exit;
use crate::output;
use crate::style::{NAME, styled};
use crate::visible::visible;

/// Minimum width of names.
const NAMES: usize = 24;

/// Minimum width of keys.
const KEYS: usize = 8;

/// Runs the command.
pub(crate) fn run(args: &HistoryArgs, global: &Global) -> Exit {
    let Some(path) = global.channel3.as_deref() else { return output::fail("--channel3 FILE is missing") };
    let log: Box<dyn Read> = match open(path) {
        Ok(log) => log,
        Err(error) => return output::fail(format!("cannot open the log {}: {error}", path.display())),
    };
    let mut told = Ok(());
    let read = read_log(log, &mut |frames| {
        told = output::write(&shown(frames, args, path));
        if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    match (read, told) {
        (Err(error), _) => output::fail(format!("cannot read the log {}: {error}", path.display())),
        (_, Err(error)) if error.kind() != ErrorKind::BrokenPipe => {
            output::fail(format!("cannot write to the standard output: {error}"))
        }
        _ => Exit::Done,
    }
}

pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    match path == Path::new("-") {
        true => Ok(Box::new(io::stdin().lock())),
        false => Ok(Box::new(File::open(path)?)),
    }
}

/// Returns some messages as text. Damage is reported on standard error.
fn shown(frames: Vec<Frame<Message>>, args: &HistoryArgs, path: &Path) -> String {
    let mut text = String::new();
    for frame in frames {
        match frame {
            Frame::Message(message) if !is_wanted(&message, args) => {}
            Frame::Message(message) => text += &line(&message, args.format),
            Frame::Damage(damage) => {
                output::warning(format_args!(
                    "{}: at byte {}: {}",
                    path.display(),
                    damage.at,
                    visible(&damage.to_string())
                ));
            }
        }
    }
    text
}

fn is_wanted(message: &Message, args: &HistoryArgs) -> bool {
    let name = message.name.as_deref().unwrap_or_default();
    let is_named = args.name.as_ref().is_none_or(|beginning| name.starts_with(beginning.as_str()));
    let key = message.key_text();
    is_named && (args.keys.is_empty() || args.keys.iter().any(|wanted| word(wanted) == word(&key)))
}

/// Returns the word for the number of a descriptor.
fn word(key: &str) -> &str {
    match key {
        "0" => "stdin",
        "1" => "stdout",
        "2" => "stderr",
        other => other,
    }
}

/// Returns the message that an event contains.
pub(super) fn message(event: &HistoryEvent) -> Message {
    let part = |key: &str| event.body[key].clone();
    Message { name: event.body["name"].as_str().map(Into::into), key: part("key"), data: part("data") }
}

/// Returns a message as a line.
pub(super) fn line(message: &Message, format: ReportFormat) -> String {
    let key = message.key_text();
    if format == ReportFormat::Json {
        return format!("{}\n", json!({ "name": message.name.as_deref(), "key": key, "data": message.data }));
    }
    let name = visible(message.name.as_deref().unwrap_or("-"));
    let padding = " ".repeat(NAMES.saturating_sub(name.chars().count()));
    let (name, key) = (styled(NAME, &name), visible(word(&key)));
    let line = format!("{name}{padding}  {key:<KEYS$}  {}", visible(&message_text(message)));
    format!("{}\n", line.trim_end())
}

/// Returns the text of a message for people.
fn message_text(message: &Message) -> String {
    match message.event() {
        ChannelEvent::Stream { bytes, .. } => match std::str::from_utf8(&bytes) {
            Ok(text) => text.strip_suffix('\n').unwrap_or(text).to_owned(),
            Err(_) => format!("{} bytes: {}", bytes.len(), bytes.escape_ascii()),
        },
        ChannelEvent::Spawn(spawn) => spawned(&spawn),
        ChannelEvent::ExitCode(code) | ChannelEvent::Exit { code: Some(code), signal: None } => code.to_string(),
        ChannelEvent::Exit { signal: Some(signal), .. } => format!("signal {signal}"),
        ChannelEvent::Exit { .. } | ChannelEvent::Other => message.data.to_string(),
    }
}

/// Returns the program with its arguments and its user.
fn spawned(spawn: &Spawn) -> String {
    let program = spawn.path.as_ref().or(spawn.args.first()).map_or("?", String::as_str);
    let mut text = program.to_owned();
    for arg in spawn.args.iter().skip(1) {
        text +=
            &if arg.is_empty() || arg.contains(char::is_whitespace) { format!(" {arg:?}") } else { format!(" {arg}") };
    }
    match (&spawn.user, &spawn.group) {
        (None, None) => text,
        (user, group) => {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("{text} (as {}:{})", part(user), part(group))
        }
    }
}
