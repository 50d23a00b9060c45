//! Converts the events of a script to messages for the historian.

use std::cell::{Cell, RefCell};

use ecow::EcoString;
use kilter_model::REDACTED;
use kilter_process::{Event, Invocation, Status, Stream};
use kilter_provider::{MessageList, Redactor};
use serde_json::{Map, Value as Json, json};

use crate::channel::{Channel, ChannelEvent, Frame, Garbage, Historian, Message};
use crate::secrets::can_search;
use crate::stderr_forwarder::whole_characters;

/// Maximum length of a line in a message, in bytes. Longer lines are split.
const LONGEST_LINE: usize = 64 << 10;

/// Maximum number of separately reported damages of channel 3.
const DAMAGES: usize = 10;

/// Recorder that reports the events of a script to a historian.
pub(super) struct EventRecorder<'a> {
    /// Name of the script in messages.
    name: &'a str,
    historian: &'a dyn Historian,
    seal: &'a Redactor,
    invocation: &'a Invocation,
    /// Redacted input, if the input contains secrets.
    told_input: Option<Vec<u8>>,
    stdin: Parts,
    stdout: Parts,
    stderr: Parts,
    channel: Channel,
    /// Damages of channel 3.
    pub(super) damages: Vec<Garbage>,
    /// Messages held back until their secrets are known.
    held: Option<HeldMessages>,
    /// Messages of the script for the history of kilter; none if it records no processes.
    pub(super) messages: Option<RefCell<MessageList>>,
}

/// Messages held back.
#[derive(Default)]
struct HeldMessages {
    kept: RefCell<Vec<HeldMessage>>,
    /// Approximate size, in bytes.
    bytes: Cell<usize>,
    /// Maximum size of the held messages of the script, in bytes.
    most: usize,
    /// Number of dropped bytes.
    dropped: Cell<usize>,
}

/// A message held back.
enum HeldMessage {
    /// A message of the runner.
    OfRunner(Message),
    /// A message of the script.
    OfScript(Message),
    /// A line of a stream of the script.
    Line(&'static str, RecordPart),
}

impl<'a> EventRecorder<'a> {
    pub(super) fn new(
        name: &'a str,
        historian: &'a dyn Historian,
        seal: &'a Redactor,
        invocation: &'a Invocation,
        told_input: Option<Vec<u8>>,
    ) -> EventRecorder<'a> {
        EventRecorder {
            name,
            historian,
            seal,
            invocation,
            told_input,
            stdin: Parts::default(),
            stdout: Parts::default(),
            stderr: Parts::default(),
            channel: Channel::new(),
            damages: Vec::new(),
            held: None,
            messages: None,
        }
    }

    /// Starts to hold back messages, up to `most` bytes. Drops further messages.
    pub(super) fn hold(&mut self, most: usize) {
        self.held = self.hears_script().then(|| HeldMessages { most, ..HeldMessages::default() });
    }

    /// Returns true if messages of the script are used.
    fn hears_script(&self) -> bool {
        self.historian.is_listening() || self.messages.is_some()
    }

    /// Reports the held messages and redacts the secrets in `seal`. If the secrets are unknown, redacts all
    /// messages of the script.
    pub(super) fn release(&mut self, seal: Option<&Redactor>) {
        let Some(held) = self.held.take() else { return };
        let seal = seal.filter(|seal| can_search(seal, held.bytes.get()));
        for kept in held.kept.into_inner() {
            self.send(match (seal, kept) {
                (Some(seal), HeldMessage::OfScript(message)) => {
                    self.tell_said(hidden(seal, message));
                    continue;
                }
                (None, HeldMessage::OfScript(_)) => {
                    self.tell_said(Message::new(REDACTED, Json::Null));
                    continue;
                }
                (Some(seal), HeldMessage::OfRunner(message)) => hidden(seal, message),
                (None, HeldMessage::OfRunner(message)) => message,
                (Some(seal), HeldMessage::Line(key, part)) => Message::part(key, &hidden_part(seal, &part)),
                (None, HeldMessage::Line(key, _)) => Message::part(key, REDACTED.as_bytes()),
            });
        }
        if held.dropped.get() > 0 {
            self.send(Message::new("damaged", json!({ "bytes": held.dropped.get(), "line": REDACTED })));
        }
    }

    /// Handles an event of the process.
    pub(super) fn observe(&mut self, event: &Event<'_>) {
        match event {
            // Damages are also logged, so they are recorded without a historian.
            Event::Chunk { stream: Stream::Channel, .. } | Event::Closed { stream: Stream::Channel } => {
                self.channel(event)
            }
            _ if !self.historian.is_listening() => {}
            Event::Spawned { pid, .. } => self.send(Message::new("spawn", spawn(self.invocation, *pid))),
            Event::StdinWritten { bytes } => self.input(bytes),
            Event::Chunk { stream, bytes } => {
                let lines = self.parts(*stream).0.feed(bytes);
                self.lines(*stream, lines);
            }
            Event::Closed { stream } => {
                let lines = self.parts(*stream).0.end();
                self.lines(*stream, lines);
            }
            Event::Exited { status, .. } => {
                let rest = self.stdin.end();
                rest.iter().for_each(|line| self.line("stdin", line));
                self.send(exit(*status));
            }
            _ => {}
        }
    }

    fn channel(&mut self, event: &Event<'_>) {
        let mut frames = Vec::new();
        match event {
            Event::Chunk { bytes, .. } => self.channel.feed(bytes, &mut |frame| frames.push(frame)),
            _ => self.channel.end(&mut |frame| frames.push(frame)),
        }
        frames.into_iter().for_each(|frame| self.frame(frame));
    }

    fn parts(&mut self, stream: Stream) -> (&mut Parts, &'static str) {
        match stream {
            Stream::Stderr => (&mut self.stderr, "stderr"),
            Stream::Stdout | Stream::Channel => (&mut self.stdout, "stdout"),
        }
    }

    fn lines(&mut self, stream: Stream, lines: Vec<RecordPart>) {
        let key = self.parts(stream).1;
        for line in lines {
            match &self.held {
                None => self.line(key, &line),
                Some(held) => held.take(HeldMessage::Line(key, line)),
            }
        }
    }

    fn input(&mut self, bytes: &[u8]) {
        match self.told_input.take() {
            Some(told) if !told.is_empty() => {
                self.part("stdin", &told);
                // The message with the start of the input already contains the whole input.
                self.told_input = Some(Vec::new());
            }
            Some(told) => self.told_input = Some(told),
            None => {
                let lines = self.stdin.feed(bytes);
                lines.iter().for_each(|line| self.line("stdin", line));
            }
        }
    }

    fn line(&self, key: &str, part: &RecordPart) {
        self.send(Message::part(key, &hidden_part(self.seal, part)));
    }

    fn part(&self, key: &str, bytes: &[u8]) {
        self.send(Message::part(key, &hidden_bytes(self.seal, bytes)));
    }

    fn frame(&mut self, frame: Frame<Message>) {
        match frame {
            Frame::Message(_) if !self.hears_script() => {}
            Frame::Message(message) => self.tell_said(hidden(self.seal, message)),
            Frame::Damage(damage) => {
                let beginning = self.seal.redact(damage.beginning.as_str().into());
                self.tell_said(Message::new("damaged", json!({ "bytes": damage.bytes, "line": beginning.as_str() })));
                self.damage(Garbage { beginning: beginning.to_string(), ..damage });
            }
        }
    }

    /// Records a damage. After the limit, adds the size to the last recorded damage.
    fn damage(&mut self, damage: Garbage) {
        match self.damages.get_mut(DAMAGES - 1) {
            Some(last) => last.bytes = last.bytes.saturating_add(damage.bytes),
            None => self.damages.push(damage),
        }
    }

    fn send(&self, message: Message) {
        match &self.held {
            None => self.historian.record(&message.of_child(self.name)),
            Some(held) => held.take(HeldMessage::OfRunner(message)),
        }
    }

    /// Reports a message of the script.
    fn tell_said(&self, message: Message) {
        match &self.held {
            None => {
                if let Some(messages) = &self.messages {
                    let name = message.name.as_ref().map_or(Json::Null, |name| name.as_str().into());
                    messages.borrow_mut().push(json!([name, message.key, message.data]));
                }
                self.send(message);
            }
            Some(held) => held.take(HeldMessage::OfScript(message)),
        }
    }
}

impl HeldMessages {
    fn take(&self, kept: HeldMessage) {
        // A message takes about as much memory as its encoding.
        let bytes = match &kept {
            HeldMessage::OfRunner(_) => 0,
            HeldMessage::OfScript(message) => message.to_netstring().len(),
            HeldMessage::Line(_, part) => part.bytes.len() + size_of::<HeldMessage>(),
        };
        match self.bytes.get() + bytes {
            all if all > self.most && bytes > 0 => self.dropped.set(self.dropped.get() + bytes),
            all => {
                self.bytes.set(all);
                self.kept.borrow_mut().push(kept);
            }
        }
    }
}

fn spawn(invocation: &Invocation, pid: u32) -> Json {
    let program = invocation.program.to_string_lossy();
    let args = invocation.args.iter().map(|arg| arg.to_string_lossy());
    let args: Vec<Json> = std::iter::once(program.clone()).chain(args).map(|arg| Json::from(arg.as_ref())).collect();
    let env: Map<String, Json> = invocation
        .env
        .iter()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), Json::from(value.to_string_lossy().as_ref())))
        .collect();
    json!({ "path": program.as_ref(), "env": env, "args": args, "pid": pid })
}

fn exit(status: Status) -> Message {
    match status {
        Status::Code(code) => Message::new("exitcode", json!(code)),
        Status::Signal(signal) => Message::new("exit", json!({ "code": null, "signal": signal })),
    }
}

/// Redacts the secrets in a byte string.
fn hidden_bytes(seal: &Redactor, bytes: &[u8]) -> Vec<u8> {
    let text = EcoString::from(String::from_utf8_lossy(bytes).as_ref());
    let told = seal.redact(text.clone());
    if told == text { bytes.to_vec() } else { told.as_bytes().to_vec() }
}

/// Redacts the secrets in a part of a line, including parts of a secret that is split between parts.
fn hidden_part(seal: &Redactor, part: &RecordPart) -> Vec<u8> {
    const CUT: &str = "…";
    let RecordPart { bytes, amid, goes_on } = part;
    if seal.is_empty() || !amid && !goes_on {
        return hidden_bytes(seal, bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    // A longer secret may start and end in other parts.
    if *amid && *goes_on && seal.texts().iter().any(|secret| secret.contains(text.as_ref())) {
        return REDACTED.as_bytes().to_vec();
    }
    let mark = |is_cut: &bool| if *is_cut { CUT } else { "" };
    let marked = EcoString::from(format!("{}{text}{}", mark(amid), mark(goes_on)));
    let told = seal.redact(marked.clone());
    if told == marked {
        return bytes.clone();
    }
    let told = told.strip_prefix(mark(amid)).unwrap_or(&told);
    told.strip_suffix(mark(goes_on)).unwrap_or(told).as_bytes().to_vec()
}

/// Redacts the secrets in a message of the script.
fn hidden(seal: &Redactor, mut message: Message) -> Message {
    if let (ChannelEvent::Stream { bytes, .. }, true) = (message.event(), message.data.get("encoding").is_some()) {
        let told = hidden_bytes(seal, &bytes);
        if told != bytes {
            message.data = Message::part("", &told).data;
        }
    }
    hide_below(seal, &mut message.key);
    hide_below(seal, &mut message.data);
    Message { name: message.name.map(|name| seal.redact(name)), ..message }
}

/// Removes secrets from every text in a document.
pub(super) fn hide_below(seal: &Redactor, json: &mut Json) {
    match json {
        Json::String(text) => *text = seal.redact(text.as_str().into()).to_string(),
        Json::Array(values) => values.iter_mut().for_each(|value| hide_below(seal, value)),
        Json::Object(entries) => {
            let hide = |(key, mut value): (String, Json)| {
                hide_below(seal, &mut value);
                (seal.redact(key.into()).to_string(), value)
            };
            *entries = std::mem::take(entries).into_iter().map(hide).collect();
        }
        _ => {}
    }
}

/// Splitter for a stream: returns lines with their terminators. Long lines are split into parts, without loss.
#[derive(Default)]
struct Parts {
    held: Vec<u8>,
    /// True if earlier parts of the line have been returned.
    amid: bool,
}

/// A line, or a part of a line.
#[derive(Debug, PartialEq)]
struct RecordPart {
    bytes: Vec<u8>,
    /// True if the line starts in an earlier part.
    amid: bool,
    /// True if the line continues in another part.
    goes_on: bool,
}

impl Parts {
    fn feed(&mut self, bytes: &[u8]) -> Vec<RecordPart> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.held.extend_from_slice(piece);
            while self.held.len() > LONGEST_LINE {
                let rest = self.held.split_off(whole_characters(&self.held[..LONGEST_LINE]));
                lines.push(self.part(rest, true));
            }
            if self.held.last() == Some(&b'\n') {
                lines.push(self.part(Vec::new(), false));
            }
        }
        lines
    }

    fn end(&mut self) -> Vec<RecordPart> {
        if self.held.is_empty() { Vec::new() } else { vec![self.part(Vec::new(), false)] }
    }

    /// Returns the buffer except `rest`, which stays in the buffer.
    fn part(&mut self, rest: Vec<u8>, goes_on: bool) -> RecordPart {
        let bytes = std::mem::replace(&mut self.held, rest);
        RecordPart { bytes, amid: std::mem::replace(&mut self.amid, goes_on), goes_on }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_ends_and_long_ones_come_in_whole_characters() {
        let mut parts = Parts::default();
        let whole = |bytes: &[u8]| RecordPart { bytes: bytes.to_vec(), amid: false, goes_on: false };
        assert_eq!(parts.feed(b"a\nb"), [whole(b"a\n")]);
        assert_eq!(parts.feed(b"c\n\n"), [whole(b"bc\n"), whole(b"\n")]);
        let long = format!("x{}\n", "\u{e9}".repeat(LONGEST_LINE));
        let lines = parts.feed(long.as_bytes());
        assert!(lines.len() == 3 && lines.iter().all(|line| std::str::from_utf8(&line.bytes).is_ok()));
        let edges: Vec<(bool, bool)> = lines.iter().map(|line| (line.amid, line.goes_on)).collect();
        assert_eq!(edges, [(false, true), (true, true), (true, false)]);
        let together: Vec<u8> = lines.iter().flat_map(|line| line.bytes.clone()).collect();
        assert_eq!(together, long.as_bytes());
        assert_eq!(parts.feed(b"end"), []);
        assert_eq!(parts.end(), [whole(b"end")]);
    }

    #[test]
    fn secret_across_line_parts_is_redacted() {
        use kilter_model::Value;
        let seal = Redactor::of_values([&Value::sensitive("hunter2ü".into())]);
        for before in LONGEST_LINE - 12..LONGEST_LINE + 2 {
            let mut parts = Parts::default();
            let lines = parts.feed(format!("\u{ff}{}hunter2ü...\n", ".".repeat(before - 2)).as_bytes());
            assert_eq!(lines.len(), 2);
            let told: Vec<u8> = lines.iter().flat_map(|part| hidden_part(&seal, part)).collect();
            let told = String::from_utf8(told).unwrap();
            assert!(!told.contains(['h', 'n', '2', 'ü', '…']), "{before}: {}", &told[before - 20..]);
            assert!(told.ends_with("[redacted]...\n"), "{before}");
        }
        let long: String = (0..50_000).map(|number| number.to_string()).collect();
        let seal = Redactor::of_values([&Value::sensitive(long.as_str().into())]);
        let lines = Parts::default().feed(format!("a {long} b\n").as_bytes());
        let told: Vec<Vec<u8>> = lines.iter().map(|part| hidden_part(&seal, part)).collect();
        assert!(told.len() > 2 && told.concat().len() < 100, "{}", told.concat().len());
    }

    #[test]
    fn secrets_are_hidden_in_texts_bytes_and_messages() {
        use kilter_model::{Value, base64};
        let seal = Redactor::of_values([&Value::sensitive("hunter2".into())]);
        assert!(!String::from_utf8_lossy(&hidden_bytes(&seal, b"\xffhunter2")).contains("hunter2"));
        assert_eq!(hidden_bytes(&seal, b"\xff"), b"\xff");
        let encoded = json!({ "line": base64(b"\xff hunter2"), "encoding": "b64" });
        for data in [json!({ "hunter2": ["a hunter2"] }), encoded] {
            let told = hidden(&seal, Message::new("stdout", data).of_child("hunter2"));
            let text = format!("{told:?}");
            assert!(!text.contains("hunter2") && !text.contains(&base64(b"\xff hunter2")), "{text}");
        }
    }
}
